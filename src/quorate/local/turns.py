"""Local clusters take turns: CAPD fixes port 19000 and counts up from 20000, so that only one can run on a machine, or in one of its network namespaces.

The turn is an flock on a file in the temporary folder. CAPD inherits the open file: the turn lasts exactly as long as CAPD (or its starter) lives, also when
either is killed, and is never stale.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from quorate.local.errors import TurnTimeout

_NETWORK = Path("/proc/thread-self/ns/net")
_LOOK_AGAIN = 0.2  # seconds; flock has no wait that can be cancelled


def turn_file() -> Path:
    """The lock file of this network namespace, in which ports are taken; shared by the machine's users, so that their clusters take turns too."""
    return Path(tempfile.gettempdir()) / f"quorate-local{_network()}.lock"


def _network() -> str:
    """Which network namespace the calling thread is in; nothing where the system has none."""
    try:
        return f"-{_NETWORK.stat().st_ino}"
    except OSError:
        return ""


class Turn:
    """The right to run CAPD, held through an open file until `release`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def name_holder(self, pid: int, folder: Path) -> None:
        """Write who holds the turn, for those who wait."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"pid {pid}, {folder}".encode(), 0)

    def release(self) -> None:
        """Close this process's hold; the turn goes on while a process that inherited it lives. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


async def take_turn(folder: Path, say: Callable[[str], None], *, timeout: float, file: Path | None = None) -> Turn:
    """Wait for the turn, saying once for whom, and hold it in the name of this process and `folder`.

    Raises TurnTimeout, naming the holder, after `timeout` seconds.
    """
    path = file or turn_file()
    descriptor = _open(path)
    turn = Turn(descriptor)
    try:
        await _lock(descriptor, say, timeout)
    except BaseException:
        turn.release()
        raise
    turn.name_holder(os.getpid(), folder)
    return turn


async def _lock(descriptor: int, say: Callable[[str], None], timeout: float) -> None:
    said = False
    try:
        async with asyncio.timeout(timeout):
            while not _try(descriptor):
                if not said:
                    say(f"waiting for another local stack ({_holder(descriptor)})")
                    said = True
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        holder = _holder(descriptor)
        raise TurnTimeout(
            f"another local stack ({holder}) still runs after {timeout:.0f} s: end it with `quorate local down --folder FOLDER`, or wait longer"
        ) from None


def _open(path: Path) -> int:
    """Open the lock file, creating it for all users; sticky temporary folders forbid O_CREAT on the file of somebody else."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(descriptor, 0o666)  # the umask took the others' right to write
        return descriptor


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 4096, 0).decode(errors="replace") or "pid unknown"
