"""Virtual time for the tests of the controller runtime: nothing waits, every delay is exact, and a deadlock is an error at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from random import Random

import pytest

_ON_REAL_SOCKETS = {"test_webhook.py", "test_health_server.py", "test_signals.py"}


class _NullSelector(selectors.SelectSelector):
    """Never sees any I/O; instead of waiting it moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: no task can run, and no timer is set")
        self.now += max(0.0, timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which sleeping takes no time."""

    def __init__(self) -> None:
        self._null = _NullSelector()
        super().__init__(self._null)

    def time(self) -> float:
        return self._null.now


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:  # noqa: ARG001
    return {"real": asyncio.new_event_loop} if item.path.name in _ON_REAL_SOCKETS else {"virtual": VirtualTimeLoop}


@pytest.fixture
def random() -> Random:
    return Random(1)
