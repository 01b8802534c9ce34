"""Plans for hosts: each scenario of an operator's year, played forward to its end, with what the ring tolerates at every step."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from quorate.core.checks import passed
from quorate.core.health import Absent, Unknown
from quorate.core.hosts.forecast import EFFECTS, Forecast, forecast
from quorate.core.hosts.rules import found, guard, join, leftovers, repair
from quorate.core.hosts.state import Cluster, Kind, Node
from quorate.core.hosts.steps import EVERYTHING
from quorate.core.ring import Ring, Verdict
from quorate.core.versions import Version

from .conftest import BAD, GOOD, V134, V135, Build


def told(plan: Forecast) -> list[str]:
    return [str(foreseen.step) for foreseen in plan.steps]


def tolerated(plan: Forecast) -> list[int | None]:
    """How many failures the ring tolerates after each step."""
    return [foreseen.after.margin if foreseen.after else None for foreseen in plan.steps]


def played(build: Build, cluster: Cluster) -> Forecast:
    plan = forecast(cluster, build.noon)
    assert all(earlier.after == later.before for earlier, later in pairwise(plan.steps))
    again = forecast(plan.end, build.noon + timedelta(hours=1))
    assert again.steps == (), "a second run has nothing to do"
    return plan


def test_hosts_as_desired_have_an_empty_plan(build: Build) -> None:
    plan = played(build, build.three())
    assert (plan.steps, plan.converged) == ((), True)


def test_install_of_three_and_a_worker(build: Build) -> None:
    plan = played(build, build.new(build.bare(1), build.bare(2), build.bare(3), build.bare(1, control_plane=False)))
    assert told(plan) == [
        "prepare cp-1, cp-2, cp-3, worker-1",
        "initialize the cluster on cp-1",
        "take a snapshot of etcd",
        "join cp-2 as a control plane",
        "join cp-3 as a control plane",
        "join worker-1 as workers",
    ]
    assert tolerated(plan) == [None, 0, 0, 0, 1, 1]
    assert plan.converged


def test_install_with_one_host_that_cannot_be_reached(build: Build) -> None:
    silent = build.unreachable(3, member=Unknown("not asked"), node=Unknown("not asked"))
    plan = played(build, build.new(build.bare(1), build.bare(2), silent))
    assert told(plan) == ["prepare cp-1, cp-2"]
    assert [check.name for check in plan.refusals] == [found.NO_CLUSTER_HIDDEN]
    vouched = played(build, build.new(build.bare(1), build.bare(2), silent, options=build.options(without=("cp-3",))))
    assert told(vouched)[1:] == ["initialize the cluster on cp-1", "take a snapshot of etcd", "join cp-2 as a control plane"]
    assert not vouched.converged
    assert "cp-3 is unreachable" in next(check.evidence for check in vouched.refusals if check.name == repair.CONTROL_PLANE_WELL)


def test_an_initialization_and_a_join_that_were_cut_short(build: Build) -> None:
    begun = build.new(build.half_initialized(1), build.prepared(2), ring=Unknown("connection refused"))
    assert told(played(build, begun))[0] == "continue to initialize the cluster on cp-1"
    half = build.half_joined(3, member=3, node=Node("cp-3", GOOD, control_plane=True))
    plan = played(build, build.cluster(build.host(1), build.host(2), half, ring="ggG", snapshot_taken=False))
    assert told(plan) == [
        "take a snapshot of etcd",
        "remove etcd member 3 of cp-3",
        "delete Node cp-3",
        "reset cp-3",
        "join cp-3 as a control plane",
    ]
    assert tolerated(plan) == [0, 0, 0, 0, 1]
    assert plan.converged


def test_a_host_that_was_lost_and_replaced_by_one_with_another_name(build: Build) -> None:
    orphan = build.orphan(3, "b", probes=1)
    plan = played(build, build.cluster(build.host(1), build.host(2), build.bare(4), orphans=(orphan,), lost_nodes=("cp-3",)))
    assert told(plan) == ["prepare cp-4", "remove etcd member 3 of cp-3", "delete Node cp-3", "join cp-4 as a control plane"]
    assert tolerated(plan) == [0, 0, 0, 1]
    assert plan.converged


def test_a_host_that_was_installed_anew(build: Build) -> None:
    plan = played(
        build, build.cluster(build.host(1), build.host(2), build.wiped(3), ring="ggb", members_missed_probes=((3, build.silent(1)),))
    )
    assert told(plan) == ["remove etcd member 3 of cp-3", "delete Node cp-3", "prepare cp-3", "join cp-3 as a control plane"]
    assert plan.converged


def test_a_host_whose_etcd_data_was_wiped(build: Build) -> None:
    emptied = build.broken(3, etcd_data_lost=True)
    plan = played(build, build.cluster(build.host(1), build.host(2), emptied, ring="ggb", members_missed_probes=((3, build.silent(3)),)))
    assert told(plan) == ["remove etcd member 3 of cp-3", "delete Node cp-3", "reset cp-3", "join cp-3 as a control plane"]
    assert plan.converged


def test_a_plan_shows_what_a_reset_would_take_from_the_ring(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the rules let none go that has a member: what a plan shows of a step is what the step does."""
    monkeypatch.setattr(leftovers, "may_be_reset", lambda *_: (passed("disabled", "by the test"),))
    plan = forecast(build.cluster(build.host(1), build.host(2), build.half_joined(3, member=3), ring="ggg"), build.noon)
    step = next(step for step in plan.steps if str(step.step) == "reset cp-3")
    assert (step.before, step.after) == (Verdict(voters=3, good=3), Verdict(voters=3, good=2))


