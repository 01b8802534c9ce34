"""Builders of control planes in plain words, handed to the tests as one fixture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.state import ControlPlane, Desired, Replica
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version

COMPONENTS = ("APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy")
LETTERS = {"g": Health.GOOD, "b": Health.BAD, "a": Health.BAD, "u": Health.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Build:
    """Makes values: three good replicas at noon unless told otherwise. Replica `cp-N` has member N, counted from 1."""

    noon: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def ring(self, letters: str) -> Ring:
        """One member a letter: g, b, u by health; a: well but for an alarm; capital: a learner; - : a member that never started."""
        return Ring(tuple(self._member(number, letter) for number, letter in enumerate(letters, start=1)), leader=1 if letters else None)

    def _member(self, number: int, letter: str) -> Member:
        health = LETTERS.get(letter.lower(), Health.GOOD)  # a member that never started may look well: it must not be believed
        return Member(number, "" if letter == "-" else f"cp-{number}", health, learner=letter.isupper(), only_alarmed=letter == "a")

    def findings(self, health: Health = Health.GOOD) -> tuple[tuple[str, Finding], ...]:
        """All components in one state of health."""
        return tuple((name, Finding(health, "Seen", f"is {health.value}")) for name in COMPONENTS)

    def replica(self, number: int, **changes: Any) -> Replica:
        """A good replica, the older the lower its number."""
        good = Replica(
            name=f"cp-{number}",
            version="v1.34.4",
            created=self.noon - timedelta(hours=10 - number),
            member=number,
            node=f"cp-{number}",
            component_findings=self.findings(),
            member_findings=(("EtcdMemberHealthy", Finding(Health.GOOD, "Seen", "answers")),),
        )
        return replace(good, **changes)

    def leaving(self, number: int, *, minutes: int = 5, **changes: Any) -> Replica:
        """A good replica that somebody deleted and that waits at our hook."""
        return self.replica(number, **{"deleting_since": self.noon - timedelta(minutes=minutes), "waits_at_hook": True, **changes})

    def vanishing(self, number: int, **changes: Any) -> Replica:
        """A deleted replica that our hook no longer holds."""
        return self.leaving(number, **{"holds_hook": False, "waits_at_hook": False, **changes})

    def joining(self, number: int, **changes: Any) -> Replica:
        """A replica without a Node and, proven, without a member."""
        return self.replica(number, **{"node": None, "member": Absent(), "component_findings": (), "member_findings": (), **changes})

    def ill(self, number: int, health: Health = Health.BAD, **changes: Any) -> Replica:
        """A replica with components in this state of health."""
        return self.replica(number, **{"component_findings": self.findings(health), **changes})

    def desired(self, replicas: int = 3, **changes: Any) -> Desired:
        """So many replicas, of v1.34.4."""
        return replace(Desired(replicas, Version.parse("v1.34.4")), **changes)

    def control_plane(
        self, *replicas: Replica, desired: int | Desired = 3, ring: str | Ring | Unknown | None = None, **changes: Any
    ) -> ControlPlane:
        """An initialized control plane of exactly these replicas; its ring is of their members, all good, unless given."""
        members = tuple(
            Member(replica.member, replica.name, Health.GOOD)
            for replica in sorted(replicas, key=lambda r: r.name)
            if isinstance(replica.member, int)
        )
        value = ControlPlane(
            name="kcp",
            desired=self.desired(desired) if isinstance(desired, int) else desired,
            replicas=replicas,
            ring=Ring(members, leader=1) if ring is None else self.ring(ring) if isinstance(ring, str) else ring,
            initialized=True,
            workload=Finding(Health.GOOD, "Connected", "answers"),
            endpoint="10.0.0.1:6443",
        )
        return replace(value, **changes)

    def three(self, **changes: Any) -> ControlPlane:
        """Three good replicas, as desired."""
        return self.control_plane(self.replica(1), self.replica(2), self.replica(3), **changes)


@pytest.fixture(scope="session")
def build() -> Build:
    """The builders."""
    return Build()
