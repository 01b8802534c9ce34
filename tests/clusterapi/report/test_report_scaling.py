"""ScalingUp, ScalingDown and Deleting: counts, what blocks, and deletions that take too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.clusterapi.report import Report, report
from quorate.core.checks import failed, passed
from quorate.core.machines import checks
from quorate.core.machines.decide import Decision
from quorate.core.machines.rules.certificates import KUBECONFIG
from quorate.core.machines.state import Deletion
from quorate.core.machines.steps import CreateReplica

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
MINUTE = timedelta(minutes=1)
REFUSED = Decision(
    "nothing to do",
    None,
    (
        failed(checks.NOBODY_LEAVES, "cp-0 is being deleted"),
        passed(checks.TOPOLOGY, "no other version is on its way"),
        failed(checks.COMPONENTS_HEALTHY, "cp-1 has no Node yet"),
        failed(checks.MEMBERS_HEALTHY, "cp-1 has no Node yet"),
    ),
    None,
)


def condition(answer: Report, type_: str) -> tuple[str, str, str]:
    found: dict[str, Any] = next(c for c in answer.status["conditions"] if c["type"] == type_)
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize("type_", ["ScalingUp", "ScalingDown"])
def test_without_replicas_nobody_knows(observe: Build, idle: Decision, noon: datetime, type_: str) -> None:
    answer = report(observe(replicas=None), idle, now=noon)
    assert condition(answer, type_) == ("Unknown", "WaitingForReplicasSet", "Waiting for spec.replicas to be set")


@pytest.mark.parametrize("type_", ["ScalingUp", "ScalingDown"])
def test_at_the_desired_number_nothing_scales(observe: Build, idle: Decision, noon: datetime, type_: str) -> None:
    assert condition(report(observe(), idle, now=noon), type_) == ("False", f"Not{type_}", "")


def test_a_missing_template_is_told_before_it_hurts(observe: Build, idle: Decision, noon: datetime) -> None:
    expected = "Scaling up would be blocked because:\n* DevMachineTemplate demo does not exist"
    assert condition(report(observe(template_missing=True), idle, now=noon), "ScalingUp") == ("False", "NotScalingUp", expected)


def test_scaling_up(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(replicas=5), idle, now=noon)
    assert condition(answer, "ScalingUp") == ("True", "ScalingUp", "Scaling up from 3 to 5 replicas")
    assert condition(answer, "ScalingDown")[0] == "False"


def test_scaling_up_never_happens_while_deleting(observe: Build, idle: Decision, noon: datetime) -> None:
    assert condition(report(observe(replicas=5, deleted=noon), idle, now=noon), "ScalingUp") == ("False", "NotScalingUp", "")


def test_a_missing_template_blocks_and_is_said_once(observe: Build, noon: datetime) -> None:
    refused = Decision("nothing to do", None, (failed(checks.TEMPLATE, "DevMachineTemplate demo: not found"),), None)
    message = condition(report(observe(replicas=5, template_missing=True), refused, now=noon), "ScalingUp")[2]
    assert message == "Scaling up from 3 to 5 replicas is blocked because:\n* DevMachineTemplate demo does not exist"


def test_what_the_decision_refuses_blocks_scaling_up(observe: Build, noon: datetime) -> None:
    message = condition(report(observe(replicas=5), REFUSED, now=noon), "ScalingUp")[2]
    assert message == "Scaling up from 3 to 5 replicas is blocked because:\n* cp-0 is being deleted\n* cp-1 has no Node yet"
    message = condition(report(observe(replicas=5, template_missing=True), REFUSED, now=noon), "ScalingUp")[2]
    assert message.endswith("\n* cp-1 has no Node yet\n* DevMachineTemplate demo does not exist")


def test_nothing_is_blocked_while_there_is_a_step_to_take(observe: Build, noon: datetime) -> None:
    busy = Decision("scale up", CreateReplica("", initialize=False), REFUSED.checks, None)
    assert condition(report(observe(replicas=5), busy, now=noon), "ScalingUp")[2] == "Scaling up from 3 to 5 replicas"


def test_a_bad_kubeconfig_does_not_block_scaling(observe: Build, noon: datetime) -> None:
    refused = Decision("nothing to do", None, (failed(KUBECONFIG, "cannot be parsed", "Correct or delete the Secret."),), None)
    assert condition(report(observe(replicas=5), refused, now=noon), "ScalingUp")[2] == "Scaling up from 3 to 5 replicas"


def test_a_deleted_machine_that_cannot_be_replaced_yet_is_told(observe: Build, machine: BuildMachine, noon: datetime) -> None:
    answer = report(observe(machine("cp-0", deleted=noon), machine("cp-1"), machine("cp-2")), REFUSED, now=noon)
    status, reason, message = condition(answer, "ScalingUp")
    assert (status, reason) == ("False", "NotScalingUp")
    assert message.startswith("Replacing Machines that are being deleted is blocked because:\n* cp-0 is being deleted")


def test_scaling_down(observe: Build, idle: Decision, noon: datetime) -> None:
    answer = report(observe(replicas=1), idle, now=noon)
    assert condition(answer, "ScalingDown") == ("True", "ScalingDown", "Scaling down from 3 to 1 replicas")
    assert condition(answer, "ScalingUp")[0] == "False"


def test_deleting_scales_down_to_zero(observe: Build, idle: Decision, noon: datetime) -> None:
    assert condition(report(observe(deleted=noon), idle, now=noon), "ScalingDown")[2] == "Scaling down from 3 to 0 replicas"


def test_missing_certificates_do_not_block_scaling_down(observe: Build, noon: datetime) -> None:
    refused = Decision("nothing to do", None, (failed(checks.CERTIFICATES, "missing: ca"), *REFUSED.checks), None)
    message = condition(report(observe(replicas=1), refused, now=noon), "ScalingDown")[2]
    assert message == "Scaling down from 3 to 1 replicas is blocked because:\n* cp-0 is being deleted\n* cp-1 has no Node yet"


def draining(machine: BuildMachine, name: str, deleted: datetime, drained_from: datetime, message: str) -> ObservedMachine:
    stale = machine(name, deleted=deleted, deletion={"nodeDrainStartTime": drained_from}, told={"Deleting": ("True", message, deleted)})
    conditions = stale.machine.status.conditions
    conditions[-1] = type(conditions[-1])(type="Deleting", status="True", reason="DrainingNode", message=message)
    return stale


def test_a_stale_deletion_names_what_probably_holds_up_the_drain(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    message = (
        "* Pod a: cannot evict pod as it would violate the pod's disruption budget. Retry.\n"
        "* Pod b: deletionTimestamp set, but still not removed from the Node\n"
        "* Pod c: failed to evict Pod, timeout\n* Pod d: waiting for completion"
    )
    stale = draining(machine, "cp-0", noon - 16 * MINUTE, noon - 6 * MINUTE, message)
    told = condition(report(observe(stale, machine("cp-1"), replicas=1), idle, now=noon), "ScalingDown")[2]
    assert told == (
        "Scaling down from 2 to 1 replicas is blocked because:\n* Machine cp-0 is in deletion for more than 15m, "
        "probably because of PodDisruptionBudgets, Pods not terminating, Pod eviction errors, Pods not completed yet"
    )


def test_two_stale_deletions(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    stale = [machine(name, deleted=noon - 15 * MINUTE) for name in ("cp-1", "cp-0")]
    answer = report(observe(*stale, machine("cp-2"), replicas=1), idle, now=noon)
    assert condition(answer, "ScalingDown")[2].endswith("* Machines cp-0, cp-1 are in deletion for more than 15m")
    assert answer.wake_at is None


def test_a_deletion_becomes_stale_by_time_alone(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    seen = observe(machine("cp-0", deleted=noon), machine("cp-1"), replicas=1)
    first = report(seen, idle, now=noon)
    assert first.wake_at == noon + 15 * MINUTE
    assert "15m" not in condition(first, "ScalingDown")[2]
    assert "15m" in condition(report(seen, idle, now=first.wake_at), "ScalingDown")[2]


def test_the_causes_of_a_drain_are_told_when_it_has_taken_five_minutes(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    stale = draining(machine, "cp-0", noon - 16 * MINUTE, noon - 4 * MINUTE, "failed to evict Pod")
    seen = observe(stale, machine("cp-1"), replicas=1)
    first = report(seen, idle, now=noon)
    assert first.wake_at == noon + MINUTE
    assert "probably" not in condition(first, "ScalingDown")[2]
    assert "Pod eviction errors" in condition(report(seen, idle, now=first.wake_at), "ScalingDown")[2]


def test_not_deleting(observe: Build, idle: Decision, noon: datetime) -> None:
    assert condition(report(observe(), idle, now=noon), "Deleting") == ("False", "NotDeleting", "")


def test_deleting_waits_for_workers_first(observe: Build, idle: Decision, noon: datetime) -> None:
    workers = [f"Machine w-{number}" for number in range(7)]
    answer = report(observe(deleted=noon, workers=workers), idle, now=noon)
    names = ", ".join(workers[:5])
    assert condition(answer, "Deleting") == ("True", "WaitingForWorkersDeletion", f"Still there: {names}, ... (2 more)")


def test_deleting_says_that_machines_stay_and_how_they_would_go(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    seen = observe(machine("cp-1"), deleted=noon)
    assert seen.view is not None
    kept = replace(seen, view=replace(seen.view, deletion=Deletion(noon, keeps_machines=True)))
    status, _, message = condition(report(kept, idle, now=noon), "Deleting")
    assert status == "True"
    assert message.startswith("Waiting: it was deleted with --cascade=orphan")
    assert message.endswith("To delete them too, remove its finalizer `orphan`")


def test_deleting_then_waits_for_its_own_machines(observe: Build, machine: BuildMachine, idle: Decision, noon: datetime) -> None:
    stale = machine("cp-0", deleted=noon - 20 * MINUTE)
    answer = report(observe(stale, machine("cp-1", deleted=noon), deleted=noon), idle, now=noon)
    message = "2 Machines being deleted\n* Machine cp-0 is in deletion for more than 15m"
    assert condition(answer, "Deleting") == ("True", "WaitingForMachineDeletion", message)


def test_deleting_is_completed_without_machines_and_says_what_fails(observe: Build, idle: Decision, noon: datetime) -> None:
    assert condition(report(observe(empty=True, deleted=noon), idle, now=noon), "Deleting") == ("True", "DeletionCompleted", "")
    answer = report(observe(deleted=noon), idle, error="cannot list Machines", now=noon)
    assert condition(answer, "Deleting") == ("True", "InternalError", "cannot list Machines")
