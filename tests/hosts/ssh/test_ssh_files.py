"""Files on a host are read whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.hosts.connect.ssh.errors import NoSuchFile, OutputTooLong, ScriptFailed
from quorate.hosts.connect.ssh.files import reading
from quorate.hosts.connect.ssh.host import SshHost
from quorate.hosts.connect.ssh.scripts import LIMIT
from tests.hosts.ssh.machine import Machine


@pytest.fixture
def path(machine: Machine) -> Path:
    """A path that needs every kind of quoting."""
    return machine.folder / "it's a $(folder)" / "a file"


def hold(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


async def test_a_file_is_read_whole(host: SshHost, machine: Machine, path: Path) -> None:
    content = bytes(range(256)) * 300
    hold(path, content)
    assert await host.read_file(str(path)) == content
    assert machine.commands == ["env LC_ALL=C sudo -n -- timeout -k 5 30 sh -s"], "no path is in a command line"
    hold(path, b"")
    assert await host.read_file(str(path)) == b""


async def test_a_missing_file_is_an_error_of_its_own(host: SshHost) -> None:
    with pytest.raises(NoSuchFile, match=r"host cp-1 .*: there is no file /nowhere/at all"):
        await host.read_file("/nowhere/at all")


async def test_a_file_that_cannot_be_read_says_why(host: SshHost, machine: Machine) -> None:
    with pytest.raises(ScriptFailed, match=r"cannot be read: .*[Ii]s a directory \(status 1\)"):
        await host.read_file(str(machine.folder))


async def test_a_file_over_the_limit_is_not_read(host: SshHost, path: Path) -> None:
    hold(path, bytes(LIMIT + 1))
    with pytest.raises(OutputTooLong):
        await host.read_file(str(path))


@pytest.mark.parametrize("path", ["relative", "/folder/", "", "/a\0b"])
def test_a_path_that_is_not_absolute_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not the absolute path of a file"):
        reading(path)
