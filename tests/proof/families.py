"""The families of worlds that the exhaustive check goes through, and the check of one world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.state import Adoptable, Certificates, Creation, Deletion, Remediation, RemediationPolicy
from quorate.core.maintenance import Maintenance
from quorate.core.ring import Ring
from quorate.core.versions import Version
from tests.proof import oracle
from tests.proof.worlds import IN_FLIGHT, NOW, ORPHANS, ROLES, STATES, UPDATES, World, worlds

ALL = tuple(STATES)
FEW = ("good", "down", "learner", "unstarted", "none")
FEWER = ("good", "down", "learner", "none")
MORE = (*FEW, "unseen")
ONE_OF = (*(role for role in ROLES if role != "stays"), *ORPHANS)

EARLIER, LATER, SOON = (
    NOW - timedelta(days=1),
    NOW - timedelta(seconds=30),
    NOW + timedelta(minutes=1),
)  # before and after every replica was made; to come

CIRCUMSTANCES: tuple[Mapping[str, Any], ...] = (
    {"ring": Unknown("dial timeout")},
    {"ring": Ring((), None)},
    {"initialized": False},
    {"initialized": False, "ring": Unknown("nobody to ask")},
    {"initialized": Unknown("its status is lost"), "ring": Unknown("nobody to ask")},
    {"initialized": Unknown("its status is lost"), "ring": Unknown("nobody to ask"), "certificates": Certificates(missing=("etcd",))},
    {"paused": "spec.paused"},
    {"invalid": ("spec.replicas",)},
    {"unsupported": ("something",)},
    {"foreign": ("theirs",)},
    {"not_the_clusters": "it names another"},
    {"adoptable": (Adoptable("alone", "its bootstrap provider is not kubeadm"),)},
    {"infrastructure_ready": False},
    {"endpoint": ""},
    {"has_finalizer": False},
    {"deletion": Deletion(NOW)},
    {"deletion": Deletion(NOW, ("worker",))},
    {"deletion": Deletion(NOW, keeps_machines=True)},
    {"workload": Finding(Health.BAD, "ConnectionDown", "down")},
    {"workload": Finding(Health.UNKNOWN, "NotConnected", "not yet")},
    {"certificates": Certificates(missing=("etcd",))},
    {"certificates": Certificates(problem="unreadable")},
    {"template_problem": "not found"},
    {"topology_pending": "v1.35.0"},
    {"preparation": Maintenance(pending=True)},
    {"preparation": Maintenance(pending=True, problem="forbidden", retry_at=SOON)},
    {"membership_problem": "cp-1 lists other members"},
    {"creation": Creation("cp-9", machine_exists=False)},
    {"creation": Creation("cp-1", machine_exists=True)},
    {"remediation_intended": Remediation("cp-1", LATER)},
    {"remediation_intended": Remediation("cp-2", LATER)},
    {"remediation_intended": Remediation("gone", LATER)},
    {"remediating": Remediation("gone", LATER)},
    {"remediating": Remediation("gone", EARLIER)},
    {"remediating": Remediation("cp-1", LATER)},
    {"remediation_problem": "not JSON"},
)
"""What may be so around any row of seats, one at a time."""
EXTERNAL: tuple[Mapping[str, Any], ...] = (
    {"external_etcd": Finding(Health.GOOD, "Ready", "answers")},
    {"external_etcd": Finding(Health.BAD, "NotReady", "down")},
    {"external_etcd": Finding(Health.BAD, "NotReady", "down"), "remediating": Remediation("gone", LATER)},
    {"initialized": False},
    {"initialized": Unknown("its status is lost")},
)
"""And what may be so where etcd is not ours."""

WANTED: tuple[Mapping[str, Any], ...] = (
    {"etcd_managed": False},
    {"remediation": RemediationPolicy(max_retry=1)},
    {"remediation": RemediationPolicy(max_retry=2, retry_period=timedelta(minutes=20))},
    {"remediation": RemediationPolicy(max_retry=1, min_healthy_period=timedelta(minutes=5))},
    {"version": Version.parse("v1.35.0")},
    {"version": Version.parse("v1.36.0")},
    {"version": Version.parse("v1.33.7")},
    {"version": Version.parse("v1.32.0")},
)
"""What else may be asked for."""


def _up_to(seats: int, *families: Iterable[World]) -> Iterator[World]:
    return (world for world in chain(*families) if len(world.seats) <= seats)


def _leaders() -> Iterator[World]:
    for world in _up_to(3, worlds(ALL, 0, ()), worlds(FEW, 1, IN_FLIGHT)):
        yield from (replace(world, leader=leader) for leader in (None, *range(1, len(world.seats))))


def _rows_of_three() -> Iterator[World]:
    yield from _up_to(2, worlds(FEW, 0, ()), worlds(FEW, 1, ONE_OF))
    yield from (world for world in _up_to(3, worlds(FEWER, 0, ()), worlds(FEWER, 1, IN_FLIGHT)) if len(world.seats) == 3)


def _overtaking() -> Iterator[World]:
    """A remediation is on record as done, its replica may be there still, and another replica failed, or its remediation was begun."""
    intents = (None, Remediation("cp-2", SOON), Remediation("gone", SOON))
    for world in _up_to(4, worlds(MORE, 2, ("at the hook", "on its way to the hook", "marked", "vanishing"))):
        for intent in intents:
            yield replace(world, changes={"remediating": Remediation("cp-1", LATER), "remediation_intended": intent})


def _around(circumstances: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> Iterator[World]:
    for world in [world for world in _rows_of_three() if world.max_surge or any(role.startswith("old") for _, role in world.seats)]:
        yield from (replace(world, changes=changes) for changes in circumstances)
        yield from (replace(world, wanted=changes) for changes in wanted)
        if circumstances:
            yield from (replace(world, changes=changes, wanted={"etcd_managed": False}) for changes in EXTERNAL)


FAMILIES: Mapping[str, Callable[[], Iterator[World]]] = MappingProxyType(
    {
        "every ring, at rest": partial(worlds, ALL, 0, ()),
        "every ring of three, any member leading": _leaders,
        **{f"every ring, one {role}": partial(worlds, ALL, 1, (role,)) for role in IN_FLIGHT},
        "every ring of three, two of any update in place": lambda: _up_to(3, worlds(MORE, 2, (*UPDATES, "old", "at the hook", "marked"))),
        "every ring of four, one in any role": lambda: _up_to(4, worlds(MORE, 1, tuple(role for role in ONE_OF if role not in IN_FLIGHT))),
        "every ring of four, two things at once": lambda: _up_to(4, worlds(FEW, 2, IN_FLIGHT)),
        "every ring of three, three things at once": lambda: _up_to(3, worlds(("good", "unstarted", "none"), 3, (*IN_FLIGHT, "ill"))),
        "rings of five and six, two things at once": lambda: (world for world in worlds(FEWER, 2, IN_FLIGHT) if len(world.seats) > 4),
        "every ring of four, two marked by their owner": lambda: _up_to(4, worlds(MORE, 2, ("delete first", "old, delete first"))),
        "every ring of four, one remediation beside another": _overtaking,
        "the others old, one in any role": lambda: worlds(FEWER, 1, (*ROLES, *ORPHANS), "old"),
        "any circumstance": partial(_around, CIRCUMSTANCES, ()),
        "anything else asked for": partial(_around, (), WANTED),
    }
)
"""By name, in the order in which they are gone through."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One decision that the oracle objects to: a step that breaks an invariant, or none where one was safe, or none without a reason."""

    world: World
    decision: Decision
    invariant: str
    why: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.why}\n  in {self.world}\n  decided: {self.decision.step} ({self.decision.rule})"


NEEDLESS, SILENT = "no_needless_stall", "no_silent_stall"


def judge(world: World) -> Disagreement | None:
    """The first thing that the oracle has against the decision for `world`."""
    plane = world.control_plane()
    decision = decide(plane, NOW)
    if decision.step is not None:
        for objection in oracle.objections(plane, decision.step, NOW):
            return Disagreement(world, decision, objection.invariant, objection.why)
        return None
    if missed := oracle.missed(plane, NOW):
        return Disagreement(world, decision, NEEDLESS, f"it could {missed[0]}, and is held by: {_refusals(decision)}")
    if not decision.refusals and not oracle.is_converged(plane):
        return Disagreement(world, decision, SILENT, "something is left to do, and no check says why it is not done")
    return None


def _refusals(decision: Decision) -> str:
    return "; ".join(f"{check.name}: {check.evidence}" for check in decision.refusals) or "nothing"
