"""Plans: `decide` played forward until nothing is left to do, or nothing more may be done."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.forecast import EFFECTS, Forecast, forecast
from quorate.core.machines.state import Certificates, Deletion, Kubeconfig, Orphan
from quorate.core.machines.steps import EVERYTHING, CreateReplica, DeleteReplica, ReleaseHook, Remediate, RemoveMember, RemoveOrphan, Step
from quorate.core.maintenance import Maintenance
from quorate.core.versions import Version

from .conftest import Build


def told(plan: Forecast) -> list[str]:
    return [f"{step.step}: {step.makes}" if step.makes else str(step.step) for step in plan.steps]


def of_kind(plan: Forecast, *kinds: type[Step]) -> list[Step]:
    return [foreseen.step for foreseen in plan.steps if isinstance(foreseen.step, kinds)]


def test_a_converged_control_plane_has_an_empty_plan(build: Build) -> None:
    plan = forecast(build.three(), build.noon)
    assert told(plan) == []
    assert plan.converged


def test_a_cluster_that_cannot_be_asked_has_no_plan_and_is_not_called_as_desired(build: Build) -> None:
    """Of its Machines no Node is known then, which is not to say that they are on their way."""
    silent = Finding(Health.BAD, "Lost", "no answer")
    unseen = tuple(build.joining(number, had_node=True, member=Unknown("not connected")) for number in (1, 2, 3))
    old = tuple(replace(replica, outdated=("Version",)) for replica in unseen)
    for replicas in (unseen, old):
        plan = forecast(build.control_plane(*replicas, workload=silent, ring=Unknown("not connected")), build.noon)
        assert (told(plan), plan.converged) == ([], False)
        assert "the workload cluster answers" in {check.name for check in plan.refusals}


def test_scaling_up_creates_one_after_the_other_and_the_ring_grows(build: Build) -> None:
    plan = forecast(build.three(desired=5), build.noon)
    assert told(plan) == ["create a machine: new-1", "create a machine: new-2"]
    assert [(step.before.voters, step.before.margin) for step in plan.steps if step.before] == [(3, 1), (4, 1)]
    assert plan.converged
    assert plan.end.ring == replace_ring(plan, 5)


def replace_ring(plan: Forecast, voters: int) -> Any:
    ring = plan.end.ring
    assert not isinstance(ring, Unknown)
    assert ring.now.voters == voters
    assert ring.now.margin == voters // 2
    return ring


def test_scaling_down_removes_the_member_before_the_next_machine_goes(build: Build) -> None:
    plan = forecast(build.control_plane(*(build.replica(number) for number in range(1, 6))), build.noon)
    assert [type(foreseen.step) for foreseen in plan.steps] == [DeleteReplica, RemoveMember, DeleteReplica, RemoveMember]
    assert plan.converged
    replace_ring(plan, 3)


def test_a_new_cluster_is_founded_and_grown(build: Build) -> None:
    nothing = build.control_plane(
        ring=Unknown("there is none"),
        initialized=False,
        has_finalizer=False,
        certificates=Certificates(missing=("ca", "etcd")),
        kubeconfig=Kubeconfig(exists=False),
    )
    plan = forecast(nothing, build.noon)
    assert told(plan) == [
        "add the finalizer",
        "generate CAs: ca, etcd",
        "write the kubeconfig",
        "create the first machine: new-1",
        "create a machine: new-2",
        "create a machine: new-3",
    ]
    assert plan.converged


def test_what_is_ill_stays_ill_and_the_plan_says_what_it_waits_for(build: Build) -> None:
    ill = build.replica(3, component_findings=build.findings(Health.BAD))
    plan = forecast(build.control_plane(build.replica(1), build.replica(2), ill, desired=5), build.noon)
    assert told(plan) == []
    assert not plan.converged
    assert any("cp-3" in check.evidence for check in plan.refusals)


def test_deleting_the_control_plane_ends_with_the_finalizer(build: Build) -> None:
    plan = forecast(build.three(deletion=Deletion(build.noon)), build.noon)
    assert told(plan) == ["delete all machines: cp-1, cp-2, cp-3", "remove the finalizer"]
    assert plan.converged


def test_a_rolling_replacement_adds_first_and_takes_the_oldest(build: Build) -> None:
    old = tuple(build.replica(number, outdated=("Version v1.34.4, v1.35.4 required",)) for number in (1, 2, 3))
    desired = replace(build.desired(3), version=Version.parse("v1.35.4"))
    plan = forecast(build.control_plane(*old, desired=desired, preparation=Maintenance(pending=True)), build.noon)
    assert told(plan)[0] == "update permissions and kubeadm's configuration in the workload cluster"
    assert [str(step) for step in of_kind(plan, CreateReplica, DeleteReplica)] == [
        "create a machine",
        "delete cp-1",
        "create a machine",
        "delete cp-2",
        "create a machine",
        "delete cp-3",
    ]
    assert plan.converged
    assert all(foreseen.after is None or foreseen.after for foreseen in plan.steps)
    assert {replica.version for replica in plan.end.replicas} == {"v1.35.4"}


def test_without_surge_one_goes_before_one_comes(build: Build) -> None:
    old = tuple(build.replica(number, outdated=("KubeadmConfig is not up-to-date",)) for number in (1, 2, 3))
    plan = forecast(build.control_plane(*old, desired=replace(build.desired(3), max_surge=0)), build.noon)
    assert [type(step) for step in of_kind(plan, CreateReplica, DeleteReplica)] == [DeleteReplica, CreateReplica] * 3
    assert plan.converged


def test_a_member_that_a_failed_machine_never_started_leaves_before_its_machine_does(build: Build) -> None:
    failed = build.joining(3, member=Unknown("member 3 may be its own"), unhealthy=True)
    ring = build.ring("ggG")
    orphans = (Orphan(ring.members[2], build.noon),)
    plan = forecast(build.control_plane(build.replica(1), build.replica(2), failed, ring=ring, orphans=orphans), build.noon)
    assert [type(foreseen.step) for foreseen in plan.steps] == [Remediate, RemoveOrphan, ReleaseHook, CreateReplica]
    assert plan.converged


def test_members_that_a_failed_machine_cannot_be_told_from_leave_one_by_one(build: Build) -> None:
    ring = build.ring("ggggbb")
    orphans = tuple(Orphan(member, build.noon, may_be_of=("cp-5",)) for member in ring.members[4:])
    failed = build.replica(5, member=Unknown("members 5 and 6 both have its name"), unhealthy=True)
    five = build.control_plane(*map(build.replica, (1, 2, 3, 4)), failed, desired=5, ring=ring, orphans=orphans)
    plan = forecast(five, build.noon)
    assert [foreseen.step for foreseen in plan.steps][:3] == [Remediate("cp-5", 0), RemoveOrphan(5), RemoveMember("cp-5", 6)]
    assert isinstance(plan.steps[3].step, CreateReplica)
    assert plan.converged


def test_a_forecast_starts_where_things_are(build: Build) -> None:
    old = (build.replica(2, outdated=("Version",)), build.replica(3, outdated=("Version",)))
    new = build.replica(4, version="v1.34.4", created=build.noon - timedelta(minutes=1))
    leaving = build.leaving(1, outdated=("Version",), waits_at_hook=False)
    plan = forecast(build.control_plane(leaving, *old, new), build.noon)
    assert told(plan)[0] == "remove etcd member 1 of cp-1"
    assert plan.converged


def test_a_plan_knows_what_every_step_leaves_behind() -> None:
    assert EFFECTS.keys() == EVERYTHING
