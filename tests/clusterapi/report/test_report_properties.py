"""Whatever is observed: writing a report and reporting again changes not one byte, until the time it names itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.report import Report, report
from quorate.core.checks import Check, failed
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.rules.orphans import AGED, RING_IS_READ
from quorate.core.machines.state import Adoptable, Certificates, Desired, Remediation, RemediationPolicy
from quorate.core.machines.steps import CreateReplica, DeleteReplica
from quorate.core.maintenance import Maintenance
from quorate.core.ring import Ring
from quorate.core.versions import Version

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
Apply = Callable[[Observation, Report], Observation]

relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
types = st.sampled_from(
    ["APIServerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy", "EtcdMemberHealthy", "NodeKubeadmLabelsAndTaintsSet"]
)
findings = st.dictionaries(
    types, st.sampled_from([Finding(Health.BAD, "Failed", "crash"), Finding(Health.UNKNOWN, "InspectionFailed", "lost")]), max_size=2
)
told = st.dictionaries(types, st.tuples(st.sampled_from(["True", "False", "Unknown"]), st.just("old"), st.integers(0, 900)), max_size=3)


def complaints(ago: Callable[[int], datetime]) -> st.SearchStrategy[dict[str, tuple[str, str, datetime]]]:
    """What a health check says of a Machine, if anything."""
    asked = {type_: ("False", "", ago(60)) for type_ in ("HealthCheckSucceeded", "OwnerRemediated")}
    return st.sampled_from([{}, asked, asked | {"HealthCheckSucceeded": ("True", "", ago(9))}])


@st.composite
def observations(draw: st.DrawFn, observe: Build, machine: BuildMachine, noon: datetime) -> Observation:
    def ago(seconds: int) -> datetime:
        return noon - timedelta(seconds=seconds)

    moments = st.none() | st.integers(0, 1200).map(ago)
    machines = [
        machine(
            f"cp-{number}",
            node=draw(st.booleans()),
            provider_id=draw(st.sampled_from([None, ""])),
            deleted=draw(moments),
            findings=draw(findings),
            outdated=draw(st.lists(st.sampled_from(["Version v1, v2 required", "KubeadmConfig"]), max_size=2)),
            told={type_: (status, message, ago(since)) for type_, (status, message, since) in draw(told).items()} | draw(complaints(ago)),
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    marks = {observed.name: _marks(draw, ago) for observed in machines}
    replicas = draw(st.sampled_from([None, 1, 3, 5]))
    state = _state(draw, ago, replicas or 0)
    arguments: dict[str, Any] = {
        "replicas": replicas,
        "initialized": draw(st.booleans()),
        "deleted": draw(moments),
        "etcd_managed": state["external_etcd"] is None,
        "certificates": draw(st.sampled_from([Certificates(), Certificates(missing=("ca",)), Certificates(problem="no")])),
        "connection": draw(st.builds(Connection, st.sampled_from(Health), st.just("why"), moments)),
        "ring": draw(st.sampled_from([None, Unknown("no answer"), Ring((), None)])),
        "template_missing": bool(state["template_problem"]),
        "view": {"paused": draw(st.sampled_from(["", "", "an annotation"])), **state},
        "marks": marks,
        "told": {"Initialized": (draw(st.sampled_from(["True", "False"])), "", ago(draw(st.integers(0, 900))))},
    }
    return observe(*machines, empty=not machines, **arguments)


def _marks(draw: st.DrawFn, ago: Callable[[int], datetime]) -> dict[str, Any]:
    """What the view tells of a replica beside what its Machine does."""
    failed_before = st.none() | st.builds(Remediation, st.just("cp-9"), st.none() | st.integers(0, 900).map(ago), st.integers(0, 3))
    return {
        "replaces": draw(failed_before),
        "record_problem": draw(st.sampled_from(["", "", "no JSON"])),
        "waits_at_hook": draw(st.booleans()),
        "holds_hook": draw(st.booleans()),
    }


def _state(draw: st.DrawFn, ago: Callable[[int], datetime], replicas: int) -> dict[str, Any]:
    """What the view tells of the control plane beside its Machines."""
    record = st.none() | st.builds(Remediation, st.sampled_from(["cp-0", "cp-9"]), st.integers(0, 900).map(ago))
    external = draw(st.none() | st.builds(Finding, st.sampled_from(Health), st.just("Asked"), st.just("by its API servers")))
    maintenance = st.builds(
        Maintenance, st.just(value=True), st.sampled_from(["", "CoreDNS v9 is not known"]), st.none() | st.just(ago(-60))
    )
    adoptable = draw(st.lists(st.builds(Adoptable, st.just("cp-8"), st.sampled_from(["", "too old"])), max_size=1))
    policy = RemediationPolicy(
        draw(st.sampled_from([None, 0, 2])), timedelta(seconds=draw(st.sampled_from([0, 300]))), timedelta(seconds=600)
    )
    return {
        "remediation_intended": draw(record),
        "remediating": draw(record),
        "remediation_problem": draw(st.sampled_from(["", "", "no JSON"])),
        "membership_problem": draw(st.sampled_from(["", "", "cp-0 lists others than cp-1"])),
        "topology_pending": draw(st.sampled_from(["", "", "v1.35.0"])),
        "template_problem": draw(st.sampled_from(["", "", "DevMachineTemplate demo does not exist"])),
        "external_etcd": external,
        "adoptable": tuple(adoptable),
        "addons": draw(maintenance),
        "preparation": draw(maintenance),
        "desired": Desired(replicas, Version.parse("v1.34.4"), etcd_managed=external is None, remediation=policy),
    }


decisions = st.builds(
    Decision,
    st.just("rule"),
    st.sampled_from([None, CreateReplica("", initialize=False), DeleteReplica("cp-0")]),
    st.sampled_from([(), (failed("a check", "why", "Mend it."),), (failed("b check", "later"),)]),
    st.none(),
)


def written(answer: Report) -> bytes:
    machines = {name: (told.conditions, told.legacy) for name, told in answer.machine_conditions.items()}
    return msgspec.json.encode((answer.status, machines, answer.wake_at, [msgspec.to_builtins(event) for event in answer.events]))


@relaxed
@given(data=st.data(), decision=decisions, error=st.sampled_from(["", "boom"]), milliseconds=st.integers(0, 999))
def test_reporting_what_was_written_changes_nothing(
    observe: Build,
    machine: BuildMachine,
    noon: datetime,
    apply: Apply,
    data: st.DataObject,
    decision: Decision,
    error: str,
    milliseconds: int,
) -> None:
    now = noon + timedelta(milliseconds=milliseconds)
    seen = data.draw(observations(observe, machine, noon))
    first = report(seen, decision, error=error, now=now)
    applied = apply(seen, first)
    assert written(report(applied, decision, error=error, now=now)) == written(first)
    assert first.wake_at is None or first.wake_at > now
    until = first.wake_at or now + timedelta(days=1)
    later = now + (until - now) * data.draw(st.floats(0, 0.999))
    assert written(report(applied, decision, error=error, now=later)) == written(first)


@relaxed
@given(data=st.data(), decision=decisions)
def test_the_order_of_machines_does_not_show(
    observe: Build, machine: BuildMachine, noon: datetime, data: st.DataObject, decision: Decision
) -> None:
    seen = data.draw(observations(observe, machine, noon))
    fields = {name: getattr(seen, name) for name in seen.__slots__}
    shuffled = Observation(**(fields | {"machines": tuple(reversed(seen.machines))}))
    assert report(shuffled, decision, now=noon).status == report(seen, decision, now=noon).status


@relaxed
@given(data=st.data(), decision=decisions)
def test_every_condition_is_one_that_the_schema_admits(
    observe: Build, machine: BuildMachine, noon: datetime, data: st.DataObject, decision: Decision
) -> None:
    answer = report(data.draw(observations(observe, machine, noon)), decision, now=noon)
    conditions = [c for m in answer.machine_conditions.values() for c in m.conditions] + answer.status["conditions"]
    for condition in conditions:
        assert set(condition) - {"observedGeneration"} == {"type", "status", "lastTransitionTime", "reason", "message"}
        assert condition["status"] in ("True", "False", "Unknown")
        assert condition["reason"]
    types = [condition["type"] for condition in answer.status["conditions"]]
    assert len(types) == len(set(types))


@relaxed
@given(data=st.data())
def test_nothing_waits_without_a_condition_that_says_for_what(
    observe: Build, machine: BuildMachine, noon: datetime, data: st.DataObject
) -> None:
    """Whatever the rules refuse is told by name in a condition of the control plane or of one of its Machines."""
    seen = data.draw(observations(observe, machine, noon))
    assume(seen.kcp.spec.replicas is not None)  # admission fills it in
    assert seen.view is not None
    decision = decide(seen.view, noon)
    answer = report(seen, decision, now=noon)
    if decision.step is not None:
        return
    conditions = [c for m in answer.machine_conditions.values() for c in m.conditions] + answer.status["conditions"]
    told = "\n".join(condition["message"] for condition in conditions).casefold()
    for check in decision.refusals:
        if check.name not in (AGED, RING_IS_READ):  # about members that EtcdClusterHealthy names
            assert essence(check, seen) in told, check


def essence(check: Check, seen: Observation) -> str:
    """A check's evidence without the name of the Machine in whose own condition it stands."""
    name, separator, rest = check.evidence.partition(": ")
    return (rest if separator and name in {machine.name for machine in seen.machines} else check.evidence).casefold()
