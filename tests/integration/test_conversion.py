"""Conversions of KubeadmControlPlanes and their templates: for objects made at random, the same as those of upstream's program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.differential import upstream
from tests.differential.conversions import OLD, compare

if TYPE_CHECKING:
    from tests.differential.upstream import Upstream
    from tests.integration.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

OBJECTS = 400  # `python tests/differential conversions` makes more


async def test_conversions_are_upstreams(stage: Stage) -> None:
    manager = await stage.start_upstream()
    async with upstream.at(manager.webhook_port, stage.stack.folder.pki / "ca.crt") as program:

        async def serves() -> bool:
            return await _serves(program)

        await stage.until("upstream's program serves conversions", serves)
        result = await compare(program, count=OBJECTS, seed=1)
    assert result.differences == []
    assert min(result.compared.values()) > OBJECTS // 4
    assert max(result.refused[sort] / count for sort, count in result.compared.items()) < 0.3


async def _serves(program: Upstream) -> bool:
    try:
        await program.convert([], OLD)
    except aiohttp.ClientConnectionError:
        return False
    return True
