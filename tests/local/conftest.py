"""Stand-ins for real programs: small Python scripts started as real processes, so that nothing here needs `.bin`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.local import processes
from quorate.local.folder import ControlPlaneProvider, RunFolder, State
from quorate.local.processes import Identity

Script = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def script() -> Iterator[Script]:
    """Runs Python source as a process of its own, which has said `up` before it is handed out; killed after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(source: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-c", f"{source}\nprint('up', flush=True)\nimport time; time.sleep(60)"], stdout=subprocess.PIPE
        )
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child

    yield run
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture
def me() -> Identity:
    """The test's own process."""
    found = processes.identify(os.getpid())
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run folder that does not exist yet."""
    return RunFolder(tmp_path / "run")


@pytest.fixture
def starting(me: Identity) -> State:
    """The record of a start by this process."""
    return State(control_plane=ControlPlaneProvider.NONE, owner=me, detached=False)


@pytest.fixture
def nobody(script: Script) -> Identity:
    """A process that has ended."""
    child = script("")
    found = processes.identify(child.pid)
    assert found is not None
    child.send_signal(signal.SIGKILL)
    child.wait()
    return found
