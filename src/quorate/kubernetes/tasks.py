"""Helpers for structured concurrency that asyncio lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


class CancelledElsewhere(Exception):
    """Something that a task waited for was cancelled by others, and nobody had asked the task itself to end."""


class EndedEarly(Exception):
    """A task ended that was to run as long as the process."""


@contextmanager
def cancelled_by_request_alone() -> Iterator[None]:
    """Turn a CancelledError that nobody asked this task for into CancelledElsewhere.

    aiohttp, for one, lets requests share the resolution of a name, and cancels it for all of them when one session is closed. A task that took that for its
    own cancellation would end without a word.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CancelledElsewhere("what it waited for was cancelled by others") from error


async def lasting(name: str, work: Coroutine[Any, Any, object]) -> None:
    """Run `work` until it is cancelled. Raises EndedEarly where it ends otherwise, and what it raises."""
    try:
        with cancelled_by_request_alone():
            await work
    except CancelledElsewhere as error:
        raise EndedEarly(f"{name} ended early: {error}") from error
    raise EndedEarly(f"{name} ended early")


async def run_unless(stopping: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Run `work` to its end and return True, or cancel it as soon as `stopping` is set and return False. What `work` raises is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            watcher = group.create_task(_cancel_when(stopping, task))
            await asyncio.wait((task,))
            watcher.cancel()
    except BaseExceptionGroup as errors:
        raise sole(errors) from None
    return not task.cancelled()


def sole(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception inside `errors`, through nested groups, or the group itself where there are several."""
    if len(errors.exceptions) > 1:
        return errors
    inner = errors.exceptions[0]
    return sole(inner) if isinstance(inner, BaseExceptionGroup) else inner


async def _cancel_when(stopping: asyncio.Event, task: asyncio.Task[object]) -> None:
    await stopping.wait()
    task.cancel()
