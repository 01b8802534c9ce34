"""Conversions and admission reviews of KubeadmControlPlanes, their scales and their templates: for what is made at random the same as upstream's program."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.differential import admissions, conversions, servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.differential.servers import Servers
    from tests.integration.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

OBJECTS, REVIEWS = 400, 600  # `make differential` makes more


@asynccontextmanager
async def both(stage: Stage) -> AsyncIterator[Servers]:
    """Upstream's program and quorate's in this test's cluster."""
    theirs, ours = await stage.start_upstream(servers.GATES), stage.start_webhooks(servers.GATES)
    async with servers.at(stage.client, theirs.webhook_port, ours.webhook_port, stage.stack.folder.pki / "ca.crt") as found:
        for server in (found.upstream, found.quorate):
            await servers.until_served(server)
        yield found


async def test_conversions_are_upstreams(stage: Stage) -> None:
    async with both(stage) as found:
        result = await conversions.compare(found, count=OBJECTS, seed=1)
    assert result.differences == []
    assert min(result.compared.values()) > OBJECTS // 4
    assert max(result.refused[sort] / count for sort, count in result.compared.items()) < 0.3


async def test_admissions_are_upstreams(stage: Stage) -> None:
    async with both(stage) as found:
        result = await admissions.compare(found, count=REVIEWS, seed=1)
    assert result.differences == []
    assert result.compared.total() > REVIEWS
    assert all(0.1 < result.allowed[sort] / count < 0.9 for sort, count in result.compared.items() if sort != "default")
