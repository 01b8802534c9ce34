"""What quorate takes of aiohttp and asyncssh beyond their documented interfaces: a release that moves it fails here, with a name."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import aiohttp
import asyncssh
import pytest
from aiohttp import ClientRequest
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import TCPConnector

from quorate.hosts.connect.tunnels import TunnelConnector

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize("library", ["aiohttp", "asyncssh", "grpclib"])
def test_a_library_whose_inner_parts_are_used_is_bound_to_the_release_line_that_was_looked_at(library: str) -> None:
    requirements = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    found = next(each for each in requirements if re.match(rf"{library}\b", each))
    bound = re.search(r"<(\d+)\.(\d+)$", found)
    assert bound, f"{found} has no upper bound"
    major, minor = map(int, version(library).split(".")[:2])
    assert (major, minor + 1) == (int(bound[1]), int(bound[2]))


def test_aiohttp_asks_a_connector_for_its_connections_by_the_hook_that_tunnels_override() -> None:
    ours, theirs = (inspect.signature(kind._create_connection) for kind in (TunnelConnector, TCPConnector))
    assert list(ours.parameters) == list(theirs.parameters) == ["self", "req", "traces", "timeout"]
    assert "await self._create_connection(req, traces, timeout)" in inspect.getsource(aiohttp.BaseConnector.connect)


async def test_an_aiohttp_connector_has_a_loop_and_a_factory_of_protocols() -> None:
    connector = aiohttp.TCPConnector()
    assert isinstance(connector._factory(), ResponseHandler)
    assert callable(connector._loop.create_connection)
    await connector.close()


def test_an_aiohttp_request_says_its_tls_context_and_its_servers_name() -> None:
    assert isinstance(inspect.getattr_static(ClientRequest, "ssl"), property)
    assert "self.server_hostname = server_hostname" in inspect.getsource(ClientRequest)


def test_an_aiohttp_websocket_has_the_response_that_its_connection_ends_with() -> None:
    assert "self._response.close()" in inspect.getsource(aiohttp.ClientWebSocketResponse.close)
    assert "self._response = response" in inspect.getsource(aiohttp.ClientWebSocketResponse.__init__)


def test_known_hosts_answer_with_keys_then_cas_then_the_revoked() -> None:
    keys = [asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip() for _ in range(3)]
    text = f"h {keys[0]}\n@cert-authority h {keys[1]}\n@revoked h {keys[2]}\n"
    found = asyncssh.import_known_hosts(text).match("h", "", None)
    assert [[key.export_public_key().decode().strip() for key in part] for part in found[:3]] == [[key] for key in keys]
    assert not any(found[3:])


def test_asyncssh_asks_for_the_verdict_on_a_key_with_host_address_and_port() -> None:
    assert list(inspect.signature(asyncssh.SSHClient.validate_host_public_key).parameters) == ["self", "host", "addr", "port", "key"]
