"""Virtual time: an event loop on which nothing waits, every delay is exact, a deadlock is an error at once, and a program can be stopped for a while."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from typing import TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

program: ContextVar[str] = ContextVar("program", default="")
"""To which program of the simulated world a task belongs; those that it starts inherit it. Empty: to the world itself, which is never suspended."""


class Deadlock(RuntimeError):
    """No task can run, and no timer is set: everybody waits for somebody else."""


class _NullSelector(selectors.SelectSelector):
    """Never sees any I/O; instead of waiting it moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("no task can run, and no timer is set")
        if timeout > 0:
            self.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which sleeping takes no time, and on which there are no threads: what is sent to one is done at once, in its place.

    What runs on it is deterministic as long as it asks neither the real clock nor unseeded randomness.
    """

    def __init__(self) -> None:
        self._null = _NullSelector()
        self._held: dict[str, list[asyncio.Handle]] = {}  # what suspended programs would have done, in its order
        super().__init__(self._null)

    def time(self) -> float:
        """Seconds since the loop was made, in its own time."""
        return self._null.now

    def suspend(self, name: str) -> None:
        """Begin nothing more of a program, as SIGSTOP does; what is due meanwhile is done when it is resumed, all at once and in its order. Idempotent."""
        self._held.setdefault(name, [])

    def resume(self, name: str) -> None:
        """Let a program go on. Idempotent."""
        for handle in self._held.pop(name, ()):
            super().call_soon(_run, handle, context=Context())

    def call_soon(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> asyncio.Handle:
        """See asyncio."""
        if self._held:
            context = context if context is not None else copy_context()
            held = self._held.get(context.get(program, ""))
            if held is not None:
                held.append(asyncio.Handle(callback, args, self, context))
                return held[-1]
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        context = context if context is not None else copy_context()
        due: list[asyncio.TimerHandle] = []
        handle = super().call_at(when, self._fire, due, callback, args, context=context)
        due.append(handle)
        return handle

    def _fire(self, due: list[asyncio.TimerHandle], callback: Callable[[Unpack[Ts]], object], args: tuple[*Ts]) -> None:
        held = self._held.get(program.get())
        if held is not None:
            held.extend(due)
        else:
            callback(*args)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> asyncio.Future[T]:  # noqa: ARG002
        """Call `func` now; the future is done already."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 (it is the caller's, as from a thread)
            future.set_exception(error)
        return future


def _run(handle: asyncio.Handle) -> None:
    """What the loop itself does with a handle; one may have been cancelled by one before it."""
    if not handle.cancelled():
        handle._run()  # noqa: SLF001 (the loop's own side of a handle)


def running_loop() -> VirtualTimeLoop:
    """The loop that runs this. Raises TypeError where its time is not virtual."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError("a simulated world needs virtual time")
    return loop
