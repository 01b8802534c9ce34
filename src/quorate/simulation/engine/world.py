"""What everything in a simulated world shares: its time, its randomness, its management cluster, and the record of what happened."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.clock import running_loop
from quorate.simulation.engine.objects import MANAGEMENT_KINDS, Key

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When every world begins."""

NAMESPACE = "default"

_LEAST_DELAY = 0.001  # seconds; a rounding error of a delay would otherwise never let time pass
_REMEMBERED = 2000  # lines of the trace kept for whoever has to read what went wrong


class Trace:
    """What happened, line by line: hashed whole, so that two runs can be compared, and kept as far as a reader needs it."""

    def __init__(self, clock: Callable[[], float], echo: Callable[[str], None] | None = None) -> None:
        self._clock, self._echo = clock, echo
        self._hash = hashlib.blake2b(digest_size=8)
        self.lines: deque[str] = deque(maxlen=_REMEMBERED)
        self.count = 0

    def add(self, who: str, what: str) -> None:
        """Something happened now."""
        line = f"{self._clock():10.3f} {who}: {what}"
        self._hash.update(line.encode())
        self.lines.append(line)
        self.count += 1
        if self._echo is not None:
            self._echo(line)

    @property
    def digest(self) -> str:
        """The same for the same history."""
        return self._hash.hexdigest()


class World:
    """The ground that models, faults and processes stand on. Must be made inside a running event loop: its time is the loop's."""

    def __init__(self, seed: int, *, echo: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.loop = running_loop()
        self.trace = Trace(self.loop.time, echo)
        self.management = ApiServer(MANAGEMENT_KINDS, self.now, self.random("uids"))

    def random(self, purpose: str) -> Random:
        """Randomness for one purpose, so that a draw more in one place does not change all others."""
        return randomness(self.seed, purpose)

    def now(self) -> datetime:
        """The true time."""
        return EPOCH + timedelta(seconds=self.loop.time())

    def time(self) -> float:
        """Seconds since the world began."""
        return self.loop.time()

    def after(self, seconds: float, act: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Have `act` called in so many seconds, by nobody: whatever becomes of the program that is running now."""
        return self.loop.call_later(seconds, act, *args, context=Context())


def randomness(seed: int, purpose: str) -> Random:
    """The randomness that worlds of this seed have for a purpose."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 (a simulation, not a secret)


class Worker:
    """A controller of a model: it reconciles a key a moment after it was poked. The call is one instant; what takes time is poked again.

    `reconcile` returns after how many seconds it wants to be called again; None: not before something changes.
    """

    def __init__(
        self, world: World, name: str, reconcile: Callable[[Key], float | None], *, delay: tuple[float, float] = (0.01, 0.1)
    ) -> None:
        self._world, self._reconcile, self._delay = world, reconcile, delay
        self._random = world.random(f"worker {name}")
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self.stopped = False

    def poke(self, key: Key, seconds: float | None = None) -> None:
        """Have a key looked at soon, or in so many seconds; the earlier of two counts."""
        when = self._world.time() + (self._random.uniform(*self._delay) if seconds is None else max(seconds, _LEAST_DELAY))
        pending = self._timers.get(key)
        if pending is not None:
            if pending.when() <= when:
                return
            pending.cancel()
        self._timers[key] = self._world.loop.call_at(when, self._run, key, context=Context())

    def _run(self, key: Key) -> None:
        del self._timers[key]
        again = 1.0 if self.stopped else self._reconcile(key)
        if again is not None:
            self.poke(key, again)
