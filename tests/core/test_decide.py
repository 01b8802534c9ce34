"""The decision: the order of its rules, what blocks what, when it wakes; and what no decision may ever do, judged by an oracle that counts for itself."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from quorate.core.checks import failed, passed
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines import decide as module
from quorate.core.machines.decide import RULES, Decision, decide
from quorate.core.machines.state import Certificates, ControlPlane, Creation, Deletion, Desired, Kubeconfig, Remediation, Replica
from quorate.core.machines.steps import (
    EVERYTHING,
    AddFinalizer,
    CreateReplica,
    DeleteReplica,
    EnsureCertificates,
    ReleaseHook,
    RemoveMember,
    Step,
    WriteKubeconfig,
)
from quorate.core.proposal import Proposal, blocking, wanting
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version

if TYPE_CHECKING:
    from tests.core.conftest import Build

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


# The table


def test_the_order_of_the_rules_is_this_one() -> None:
    assert [name for name, _ in RULES] == [
        "keep the finalizer",
        "respect a pause",
        "take the control plane down",
        "refuse invalid objects",
        "be the control plane that the Cluster names",
        "adopt stand-alone Machines",
        "leave others' Machines alone",
        "wait for infrastructure",
        "provide certificates",
        "wait for the endpoint",
        "provide the kubeconfig",
        "wait for the workload cluster",
        "members agree",
        "remove orphans",
        "let leaving Machines go",
        "take back an abandoned creation",
        "finish what was begun in place",
        "keep the records of remediations",
        "remediate",
        "wait for updates in place",
        "prepare the workload",
        "replace outdated Machines",
        "move CoreDNS ahead",
        "initialize",
        "scale up",
        "scale down",
        "update add-ons",
        "record expiries",
        "foresee updates in place",
    ]


def table(monkeypatch: pytest.MonkeyPatch, *proposals: Proposal[Step]) -> Decision:
    """The decision of a table of rules that always think this."""
    rules = tuple(
        (f"rule {number}", lambda _plane, _now, proposal=proposal: proposal) for number, proposal in enumerate(proposals, start=1)
    )
    monkeypatch.setattr(module, "RULES", rules)
    plane = ControlPlane(
        "kcp", Desired(1, Version.parse("v1.34.4")), (), Ring((), None), initialized=False, workload=Finding(Health.GOOD, "Seen")
    )
    return decide(plane, NOON)


def test_the_first_step_that_nothing_blocks_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    decision = table(monkeypatch, Proposal(), Proposal(ReleaseHook("a")), Proposal(ReleaseHook("b")))
    assert (decision.rule, decision.step) == ("rule 2", ReleaseHook("a"))


def test_a_bar_stops_its_kind_of_step_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    no = blocking(frozenset({DeleteReplica}), failed("n", "e"))
    decision = table(monkeypatch, no, Proposal(DeleteReplica("a")), Proposal(ReleaseHook("b")))
    assert (decision.rule, decision.step) == ("rule 3", ReleaseHook("b"))


def test_a_bar_reaches_no_earlier_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table(monkeypatch, Proposal(ReleaseHook("a")), blocking(EVERYTHING, failed("n", "e"))).step == ReleaseHook("a")


def test_a_refusal_whose_checks_all_pass_blocks_nothing_and_a_wish_with_a_failed_check_is_none() -> None:
    assert blocking(EVERYTHING, passed("n", "e")).blocks == frozenset()
    assert wanting(ReleaseHook("a"), passed("n", "e"), failed("n", "e")).step is None


def test_it_wakes_at_the_earliest_of_all_rules_up_to_the_one_that_won(monkeypatch: pytest.MonkeyPatch) -> None:
    soon, later, soonest = (NOON + timedelta(minutes=minutes) for minutes in (2, 3, 1))
    asleep = table(monkeypatch, Proposal(wake_at=later), Proposal(wake_at=soon))
    acting = table(monkeypatch, Proposal(wake_at=later), Proposal(ReleaseHook("a"), wake_at=soon), Proposal(wake_at=soonest))
    assert (asleep.step, asleep.wake_at) == (None, soon)
    assert acting.wake_at == soon
    assert table(monkeypatch, Proposal()).wake_at is None


def test_the_checks_are_of_every_rule_that_spoke_up_to_the_one_that_won(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = passed("a", "e"), failed("b", "e"), passed("c", "e")
    decision = table(monkeypatch, Proposal(checks=(a,)), Proposal(checks=(b,)), Proposal(ReleaseHook("x"), (c,)), Proposal(checks=(a,)))
    assert decision.checks == (a, b, c)
    assert decision.refusals == (b,)


# A life


def test_a_converged_control_plane_sleeps_until_its_kubeconfig_is_due(build: Build) -> None:
    due = build.noon + timedelta(days=100)
    decision = decide(build.three(kubeconfig=Kubeconfig(exists=True, rotates_at=due)), build.noon)
    assert (decision.step, decision.refusals, decision.wake_at) == (None, (), due)


def test_the_steps_of_a_creation_come_in_this_order(build: Build) -> None:
    start = build.control_plane(
        initialized=False, has_finalizer=False, certificates=Certificates(missing=("ca",)), kubeconfig=Kubeconfig(exists=False)
    )
    marked = replace(start, has_finalizer=True)
    signed = replace(marked, certificates=Certificates())
    known = replace(signed, kubeconfig=Kubeconfig(exists=True))
    first = build.control_plane(build.replica(1))
    full = build.control_plane(build.replica(1), build.replica(2))
    assert [decide(plane, build.noon).step for plane in (start, marked, signed, known, first, full)] == [
        AddFinalizer(),
        EnsureCertificates(("ca",)),
        WriteKubeconfig(rotate=False),
        CreateReplica("", initialize=True),
        CreateReplica("", initialize=False),
        CreateReplica("", initialize=False),
    ]


def test_a_user_deletion_is_replaced_after_its_member_and_its_hook_have_gone(build: Build) -> None:
    at_hook = build.control_plane(build.replica(1), build.replica(2), build.leaving(3))
    without_member = build.control_plane(build.replica(1), build.replica(2), build.leaving(3, member=Absent()))
    let_go = build.control_plane(build.replica(1), build.replica(2), build.vanishing(3, member=Absent()))
    assert [decide(plane, build.noon).step for plane in (at_hook, without_member, let_go)] == [
        RemoveMember("cp-3", 3),
        ReleaseHook("cp-3"),
        CreateReplica("", initialize=False),
    ]


SEVEN = {
    "converged": {},
    "rolling": {"outdated": ("KubeadmConfig",)},
    "ill": {"component_findings": (("Part", Finding(Health.BAD, "Seen")),)},
    "to be remediated": {"unhealthy": True},
    "leaving": {"deleting_since": NOON, "waits_at_hook": True},
}


@pytest.mark.parametrize("changes", SEVEN.values(), ids=SEVEN.keys())
def test_a_decision_about_seven_replicas_takes_less_than_a_millisecond(build: Build, changes: dict[str, Any]) -> None:
    plane = build.control_plane(*(build.replica(number, **changes) for number in range(1, 8)), desired=7)

    def seconds() -> float:
        start = perf_counter()
        decide(plane, NOON)
        return perf_counter() - start

    assert min(seconds() for _ in range(200)) < 0.001  # the best of many: what else the machine does is not the question


# Everything else: arbitrary control planes

WELL = (("Part", Finding(Health.GOOD, "Seen")),)


def mostly(usual: Any, *others: Any, of: int = 8) -> st.SearchStrategy[Any]:
    """Nearly always what is usual: `of` times to once each of the others."""
    return st.sampled_from([usual] * of + list(others))


HEALTHS = mostly(Health.GOOD, Health.BAD, Health.UNKNOWN)
FINDINGS = st.one_of(HEALTHS.map(lambda health: (("Part", Finding(health, "Seen")),)), mostly(WELL, ()))


@st.composite
def replicas_of(draw: st.DrawFn, number: int, *, calm: bool) -> Replica:
    """A replica in any state; a calm one stays, and is nearly always well."""
    often = 60 if calm else 4
    leaving = not calm and draw(st.booleans())
    return Replica(
        name=f"cp-{number}",
        version=draw(mostly("v1.34.4", "v1.33.0", "v1.35.0", of=often)),
        kubelet_version=draw(mostly("v1.34.4", "v1.33.0", "", of=often)),
        created=NOON - timedelta(minutes=draw(st.integers(0, 3))),
        member=draw(mostly(number, Absent(), Unknown("not matched"), of=often)),
        node=draw(mostly(f"cp-{number}", None, of=often)),
        failure_domain=draw(st.sampled_from(["", "a", "b"])),
        component_findings=draw(st.just(WELL) if calm else FINDINGS),
        member_findings=draw(mostly(WELL, (("Part", Finding(Health.BAD, "Seen")),), of=30)) if calm else draw(FINDINGS),
        outdated=draw(mostly((), ("old",), of=6 if calm else 4)),
        deleting_since=NOON - timedelta(minutes=draw(st.integers(0, 3))) if leaving else None,
        holds_hook=draw(mostly(True, False, of=often)),
        waits_at_hook=draw(st.booleans()),
        other_hooks=draw(mostly((), ("other",), of=often)),
        delete_first=draw(st.booleans()),
    )


@st.composite
def rings(draw: st.DrawFn, count: int, *, calm: bool) -> Ring | Unknown:
    """The members 1 to `count` and perhaps an orphan, in any state; or no ring."""
    if draw(mostly(False, True, of=15)):
        return Unknown("dial timeout")
    healths = mostly(Health.GOOD, Health.BAD, Health.UNKNOWN, of=30 if calm else 8)
    members = []
    for number in [*range(1, count + 1), *draw(mostly((), (99,)))]:
        kind = draw(mostly("voter", "learner", "unstarted", "gone", of=60 if calm else 20))
        if kind != "gone":
            members.append(Member(number, "" if kind == "unstarted" else f"cp-{number}", draw(healths), learner=kind == "learner"))
    return Ring(tuple(members), leader=1)


@st.composite
def control_planes(draw: st.DrawFn, *, calm: bool) -> ControlPlane:
    """Any control plane at all; calm ones have little wrong with them, so that the last rules of the table are reached too."""
    count = draw(st.sampled_from([2, 3, 4, 5, 6, 1, 0]))
    desired = Desired(
        replicas=draw(st.sampled_from([1, 3, 5])),
        version=Version.parse("v1.34.4"),
        max_surge=draw(st.integers(0, 1)),
        etcd_managed=draw(st.sampled_from([True] * 6 + [False])),
        failure_domains=draw(st.sampled_from([(), ("a", "b")])),
    )
    plane = ControlPlane(
        name="kcp",
        desired=desired,
        replicas=tuple(draw(replicas_of(number, calm=calm)) for number in range(1, count + 1)),
        ring=draw(rings(count, calm=calm)),
        initialized=draw(mostly(True, False, Unknown("its status is lost"), of=8)),
        workload=Finding(draw(mostly(Health.GOOD, Health.BAD, Health.UNKNOWN, of=30)), "Seen"),
        creation=draw(mostly(None, Creation("cp-7", machine_exists=False), Creation("cp-1", machine_exists=True))),
    )
    rare: dict[str, tuple[Any, Any]] = {
        "has_finalizer": (False, True),
        "paused": ("spec.paused", ""),
        "invalid": (("bad",), ()),
        "unsupported": (("later",), ()),
        "foreign": (("theirs",), ()),
        "infrastructure_ready": (False, True),
        "endpoint": ("", "10.0.0.1:6443"),
        "template_problem": ("not found", ""),
        "topology_pending": ("v1.35.0", ""),
        "certificates": (Certificates(missing=("ca",)), Certificates()),
        "kubeconfig": (Kubeconfig(exists=False), Kubeconfig(exists=True, rotates_at=NOON + timedelta(days=1))),
        "deletion": (Deletion(NOON), None),
        "remediating": (Remediation("cp-9", NOON), None),
    }
    return replace(plane, **{name: usual if calm else draw(mostly(usual, other, of=20)) for name, (other, usual) in rare.items()})


def lost(plane: ControlPlane) -> set[int]:
    """Members that must be counted out: their Machines are deleted and held by nobody."""
    return {r.member for r in plane.replicas if r.deleting_since and not r.holds_hook and isinstance(r.member, int)}


def majority(plane: ControlPlane, *, without: int | None = None, plus_failed: int = 0) -> bool:
    """More than half of the voters answer, by counting."""
    assert isinstance(plane.ring, Ring)
    votes = [
        m.health is Health.GOOD and m.name != "" and m.id not in lost(plane)
        for m in plane.ring.members
        if not m.learner and m.id != without
    ]
    return 2 * sum(votes) > len(votes) + plus_failed


def commits(plane: ControlPlane) -> bool:
    """Fewer than half of the voters are known to be silent: the list, which a majority confirmed, proves that the others commit."""
    assert isinstance(plane.ring, Ring)
    silent = [m.health is Health.BAD or m.name == "" or m.id in lost(plane) for m in plane.ring.members if not m.learner]
    return 2 * sum(silent) < len(silent)


def held(plane: ControlPlane) -> list[Replica]:
    """Replicas that have not been let go."""
    return [r for r in plane.replicas if r.deleting_since is None or r.holds_hook]


def judge_removal(plane: ControlPlane, step: RemoveMember) -> None:
    """S1, S4 and the hook."""
    replica = plane.replica(step.replica)
    assert isinstance(plane.ring, Ring)
    assert plane.ring.members
    assert (replica.member, plane.desired.etcd_managed, plane.initialized) == (step.member, True, True)
    judge_hook(replica)
    assert any(r.name != replica.name for r in held(plane))
    if any(m.id == step.member for m in plane.ring.members):
        assert commits(plane)
        assert majority(plane, without=step.member)


def judge_hook(replica: Replica) -> None:
    """Only one that was deleted, waits at our hook, and waits for nobody else."""
    assert replica.deleting_since
    assert replica.holds_hook
    assert replica.waits_at_hook
    assert not replica.other_hooks


def judge_release(plane: ControlPlane, step: ReleaseHook) -> None:
    """S4: nobody who may hold data goes without its member."""
    replica = plane.replica(step.replica)
    judge_hook(replica)
    if plane.initialized:
        assert any(r.name != replica.name for r in held(plane))
        assert not plane.desired.etcd_managed or (isinstance(replica.member, Absent) and isinstance(plane.ring, Ring))


def judge_creation(plane: ControlPlane, step: CreateReplica) -> None:
    """S1, S2, S3, S5 and S6."""
    assert step.initialize is (not plane.replicas)
    assert plane.initialized is not step.initialize
    places = plane.replicas if plane.desired.max_surge == 0 else held(plane)
    only_one_leaves = len(held(plane)) == 1 and held(plane)[0].deleting_since is not None
    rolling = any(r.outdated and r.deleting_since is None for r in plane.replicas)
    assert len(places) + 1 <= plane.desired.replicas + (plane.desired.max_surge if rolling or only_one_leaves else 0)
    assert only_one_leaves or all(r.deleting_since is None for r in held(plane))
    minors = [int(text.split(".")[1]) for r in plane.replicas for text in (r.version, r.kubelet_version) if text]
    assert all(abs(minor - plane.desired.version.minor) <= 1 for minor in minors)
    assert not plane.replicas or any(Version.parse(r.version) <= plane.desired.version for r in plane.replicas)
    if plane.desired.etcd_managed and not step.initialize:
        assert isinstance(plane.ring, Ring)
        assert not [m for m in plane.ring.members if m.learner or not m.name]
        assert majority(plane)
        assert majority(plane, plus_failed=0 if len(plane.ring.members) == 1 else 1)


def judge_deletion(plane: ControlPlane, step: DeleteReplica) -> None:
    """S1, S4, S5 and S8."""
    replica = plane.replica(step.replica)
    staying = [r for r in plane.replicas if r.deleting_since is None]
    assert replica in staying
    if replica.outdated and not plane.initialized:
        assert plane.replicas == (replica,)
        return
    assert len(staying) > 1
    assert replica.holds_hook
    assert held(plane) == staying
    judge_choice(plane, replica, len(staying))
    if plane.desired.etcd_managed:
        assert isinstance(plane.ring, Ring)
        assert not isinstance(replica.member, Unknown)
        in_ring = any(m.id == replica.member for m in plane.ring.members)
        assert not in_ring or (isinstance(replica.member, int) and commits(plane) and majority(plane, without=replica.member))


def judge_choice(plane: ControlPlane, replica: Replica, staying: int) -> None:
    """S8, and what a surge is for: fewer than desired stay only where none is allowed, or where the one that goes serves nobody."""
    rolling = any(r.outdated for r in plane.replicas if r.deleting_since is None)
    assert replica.outdated or replica.delete_first or not rolling
    assert rolling or staying > plane.desired.replicas
    broken = replica.node is None or any(f.health is Health.BAD for _, f in (*replica.component_findings, *replica.member_findings))
    assert staying > plane.desired.replicas or plane.desired.max_surge == 0 or broken


ANY = st.one_of(control_planes(calm=False), control_planes(calm=True))


@pytest.mark.parametrize("calm", [True, False], ids=["calm", "wild"])
@settings(max_examples=1500)
@given(data=st.data())
def test_no_decision_ever_breaks_an_invariant(calm: bool, data: st.DataObject) -> None:
    plane = data.draw(control_planes(calm=calm))
    step = decide(plane, NOON).step
    event(type(step).__name__)
    match step:
        case RemoveMember():
            judge_removal(plane, step)
        case ReleaseHook():
            judge_release(plane, step)
        case CreateReplica():
            judge_creation(plane, step)
        case DeleteReplica():
            judge_deletion(plane, step)
        case _:
            pass
    if isinstance(step, RemoveMember | ReleaseHook | CreateReplica | DeleteReplica):
        assert not any((plane.paused, plane.invalid, plane.unsupported, plane.foreign, plane.deletion))
        assert not plane.initialized or plane.workload.health is Health.GOOD
    assert not plane.paused or step in (None, AddFinalizer())


def converged(plane: ControlPlane) -> bool:
    """Nothing is left to want."""
    staying = [r for r in plane.replicas if r.deleting_since is None]
    stopped = plane.paused or plane.invalid or plane.unsupported or plane.foreign or plane.deletion or not plane.infrastructure_ready
    wanting_something = len(staying) != plane.desired.replicas or held(plane) != staying or any(r.outdated for r in staying)
    return not stopped and not wanting_something and bool(plane.endpoint) and plane.kubeconfig.exists and not plane.certificates.missing


@settings(max_examples=1000)
@given(ANY)
def test_whoever_does_nothing_short_of_the_goal_says_why(plane: ControlPlane) -> None:
    decision = decide(plane, NOON)
    assert decision.step or converged(plane) or decision.refusals
    assert all(check.name and check.evidence for check in decision.checks)


@settings(max_examples=1000)
@given(ANY, st.randoms(use_true_random=False))
def test_the_order_of_replicas_members_and_domains_does_not_matter(plane: ControlPlane, order: random.Random) -> None:
    ring = (
        plane.ring
        if isinstance(plane.ring, Unknown)
        else Ring(tuple(order.sample(plane.ring.members, len(plane.ring.members))), plane.ring.leader)
    )
    domains = tuple(order.sample(plane.desired.failure_domains, len(plane.desired.failure_domains)))
    shuffled = replace(
        plane,
        replicas=tuple(order.sample(plane.replicas, len(plane.replicas))),
        ring=ring,
        desired=replace(plane.desired, failure_domains=domains),
    )
    if plane.deletion:  # DeleteAll names them as they come
        return
    one, other = decide(plane, NOON), decide(shuffled, NOON)
    assert (one.rule, one.step, one.wake_at) == (other.rule, other.step, other.wake_at)
    answers = [Counter((check.name, check.outcome) for check in decision.checks) for decision in (one, other)]
    assert answers[0] == answers[1]
