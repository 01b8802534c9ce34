"""The call of a hook: one POST over HTTPS, to whom the ExtensionConfig names and nobody else, with a deadline and a bound on what is read.

Source: cluster-api v1.14, internal/runtime/client. Each call has a connection of its own: there are a few in the life of a control plane, and so a renewed
client certificate is used from the next one on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import aiohttp

from quorate.clusterapi.extensions.registry import Handler
from quorate.core.text import printable
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.proxy import proxy_for
from quorate.kubernetes.transport import said
from quorate.tls import client_context

LARGEST = 8 << 20
"""Bytes of an answer: three patches of objects that have 1.5 MiB at most each, in base64."""
_SHOWN = 512  # characters of an answer that is an error
_CHUNK = 1 << 16


class CallFailed(Exception):
    """Nobody answered in time, or not as an extension does. The message says how."""


class Caller(Protocol):
    """What calls extensions."""

    async def call(self, handler: Handler, body: bytes) -> bytes:
        """The answer to one call. Raises CallFailed."""
        ...


class HttpsCaller:
    """Calls extensions over the network, with the client certificate and the key in these files where they are given (PEM, read for each call)."""

    def __init__(self, certificate_file: str = "", key_file: str = "", *, environment: Mapping[str, str] = os.environ) -> None:
        self._files = (certificate_file, key_file)
        self._environment = environment

    async def call(self, handler: Handler, body: bytes) -> bytes:
        """See Caller."""
        try:
            async with asyncio.timeout(handler.timeout):
                return await self._post(handler, body)
        except TimeoutError as error:
            raise CallFailed(f"no answer within {handler.timeout} s") from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise CallFailed(printable(said(error))) from error
        except (ConfigError, ValueError) as error:
            raise CallFailed(printable(f"it cannot be called: {error}")) from error

    def _pair(self) -> tuple[bytes, bytes]:
        """The client certificate and its key, as they are now; two small files."""
        certificate, key = (Path(path).read_bytes() if path else b"" for path in self._files)
        return certificate, key

    async def _post(self, handler: Handler, body: bytes) -> bytes:
        certificate, key = self._pair()
        tls = client_context(ca=handler.ca, certificate=certificate, key=key)
        proxy = proxy_for(handler.url, self._environment) or None
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        connector = aiohttp.TCPConnector(ssl=tls, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.post(
                handler.url,
                params={"timeout": f"{handler.timeout}s"},
                data=body,
                headers=headers,
                proxy=proxy,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer,
        ):
            content = bytearray()
            async for piece in answer.content.iter_chunked(_CHUNK):
                content += piece
                if len(content) > LARGEST:
                    raise CallFailed(f"its answer has more than {LARGEST >> 20} MiB, which is read no further")
            if answer.status != 200:
                text = printable(bytes(content).decode(errors="replace"), most=_SHOWN)
                raise CallFailed(f"HTTP {answer.status}{f': {text}' if text else ''}")
            return bytes(content)
