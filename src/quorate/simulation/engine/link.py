"""The way from one process to one API server, with what may happen on it: latency, lag of watches, loss before or after the effect, a cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from quorate.kubernetes.errors import ConnectionFailed
from quorate.simulation.engine.watching import Watch


class Fate(Enum):
    """What becomes of one request."""

    ANSWERED = "answered"
    LOST = "lost"  # it never arrives
    UNANSWERED = "unanswered"  # it takes effect, and its answer is lost
    LATE = "late"  # it takes effect long after whoever sent it has given up
    FATAL = "fatal"  # it takes effect, and the process that sent it dies before the answer


@dataclass(eq=False)
class Link:
    """One way. `fate` decides about each request that could change something; `fatal` ends the process it belongs to."""

    name: str
    random: Random
    fate: Callable[[str], Fate] = lambda _: Fate.ANSWERED
    fatal: Callable[[], None] = lambda: None
    latency: tuple[float, float] = (0.001, 0.008)  # seconds, one way
    lag: float = 0.0  # seconds more until an event of a watch arrives
    cut: bool = False
    late: bool = False  # what takes effect at this instant was given up by its sender long ago
    watches: dict[Watch, str] = field(default_factory=dict)  # with the backend that each is served by

    def delay(self) -> float:
        """Seconds for one way."""
        return self.random.uniform(*self.latency)

    def event_delay(self) -> float:
        """Seconds until an event arrives."""
        return self.random.uniform(*self.latency) + self.lag

    def sever(self) -> None:
        """Cut it: nothing arrives any more, and half of the watches notice at once."""
        self.cut = True
        for watch in list(self.watches):
            if self.random.random() < 0.5:
                watch.stop(ConnectionFailed(f"{self.name}: connection reset"))
            else:
                watch.silence()

    def drop_watches(self) -> None:
        """Every watch breaks, as when a proxy restarts."""
        for watch in list(self.watches):
            watch.stop(ConnectionFailed(f"{self.name}: connection reset"))

    def lose_backend(self, backend: str) -> None:
        """Watches that this backend served break."""
        for watch, served_by in list(self.watches.items()):
            if served_by == backend:
                watch.stop(ConnectionFailed(f"{self.name}: {backend} closed the connection"))
