"""Programs as processes: started, recognised again by pid and start time, measured, and stopped.

A pid alone is not an identity, for the kernel hands it out again. `Identity` adds the start time the kernel keeps (field 22 of /proc/PID/stat, in clock ticks
since boot), so that nothing here ever signals a stranger.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from quorate.local.errors import LocalError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_AGAIN = 0.05  # seconds between looks at a process that was told to end


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, for good: its pid and when the kernel started it."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether this very process still runs; one that ended and waits for its parent to look (a zombie) does not."""
        stat = _read_stat(self.pid)
        return stat is not None and stat.started == self.started and stat.state not in ("Z", "X")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used so far: CPU in seconds, memory in bytes."""

    cpu_seconds: float
    resident: int
    peak_resident: int  # VmHWM


class _Stat(NamedTuple):
    state: str
    started: int
    cpu_ticks: int


def identify(pid: int) -> Identity | None:
    """The process that has this pid now; None where there is none."""
    stat = _read_stat(pid)
    return Identity(pid, stat.started) if stat else None


def measure(process: Identity) -> Usage | None:
    """What the process has used until now; None once it has ended."""
    stat = _read_stat(process.pid)
    if not process.alive or stat is None:
        return None
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines) if name in ("VmRSS", "VmHWM")}
    return Usage(stat.cpu_ticks / _TICKS, sizes.get("VmRSS", 0), sizes.get("VmHWM", 0))


def spawn(
    arguments: Sequence[str], *, log: Path, environment: Mapping[str, str], bound_to_parent: bool, inherit: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a program whose output is appended to `log`, in a session of its own, so that Ctrl-C on the terminal reaches only its parent.

    With `bound_to_parent` the kernel kills it when the thread that called this ends, however that ends: call it from the main thread.
    `inherit` are file descriptors it keeps open. Raises OSError where the program cannot be started.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            pass_fds=tuple(inherit),
            start_new_session=True,
            preexec_fn=_die_with_parent(os.getpid()) if bound_to_parent else None,  # noqa: PLW1509  it takes no lock: prctl and getppid only
        )


async def stop(process: Identity, *, grace: float) -> bool:
    """SIGTERM, then SIGKILL after `grace` seconds; returns once it has ended. Idempotent; false where it had ended before.

    Raises LocalError where it outlives SIGKILL by 10 s. Its parent, if that is this process, has to wait for it afterwards for the pid to be given back.
    """
    if not process.alive:
        return False
    for number, timeout in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        send(process, number)
        if await _ends(process, timeout):
            return True
    raise LocalError(f"pid {process.pid} did not end on SIGKILL within 10 s: it hangs in the kernel, see /proc/{process.pid}/stack")


def send(process: Identity, number: signal.Signals) -> None:
    """Send a signal to this very process; nothing happens where it has ended."""
    if process.alive:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


async def _ends(process: Identity, timeout: float) -> bool:
    try:
        async with asyncio.timeout(timeout):
            while process.alive:  # noqa: ASYNC110  the kernel tells parents only, and `down` is none
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        return False
    return True


def _die_with_parent(parent: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended between fork and prctl: the signal will never come
            os._exit(1)

    return prepare


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the command name before it may hold blanks and brackets
    return _Stat(state=fields[0], started=int(fields[19]), cpu_ticks=int(fields[11]) + int(fields[12]))
