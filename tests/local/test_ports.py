"""Free ports are free, and whoever holds one is named."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import Popen

import pytest

from quorate.local import ports
from quorate.local.errors import LocalError, PortTaken

LISTEN = "import socket; s = socket.create_server(('127.0.0.1', {port}))"


@pytest.fixture
def free() -> int:
    return ports.choose(1, start=7001)[0]


def test_chosen_ports_differ_and_can_be_listened_on() -> None:
    chosen = ports.choose(12, start=4000)
    assert len(set(chosen)) == 12
    for port in chosen:
        with closing(socket.create_server(("127.0.0.1", port))):
            pass


def test_chosen_ports_stay_clear_of_capd_and_of_source_ports_of_connections() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(20100 < port < low for port in ports.choose(20, start=len(ports.CANDIDATES) - 3))


def test_a_port_in_use_is_not_chosen(free: int) -> None:
    with closing(socket.create_server(("127.0.0.1", free))):
        assert free not in ports.choose(3, start=ports.CANDIDATES.index(free))
    assert free in ports.choose(3, start=ports.CANDIDATES.index(free))


def test_too_few_free_ports_are_an_error_that_counts_them() -> None:
    with pytest.raises(LocalError, match=r"only \d+ of 10000 ports are free between 25000 and 32767: stop programs"):
        ports.choose(10000, start=0)


def test_the_error_for_a_taken_port_names_who_holds_it_and_how_to_end_it(script: Callable[[str], Popen[bytes]], free: int) -> None:
    holder = script(LISTEN.format(port=free))
    with pytest.raises(PortTaken) as raised:
        ports.require_free(free, wanted_by="CAPD")
    text = str(raised.value)
    assert f"port {free}, which CAPD fixes, is held by pid {holder.pid} (" in text
    assert "socket.create_server" in text  # its command line
    assert f"`kill {holder.pid}`" in text
    assert raised.value.exit_code == 4


def test_a_listener_on_ipv6_is_found_too(free: int) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this kernel has no IPv6")
    with closing(socket.create_server(("::", free), family=socket.AF_INET6, dualstack_ipv6=True)):
        assert not ports.is_free(free)
        assert ports.find_holder(free) is not None


def test_a_holder_of_another_user_is_not_guessed_at(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_descriptors", lambda _: [])  # what /proc/PID/fd of other users looks like
    with closing(socket.create_server(("127.0.0.1", free))), pytest.raises(PortTaken, match=r"only root can see.*sudo ss -ltnp"):
        ports.require_free(free, wanted_by="CAPD")


def test_a_port_whose_holder_ends_while_it_is_looked_for_is_fine(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    server = socket.create_server(("127.0.0.1", free))
    monkeypatch.setattr(ports, "find_holder", lambda _port: server.close())
    ports.require_free(free, wanted_by="CAPD")


def test_a_free_port_is_fine(free: int) -> None:
    ports.require_free(free, wanted_by="CAPD")


def test_a_connection_that_lingers_after_its_server_ended_does_not_count(free: int) -> None:
    with closing(socket.create_server(("127.0.0.1", free))) as server:
        client = socket.create_connection(("127.0.0.1", free))
        accepted, _ = server.accept()
        accepted.close()  # closed first on the server's side: its end of the connection stays in TIME_WAIT
        client.close()
    assert ports.is_free(free)
