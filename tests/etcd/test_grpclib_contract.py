"""The private hooks of grpclib 0.4 that the client overrides: a release that moves them fails here, with a name."""

from __future__ import annotations

import inspect
from importlib.metadata import version

from grpclib.client import Channel
from grpclib.protocol import H2Protocol


def test_the_release_line_is_the_pinned_one() -> None:
    assert version("grpclib").startswith("0.4.")


def test_connect_calls_the_connection_hook() -> None:
    assert inspect.iscoroutinefunction(Channel._create_connection)
    assert "self._create_connection()" in inspect.getsource(Channel.__connect__)
    assert "connection_lost" in inspect.getsource(inspect.getattr_static(Channel, "_connected").fget)


def test_the_ca_comes_from_its_hook() -> None:
    assert list(inspect.signature(Channel._get_authority).parameters) == ["self", "host", "port"]
    assert "self._get_authority(self._host, self._port)" in inspect.getsource(Channel.__init__)


def test_the_protocol_is_built_from_three_parts() -> None:
    assert list(inspect.signature(H2Protocol.__init__).parameters) == ["self", "handler", "config", "h2_config"]
    assert isinstance(inspect.getattr_static(Channel, "_protocol_factory"), type(lambda: None))
