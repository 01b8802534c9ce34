"""An external etcd, judged by the API server's own word."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from quorate.core.health import Finding, Health
from quorate.kubernetes.errors import ConnectionFailed, Forbidden, NotFound, ServerError, Timeout
from quorate.workload import external_etcd
from quorate.workload.external_etcd import external_etcd_health


@dataclass
class Server:
    """An API server with one answer."""

    error: Exception | None = None
    hangs: bool = False

    async def get_raw(self, path: str) -> bytes:
        assert path == "/readyz/etcd"
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return b"ok"


async def test_an_etcd_that_the_api_server_reaches_is_healthy() -> None:
    assert await external_etcd_health(Server()) == Finding(Health.GOOD, "Healthy")


async def test_an_etcd_that_the_api_server_does_not_reach_is_not() -> None:
    finding = await external_etcd_health(Server(ServerError("get /readyz/etcd: HTTP 500", code=500)))
    assert (finding.health, finding.reason) == (Health.BAD, "NotHealthy")
    assert finding.message == "the API server does not reach its etcd: get /readyz/etcd: HTTP 500"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotFound("get /readyz/etcd: HTTP 404"), "the API server has no /readyz/etcd to ask"),
        (Timeout("deadline"), "the API server gave no answer about its etcd: deadline"),
        (Forbidden("not allowed"), "the API server could not be asked about its etcd: not allowed"),
        (ConnectionFailed("refused"), "the API server could not be asked about its etcd: refused"),
        (OSError(), "the API server could not be asked about its etcd: OSError"),
    ],
)
async def test_without_its_word_nothing_is_known(error: Exception, told: str) -> None:
    assert await external_etcd_health(Server(error)) == Finding(Health.UNKNOWN, "InspectionFailed", told)


async def test_an_api_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_etcd, "TIMEOUT", 0.01)
    assert (await external_etcd_health(Server(hangs=True))).health is Health.UNKNOWN
