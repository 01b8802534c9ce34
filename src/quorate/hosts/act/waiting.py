"""Waiting for something to become so, by asking for it: with a deadline, a pause of at most a second between two questions, and words for what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quorate.hosts.act.failures import EXPECTED, StepFailed

Report = Callable[[str, str], None]
"""Takes the name of a host and what is done there, or waited for."""
Ask = Callable[[], Awaitable[str]]
"""Says why something is not so yet; an empty text says that it is. One of failures.EXPECTED that it raises is a reason too: what restarts does not answer."""

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
"""Seconds between two questions: they double from the first to the longest, so that what takes 100 ms is not waited for longer."""
ANSWER_DEADLINE = 10.0
"""Seconds for one answer. What hangs is asked again."""


class Waits:
    """Health gates of the steps. `monotonic` gives seconds, `sleep` takes them."""

    def __init__(self, report: Report, monotonic: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> None:
        self._report = report
        self._monotonic = monotonic
        self._sleep = sleep

    async def until(self, host: str, what: str, ask: Ask, *, deadline: float, remedy: str = "") -> None:
        """Come back as soon as `ask` has nothing against it. `what` completes the sentence "waiting for ...", and every new reason is reported.

        Raises StepFailed with the last reason after `deadline` seconds, and whatever `ask` raises that is not expected.
        """
        end = self._monotonic() + deadline
        pause, told = FIRST_PAUSE, ""
        while reason := await self._answer(ask, end):
            if reason != told:
                self._report(host, f"waiting for {what}: {reason}")
                told = reason
            left = end - self._monotonic()
            if left <= 0:
                raise StepFailed(host, f"{what} did not come about within {deadline:g} s: {reason}", remedy)
            await self._sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def pause(self, seconds: float) -> None:
        """Let this much time pass: between two looks at something that goes on by itself."""
        await self._sleep(seconds)

    async def _answer(self, ask: Ask, end: float) -> str:
        timeout = max(FIRST_PAUSE, min(ANSWER_DEADLINE, end - self._monotonic()))
        try:
            async with asyncio.timeout(timeout):
                return await ask()
        except TimeoutError:
            return f"no answer within {timeout:g} s"
        except EXPECTED as error:
            return str(error) or type(error).__name__
