"""Local clusters take turns, say for whom they wait, and a killed holder never blocks the next."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.local.errors import TurnTimeout
from quorate.local.turns import Turn, take_turn, turn_file

HOLD = "import fcntl; f = open({file!r}, 'r+'); fcntl.flock(f, fcntl.LOCK_EX); f.write('pid 77, /somewhere'); f.flush()"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "turn.lock"


def heir_of(turn: Turn) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "60"], pass_fds=(turn.descriptor,))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_the_first_does_not_wait(file: Path, tmp_path: Path) -> None:
    said: list[str] = []
    turn = await take_turn(tmp_path, said.append, timeout=1, file=file)
    turn.release()
    assert said == []


async def test_the_second_says_once_for_whom_it_waits_and_goes_on_when_that_ends(file: Path, tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    first = await take_turn(tmp_path / "first", said.put_nowait, timeout=1, file=file)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(take_turn(tmp_path / "second", said.put_nowait, timeout=10, file=file))
        assert await said.get() == f"waiting for another local stack (pid {os.getpid()}, {tmp_path / 'first'})"
        assert not waiting.done()
        first.release()
    waiting.result().release()
    assert said.empty()
    assert str(tmp_path / "second") in content(file)


async def test_who_waits_too_long_is_told_who_holds_the_turn(file: Path, tmp_path: Path) -> None:
    first = await take_turn(tmp_path / "a-much-longer-name-than-the-next", lambda _: None, timeout=1, file=file)
    first.name_holder(4711, tmp_path)
    with pytest.raises(
        TurnTimeout, match=rf"\(pid 4711, {tmp_path}\) still runs after 0 s: end it with `quorate local down --folder"
    ) as raised:
        await take_turn(tmp_path, lambda _: None, timeout=0.3, file=file)
    assert raised.value.exit_code == 6
    first.release()


async def test_the_turn_lasts_as_long_as_a_program_that_inherited_it(file: Path, tmp_path: Path) -> None:
    turn = await take_turn(tmp_path, lambda _: None, timeout=1, file=file)
    heir = heir_of(turn)
    turn.release()
    turn.release()  # a second time changes nothing
    with pytest.raises(TurnTimeout):
        await take_turn(tmp_path, lambda _: None, timeout=0.3, file=file)
    heir.kill()
    heir.wait()
    (await take_turn(tmp_path, lambda _: None, timeout=5, file=file)).release()


async def test_a_killed_holder_frees_the_turn(file: Path, tmp_path: Path, script: Callable[[str], subprocess.Popen[bytes]]) -> None:
    (await take_turn(tmp_path, lambda _: None, timeout=1, file=file)).release()
    holder = script(HOLD.format(file=str(file)))
    with pytest.raises(TurnTimeout, match="pid 77, /somewhere"):
        await take_turn(tmp_path, lambda _: None, timeout=0.1, file=file)
    holder.kill()
    holder.wait()
    (await take_turn(tmp_path, lambda _: None, timeout=5, file=file)).release()


async def test_giving_up_while_waiting_leaves_nothing_open(file: Path, tmp_path: Path) -> None:
    first = await take_turn(tmp_path, lambda _: None, timeout=1, file=file)
    before = open_files()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await take_turn(tmp_path, lambda _: None, timeout=60, file=file)
    assert open_files() == before
    first.release()


def test_all_users_of_a_network_share_one_file() -> None:
    assert turn_file().name == f"quorate-local-{Path('/proc/self/ns/net').stat().st_ino}.lock"


@pytest.fixture
def planted(file: Path, tmp_path: Path) -> Path:
    """A file of somebody's that the lock file is made to point at."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    file.symlink_to(victim)
    return victim


def content(path: Path) -> str:
    return path.read_text()


async def test_a_planted_link_is_not_followed(file: Path, tmp_path: Path, planted: Path) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        await take_turn(tmp_path, lambda _: None, timeout=1, file=file)
    assert content(planted) == "precious"
