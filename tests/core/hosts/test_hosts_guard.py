"""What has to hold before anything is done: nobody else works here, hosts are what they should be, etcd has its quorum, the API answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Finding, Health, Unknown
from quorate.core.hosts.rules import guard
from quorate.core.hosts.state import KUBEADM_RUNS, Cluster, Kind
from quorate.core.hosts.steps import Initialize, Prepare, StartServices

from .conftest import BAD, V135, Build

TIMEOUT = Unknown("context deadline exceeded")


def test_three_hosts_that_are_well_need_nothing(build: Build) -> None:
    decision = build.decide(build.three())
    assert (decision.rule, decision.step, decision.refusals, decision.wake_at) == ("nothing to do", None, (), None)


def test_two_operators_never_work_at_once(build: Build) -> None:
    busy = build.new(build.bare(1), locked_by="anna on laptop since 11:58")
    assert build.refused(busy) == [guard.ALONE]
    assert "anna" in build.said(busy)


def test_a_kubeadm_that_still_runs_is_left_to_end_and_looked_at_again(build: Build) -> None:
    running = Finding(Health.UNKNOWN, KUBEADM_RUNS, "kubeadm runs on it now")
    cluster = build.cluster(build.host(1), build.half_joined(2, findings=(running,)))
    assert build.refused(cluster) == [guard.KUBEADM_ENDED]
    assert build.decide(cluster).wake_at == build.noon + guard.LOOK_AGAIN


@pytest.mark.parametrize("problem", ["cp-1 and cp-2 are the same machine", "the clocks of cp-1 and cp-2 are 90 s apart"])
def test_hosts_that_contradict_each_other_are_not_touched(build: Build, problem: str) -> None:
    cluster = build.new(build.bare(1), build.bare(2), problems=(problem,))
    assert build.refused(cluster) == [guard.HOSTS_FIT]
    assert problem in build.said(cluster)


def test_a_control_plane_host_of_another_cluster_stops_everything(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.prepared(2, kind=Kind.FOREIGN), build.prepared(3))
    assert build.refused(cluster) == [guard.OURS]
    assert "quorate reset -m MANIFEST cp-2" in build.said(cluster)


def test_a_worker_of_another_cluster_is_named_and_stops_nobody_from_joining(build: Build) -> None:
    cluster = build.cluster(build.host(1), build.prepared(2), build.worker(1, kind=Kind.FOREIGN, node=Unknown("theirs")))
    assert str(build.step(cluster)) == "join cp-2 as a control plane"
    assert "worker-1 is member of another cluster" in build.said(build.cluster(build.host(1), build.worker(1, kind=Kind.FOREIGN)))


def test_a_control_plane_host_that_may_be_anything_stops_everything_but_starting(build: Build) -> None:
    puzzling = build.prepared(3, kind=Kind.UNKNOWN, findings=(Finding(Health.UNKNOWN, "NotKnown", "admin.conf: no sudo"),))
    cluster = build.cluster(build.host(1), build.host(2), puzzling)
    assert guard.KNOWN in build.refused(cluster)
    assert "no sudo" in build.said(cluster)
    stopped = replace(cluster, hosts=(build.host(1), build.broken(2, stopped=("kubelet",)), puzzling))
    assert build.step(stopped) == StartServices("cp-2", ("kubelet",))


def lost(build: Build) -> Cluster:
    """Two of three hosts are gone, so that the ring cannot be read."""
    hosts = (build.broken(1, member=TIMEOUT), build.unreachable(2, member=TIMEOUT), build.unreachable(3, member=TIMEOUT))
    return build.cluster(*hosts, ring=TIMEOUT, api=BAD)


def test_two_of_three_lost_is_said_with_what_is_left_and_what_to_do_and_nothing_is_touched(build: Build) -> None:
    assert build.refused(lost(build)) == [guard.QUORUM], "what follows from it is not told besides"
    check = build.decide(lost(build)).refusals[0]
    assert check.outcome is Outcome.FAIL
    assert "1 of 3 hosts are left with their data, quorum 2" in check.evidence
    assert "cp-2: unreachable; cp-3: unreachable" in check.evidence
    assert check.remedy == "Bring back 1 of cp-2, cp-3 with its data, or restore etcd from a snapshot (docs/restore.md)."


def test_of_each_host_only_what_is_bad_is_said_since_the_rest_follows(build: Build) -> None:
    ill = (Finding(Health.BAD, "EtcdHealth", "RAFT NO LEADER"), Finding(Health.UNKNOWN, "RingNotKnown", "no member answers"))
    hosts = (build.broken(1, findings=ill, member_health=None), build.unreachable(2), build.unreachable(3))
    assert "cp-1: EtcdHealth: RAFT NO LEADER; cp-2: unreachable" in build.said(build.cluster(*hosts, ring=TIMEOUT))


def test_with_quorum_lost_what_should_run_is_started_and_nothing_else(build: Build) -> None:
    hosts = (build.broken(1, stopped=("kubelet",)), build.broken(2, stopped=("kubelet",)), build.host(3))
    assert build.step(build.cluster(*hosts, ring=TIMEOUT, api=BAD)) == StartServices("cp-1", ("kubelet",))


def test_a_host_without_its_data_counts_for_nothing(build: Build) -> None:
    hosts = (build.host(1), build.wiped(2, member=TIMEOUT), build.unreachable(3))
    assert "1 of 3 hosts are left with their data" in build.said(build.cluster(*hosts, ring=TIMEOUT))


def test_enough_hosts_with_data_and_no_ring_is_unknown_and_says_where_to_look(build: Build) -> None:
    check = build.decide(build.three(ring=TIMEOUT)).refusals[0]
    assert (check.name, check.outcome) == (guard.QUORUM, Outcome.UNKNOWN)
    assert "crictl" in check.remedy


def test_an_etcd_known_to_have_no_majority_stops_everything(build: Build) -> None:
    cluster = build.three(ring="gbb")
    assert build.refused(cluster) == [guard.QUORUM]
    assert "1 of 3 voters take part, quorum 2; cp-2, cp-3 do not" in build.said(cluster)


@pytest.mark.parametrize("health", [Health.BAD, Health.UNKNOWN])
def test_an_api_that_does_not_answer_stops_everything(build: Build, health: Health) -> None:
    cluster = build.cluster(build.host(1), build.prepared(2), api=Finding(health, "Refused", "connection refused"))
    assert build.refused(cluster)[:1] == [guard.API]


def test_no_init_prepares_hosts_and_stops(build: Build) -> None:
    options = build.options(initialize=False)
    assert build.step(build.new(build.bare(1), build.prepared(2), options=options)) == Prepare(("cp-1",))
    done = build.decide(build.new(build.prepared(1), build.prepared(2), options=options))
    assert (done.step, done.refusals) == (None, ())
    assert build.step(build.new(build.prepared(1), build.prepared(2))) == Initialize("cp-1")


def test_no_init_neither_joins_nor_upgrades(build: Build) -> None:
    options = build.options(initialize=False)
    assert build.step(build.cluster(build.host(1), build.prepared(2), options=options)) is None
    assert build.step(build.three(version=V135, options=options)) is None


def test_stopped_units_are_started_one_host_at_a_time_control_planes_first(build: Build) -> None:
    worker = build.worker(1, kind=Kind.BROKEN, findings=(BAD,), stopped=("kubelet",))
    hosts = (build.host(1), build.host(2), build.broken(3, stopped=("containerd", "kubelet")), worker)
    cluster = build.cluster(*hosts, ring="ggb")
    assert build.step(cluster) == StartServices("cp-3", ("containerd", "kubelet"))
    assert build.step(replace(cluster, hosts=(*hosts[:2], build.host(3), worker))) == StartServices("worker-1", ("kubelet",))


def test_a_kubelet_whose_etcd_has_forgotten_everything_is_not_started(build: Build) -> None:
    forgetful = build.broken(3, stopped=("kubelet",), etcd_data_lost=True)
    assert not isinstance(build.step(build.cluster(build.host(1), build.host(2), forgetful, ring="ggb")), StartServices)


def test_nobody_starts_what_was_never_joined(build: Build) -> None:
    assert build.step(build.new(build.bare(1, stopped=("containerd",)))) == Prepare(("cp-1",))


def test_nothing_is_begun_that_etcd_would_refuse_to_write(build: Build) -> None:
    alarm = "etcd refuses writes for the alarm NOSPACE of member bad, which is gone: run `etcdctl alarm disarm`"
    cluster = build.cluster(build.host(1), build.host(2), build.prepared(3), alarms=(alarm,))
    assert build.refused(cluster)[0] == guard.TAKES_WRITES
    assert alarm in build.said(cluster)
    stopped = build.three(alarms=(alarm,))
    assert not build.decide(stopped).step
