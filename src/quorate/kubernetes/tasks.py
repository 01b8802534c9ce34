"""Two helpers for structured concurrency that asyncio lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


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
