"""A page of the documentation whose commands are run as its reader would: block by block, on this machine, with `ssh` that knows the hosts by their names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.e2e.machines import USER, Machine
from tests.e2e.nodes.images import SSH_KEY
from tests.e2e.nodes.programs import TOOLS

_STEP = re.compile(r"^## (\d+)\. ", re.MULTILINE)
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"^(\w+)=", re.MULTILINE)


def blocks(page: Path) -> dict[int, list[str]]:
    """The commands of each numbered step of a page, in order."""
    _, *parts = _STEP.split(page.read_text())
    return {int(number): _BLOCK.findall(text) for number, text in zip(parts[::2], parts[1::2], strict=True)}


def assigned(block: str) -> set[str]:
    """The variables that a block sets."""
    return set(_ASSIGNED.findall(block))


class Shell:
    """Where the reader types: the folder of the manifest, with `ssh`, `quorate` and `etcdutl` on the PATH."""

    def __init__(self, folder: Path, machines: Iterable[Machine]) -> None:
        self._folder = folder
        self._ssh = folder / "ssh"
        self._ssh.mkdir(exist_ok=True)
        self._write_ssh(list(machines))

    def run(self, block: str, variables: Mapping[str, str], *, timeout: float) -> str:
        """Run one block with these variables set, up to the first command that fails. Returns what it said; asserts that it ended well, within the time."""
        lines = [f"{name}='{value}'" for name, value in variables.items()]
        path = ":".join(map(str, (self._ssh, Path(sys.executable).parent, TOOLS, os.environ["PATH"])))
        environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"} | {"PATH": path}
        script = "\n".join((*lines, block))
        done = subprocess.run(
            ["sh", "-euc", script],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"ended with {done.returncode}:\n{script}\n{done.stdout}"
        return done.stdout

    def _write_ssh(self, machines: list[Machine]) -> None:
        """An `ssh` with a configuration of its own: that of the user who runs the tests is left alone."""
        known, configuration, program = (self._ssh / name for name in ("known_hosts", "config", "ssh"))
        known.write_text("".join(f"{machine.address} ssh-ed25519 {machine.host_key}\n" for machine in machines))
        hosts = (f"Host {machine.name}\n  HostName {machine.address}\n" for machine in machines)
        everybody = (
            f"Host *\n  User {USER}\n  IdentityFile {SSH_KEY}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n  BatchMode yes\n"
        )
        configuration.write_text("".join((*hosts, everybody)))
        program.write_text(f'#!/bin/sh\nPATH=${{PATH#*:}}\nexec ssh -F {configuration} "$@"\n')
        program.chmod(0o755)
