"""Whatever is observed: writing a report and reporting again changes not one byte, until the time it names itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.clusterapi.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.report import Report, report
from quorate.core.checks import failed
from quorate.core.control_plane import Certificates
from quorate.core.decide import Decision
from quorate.core.health import Finding, Health, Unknown
from quorate.core.ring import Ring
from quorate.core.steps import CreateReplica, DeleteReplica

Build = Callable[..., Observation]
BuildMachine = Callable[..., ObservedMachine]
Apply = Callable[[Observation, Report], Observation]

relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
types = st.sampled_from(
    ["APIServerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy", "EtcdMemberHealthy", "NodeKubeadmLabelsAndTaintsSet"]
)
findings = st.dictionaries(
    types, st.sampled_from([Finding(Health.BAD, "Failed", "crash"), Finding(Health.UNKNOWN, "InspectionFailed", "lost")]), max_size=2
)
told = st.dictionaries(types, st.tuples(st.sampled_from(["True", "False", "Unknown"]), st.just("old"), st.integers(0, 900)), max_size=3)


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
            told={type_: (status, message, ago(since)) for type_, (status, message, since) in draw(told).items()},
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    arguments: dict[str, Any] = {
        "replicas": draw(st.sampled_from([None, 1, 3, 5])),
        "initialized": draw(st.booleans()),
        "deleted": draw(moments),
        "etcd_managed": draw(st.booleans()),
        "certificates": draw(st.sampled_from([Certificates(), Certificates(missing=("ca",)), Certificates(problem="no")])),
        "connection": draw(st.builds(Connection, st.sampled_from(Health), st.just("why"), moments)),
        "ring": draw(st.sampled_from([None, Unknown("no answer"), Ring((), None)])),
        "template_missing": draw(st.booleans()),
        "view": {"paused": draw(st.sampled_from(["", "", "an annotation"]))},
        "told": {"Initialized": (draw(st.sampled_from(["True", "False"])), "", ago(draw(st.integers(0, 900))))},
    }
    return observe(*machines, empty=not machines, **arguments)


decisions = st.builds(
    Decision,
    st.just("rule"),
    st.sampled_from([None, CreateReplica("", initialize=False), DeleteReplica("cp-0")]),
    st.sampled_from([(), (failed("a check", "why", "Mend it."),), (failed("b check", "later"),)]),
    st.none(),
)


def written(answer: Report) -> bytes:
    machines = {name: (conditions.conditions, conditions.legacy) for name, conditions in answer.machine_conditions.items()}
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
