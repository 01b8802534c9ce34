"""Files on a host: read whole, replaced whole, and left alone by everything that fails on the way."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.hosts.ssh.errors import ConnectionCut, NoSuchFile, OutputTooLong, ScriptFailed
from quorate.hosts.ssh.files import reading, writing
from quorate.hosts.ssh.host import SshHost
from quorate.hosts.ssh.scripts import LIMIT
from tests.hosts.ssh.machine import Machine


@pytest.fixture
def path(machine: Machine) -> Path:
    """A path that needs every kind of quoting."""
    return machine.folder / "it's a $(folder)" / "a file"


def hold(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def held(path: Path) -> tuple[bytes, int]:
    """The content of a file and its mode."""
    return path.read_bytes(), path.stat().st_mode & 0o7777


def left(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


async def test_a_file_has_its_content_its_mode_and_its_owner(host: SshHost, machine: Machine, path: Path) -> None:
    content = bytes(range(256)) * 300
    await host.write_file(str(path), content, owner="root:kube", mode=0o640)
    assert held(path) == (content, 0o640)
    assert (machine.folder / "chowned").read_text().startswith("-- root:kube /")
    assert left(path.parent) == ["a file"]
    assert await host.read_file(str(path)) == content


async def test_an_empty_file_can_be_written_and_read(host: SshHost, path: Path) -> None:
    await host.write_file(str(path), b"")
    assert await host.read_file(str(path)) == b""
    assert held(path) == (b"", 0o600)


async def test_what_is_written_is_never_in_a_command_line(host: SshHost, machine: Machine, path: Path) -> None:
    await host.write_file(str(path), b"hunter2")
    await host.read_file(str(path))
    assert machine.commands == ["env LC_ALL=C sudo -n -- timeout -k 5 30 sh -s"] * 2


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


async def test_a_link_is_replaced_and_what_it_led_to_is_left_alone(host: SshHost, machine: Machine) -> None:
    target, link = machine.folder / "target", machine.folder / "link"
    target.write_text("old")
    link.symlink_to(target)
    await host.write_file(str(link), b"new")
    assert (link.read_text(), target.read_text(), link.is_symlink()) == ("new", "old", False)


@pytest.mark.parametrize("failing", ["mktemp", "base64", "chown", "chmod", "sync", "mv"])
async def test_a_step_that_fails_leaves_the_old_content_and_nothing_else(host: SshHost, machine: Machine, path: Path, failing: str) -> None:
    hold(path, b"old")
    machine.program(failing, "echo No space left on device >&2; exit 1")
    with pytest.raises(ScriptFailed, match=r"a file cannot be written: .* \(status 1\)"):
        await host.write_file(str(path), b"new")
    assert held(path)[0] == b"old"
    assert left(path.parent) == ["a file"]


async def test_content_that_arrives_in_part_is_not_put_in_place(host: SshHost, machine: Machine, path: Path) -> None:
    hold(path, b"old")
    machine.program("base64", "printf ne")
    with pytest.raises(ScriptFailed, match="the content did not arrive as a whole"):
        await host.write_file(str(path), b"new")
    assert held(path)[0] == b"old"


async def test_a_write_that_is_interrupted_leaves_the_old_content(host: SshHost, machine: Machine, path: Path) -> None:
    hold(path, b"old")
    started = machine.folder / "started"
    os.mkfifo(started)
    machine.program("sync", f"echo >{started}; exec sleep 60")  # everything is written, nothing is in place

    async def cut() -> None:
        await asyncio.to_thread(started.read_text)
        machine.cut()

    async with asyncio.TaskGroup() as group:
        group.create_task(cut())
        with pytest.raises(ConnectionCut):
            await host.write_file(str(path), b"new")
    assert held(path)[0] == b"old"
    (machine.programs / "sync").unlink()
    await host.write_file(str(path), b"new")
    assert held(path)[0] == b"new"


@pytest.mark.parametrize("path", ["relative", "/folder/", "", "/a\0b"])
def test_a_path_that_is_not_absolute_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not the absolute path of a file"):
        reading(path)
    with pytest.raises(ValueError, match="is not the absolute path of a file"):
        writing(path, 0, "root", 0o600)


@pytest.mark.parametrize("owner", ["", "root:", "root; reboot", "$(reboot)"])
def test_an_owner_that_is_none_is_refused(owner: str) -> None:
    with pytest.raises(ValueError, match="is not an owner"):
        writing("/etc/file", 0, owner, 0o600)


@given(st.one_of(st.integers(max_value=-1), st.integers(min_value=0o10000)))
def test_a_mode_that_is_none_is_refused(mode: int) -> None:
    with pytest.raises(ValueError, match="is not a file mode"):
        writing("/etc/file", 0, "root", mode)
