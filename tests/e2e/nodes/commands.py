"""Running the programs that build and drive the nodes: each with a deadline, and with its last lines in the error when it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from quorate.local.errors import BuildFailed, MissingTool

BUILD_TIMEOUT = 1800.0
"""Seconds for one step of a build; debootstrap is the slowest, with 75 to 120 on two cores."""
TIMEOUT = 60.0
"""Seconds for one command to a running container."""


def run(
    arguments: Sequence[str | Path],
    *,
    making: str,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> str:
    """Run a program to its end and return what it wrote to stdout. `environment` is added to that of this process. Raises BuildFailed."""
    try:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            input=given,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildFailed(f"{making}: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").splitlines()[-15:]
        raise BuildFailed("\n  ".join((f"{making}: {arguments[0]} ended with {done.returncode}:", *said)))
    return done.stdout.decode(errors="replace")


def require(program: str, package: str) -> str:
    """The path of a program of the machine. Raises MissingTool with Debian's package that has it."""
    found = shutil.which(program)
    if found is None:
        raise MissingTool(f"{program} is not on the PATH: apt install {package}")
    return found
