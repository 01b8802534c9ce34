"""Wheel and sdist of this source, and the wheels that an image gets beside it: those that the lock names, by their hashes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from quorate.local.errors import BuildFailed, MissingTool
from quorate.local.programs import PROJECT
from tests.e2e.nodes.commands import BUILD_TIMEOUT, run
from tools.release.debian import PYTHON

_PLATFORMS = {"amd64": "x86_64-manylinux_2_36", "arm64": "aarch64-manylinux_2_36"}
"""uv's names of the platforms: the C library is Debian's."""


def build(folder: Path, epoch: int) -> Path:
    """Build wheel and sdist with the build back end that the lock has, and return the wheel. The same source gives the same bytes. Raises BuildFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"SOURCE_DATE_EPOCH": str(epoch)}
    command = ["sh", "-c", 'cd "$0" && exec "$@"', PROJECT, sys.executable, "-m", "hatchling", "build", "-d", folder.resolve()]
    run(command, making="wheel and sdist", environment=environment, timeout=BUILD_TIMEOUT)
    return max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)


def install(wheel: Path, target: Path, architecture: str) -> None:
    """Install the wheel and what it needs into `target`, a folder on Python's path. Raises MissingTool, BuildFailed."""
    requirements = _requirements(target)
    options = (f"--python-version={PYTHON}", f"--python-platform={_PLATFORMS[architecture]}", "--only-binary=:all:", "--no-deps")
    into = (*options, f"--python={sys.executable}", f"--target={target}", "--link-mode=copy", "--no-config")
    _cached("pip", "install", *into, "--require-hashes", f"--requirement={requirements}")
    _cached("pip", "install", *into, str(wheel))
    requirements.unlink()
    shutil.rmtree(target / "bin", ignore_errors=True)  # programs that begin with the path of another Python


def environment(wheel: Path, folder: Path) -> None:
    """A virtual environment in `folder`, with the wheel and what the lock names for it. Raises MissingTool, BuildFailed."""
    _uv("venv", "--no-config", f"--python={sys.executable}", str(folder))
    into = ("--no-config", f"--python={folder / 'bin/python'}", "--no-deps")
    _cached("pip", "install", *into, "--require-hashes", f"--requirement={_requirements(folder)}")
    _cached("pip", "install", *into, str(wheel))


def _requirements(folder: Path) -> Path:
    """What the lock names for an installation, in a file of the folder."""
    path = folder / "requirements.txt"
    export = ("export", "--locked", "--no-dev", "--no-default-groups", "--no-emit-project", "--format=requirements-txt", "--no-header")
    path.write_text(_uv("--directory", str(PROJECT), *export))
    return path


def _cached(*arguments: str) -> str:
    """Without the network if the cache has everything: with it, uv asks the index even then."""
    try:
        return _uv("--offline", *arguments)
    except BuildFailed:
        return _uv(*arguments)


def _uv(*arguments: str) -> str:
    return run(_command(arguments), making="uv", timeout=BUILD_TIMEOUT)


def _command(arguments: Sequence[str]) -> list[str]:
    own = PROJECT / ".cache/uv/bin/uv"
    found = os.environ.get("UV") or shutil.which("uv") or (str(own) if own.exists() else None)
    if found is None:
        raise MissingTool("uv is not on the PATH: run this through `make release`, which installs it")
    return [found, "--quiet", *arguments]
