"""Scripts for hosts run by this machine's sh inside a folder that stands for a host's root, with stand-ins for the programs that would change the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.hosts.render.host_files import HostFile

_FOLDERS = ("/etc/", "/proc/", "/opt/", "/usr/bin/kubelet", "/usr/local/share/")


@dataclass(frozen=True, slots=True)
class FakeHost:
    """A root folder and a folder of stand-ins, which come first in the PATH and write what they were called with into `calls`."""

    root: Path
    programs: Path

    @property
    def calls(self) -> list[str]:
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def program(self, name: str, script: str = "") -> None:
        """A stand-in: notes its call, then does as the script says."""
        self.programs.mkdir(exist_ok=True)
        path = self.programs / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >>"{self.root}/calls"\n{script}\n')
        path.chmod(0o755)

    def file(self, path: str, content: str = "") -> Path:
        """A file below the root; its folders are made."""
        made = self.root / path.lstrip("/")
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(content)
        return made

    def place(self, file: HostFile) -> Path:
        """A HostFile below the root."""
        made = self.file(file.path, file.content.decode())
        made.chmod(file.mode)
        return made

    def link(self, *names: str) -> None:
        """Programs of this machine that a script on a host without any other may use."""
        self.programs.mkdir(exist_ok=True)
        for name in names:
            (self.programs / name).symlink_to(shutil.which(name) or pytest.fail(f"this machine has no {name}"))

    def run(self, script: str, *, alone: bool = False, pass_fds: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run a script as quorate's preamble would have it run, on this root; `alone`, with no other programs than the stand-ins and links.

        Whatever it starts has the descriptors `pass_fds`, too.
        """
        for folder in _FOLDERS:
            script = script.replace(folder, f"{self.root}{folder}")
        environment = {"PATH": str(self.programs) if alone else f"{self.programs}:{os.environ['PATH']}", "LC_ALL": "C"}
        shell = shutil.which("sh") or "/bin/sh"
        return subprocess.run(
            [shell, "-s"],
            input=f"{{\nset -eu\n{script}\n}}",
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            pass_fds=pass_fds,
        )

    def changes(self, script: str, *, alone: bool = False) -> list[str]:
        """The lines that a script which succeeds prints."""
        done = self.run(script, alone=alone)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def parses(script: str) -> None:
    """Fail where sh cannot read the script."""
    done = subprocess.run(["sh", "-n"], input=f"{{\nset -eu\n{script}\n}}", capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, ""), script
