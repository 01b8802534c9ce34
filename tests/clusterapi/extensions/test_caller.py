"""The call of an extension, against a server of HTTPS: whom it trusts, what it sends, and what it takes from a hostile one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from quorate.clusterapi.extensions import caller
from quorate.clusterapi.extensions.caller import CallFailed, HttpsCaller
from quorate.clusterapi.extensions.registry import Handler
from quorate.pki import KeyAlgorithm, generate_ca, issue_client
from tests.https import Handle, served

NOW = datetime.now(UTC)
CA = generate_ca(KeyAlgorithm.ECDSA_P256, now=NOW, days=1, common_name="extensions")


def handler(port: int, ca: bytes = CA.certificate, timeout: int = 5) -> Handler:
    return Handler("can.ext", f"https://127.0.0.1:{port}/hooks/can", ca, timeout, ignores_failure=False)


@asynccontextmanager
async def extension(handle: Handle, *, wants_certificates: bool = False) -> AsyncIterator[int]:
    async with served(CA, handle, wants_certificates=wants_certificates) as port:
        yield port


async def test_a_call_is_a_post_of_json_with_the_deadline_in_it() -> None:
    seen: list[tuple[str, str, str, bytes]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request.method, request.path_qs, request.headers["Content-Type"], await request.read()))
        return web.Response(body=b"answer")

    async with extension(handle) as port:
        assert await HttpsCaller().call(handler(port), b"question") == b"answer"
    assert seen == [("POST", "/hooks/can?timeout=5s", "application/json", b"question")]


async def test_only_the_ca_of_the_extension_is_trusted() -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=b"answer")

    other = generate_ca(KeyAlgorithm.ECDSA_P256, now=NOW, days=1, common_name="others")
    async with extension(handle) as port:
        with pytest.raises(CallFailed, match="certificate") as first:
            await HttpsCaller().call(handler(port, other.certificate), b"")
        with pytest.raises(CallFailed) as second:
            await HttpsCaller().call(handler(port, other.certificate), b"")
        assert str(first.value) == str(second.value)  # or each would be news, and a write
        with pytest.raises(CallFailed, match="PEM"):
            await HttpsCaller().call(handler(port, b"nonsense"), b"")


async def test_the_client_certificate_is_read_for_each_call(tmp_path: Path) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=b"answer")

    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    calls = HttpsCaller(str(certificate), str(key))
    async with extension(handle, wants_certificates=True) as port:
        with pytest.raises(CallFailed, match=r"tls\.crt"):
            await calls.call(handler(port), b"")
        pair = issue_client(
            CA,
            common_name="quorate",
            algorithm=KeyAlgorithm.ECDSA_P256,
            not_before=NOW - timedelta(hours=1),
            not_after=NOW + timedelta(hours=1),
        )
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        assert await calls.call(handler(port), b"") == b"answer"
        with pytest.raises(CallFailed):
            await HttpsCaller().call(handler(port), b"")


async def test_a_redirect_is_not_followed_and_an_error_is_told_shortened() -> None:
    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPFound("https://169.254.169.254/")

    async def fail(_: web.Request) -> web.Response:
        return web.Response(status=500, body=b"\x1b[2Jno " + b"x" * 10_000)

    async with extension(redirect) as port:
        with pytest.raises(CallFailed, match="HTTP 302"):
            await HttpsCaller().call(handler(port), b"")
    async with extension(fail) as port:
        with pytest.raises(CallFailed, match="HTTP 500") as failure:
            await HttpsCaller().call(handler(port), b"")
        assert len(str(failure.value)) < 600
        assert str(failure.value).isprintable()


async def test_an_answer_without_end_is_read_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "LARGEST", 1 << 20)

    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(64):
            await answer.write(b"x" * (1 << 16))
            await asyncio.sleep(0)
        return answer

    async with extension(handle) as port:
        with pytest.raises(CallFailed, match="more than 1 MiB"):
            await HttpsCaller().call(handler(port), b"")


async def test_a_call_ends_at_its_deadline_however_slowly_the_answer_comes() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x")
            await asyncio.sleep(0.01)

    async with extension(handle) as port:
        with pytest.raises(CallFailed, match="no answer within 1 s"):
            await HttpsCaller().call(handler(port, timeout=1), b"")


async def test_nobody_there_is_told_as_that() -> None:
    with pytest.raises(CallFailed, match=r"(?i)connect"):
        await HttpsCaller().call(handler(1), b"")
