"""The operator: a person on a machine, as other operators see it, and the process, so that one that was killed is known to be gone."""

from __future__ import annotations

import getpass
import os
import re
import socket
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec

from quorate.core.text import printable

_NUMBER = re.compile(r"[0-9]{1,10}")  # of a process; what a lock file says of it is whatever its host says


@dataclass(frozen=True, slots=True)
class Holder:
    """One run of quorate. `process` names the process where only that machine can understand it; empty where the machine could not say."""

    id: str  # random
    who: str  # user@machine
    command: str
    since: datetime
    process: str = ""

    def __str__(self) -> str:
        return f"{self.who} (`quorate {self.command}`, since {self.since:%Y-%m-%d %H:%M:%S} UTC)"

    def encode(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)


def decode(text: bytes | str) -> Holder | None:
    """A holder from JSON; None for anything else."""
    try:
        found = msgspec.json.decode(text, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return replace(found, id=printable(found.id), who=printable(found.who), command=printable(found.command))


def this_run(command: str, identity: str, now: datetime) -> Holder:
    """This run of quorate; `identity` is random."""
    return Holder(identity, f"{_user()}@{socket.gethostname()}", command, now, _process(os.getpid()))


def has_ended(holder: Holder) -> bool:
    """Whether this is a process of this very machine that runs no more. Of another machine's nobody can tell, and it counts as running."""
    machine, _, process = holder.process.rpartition(" ")
    number, _, _ = process.partition("@")
    if not machine or machine != _machine() or not _NUMBER.fullmatch(number):
        return False
    found = _process(number)
    return found != holder.process and (bool(found) or not _runs(int(number)))


def _runs(number: int) -> bool:
    """Whether there is such a process: /proc may hide those of other users (hidepid)."""
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):  # the second: no process has so large a number
        return False
    except PermissionError:
        return True
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return str(os.getuid())


def _process(number: int | str) -> str:
    """The machine since its last start, its namespace of processes, the process and when that one began; empty where there is none, or no /proc."""
    try:
        began = Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2].split()[19]  # proc(5): starttime, the 22nd field
    except (OSError, IndexError):
        return ""
    return f"{_machine()} {number}@{began}"


def _machine() -> str:
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
