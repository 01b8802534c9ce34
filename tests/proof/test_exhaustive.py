"""Every small control plane there is: the oracle agrees with each decision, and finds no safe step where none was taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from quorate.core.machines.decide import decide
from quorate.core.machines.steps import CreateReplica, DeleteReplica, ReleaseHook, Remediate, RemoveMember, RemoveOrphan
from tests.proof.families import FAMILIES, Disagreement, judge
from tests.proof.worlds import NOW

SHOWN = 12  # kinds of disagreement in a message


def told(disagreements: list[Disagreement]) -> str:
    """The smallest world of each kind of disagreement."""
    kinds: dict[tuple[str, type], list[Disagreement]] = {}
    for found in disagreements:
        kinds.setdefault((found.invariant, type(found.decision.step)), []).append(found)
    smallest = [(len(of_kind), min(of_kind, key=lambda found: len(str(found.world)))) for of_kind in kinds.values()]
    return "\n".join(f"{count} such states:\n{found}" for count, found in smallest[:SHOWN])


@pytest.mark.timeout(300)  # the largest family takes 15 s of an idle core
@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_agrees_with_the_decision_in_every_state(family: str, record_property: Callable[[str, object], None]) -> None:
    states, disagreements = 0, []
    for world in FAMILIES[family]():
        states += 1
        if (found := judge(world)) is not None:
            disagreements.append(found)
    record_property("states", states)
    assert states
    assert not disagreements, told(disagreements)


def test_every_kind_of_step_is_decided_somewhere_among_five_and_six_seats_too() -> None:
    worlds = FAMILIES["rings of five and six, two things at once"]()
    decided = Counter(type(decide(world.control_plane(), NOW).step) for world in worlds)
    assert all(decided[step] >= 10 for step in (CreateReplica, DeleteReplica, RemoveMember, ReleaseHook, RemoveOrphan, Remediate)), decided
