"""Every combination of what up to five hosts can be with every ring that goes with it: no decision does what the oracle forbids, and none fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts import steps
from quorate.core.hosts.decide import decide, is_converged
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.state import KUBEADM_RUNS, WIPED, Cluster, Host, Kind, MissedProbes, Node, OrphanMember, RunOptions
from quorate.core.hosts.steps import Step
from quorate.core.maintenance import Maintenance
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version

from .conftest import BAD, GOOD, V134, V135, Build
from .oracle import objections
from .worlds import everything


@pytest.mark.parametrize("hosts", [1, 2, 3, 4, 5])
def test_no_decision_does_what_the_oracle_forbids(build: Build, hosts: int, record_property: Callable[[str, object], None]) -> None:
    count = 0
    for cluster in everything(build, hosts):
        decision = decide(cluster, build.noon)
        count += 1
        if decision.step is not None:
            wrong = list(objections(cluster, decision.step))
            assert not wrong, f"{decision.step}: {wrong}\n{cluster}"
        else:
            assert is_converged(decision) or all(check.evidence for check in decision.refusals)
    record_property("clusters", count)
    assert count > 10**hosts / 10


# Anything at all

HEALTHS = st.sampled_from([Health.GOOD, Health.GOOD, Health.GOOD, Health.BAD, Health.UNKNOWN])
VERSIONS = st.sampled_from([V134, V134, V134, V135, Version.parse("v1.33.0"), None])
NOON = Build().noon


@st.composite
def hosts_of(draw: st.DrawFn, number: int, *, control_plane: bool) -> Host:
    name = f"{'cp' if control_plane else 'worker'}-{number}"
    kind = draw(st.sampled_from([*[Kind.MEMBER] * 6, *Kind]))
    findings = (Finding(draw(HEALTHS), draw(st.sampled_from(["Seen"] * 8 + [WIPED, KUBEADM_RUNS])), "found"),)
    node = Node(
        name, Finding(draw(HEALTHS), "Seen"), draw(VERSIONS), unschedulable=draw(st.booleans()), cordoned_by_us=draw(st.integers(0, 9)) == 0
    )
    members: list[int | Absent | Unknown] = [number, number, number, Absent(), Unknown("not matched")]
    nodes: list[Node | Absent | Unknown] = [node, node, node, Absent(), Unknown("not asked")]
    return Host(
        name,
        control_plane=control_plane,
        kind=kind,
        findings=findings,
        member=draw(st.sampled_from(members)) if control_plane else Absent(),
        member_health=draw(st.sampled_from([GOOD, GOOD, BAD, None])),
        node=draw(st.sampled_from(nodes)),
        components=draw(VERSIONS) if control_plane else None,
        kubelet=draw(VERSIONS),
        kubeadm=draw(VERSIONS),
        api_server=draw(st.sampled_from([GOOD, GOOD, BAD, None])),
        lacks=draw(st.sampled_from([(), (), ("kubeadm",)])),
        stopped=draw(st.sampled_from([(), (), (), ("kubelet",)])),
        etcd_data_lost=draw(st.integers(0, 9)) == 0,
        drift=draw(st.sampled_from([(), (), ("a flag",)])),
        node_drift=draw(st.sampled_from([(), ("a label",)])),
        certificates_expire=draw(st.sampled_from([None, NOON, NOON + timedelta(days=90)])),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    count = draw(st.integers(1, 5))
    control_planes = tuple(draw(hosts_of(number, control_plane=True)) for number in range(1, count + 1))
    workers = tuple(draw(hosts_of(number, control_plane=False)) for number in range(1, draw(st.integers(0, 2)) + 1))
    members = [
        Member(number, draw(st.sampled_from([f"cp-{number}"] * 6 + [""])), draw(HEALTHS), learner=draw(st.integers(0, 9)) == 0)
        for number in range(1, count + 1)
    ]
    missed = st.none() | st.builds(MissedProbes, st.integers(1, 4), st.just(NOON))
    orphans = [OrphanMember(Member(90 + n, f"old-{n}", draw(HEALTHS)), draw(missed)) for n in range(draw(st.integers(0, 1)))]
    ring = Ring((*members, *(orphan.member for orphan in orphans)), leader=1)
    rings: list[Ring | Absent | Unknown] = [*[ring] * 6, Unknown("timeout"), Absent(), Ring((), None)]
    rarely = st.integers(0, 14).map(lambda number: number == 0)
    return Cluster(
        name="demo",
        version=draw(st.sampled_from([V134, V134, V135])),
        hosts=(*control_planes, *workers),
        leader="cp-1",
        ring=draw(st.sampled_from(rings)),
        api=draw(st.sampled_from([GOOD] * 8 + [BAD])),
        running=draw(VERSIONS),
        orphans=tuple(orphans),
        lost_nodes=draw(st.sampled_from([(), (), ("old-0",), ("gone",)])),
        other_nodes=draw(
            st.sampled_from([(), (), (Node("gone", GOOD, V134, static_worker=True),), (Node("else", BAD, Version.parse("v1.31.0")),)])
        ),
        members_missed_probes=tuple(
            (member.id, MissedProbes(draw(st.integers(1, 4)), NOON)) for member in members if member.health is not Health.GOOD
        ),
        membership_problem="they differ" if draw(rarely) else "",
        alarms=("NOSPACE of nobody",) if draw(rarely) else (),
        configuration_drift=draw(st.sampled_from([(), (), ("a field",)])),
        machine_deployments=draw(st.sampled_from([Maintenance(), Maintenance(pending=True), Maintenance(pending=True, problem="no")])),
        snapshot_taken=draw(st.booleans()),
        regenerated=draw(st.sampled_from([(), ("cp-1",)])),
        locked_by="anna" if draw(rarely) else "",
        problems=("clocks",) if draw(rarely) else (),
        options=RunOptions(
            initialize=not draw(rarely),
            force_upgrade=draw(rarely),
            renew_certificates=draw(rarely),
            without=draw(st.sampled_from([(), (), ("cp-2",), ("cp-1", "cp-2")])),
        ),
    )


@settings(max_examples=200)
@given(clusters())
def test_a_decision_is_total_gives_its_reasons_and_never_does_what_is_forbidden(cluster: Cluster) -> None:
    decision = decide(cluster, NOON)
    assert decision == decide(cluster, NOON)
    assert all(check.name and check.evidence for check in decision.checks)
    assert decision.wake_at is None or decision.wake_at >= NOON
    if decision.step is not None:
        assert list(objections(cluster, decision.step)) == []


@settings(max_examples=100)
@given(clusters())
def test_a_plan_ends_and_no_step_of_it_is_forbidden_where_it_starts(cluster: Cluster) -> None:
    plan = forecast(cluster, NOON)
    first = decide(cluster, NOON).step
    assert (plan.steps[0].step if plan.steps and first is not None else None) == first
    assert len(plan.steps) < 100
    if plan.converged:
        assert plan.refusals == ()


def test_no_decision_takes_a_millisecond(build: Build) -> None:
    hosts = [build.host(number) for number in range(1, 6)] + [build.worker(number) for number in range(1, 21)]
    cluster = build.cluster(*hosts)

    def once() -> float:
        begun = perf_counter()
        decide(cluster, build.noon)
        return perf_counter() - begun

    assert min(once() for _ in range(20)) < 0.001


def test_the_oracle_objects_at_all(build: Build) -> None:
    """An oracle that never objects would let everything pass."""
    three = build.three(ring="ggb", snapshot_taken=False)
    wrong: list[Step] = [
        steps.RemoveMember(1, "cp-1"),
        steps.Join("cp-4"),
        steps.Reset("cp-1"),
        steps.UpgradeControlPlane("cp-1", V135, first=True),
        steps.Initialize("cp-1"),
        steps.DeleteNode("cp-1"),
    ]
    assert all(list(objections(three, step)) for step in wrong)
