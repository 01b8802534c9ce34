"""Situations that simulations of hosts got stuck in: who may join, what is mended first, and which remedy is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.rules import facts, repair
from quorate.core.hosts.state import JOINED_HALF, NODE_NOT_LISTED, Kind, MissedProbes
from quorate.core.hosts.steps import Join, JoinWorkers, Prepare, Reconfigure, RemoveMember, TakeSnapshot, UpdateConfiguration

from .conftest import BAD, GOOD, V135, Build

ETCD_WELL = {"findings": (Finding(Health.BAD, "APIServerReadyz", "nothing listens there"),), "member_health": GOOD, "api_server": BAD}


def test_nobody_joins_while_a_member_is_silent_since_kubeadm_asks_each_of_them(build: Build) -> None:
    hosts = [build.host(number) for number in (1, 2, 3, 4)]
    silent = build.cluster(*hosts, build.prepared(6), orphans=(build.orphan(5, "b", probes=1),))
    decision = build.decide(silent)
    assert decision.step is None
    assert "every member of the ring answers" in build.refused(silent)
    assert decision.wake_at is not None
    assert build.step(build.cluster(*hosts, build.prepared(6), orphans=(build.orphan(5, "b", probes=3),))) == RemoveMember(5, "cp-5")


def test_nobody_joins_beside_a_host_that_is_away_although_the_ring_could_bear_it(build: Build) -> None:
    hosts = [build.host(number) for number in (1, 2, 3, 4)]
    away = build.cluster(
        *hosts, build.unreachable(5), build.prepared(6), ring="ggggb", members_missed_probes=((5, MissedProbes(3, build.noon)),)
    )
    assert "every member of the ring answers" in build.refused(away)
    assert "remove its host from the manifest" in build.said(away)


def test_a_host_that_a_setting_broke_is_mended_before_others_join_with_that_setting(build: Build) -> None:
    broken = build.broken(2, **ETCD_WELL, drift=("kube-apiserver: --profiling is true instead of false",))
    cluster = build.cluster(build.host(1), broken, build.host(3), build.prepared(4), configuration_drift=("--profiling",))
    assert build.step(cluster) == UpdateConfiguration()
    assert build.step(build.cluster(build.host(1), broken, build.host(3), build.prepared(4))) == Reconfigure("cp-2")
    assert build.step(build.cluster(build.host(1), build.host(2), build.host(3), build.prepared(4))) == Join("cp-4")
    assert build.step(build.cluster(build.host(1), broken, build.host(3), build.bare(4))) == Prepare(("cp-4",))


def test_nobody_joins_with_a_setting_that_the_manifest_has_corrected_though_what_it_broke_cannot_be_mended_yet(build: Build) -> None:
    """Two hosts are broken by it, so that neither is mended before the other is well: a third joined with it would be broken, too, and so on."""
    drift = ("kube-apiserver: --profiling is true instead of false",)
    hosts = (*(build.broken(number, **ETCD_WELL, drift=drift) for number in (1, 2)), build.host(3), build.host(4))
    assert build.step(build.cluster(*hosts, build.prepared(5), configuration_drift=drift)) == UpdateConfiguration()
    assert build.step(build.cluster(*hosts, build.prepared(5))) == Join("cp-5")
    well = (build.host(1), build.host(2), build.host(3))
    assert build.step(build.cluster(*well, build.prepared(4, control_plane=False), configuration_drift=drift)) == UpdateConfiguration()
    assert build.step(build.cluster(*well, build.prepared(4, control_plane=False))) == JoinWorkers(("worker-4",))


def test_nothing_is_done_in_advance_of_a_step_that_is_barred(build: Build) -> None:
    """A snapshot each time the command is run would push out those that may be needed."""
    waiting = build.cluster(build.host(1), build.host(2), build.host(3), build.prepared(4), version=V135, snapshot_taken=False)
    assert build.step(waiting) is None
    assert build.step(replace(waiting, configuration_drift=("--profiling",))) is None


def test_the_only_host_that_a_setting_broke_is_mended_without_its_api(build: Build) -> None:
    unknown = Unknown("no API server answers")
    only = build.broken(1, **ETCD_WELL, node=unknown, drift=("kube-apiserver: --profiling is true instead of false",))
    down = Finding(Health.BAD, "APINotAnswering", "no API server answers")
    assert build.step(build.cluster(only, api=down, running=None)) == Reconfigure("cp-1")
    later = build.cluster(only, api=down, running=None, version=V135)
    assert "Set versions.kubernetes to v1.34.4, repair, then upgrade." in build.said(later)
    assert "the API answers" in build.refused(build.cluster(build.broken(1, **ETCD_WELL, node=unknown), api=down, running=None))


def test_nobody_is_told_to_reset_the_last_host_of_the_manifest(build: Build) -> None:
    broken = build.broken(1, etcd_data_lost=True)
    assert "quorate reset" not in build.said(build.cluster(broken, ring="bgg", orphans=(build.orphan(2), build.orphan(3))))
    assert "quorate reset -m MANIFEST cp-1" in build.said(build.cluster(build.broken(1), build.host(2), build.host(3), ring="bgg"))


def test_nobody_is_told_to_reset_a_host_whose_repair_is_under_way(build: Build) -> None:
    others = (build.host(1), build.host(2))
    joined_half = build.broken(3, findings=(Finding(Health.BAD, JOINED_HALF, "missing: kubelet.conf"),), node=Absent())
    for under_way in (build.broken(3, etcd_data_lost=True), build.wiped(3), joined_half):
        cluster = build.cluster(*others, under_way, ring="ggb", members_missed_probes=((3, build.silent(1)),))
        said = repair.repair_comes_first(cluster, build.noon).checks[0].remedy
        assert "quorate reset" not in said
        assert "Leave cp-3 alone" in said


def test_nobody_is_told_to_reset_a_host_of_which_nothing_bad_is_known(build: Build) -> None:
    unknown = (Finding(Health.UNKNOWN, "NodeNotKnown", "no API server answers"),)
    said = build.said(build.cluster(build.host(1), build.host(2), build.host(3, findings=unknown), build.worker(1, findings=unknown)))
    assert "quorate explain -m MANIFEST cp-3" in said
    assert "quorate explain -m MANIFEST worker-1" in said
    assert "quorate reset" not in said


def test_no_snapshot_is_taken_for_an_upgrade_that_waits_for_repair(build: Build) -> None:
    hosts = (build.host(1), build.host(2), build.broken(3))
    assert build.step(build.cluster(*hosts, ring="ggb", version=V135, snapshot_taken=False)) is None
    broken_worker = build.worker(1, kind=Kind.BROKEN, findings=(BAD,))
    assert build.step(build.cluster(*hosts[:2], broken_worker, version=V135, snapshot_taken=False)) is None
    assert build.step(build.cluster(*hosts[:2], build.worker(1), version=V135, snapshot_taken=False)) == TakeSnapshot()


def test_a_join_that_was_cut_short_when_its_member_had_become_a_voter_is_done_anew(build: Build) -> None:
    found = (Finding(Health.BAD, JOINED_HALF, "missing: kubelet.conf"),)
    half = build.broken(3, findings=found, node=Absent(), member_health=GOOD, api_server=GOOD)
    cluster = build.cluster(build.host(1), build.host(2), half)
    assert build.step(cluster) == RemoveMember(3, "cp-3")
    assert build.step(build.cluster(build.host(1), build.host(2), half, ring="gbg")) is None
    assert build.step(build.cluster(build.host(1), build.host(2), build.broken(3, findings=found))) is None, (
        "it has a Node: somebody has to look"
    )


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.MEMBER])
@pytest.mark.parametrize("member", [3, Absent()])
def test_whatever_a_host_is_that_is_not_well_somebody_is_told_what_to_do(build: Build, kind: Kind, member: int | Absent) -> None:
    others = (build.host(1), build.host(2))
    for worker in (False, True):
        ill = build.worker(1, kind=kind, findings=(BAD,)) if worker else build.host(3, kind=kind, findings=(BAD,), member=member)
        cluster = build.cluster(*others, ill, ring="ggb" if isinstance(member, int) and not worker else "gg")
        proposals = (repair.repair_comes_first(cluster, build.noon), repair.workers_come_first(cluster, build.noon))
        checks = [check for proposal in proposals for check in proposal.checks if not check.passed and ill.name in check.evidence]
        assert [check.evidence for check in checks if not check.remedy] == []


def test_where_only_hosts_that_were_taken_out_serve_the_api_it_is_said_to_take_one_back(build: Build) -> None:
    """The only host of the manifest is broken by a setting, and the ring does not bear that it restarts, since a third has lost its data."""
    unknown = Unknown("no API server answers")
    down = Finding(Health.BAD, "APINotAnswering", "no API server answers")
    only = build.broken(1, **ETCD_WELL, node=unknown, drift=("kube-apiserver: --profiling is true instead of false",))
    hosts = (only, build.wiped(2, node=unknown), build.bare(5, node=unknown))
    taken_out = (build.orphan(3), build.orphan(4))
    cluster = build.cluster(*hosts, ring="gbgg", orphans=taken_out, api=down, running=None)
    assert build.step(cluster) is None
    assert "put one of them back into the manifest" in build.said(cluster)
    assert "cp-3" in build.said(cluster)
    silent = tuple(replace(orphan, missed_probes=build.silent()) for orphan in taken_out)
    assert "put one of them back" not in build.said(replace(cluster, orphans=silent))


def test_nobody_joins_where_no_control_plane_is_wholly_well(build: Build) -> None:
    cluster = build.cluster(build.broken(1, **ETCD_WELL), build.prepared(2))
    assert build.step(cluster) is None
    assert facts.SOMEBODY_SERVES in build.refused(cluster)
    workers = build.cluster(build.broken(1, **ETCD_WELL), build.prepared(2, control_plane=False))
    assert build.step(workers) is None


def test_that_a_host_only_lacks_its_node_may_pass_by_itself(build: Build) -> None:
    """A kubelet that has just started, or reaches the API server again, makes it. What else is wrong with a host is known."""
    lacking = build.broken(3, findings=(Finding(Health.BAD, NODE_NOT_LISTED),), node=Absent(), member_health=GOOD, api_server=GOOD)
    ill = build.broken(3, **ETCD_WELL)
    for host, outcome in ((lacking, Outcome.UNKNOWN), (ill, Outcome.FAIL)):
        said = repair.repair_comes_first(build.cluster(build.host(1), build.host(2), host), build.noon)
        assert [check.outcome for check in said.checks if check.name == repair.CONTROL_PLANE_WELL] == [outcome]
        assert said.blocks == repair.WAITS_FOR_REPAIR
