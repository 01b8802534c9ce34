"""Virtual time for the tests of the controller runtime: nothing waits, every delay is exact, and a deadlock is an error at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

import pytest

from quorate.simulation.engine.clock import VirtualTimeLoop

_ON_REAL_SOCKETS = {"test_webhook.py", "test_health_server.py", "test_signals.py"}


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:  # noqa: ARG001
    return {"real": asyncio.new_event_loop} if item.path.name in _ON_REAL_SOCKETS else {"virtual": VirtualTimeLoop}


@pytest.fixture
def random() -> Random:
    return Random(1)
