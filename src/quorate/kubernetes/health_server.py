"""The two small HTTP servers a manager offers: health probes, and metrics."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from quorate.kubernetes.authentication_filter import AuthenticationFilter
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


@dataclass(frozen=True, slots=True)
class Protection:
    """What stands between metrics and strangers."""

    tls: ssl.SSLContext
    authentication_filter: AuthenticationFilter


class DiagnosticsServer:
    """Answers `/metrics` on `address` (upstream's flag `diagnostics-address`) with everything in `registry`.

    With `protection` over TLS, and only to those whom the authentication_filter lets pass; without it over plain HTTP to everybody.
    """

    def __init__(self, address: str, registry: CollectorRegistry, protection: Protection | None) -> None:
        parse_address(address)
        self.state = Running()
        self._address = address
        self._registry = registry
        self._protection = protection

    async def run(self) -> None:
        """Serve until cancelled."""
        application = web.Application()
        application.add_routes([web.get("/metrics", self._metrics)])
        try:
            async with self.state.listening(application, self._address, self._protection.tls if self._protection else None):
                await asyncio.Event().wait()
        finally:
            if self._protection:
                await self._protection.authentication_filter.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._protection:
            answer = await self._protection.authentication_filter.judge(
                request.headers.get("Authorization", ""), request.method, request.path
            )
            if answer.status != web.HTTPOk.status_code:
                return web.Response(status=answer.status, text=answer.text)
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
