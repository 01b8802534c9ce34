"""OwnerRemediated on the Machines: one answer for each situation of upstream's remediation test, in both generations, and its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.clusterapi.report import Report, report
from quorate.core.checks import failed
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.state import Desired, Remediation, RemediationPolicy
from quorate.core.machines.steps import Remediate, UpdateAddons
from quorate.core.ring import Member
from quorate.core.versions import Version

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
OWNER = "OwnerRemediated"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def marked(machine: BuildMachine, noon: datetime) -> Callable[..., ObservedMachine]:
    """A Machine that failed its health check and is ours to replace, as a MachineHealthCheck leaves it."""

    def build(name: str = "cp-0", **changes: Any) -> ObservedMachine:
        asked = {"HealthCheckSucceeded": ("False", "", noon), OWNER: ("False", "Waiting for remediation", noon)}
        return machine(name, told=asked, legacy={"HealthCheckSucceeded": "False", OWNER: "False"}, **changes)

    return build


def answer_to(answer: Report, name: str = "cp-0") -> tuple[str, str, str, str] | None:
    """Reason and message, and reason and severity of the v1beta1 twin; None where neither is written."""
    written = answer.machine_conditions[name]
    now = next((c for c in written.conditions if c["type"] == OWNER), None)
    twin = next((c for c in written.legacy if c["type"] == OWNER), None)
    if now is None or twin is None:
        assert now is twin
        return None
    assert (now["status"], twin["status"], twin.get("message", "")) == ("False", "False", now["message"])
    return now["reason"], now["message"], twin["reason"], twin["severity"]


def test_a_machine_that_nobody_complains_of_is_not_answered(observe: Build, idle: Decision, noon: datetime) -> None:
    assert answer_to(report(observe(), idle, now=noon)) is None


def test_a_machine_that_is_somebody_elses_to_repair_is_not_answered(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    theirs = machine("cp-0", told={"HealthCheckSucceeded": ("False", "", noon)})
    assert answer_to(report(observe(theirs, machine("cp-1"), machine("cp-2")), idle, now=noon)) is None


@pytest.mark.parametrize("record", ["remediation_intended", "remediating"])
def test_after_the_delete_the_machine_is_deleting(
    observe: Build, machine: BuildMachine, marked: BuildMachine, idle: Decision, noon: datetime, record: str
) -> None:
    seen = observe(marked(deleted=noon), machine("cp-1"), machine("cp-2"), view={record: Remediation("cp-0", noon)})
    answer = report(seen, idle, now=noon)
    assert answer_to(answer) == ("MachineDeleting", "The Machine is being deleted", "RemediationInProgress", "Warning")


def test_a_marked_machine_that_a_user_deleted_keeps_what_was_said_last(
    observe: Build, machine: BuildMachine, marked: BuildMachine, idle: Decision, noon: datetime
) -> None:
    seen = observe(marked(deleted=noon), machine("cp-1"), machine("cp-2"), view={"remediating": Remediation("cp-9", noon)})
    assert answer_to(report(seen, idle, now=noon)) is None


def test_a_delete_that_fails_is_an_internal_error(observe: Build, machine: BuildMachine, marked: BuildMachine, noon: datetime) -> None:
    seen = observe(marked(), marked("cp-1"), machine("cp-2"))
    answer = report(seen, Decision("remediate", Remediate("cp-0", 0), (), None), error="forbidden", now=noon)
    assert answer_to(answer) == ("InternalError", "forbidden", "RemediationFailed", "Error")
    assert answer_to(answer, "cp-1") is None


def test_a_refusal_of_the_last_look_is_no_error(observe: Build, machine: BuildMachine, marked: BuildMachine, noon: datetime) -> None:
    seen = observe(marked(), marked("cp-1"), machine("cp-2"))
    answer = report(seen, Decision("remediate", Remediate("cp-0", 0), (), None), error="1 short of quorum", refused=True, now=noon)
    assert answer_to(answer) == ("CannotBeRemediated", "1 short of quorum", "WaitingForRemediation", "Warning")


# 7.4: each refusal with its reason.


BAD = Finding(Health.BAD, "Failed", "crash loop")
MEMBERS = (Member(1, "cp-0", Health.BAD), Member(2, "cp-1", Health.GOOD), Member(3, "cp-2", Health.GOOD))
FAILED_BEFORE = {"cp-0": {"replaces": Remediation("cp-9", datetime(2026, 1, 1, 11, 58, tzinfo=UTC), 2)}}


def desired(**policy: Any) -> Desired:
    return Desired(3, Version.parse("v1.34.4"), remediation=RemediationPolicy(**policy))


def told(seen: Observation, noon: datetime) -> Report:
    assert seen.view is not None
    return report(seen, decide(seen.view, noon), now=noon)


@pytest.mark.parametrize(
    ("changes", "reason", "message"),
    [
        pytest.param({"view": {"topology_pending": "v1.35.0"}}, "RemediationDeferred", "v1.35.0", id="topology upgrade pending"),
        pytest.param(
            {"marks": FAILED_BEFORE, "view": {"desired": desired(retry_period=timedelta(minutes=5))}},
            "RemediationDeferred",
            "0:05:00",
            id="within the retry period",
        ),
        pytest.param(
            {"marks": FAILED_BEFORE, "view": {"desired": desired(max_retry=2)}}, "CannotBeRemediated", "maxRetry is 2", id="no retries left"
        ),
        pytest.param({"marks": {"cp-2": {"node": None}}}, "RemediationDeferred", "cp-2 has no Node yet", id="a healthy machine comes up"),
        pytest.param(
            {"members": MEMBERS[:2], "marks": {"cp-2": {"deleting_since": NOON, "member": Absent()}}},
            "RemediationDeferred",
            "etcd cannot commit",
            id="another machine is deleted",
        ),
        pytest.param({"ring": Unknown("no answer")}, "RemediationDeferred", "no answer", id="etcd cannot be checked"),
        pytest.param(
            {"members": (MEMBERS[0], MEMBERS[1], Member(3, "cp-2", Health.BAD, evidence="no answer"))},
            "CannotBeRemediated",
            "etcd cannot commit",
            id="quorum would be lost",
        ),
        pytest.param(
            {"marks": {name: {"component_findings": (("APIServerPodHealthy", BAD),)} for name in ("cp-1", "cp-2")}},
            "CannotBeRemediated",
            "without cp-0",
            id="no other control plane serves",
        ),
        pytest.param(
            {
                "view": {"remediating": Remediation("cp-9", NOON + timedelta(days=1))},
                "members": (Member(1, "cp-0", Health.GOOD), *MEMBERS[1:]),  # its replacement can join
            },
            "WaitingForRemediation",
            "cp-9",
            id="another remediation is under way",
        ),
        pytest.param(
            {"marks": {"cp-0": {"record_problem": "remediation-for is no JSON"}}}, "CannotBeRemediated", "no JSON", id="bad record"
        ),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    observe: Build, machine: BuildMachine, marked: BuildMachine, noon: datetime, changes: dict[str, Any], reason: str, message: str
) -> None:
    seen = observe(marked(), machine("cp-1"), machine("cp-2"), **{"members": MEMBERS, **changes})
    said = answer_to(told(seen, noon))
    assert said is not None
    assert (said[0], said[2], said[3]) == (reason, "WaitingForRemediation", "Warning")
    assert message in said[1]


def test_the_only_machine_cannot_be_remediated(observe: Build, marked: BuildMachine, noon: datetime) -> None:
    said = answer_to(told(observe(marked(), replicas=1), noon))
    assert said is not None
    assert (said[0], "only control plane left" in said[1]) == ("CannotBeRemediated", True)


def test_a_permitted_remediation_leaves_the_condition_to_the_next_step(
    observe: Build, machine: BuildMachine, marked: BuildMachine, noon: datetime
) -> None:
    seen = observe(marked(), machine("cp-1"), machine("cp-2"), members=MEMBERS)
    assert seen.view is not None
    assert decide(seen.view, noon).step == Remediate("cp-0", 0)
    assert answer_to(told(seen, noon)) is None


def test_the_end_of_a_retry_period_is_a_time_to_look_again(
    observe: Build, machine: BuildMachine, marked: BuildMachine, idle: Decision, noon: datetime
) -> None:
    view = {"desired": desired(retry_period=timedelta(minutes=5))}
    seen = observe(marked(), machine("cp-1"), machine("cp-2"), members=MEMBERS, marks=FAILED_BEFORE, view=view)
    assert report(seen, idle, now=noon).wake_at == noon + timedelta(minutes=3)


def test_a_refused_remediation_is_no_reason_for_not_scaling(
    observe: Build, machine: BuildMachine, marked: BuildMachine, noon: datetime
) -> None:
    seen = observe(marked(), machine("cp-1"), machine("cp-2"), members=MEMBERS, replicas=5, view={"topology_pending": "v1.35.0"})
    message = next(c["message"] for c in told(seen, noon).status["conditions"] if c["type"] == "ScalingUp")
    assert "* waiting for version v1.35.0 to be propagated" in message
    assert "cp-0: " not in message


def test_what_stops_everything_defers_a_remediation_too(
    observe: Build, machine: BuildMachine, marked: BuildMachine, noon: datetime
) -> None:
    refused = (failed("room", "later"), failed("the specification is valid", "replicas is even", "Correct it."))
    answer = report(observe(marked(), machine("cp-1"), machine("cp-2")), Decision("nothing to do", None, refused, None), now=noon)
    assert answer_to(answer) == ("RemediationDeferred", "replicas is even", "WaitingForRemediation", "Warning")


def test_beside_another_step_that_fails_the_last_answer_stands(
    observe: Build, machine: BuildMachine, marked: BuildMachine, noon: datetime
) -> None:
    seen = observe(marked(), machine("cp-1"), machine("cp-2"))
    assert answer_to(report(seen, Decision("update", UpdateAddons(), (), None), error="no", now=noon)) is None


def test_nobody_is_remediated_in_a_control_plane_that_goes(
    observe: Build, machine: BuildMachine, marked: BuildMachine, idle: Decision, noon: datetime
) -> None:
    assert answer_to(report(observe(marked(), machine("cp-1"), machine("cp-2"), deleted=noon), idle, now=noon)) is None


# M1: a Machine that is well again.


@pytest.mark.parametrize("generation", ["v1beta2", "v1beta1", "both"])
def test_a_machine_that_is_well_again_is_not_to_be_remediated_any_more(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, generation: str
) -> None:
    told = {"HealthCheckSucceeded": ("True", "", noon), OWNER: ("False", "Waiting for remediation", noon)}
    twins = {"HealthCheckSucceeded": "True", OWNER: "False"}
    well = machine("cp-0", told={} if generation == "v1beta1" else told, legacy={} if generation == "v1beta2" else twins)
    answer = report(observe(well, machine("cp-1"), machine("cp-2")), idle, now=noon)
    written = answer.machine_conditions["cp-0"]
    assert written.withdrawn == (() if generation == "v1beta1" else (OWNER,))
    assert written.legacy_withdrawn == (() if generation == "v1beta2" else (OWNER,))
    remediating = next(c for c in answer.status["conditions"] if c["type"] == "Remediating")
    assert remediating["status"] == "False"


@pytest.mark.parametrize(("health", "owner"), [("False", "False"), ("Unknown", "False"), ("True", "True"), ("True", "")])
def test_the_answer_is_taken_away_only_from_a_machine_that_is_known_to_be_well(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime, health: str, owner: str
) -> None:
    told = {"HealthCheckSucceeded": (health, "", noon)} | ({OWNER: (owner, "", noon)} if owner else {})
    answer = report(observe(machine("cp-0", told=told), machine("cp-1"), machine("cp-2")), idle, now=noon)
    assert answer.machine_conditions["cp-0"].withdrawn == ()


def test_a_deleted_machine_keeps_its_answer_even_if_it_is_well_again(
    observe: Build, machine: BuildMachine, idle: Decision, noon: datetime
) -> None:
    told = {"HealthCheckSucceeded": ("True", "", noon), OWNER: ("False", "", noon)}
    answer = report(observe(machine("cp-0", told=told, deleted=noon), machine("cp-1"), machine("cp-2")), idle, now=noon)
    assert answer.machine_conditions["cp-0"].withdrawn == ()
