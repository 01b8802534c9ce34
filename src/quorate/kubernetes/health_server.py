"""The two plain HTTP servers a manager offers: health probes, and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from quorate.kubernetes.webserver import Running, parse_address

HealthCheck = Callable[[], str]  # "" while all is well, else what is wrong, in words


class HealthServer:
    """Answers `/healthz` and `/readyz` on `address` (upstream's flag `health-addr`) with 200 `ok`, or 500 and a line for each check that fails.

    `live` and `ready` name the checks. They are called on every probe and must not block.
    """

    def __init__(self, address: str, *, live: Mapping[str, HealthCheck], ready: Mapping[str, HealthCheck]) -> None:
        parse_address(address)
        self.state = Running()
        self._address = address
        self._checks = {"/healthz": dict(live), "/readyz": dict(ready)}

    async def run(self) -> None:
        """Serve until cancelled."""
        application = web.Application()
        application.add_routes([web.get(path, self._answer) for path in self._checks])
        async with self.state.listening(application, self._address):
            await asyncio.Event().wait()

    async def _answer(self, request: web.Request) -> web.Response:
        failures = {name: failure for name, check in self._checks[request.path].items() if (failure := check())}
        if not failures:
            return web.Response(text="ok")
        return web.Response(status=500, text="".join(f"[-]{name} failed: {failure}\n" for name, failure in failures.items()))


class DiagnosticsServer:
    """Answers `/metrics` on `address` (upstream's flag `diagnostics-address`) with everything in `registry`.

    Upstream protects this with TLS and the API server's own authorization unless told otherwise. That is not built yet, and serving metrics unprotected is
    not what the flag's default promises: without `insecure`, ValueError.
    """

    def __init__(self, address: str, registry: CollectorRegistry, *, insecure: bool) -> None:
        if not insecure:
            raise ValueError(
                f"metrics on {address} can only be served without TLS and authorization so far: pass --insecure-diagnostics to agree to that"
            )
        parse_address(address)
        self.state = Running()
        self._address = address
        self._registry = registry

    async def run(self) -> None:
        """Serve until cancelled."""
        application = web.Application()
        application.add_routes([web.get("/metrics", self._metrics)])
        async with self.state.listening(application, self._address):
            await asyncio.Event().wait()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
