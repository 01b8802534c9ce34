"""What was found, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorate.cli import describe, lines, views
from quorate.cli.machines.events import sight
from quorate.cli.views import Standing
from quorate.clusterapi.inspection import Finding as Look
from quorate.clusterapi.observe.observation import ObservedMachine
from quorate.core.checks import Check, failed, passed
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines import steps
from quorate.core.machines.decide import Decision
from quorate.core.machines.rules.guard import WORKLOAD_ANSWERS
from quorate.core.machines.rules.maintenance import ADDONS
from quorate.core.machines.state import Deletion, Remediation, Replica
from quorate.core.ring import Member, Ring

from .conftest import NOON, kcp

MakeLook = Callable[..., Look]
MakeMachine = Callable[..., ObservedMachine]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ("ggg", "3 voters, tolerates 1"),
        ("g", "1 voter, tolerates 0"),
        ("ggG", "2 voters, 1 learning, tolerates 0"),
        ("gbb", "3 voters, 1 short of quorum"),
    ],
)
def test_the_ring_in_one_phrase(members: str, text: str) -> None:
    healths = {"g": Health.GOOD, "b": Health.BAD}
    made = tuple(Member(number, f"cp-{number}", healths[letter.lower()], learner=letter.isupper()) for number, letter in enumerate(members))
    assert lines.phrase(views.etcd(Ring(made, leader=0))) == text
    assert lines.phrase(views.etcd(Unknown("no node to ask"))) == "unknown"


def test_a_control_plane_is_converged_when_nothing_is_left_to_do(look: MakeLook) -> None:
    assert describe.standing(look()) is Standing.CONVERGED
    assert describe.next_step(look()) == ""


def test_a_step_makes_it_progressing(look: MakeLook) -> None:
    finding = look(decision=Decision("scale up", steps.CreateReplica("", initialize=False), (), None))
    assert describe.standing(finding) is Standing.PROGRESSING
    assert describe.next_step(finding) == "create a machine"


def test_a_refusal_that_time_resolves_is_progress_and_one_that_needs_somebody_is_a_stall(look: MakeLook) -> None:
    waiting, acting = failed("nobody leaves", "cp-1 is being deleted"), failed("valid", "replicas is even", "Correct it.")
    assert describe.standing(look(decision=Decision("nothing to do", None, (waiting,), None))) is Standing.PROGRESSING
    stalled = look(decision=Decision("nothing to do", None, (passed("x", "y"), waiting, acting), None))
    assert describe.standing(stalled) is Standing.STALLED
    assert describe.next_step(stalled) == "waits until valid: replicas is even"


@pytest.mark.parametrize(
    "check", [failed(ADDONS, "the last attempt failed: no answer"), failed(WORKLOAD_ANSWERS, "no answer", "Restore access.")]
)
def test_what_may_pass_by_itself_is_a_stall_once_the_manager_has_called_it_one(look: MakeLook, check: Check) -> None:
    decision = Decision("update add-ons", None, (check,), None)
    told = [("False", Standing.PROGRESSING), ("True", Standing.STALLED)]
    assert describe.standing(look(decision=decision)) is Standing.PROGRESSING
    for status, standing in told:
        stalled = kcp(conditions=[{"type": "Stalled", "status": status}])
        assert describe.standing(look(decision=decision, kcp=stalled)) is standing
    assert describe.standing(look(kcp=kcp(conditions=[{"type": "Stalled", "status": "True"}]))) is Standing.CONVERGED


def test_machines_that_are_not_ready_yet_keep_it_from_being_converged(look: MakeLook) -> None:
    finding = look(kcp=kcp(readyReplicas=2))
    assert describe.standing(finding) is Standing.PROGRESSING
    assert describe.next_step(finding) == "waits until the Machines are ready and available"


def test_it_names_the_machine_that_is_waited_for(look: MakeLook, machine: Callable[..., ObservedMachine]) -> None:
    silent = machine("cp-2", findings={"EtcdMemberHealthy": Finding(Health.UNKNOWN, "Silent", "no answer")})
    finding = look(machine("cp-1"), silent, kcp=kcp(readyReplicas=2))
    assert describe.next_step(finding) == "waits until cp-2 is well: EtcdMemberHealthy: no answer"


def test_one_whose_member_is_silent_is_not_converged_though_core_has_not_noticed_yet(
    look: MakeLook, machine: Callable[..., ObservedMachine]
) -> None:
    silent = machine("cp-2", findings={"EtcdMemberHealthy": Finding(Health.UNKNOWN, "Silent", "no answer")})
    assert describe.standing(look(machine("cp-1"), silent)) is Standing.PROGRESSING


def test_without_a_cluster_it_is_stalled(look: MakeLook) -> None:
    finding = replace(look(cluster=None, view=None), decision=None)
    assert describe.standing(finding) is Standing.STALLED
    assert describe.next_step(finding) == "waits for a Cluster that owns it"


def test_roles_are_those_of_the_ring(look: MakeLook) -> None:
    machines = sight(look(), NOON).machines
    assert [machine.role for machine in machines] == ["leader", "voter", "voter"]


def test_a_role_that_nobody_could_tell_is_left_empty(look: MakeLook) -> None:
    assert {machine.role for machine in sight(look(ring=Unknown("no answer")), NOON).machines} == {""}


HAD_NODE = {"nodeRef": {"name": "cp-1"}}
UNSEEN = {"EtcdMemberHealthy": Finding(Health.UNKNOWN, "InspectionFailed", "Remote conditions unknown")}
NO_DATA: dict[str, Any] = {"initialization": {}}
NESTED = "* InfrastructureReady:\n  * EtcdProvisioned: WaitingForStartupTimeout\n  * X: y\n* NodeHealthy: no\n* EtcdMemberHealthy: no"
NOT_READY_NESTED = {"conditions": [{"type": "Ready", "status": "False", "reason": "NotReady", "message": NESTED}]}
NO_MACHINE = {"initialization": {"bootstrapDataSecretCreated": True}}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False", "reason": "NotReady", "message": "* NodeHealthy: kubelet is starting"}]}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, ""),
        ({"node": False, "status": NO_DATA}, "bootstrap data"),
        ({"node": False, "status": NO_MACHINE}, "infrastructure"),
        ({"node": False}, "kubeadm join"),
        ({"node": False, "status": HAD_NODE, "findings": UNSEEN}, "EtcdMemberHealthy: Remote conditions unknown"),
        ({"status": NOT_READY}, "Ready: NodeHealthy: kubelet is starting"),
        ({"status": NOT_READY_NESTED}, "Ready: InfrastructureReady: EtcdProvisioned: WaitingForStartupTimeout and 2 more"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NotYet"}]}}, "Ready: NotYet"),
        ({"status": {"conditions": []}}, "condition Ready"),
        ({"findings": {"EtcdMemberHealthy": Finding(Health.BAD, "NotHealthy", "has an alarm")}}, "EtcdMemberHealthy: has an alarm"),
        ({"findings": {name: Finding(Health.UNKNOWN, "Lost") for name in "ab"}}, "a: Lost and 1 more"),
    ],
)
def test_a_machine_says_what_it_waits_for(look: MakeLook, machine: MakeMachine, given: dict[str, Any], text: str) -> None:
    one = machine("cp-1", **given)
    assert describe.waits_for(look(one).observation, one) == text


def test_before_initialization_a_machine_waits_for_kubeadm_init(look: MakeLook, machine: MakeMachine) -> None:
    one = machine("cp-1", node=False)
    assert describe.waits_for(look(one, initialized=False).observation, one) == "kubeadm init"


@pytest.mark.parametrize(
    ("replica", "text"),
    [
        ({"waits_at_hook": False}, "drain and volumes"),
        ({"waits_at_hook": True}, "its etcd member to leave"),
        ({"holds_hook": False}, "its infrastructure to go"),
    ],
)
def test_a_deleted_machine_says_what_its_going_waits_for(look: MakeLook, machine: MakeMachine, replica: dict[str, Any], text: str) -> None:
    one = machine("cp-1", deleted=True)
    assert describe.waits_for(look(one, replicas=replica).observation, one) == text


# Why a machine goes or came.


def fates(finding: Look, **changes: Any) -> dict[str, str]:
    view = finding.observation.view
    assert view is not None
    observation = replace(finding.observation, view=replace(view, **changes))
    return {machine.name: describe.fate(observation, machine) for machine in observation.machines}


def changed(finding: Look, name: str, **marks: Any) -> tuple[Replica, ...]:
    view = finding.observation.view
    assert view is not None
    return tuple(replace(replica, **marks) if replica.name == name else replica for replica in view.replicas)


@pytest.mark.parametrize(
    ("marks", "fate"),
    [
        ({}, ""),
        ({"outdated": ("Version v1.33.0, v1.34.4 required",)}, "outdated, to be replaced"),
        ({"outdated": ("old",), "deleting_since": NOON}, "replaced because it is outdated"),
        ({"deleting_since": NOON}, ""),
        ({"unhealthy": True, "outdated": ("old",)}, "failed its health check, to be replaced"),
        ({"replaces": Remediation("cp-0", NOON)}, ""),
    ],
)
def test_a_machine_says_why_it_goes(look: MakeLook, marks: dict[str, Any], fate: str) -> None:
    finding = look()
    assert fates(finding, replicas=changed(finding, "cp-2", **marks)) == {"cp-1": "", "cp-2": fate, "cp-3": ""}


@pytest.mark.parametrize("record", ["remediation_intended", "remediating"])
def test_a_machine_that_is_remediated_says_so_from_the_first_record_on(look: MakeLook, record: str) -> None:
    finding = look()
    deleted = changed(finding, "cp-2", deleting_since=NOON, unhealthy=True)
    for replicas in (changed(finding, "cp-2", unhealthy=True), deleted):
        said = fates(finding, replicas=replicas, **{record: Remediation("cp-2", NOON)})
        assert said["cp-2"] == "replaced because it failed its health check"


def test_a_replacement_says_whose_place_it_takes_until_it_is_ready(look: MakeLook, machine: MakeMachine) -> None:
    finding = look(machine("cp-1"), machine("cp-2"), machine("cp-9", node=False))
    replicas = changed(finding, "cp-9", replaces=Remediation("cp-3", NOON))
    assert fates(finding, replicas=replicas)["cp-9"] == "in place of cp-3, which failed its health check"


def test_of_too_many_machines_the_next_to_go_is_surplus(look: MakeLook, machine: MakeMachine) -> None:
    finding = look(*(machine(f"cp-{number}") for number in range(4)))
    assert list(fates(finding).values()).count("surplus, to be deleted") == 1
    assert set(fates(finding, deletion=Deletion(NOON)).values()) == {""}
