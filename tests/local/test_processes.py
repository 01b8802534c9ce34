"""Processes are told apart by start time, die with their parent where they should, and always end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.local import processes
from quorate.local.processes import Identity

Script = Callable[[str], "subprocess.Popen[bytes]"]


def identity(child: subprocess.Popen[bytes]) -> Identity:
    found = processes.identify(child.pid)
    assert found is not None
    return found


def spawn(log: Path, source: str, *, bound: bool = True) -> subprocess.Popen[bytes]:
    return processes.spawn([sys.executable, "-c", source], log=log, environment=os.environ, bound_to_parent=bound)


def test_a_process_is_alive_until_it_ends(script: Script) -> None:
    child = script("")
    running = identity(child)
    assert running.alive
    child.kill()
    child.wait()
    assert not running.alive


def test_a_zombie_is_not_alive(script: Script) -> None:
    child = script("")
    running = identity(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and kept for its parent to look at
    assert processes.identify(child.pid) == running
    assert not running.alive


async def test_a_reused_pid_is_never_signalled(script: Script) -> None:
    child = script("")
    stranger = replace(identity(child), started=1)
    assert not stranger.alive
    processes.send(stranger, signal.SIGKILL)
    assert await processes.stop(stranger, grace=0.1) is False
    assert processes.measure(stranger) is None
    assert child.poll() is None


def test_a_command_name_with_brackets_and_blanks_is_read_past(script: Script) -> None:
    child = script("import ctypes; ctypes.CDLL(None).prctl(15, b'a) R (b 1 2', 0, 0, 0)")
    assert identity(child).alive


async def test_stop_asks_first(tmp_path: Path) -> None:
    child = spawn(
        tmp_path / "log", "import signal,sys,time\nsignal.signal(15, lambda *_: sys.exit(3))\nprint('up', flush=True)\ntime.sleep(60)"
    )
    while not (tmp_path / "log").read_text():
        os.sched_yield()
    assert await processes.stop(identity(child), grace=10)
    assert child.wait() == 3


async def test_what_ignores_sigterm_is_killed_after_the_grace(script: Script) -> None:
    child = script("import signal; signal.signal(15, signal.SIG_IGN)")
    assert await processes.stop(identity(child), grace=0.1)
    assert child.wait() == -signal.SIGKILL


async def test_stopping_twice_says_that_there_was_nothing_to_stop(script: Script) -> None:
    running = identity(script(""))
    assert await processes.stop(running, grace=5)
    assert not await processes.stop(running, grace=5)


PARENT = """
import os, signal
from pathlib import Path
from quorate.local import processes
child = processes.spawn(["/bin/sleep", "60"], log=Path({log!r}), environment=os.environ, bound_to_parent={bound})
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("bound", [True, False])
def test_a_killed_parent_takes_along_what_is_bound_to_it_and_nothing_else(tmp_path: Path, bound: bool) -> None:
    parent = subprocess.run([sys.executable, "-c", PARENT.format(log=str(tmp_path / "log"), bound=bound)], capture_output=True, check=False)
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    child = processes.identify(int(parent.stdout))
    if bound:
        assert child is None or _ends(child)
    else:
        assert child is not None
        assert child.alive
        os.kill(child.pid, signal.SIGKILL)


def _ends(process: Identity) -> bool:
    """The kernel has sent the signal by the time the parent is gone; its delivery takes a scheduling or two."""
    for _ in range(100_000):
        if not process.alive:
            return True
        os.sched_yield()
    return False


def test_output_of_all_starts_is_kept_in_the_log_and_the_terminal_cannot_interrupt(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("first", "second"):
        assert spawn(log, f"import os, sys; print('{word}', os.getsid(0) == os.getpid(), sys.stdin.read() == '')").wait() == 0
    assert log.read_text() == "first True True\nsecond True True\n"


def test_usage_counts_cpu_memory_and_its_peak(script: Script) -> None:
    child = script("x = bytearray(64 << 20); del x\nimport time\nwhile time.process_time() < 0.3: pass")
    used = processes.measure(identity(child))
    assert used is not None
    assert used.cpu_seconds >= 0.2
    assert used.peak_resident > 64 << 20
    assert 0 < used.resident < used.peak_resident