def test_a_learner_that_was_left_behind(build: Build) -> None:
    plan = played(build, build.three(orphans=(build.orphan(4, "G", probes=1),)))
    assert told(plan) == ["remove etcd member 4 of cp-4"]
    assert plan.converged


def test_one_to_three_and_three_to_one(build: Build) -> None:
    up = played(build, build.cluster(build.host(1), build.bare(2), build.bare(3)))
    assert told(up) == ["prepare cp-2, cp-3", "join cp-2 as a control plane", "join cp-3 as a control plane"]
    assert tolerated(up) == [0, 0, 1]
    orphans = (build.orphan(2), build.orphan(3))
    options = build.options(remove_hosts=2)
    down = played(build, build.cluster(build.host(1), orphans=orphans, lost_nodes=("cp-2", "cp-3"), snapshot_taken=False, options=options))
    assert told(down) == [
        "take a snapshot of etcd",
        "remove etcd member 2 of cp-2",
        "delete Node cp-2",
        "remove etcd member 3 of cp-3",
        "delete Node cp-3",
    ]
    assert up.converged
    assert down.converged


def test_all_three_hosts_but_one_are_exchanged_and_the_ring_tolerates_a_failure_throughout(build: Build) -> None:
    cluster = build.cluster(
        build.host(1),
        build.bare(4),
        build.bare(5),
        orphans=(build.orphan(2), build.orphan(3)),
        lost_nodes=("cp-2", "cp-3"),
        options=build.options(remove_hosts=2),
    )
    plan = played(build, cluster)
    assert [str(step) for step in told(plan) if "member" in step or "join" in step] == [
        "join cp-4 as a control plane",
        "join cp-5 as a control plane",
        "remove etcd member 2 of cp-2",
        "remove etcd member 3 of cp-3",
    ]
    assert min(margin for margin in tolerated(plan) if margin is not None) == 1
    assert plan.converged


def test_two_of_three_lost_has_no_plan_but_the_reason(build: Build) -> None:
    timeout = Unknown("deadline exceeded")
    hosts = (build.broken(1, member=timeout), build.unreachable(2, member=timeout), build.unreachable(3, member=timeout))
    plan = played(build, build.cluster(*hosts, ring=timeout, api=BAD))
    assert (plan.steps, plan.converged) == ((), False)
    assert plan.refusals[0].name == guard.QUORUM


def test_an_upgrade_of_three_and_a_worker(build: Build) -> None:
    hosts = (build.host(1), build.host(2), build.host(3), build.worker(1))
    plan = played(build, build.cluster(*hosts, version=V135, snapshot_taken=False))
    assert told(plan) == [
        "take a snapshot of etcd",
        *(f"upgrade the control plane of cp-{number} to v1.35.4" for number in (2, 3, 1)),
        *(f"upgrade the kubelet of {name} to v1.35.4" for name in ("cp-1", "cp-3", "cp-2", "worker-1")),  # cp-2 leads by then
    ]
    assert set(tolerated(plan)) == {1}
    assert plan.converged
    assert plan.end.running == V135


