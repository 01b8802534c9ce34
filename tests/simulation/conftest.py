"""Virtual time for everything that is simulated, and an API server with nothing in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

import pytest

from quorate.kubernetes.client import Client
from quorate.kubernetes.config import RestConfig
from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.clock import VirtualTimeLoop
from quorate.simulation.engine.link import Link
from quorate.simulation.engine.objects import MANAGEMENT_KINDS
from quorate.simulation.engine.transport import SimulatedTransport
from quorate.simulation.engine.world import EPOCH


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:  # noqa: ARG001
    return {"virtual": VirtualTimeLoop}


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(MANAGEMENT_KINDS, lambda: EPOCH, Random(1))


@pytest.fixture
def link() -> Link:
    return Link("test", Random(2))


@pytest.fixture
def client(server: ApiServer, link: Link) -> Client:
    """The production client, on the simulated transport."""
    return Client(RestConfig("https://management.test"), SimulatedTransport(server, link, "tester", timeout=30.0))
