"""Decades of webhook certificates in virtual time: with API servers that learn late and replicas that present late, no review ever fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from quorate.clusterapi.webhook_certificates.state import Authority, Decision, Leaf, Life, Policy, State, Step, decide

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = frozenset({"webhooks.system.svc"})
POLICY = Policy()
SKEW = timedelta(minutes=5)
PLACES = 4


def life(made: datetime, lasts: timedelta) -> Life:
    return Life(made - SKEW, made + lasts, made)


def authority(name: bytes, made: datetime) -> Authority:
    return Authority(name, life(made, POLICY.authority))


def leaf(signer: bytes | None, made: datetime, names: frozenset[str] = NAMES) -> Leaf:
    return Leaf(life(made, POLICY.leaf), names, signer)


def told(*certificates: bytes) -> tuple[frozenset[bytes], ...]:
    return (frozenset(certificates),) * PLACES


def decided(state: State, now: datetime) -> Decision:
    return decide(state, NAMES, now, POLICY)


def test_at_first_a_ca_is_made_and_then_at_once_what_is_presented() -> None:
    assert decided(State(told=told()), START) == Decision((), Step.MAKE_AUTHORITY)
    made = State((authority(b"one", START),), None, told())
    assert decided(made, START) == Decision((b"one",), Step.MAKE_LEAF)


def test_at_rest_it_wakes_when_a_third_of_the_leaf_is_left() -> None:
    state = State((authority(b"one", START),), leaf(b"one", START), told(b"one"))
    later = START + timedelta(days=1)
    decision = decided(state, later)
    assert (decision.step, decision.trusted) == (None, (b"one",))
    assert decision.wake_at == state.leaf.life.ends - (POLICY.leaf + SKEW) * POLICY.left  # type: ignore[union-attr]
    assert decided(state, decision.wake_at).step is Step.MAKE_LEAF


def test_a_ca_with_a_third_of_its_life_left_is_followed_by_another_that_is_told_before_it_signs() -> None:
    at = START + timedelta(days=2500)
    old = State((authority(b"one", START),), leaf(b"one", at - timedelta(days=1)), told(b"one"))
    assert decided(old, at).step is Step.MAKE_AUTHORITY
    both = replace(old, authorities=(authority(b"two", at), *old.authorities))
    waits = decided(both, at)
    assert (waits.trusted, waits.step, waits.wake_at) == ((b"two", b"one"), None, at + POLICY.overlap)
    published = decided(replace(both, told=told(b"one", b"two")), at)
    assert (published.step, published.wake_at) == (None, at + POLICY.arrival)
    assert decided(replace(both, told=told(b"one", b"two")), at + POLICY.arrival).step is Step.MAKE_LEAF
    signed = replace(both, told=told(b"one", b"two"), leaf=leaf(b"two", at + POLICY.arrival))
    assert decided(signed, at + POLICY.overlap).trusted == (b"two", b"one")
    assert decided(signed, at + POLICY.arrival + POLICY.overlap).step is Step.FORGET_AUTHORITIES


def test_a_ca_that_has_not_signed_yet_is_not_followed_by_another() -> None:
    at = START + timedelta(days=2500)
    state = State((authority(b"two", START), authority(b"one", START)), leaf(b"one", at), told(b"one", b"two"))
    assert decided(state, at).step is Step.MAKE_LEAF


def test_a_leaf_that_is_due_does_not_put_off_that_old_cas_are_forgotten() -> None:
    made = START + timedelta(days=1)
    state = State((authority(b"two", START), authority(b"one", START)), leaf(b"two", made), told(b"one", b"two"))
    assert decided(state, made + POLICY.leaf - timedelta(days=1)).step is Step.FORGET_AUTHORITIES


def test_a_ca_that_one_object_does_not_name_waits_for_the_overlap() -> None:
    at = START + timedelta(days=1)
    state = State((authority(b"two", at), authority(b"one", START)), leaf(b"one", START), (*told(b"two")[1:], frozenset({b"one"})))
    assert decided(state, at + POLICY.arrival).step is None
    assert decided(state, at + POLICY.overlap).step is Step.MAKE_LEAF


def test_a_leaf_that_ends_is_replaced_even_if_the_new_ca_has_not_been_told() -> None:
    at = START + POLICY.leaf
    state = State((authority(b"two", at - timedelta(seconds=1)), authority(b"one", START)), leaf(b"one", START), told(b"one"))
    assert decided(state, at - timedelta(seconds=1)).step is None
    assert decided(state, at).step is Step.MAKE_LEAF


def test_after_the_secret_was_lost_what_was_trusted_before_stays_so_until_nobody_presents_it() -> None:
    lost = State((authority(b"two", START),), None, told(b"one"))
    decision = decided(lost, START)
    assert (decision.trusted, decision.step) == ((b"two", b"one"), None)
    both = replace(lost, told=told(b"one", b"two"))
    assert decided(both, START + POLICY.arrival).step is Step.MAKE_LEAF
    presented = replace(both, leaf=leaf(b"two", START + POLICY.arrival))
    assert decided(presented, START + 2 * POLICY.overlap - SKEW).trusted == (b"two", b"one")
    assert decided(presented, START + 2 * POLICY.overlap).trusted == (b"two",)


def test_a_leaf_for_other_names_is_of_no_use() -> None:
    state = State((authority(b"one", START),), leaf(b"one", START, frozenset({"elsewhere.svc"})), told(b"one"))
    assert decided(state, START).step is Step.MAKE_LEAF


@dataclass
class World:
    """API servers that go by what they are told at any time within `arrival`, and replicas that present what is stored at any time within `overlap`."""

    state: State = field(default_factory=lambda: State(told=told()))
    now: datetime = START
    made: int = 0
    steps: list[Step] = field(default_factory=list)
    trusted: list[tuple[datetime, frozenset[bytes]]] = field(default_factory=list)
    stored: list[tuple[datetime, Leaf]] = field(default_factory=list)

    def run(self, until: datetime) -> None:
        while self.now < until:
            self._look()
            self._check()

    def _look(self) -> None:
        decision = decided(self.state, self.now)
        if decision.trusted and set(self.state.told) != {frozenset(decision.trusted)}:
            self.state = replace(self.state, told=told(*decision.trusted))
            self.trusted.append((self.now, frozenset(decision.trusted)))  # and the watch tells of it
        elif decision.step:
            self.steps.append(decision.step)
            self.state = self._after(decision.step)
        else:
            assert decision.wake_at is not None
            assert decision.wake_at > self.now
            self.now = decision.wake_at

    def _after(self, step: Step) -> State:
        match step:
            case Step.MAKE_AUTHORITY:
                self.made += 1
                return replace(self.state, authorities=(authority(f"ca-{self.made}".encode(), self.now), *self.state.authorities))
            case Step.MAKE_LEAF:
                made = leaf(self.state.authorities[0].certificate, self.now)
                self.stored.append((self.now, made))
                return replace(self.state, leaf=made)
            case Step.FORGET_AUTHORITIES:
                return replace(self.state, authorities=self.state.authorities[:1])

    def _check(self) -> None:
        """Whatever some replica may still present is valid, and trusted by every API server whatever it has heard of yet."""
        if not self.stored or self.now < self.stored[0][0] + POLICY.overlap:  # the first are not in use before all have them
            return
        believed = list(possible(self.trusted, self.now, POLICY.arrival))
        for presented in possible(self.stored, self.now, POLICY.overlap):
            assert presented.life.begins <= self.now < presented.life.ends
            assert all(presented.signer in trusted for trusted in believed)


def possible(history: list[tuple[datetime, T]], now: datetime, late: timedelta) -> Iterator[T]:
    """What those may go by who hear of each change within `late`: whatever is as young as that, and the one before."""
    for at, value in reversed(history):
        yield value
        if at + late <= now:
            return


def test_no_review_fails_in_thirty_years() -> None:
    world = World()
    world.run(START + timedelta(days=30 * 365))
    assert world.made == 5  # one in six years and eight months
    assert world.steps.count(Step.MAKE_LEAF) > 30 * 365 // 61
    assert len(world.state.authorities) == 1


def test_no_review_fails_when_the_secret_is_lost() -> None:
    world = World()
    world.run(START + timedelta(days=30))
    world.state = replace(world.state, authorities=(), leaf=None)
    world.run(START + timedelta(days=400))
    assert world.made == 2


def test_a_ca_that_signed_as_soon_as_it_was_made_would_fail_reviews() -> None:
    """The world sees what it is there to see."""
    world = World()
    world.run(START + timedelta(days=30))
    world.state = replace(world.state, authorities=(authority(b"hasty", world.now), *world.state.authorities))
    world.stored.append((world.now, leaf(b"hasty", world.now)))
    with pytest.raises(AssertionError):
        world.run(world.now + timedelta(days=1))