def test_an_upgrade_that_would_skip_a_minor_has_no_plan(build: Build) -> None:
    plan = played(build, build.three(version=Version.parse("v1.36.0")))
    assert (plan.steps, plan.converged) == ((), False)


def test_repair_and_upgrade_are_not_mixed(build: Build) -> None:
    plan = played(build, build.cluster(build.host(1), build.host(2), build.bare(3), version=V135))
    assert plan.steps == ()
    assert plan.refusals[0].name == join.REPAIR_AT_RUNNING_VERSION


def test_a_flag_is_rolled_out_one_by_one(build: Build) -> None:
    drift = ("kube-apiserver --audit-log-maxage: 30, should be 7",)
    plan = played(build, build.cluster(*(build.host(n, drift=drift) for n in (1, 2, 3)), configuration_drift=drift))
    assert told(plan) == ["update kubeadm's configuration in the cluster", *(f"apply the manifest's settings to cp-{n}" for n in (2, 3, 1))]
    assert plan.converged


def test_certificates_one_host_at_a_time(build: Build) -> None:
    plan = played(build, build.three(options=build.options(renew_certificates=True)))
    assert told(plan) == [f"renew the certificates of cp-{number}" for number in (2, 3, 1)]


def test_a_worker_comes_and_another_goes(build: Build) -> None:
    others = (Node("worker-1", GOOD, kubelet=V134, static_worker=True),)
    plan = played(build, build.cluster(build.host(1), build.bare(2, control_plane=False), lost_nodes=("worker-1",), other_nodes=others))
    assert told(plan) == ["prepare worker-2", "drain and delete Node worker-1", "join worker-2 as workers"]
    assert plan.end.other_nodes == ()
    assert plan.converged


def test_a_node_that_is_made_anew_gets_what_the_manifest_says(build: Build) -> None:
    drift = ("annotation quorate.dev/static-worker is missing",)
    worker = build.bare(1, control_plane=False, new_node_drift=drift)
    plan = played(build, build.cluster(build.host(1), worker))
    assert told(plan) == ["prepare worker-1", "join worker-1 as workers", "update labels, annotations and taints of worker-1"]
    assert plan.converged


def test_leadership_goes_on_by_name_and_the_plan_knows_where_it_is(build: Build) -> None:
    ring = build.ring("ggg", leader=2)
    plan = played(build, build.three(ring=ring, options=build.options(renew_certificates=True)))
    assert told(plan) == [f"renew the certificates of cp-{number}" for number in (1, 3, 2)]
    assert isinstance(plan.end.ring, Ring)
    assert plan.end.ring.leader == 1


def test_a_stopped_kubelet_is_all_that_a_plan_promises_where_the_ring_cannot_be_read(build: Build) -> None:
    stopped = build.broken(1, stopped=("kubelet",), member=Unknown("refused"))
    plan = forecast(build.cluster(stopped, ring=Unknown("refused"), api=BAD), build.noon)
    assert told(plan) == ["start kubelet on cp-1"]
    assert not plan.converged
    beside = played(build, build.cluster(build.host(1), build.host(2), build.broken(3, stopped=("kubelet",)), ring="ggb"))
    assert (told(beside), tolerated(beside), beside.converged) == (["start kubelet on cp-3"], [1], True)


def test_what_is_ill_stays_ill(build: Build) -> None:
    plan = played(build, build.cluster(build.host(1), build.host(2), build.broken(3), ring="ggb", version=V135))
    assert (plan.steps, plan.converged) == ((), False)
    assert isinstance(plan.end.ring, Ring)
    assert plan.end.ring.now.margin == 0


def test_the_end_of_a_plan_is_what_the_manifest_says(build: Build) -> None:
    end = played(build, build.new(build.bare(1), build.bare(2), build.bare(3))).end
    assert all(host.kind is Kind.MEMBER and not isinstance(host.member, Absent) for host in end.hosts)
    assert replace(end, hosts=()).running == end.version


def test_a_plan_knows_what_every_step_leaves_behind() -> None:
    assert EFFECTS.keys() == EVERYTHING
