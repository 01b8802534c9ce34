"""What to do about the webhooks' certificates, decided from what is stored and what the API server was told. Pure.

A review fails when the API server does not trust what a replica presents. So a CA is told first, and signs once that has had time to arrive; what it replaces
stays trusted until every replica has had time to present what is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things last. `left` is the share of its life that a certificate has left when it is renewed.

    `arrival` is how long a CA that was published may take until every API server goes by it: they watch these objects, which takes them less than a second.
    `overlap` is how long a replica may take to present another leaf: it watches the Secret, and notices within three minutes that a watch is dead.
    """

    authority: timedelta = timedelta(days=3650)
    leaf: timedelta = timedelta(days=90)
    left: float = 1 / 3
    arrival: timedelta = timedelta(seconds=20)
    overlap: timedelta = timedelta(hours=1)

    def renewal(self, life: Life) -> datetime:
        """When a certificate with this life is to be renewed."""
        return life.ends - (life.ends - life.begins) * self.left


@dataclass(frozen=True, slots=True)
class Life:
    """When a certificate begins and ends to be valid, and when it was made."""

    begins: datetime
    ends: datetime
    made: datetime


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: its certificate, PEM."""

    certificate: bytes
    life: Life


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is presented: the names it serves, and which CA has signed it; None where it is none of those that are stored."""

    life: Life
    names: frozenset[str]
    signer: bytes | None


@dataclass(frozen=True, slots=True)
class State:
    """What is known. `authorities` are newest first, and the key of the first is stored. `told` is what each object tells the API server to trust."""

    authorities: tuple[Authority, ...] = ()
    leaf: Leaf | None = None
    told: tuple[frozenset[bytes], ...] = ()

    @property
    def foreign(self) -> frozenset[bytes]:
        """What the API server is told to trust, and is none of ours: whoever served before may do so still."""
        return frozenset[bytes]().union(*self.told) - {authority.certificate for authority in self.authorities}


class Step(Enum):
    """A change of what is stored."""

    MAKE_AUTHORITY = "make a CA"
    MAKE_LEAF = "make a certificate"
    FORGET_AUTHORITIES = "forget the CAs that nothing presented goes back to"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the API server is to be told to trust, at once, or nothing for as it is; the change of what is stored, if any; and when time alone would change
    the decision.
    """

    trusted: tuple[bytes, ...]
    step: Step | None = None
    wake_at: datetime | None = None


def decide(state: State, names: Iterable[str], now: datetime, policy: Policy) -> Decision:
    """What to do now. `names` are those that the leaf has to serve."""
    if not state.authorities:
        return Decision((), Step.MAKE_AUTHORITY)
    if now >= _next_authority(state, policy):
        return Decision(_trusted(state, now, policy), Step.MAKE_AUTHORITY)
    forget = _forget_at(state, policy)
    if forget is not None and now >= forget:  # before another leaf, which would put it off
        return Decision(_trusted(state, now, policy), Step.FORGET_AUTHORITIES)
    due = _leaf_due(state, frozenset(names), policy)
    if now >= due:
        return Decision(_trusted(state, now, policy), Step.MAKE_LEAF)
    moments = (due, forget, _next_authority(state, policy), _begun(state, policy))
    return Decision(_trusted(state, now, policy), None, min(moment for moment in moments if moment is not None and moment > now))


def _next_authority(state: State, policy: Policy) -> datetime:
    """When the newest CA is to be followed by another: not before it has signed, or it would never come to that."""
    newest = state.authorities[0]
    signed = state.leaf is not None and state.leaf.signer == newest.certificate
    return policy.renewal(newest.life) if signed else newest.life.ends


def _leaf_due(state: State, names: frozenset[str], policy: Policy) -> datetime:
    """When another leaf is to be made: as soon as it is of use, but not before it would be trusted, unless nothing that is trusted is lost."""
    newest, leaf = state.authorities[0], state.leaf
    useless = leaf is None or leaf.signer is None or not names <= leaf.names
    if useless and not state.foreign:
        return newest.life.made
    told = bool(state.told) and all(newest.certificate in each for each in state.told)
    trusted = newest.life.made + (policy.arrival if told else policy.overlap)
    if leaf is None or useless:
        return trusted
    wanted = newest.life.made if leaf.signer != newest.certificate else policy.renewal(leaf.life)
    return min(leaf.life.ends, max(wanted, trusted))


def _forget_at(state: State, policy: Policy) -> datetime | None:
    """When the CAs before the newest can go; None where the leaf still goes back to one, or there are none."""
    leaf = state.leaf
    if leaf is None or len(state.authorities) == 1 or leaf.signer != state.authorities[0].certificate:
        return None
    return max(leaf.life.made, state.authorities[0].life.made) + policy.overlap


def _trusted(state: State, now: datetime, policy: Policy) -> tuple[bytes, ...]:
    """Ours, newest first, and beside our first CA what was trusted before it: somebody may present what goes back to that."""
    ours = tuple(authority.certificate for authority in state.authorities if authority.life.ends > now)
    return ours + (tuple(sorted(state.foreign)) if now < _begun(state, policy) else ())


def _begun(state: State, policy: Policy) -> datetime:
    """When nobody presents any more what was there before our first CA: it signs within an overlap, and what it signed is presented within another."""
    return state.authorities[-1].life.made + 2 * policy.overlap
