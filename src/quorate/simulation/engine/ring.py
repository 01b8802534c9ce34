"""An etcd ring as it really is: the committed members, which of them run and see each other, who leads, and what was lost for good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from quorate.simulation.engine.world import World

_ELECTION = (0.5, 2.5)  # seconds without a leader


@dataclass(slots=True)
class Member:
    """One committed member. `name` is empty until it has started for the first time."""

    id: int
    peer_url: str
    learner: bool
    name: str = ""


@dataclass(frozen=True, slots=True)
class RingState:
    """The ring at one instant, for whoever judges later what was true when."""

    at: float
    voters: frozenset[int]
    well: frozenset[int]  # voters that run and are connected to a majority
    unsettled: frozenset[int]  # learners and members that never started
    leader: int

    def survives_without(self, member: int) -> bool:
        """Whether this ring commits now, and still has its quorum once the member is gone."""
        left = self.voters - {member}
        return len(self.well) > len(self.voters) // 2 and len(self.well - {member}) > len(left) // 2


class NoQuorum(Exception):
    """The ring cannot commit, or cannot tell what is committed."""


class EtcdRing:
    """The members of one etcd cluster. `runs` tells of a member whether its process runs, `connected` whether its host reaches the others."""

    def __init__(self, world: World, random: Random, *, runs: Callable[[int], bool], connected: Callable[[int], bool]) -> None:
        self._world, self._random = world, random
        self._runs, self._connected = runs, connected
        self.id = random.getrandbits(63) | 1
        self.members: dict[int, Member] = {}
        self.removed: set[int] = set()
        self.alarms: set[tuple[int, str]] = set()
        self.leader = 0
        self.history: list[RingState] = []
        self._electing = False
        self.on_change: list[Callable[[], None]] = []

    # The truth.

    @property
    def voters(self) -> frozenset[int]:
        """Members that vote."""
        return frozenset(member.id for member in self.members.values() if not member.learner)

    @property
    def well(self) -> frozenset[int]:
        """Voters that run and see each other; the alone one counts only where it is the only one."""
        voters = self.voters
        running = frozenset(member for member in voters if self._runs(member) and self.members[member].name)
        return running if len(voters) == 1 else frozenset(member for member in running if self._connected(member))

    @property
    def has_quorum(self) -> bool:
        """Whether a majority of the voters runs and is connected."""
        return len(self.well) > len(self.voters) // 2

    def follows_leader(self, member: int) -> bool:
        """Whether a member runs and hears from a leader."""
        if not self.leader or not self._runs(member) or member not in self.members:
            return False
        return member in self.well or (self.members[member].learner and self._connected(member))

    # What members do. Each raises NoQuorum where no majority confirms it.

    def found(self, name: str, peer_url: str) -> Member:
        """Start a new ring with one member."""
        member = Member(self._new_id(), peer_url, learner=False, name=name)
        self.members[member.id] = member
        return member

    def add_learner(self, peer_url: str) -> Member:
        """Commit a new learner; etcd has room for one at a time."""
        self._commit()
        if any(member.learner for member in self.members.values()):
            raise NoQuorum("too many learner members in cluster")
        member = Member(self._new_id(), peer_url, learner=True)
        self.members[member.id] = member
        self.refresh()
        return member

    def start(self, member: int, name: str) -> None:
        """A member has started for the first time and published its name."""
        self.members[member].name = name
        self.refresh()

    def promote(self, member: int) -> None:
        """Let a learner vote."""
        self._commit()
        if not self.follows_leader(member):
            raise NoQuorum("can only promote a learner member which is in sync with leader")
        self.members[member].learner = False
        self.refresh()

    def remove(self, member: int) -> None:
        """Commit the removal of a member, whose process then stops and whose alarms stay. Without etcd's own strict check: a majority alone is asked for."""
        self._commit()
        del self.members[member]
        self.removed.add(member)
        self.refresh()

    def move_leader(self, successor: int) -> None:
        """Hand leadership to another voter."""
        if successor not in self.well:
            raise NoQuorum("the successor cannot be reached")
        self.leader = successor
        self.refresh()

    def refresh(self) -> None:
        """Something that the ring depends on has changed: take leadership from who cannot hold it, and elect."""
        if self.leader and (self.leader not in self.well or not self.has_quorum):
            self.leader = 0
        if not self.leader and self.has_quorum and not self._electing:
            self._electing = True
            self._world.after(self._random.uniform(*_ELECTION), self._elect)
        unsettled = frozenset(member.id for member in self.members.values() if member.learner or not member.name)
        state = RingState(self._world.time(), self.voters, self.well, unsettled, self.leader)
        if not self.history or replace(self.history[-1], at=state.at) != state:
            self.history.append(state)
        for callback in self.on_change:
            callback()

    def states_since(self, moment: float) -> list[RingState]:
        """The states that the ring had at or after a moment, and the one just before it."""
        first = next((index for index in range(len(self.history) - 1, -1, -1) if self.history[index].at < moment), 0)
        return self.history[first:]

    def confirm(self, member: int) -> None:
        """A linearizable question through a member: the majority must confirm it."""
        if not self.follows_leader(member):
            raise NoQuorum("no leader")

    def _commit(self) -> None:
        if not self.leader or not self.has_quorum:
            raise NoQuorum("request timed out")

    def _elect(self) -> None:
        self._electing = False
        if not self.leader and self.has_quorum:
            self.leader = self._random.choice(sorted(self.well))
        self.refresh()

    def _new_id(self) -> int:
        return self._random.getrandbits(63) | 1
