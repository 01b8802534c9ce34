"""Ports on loopback: which are free, and who listens on those that are not.

Free ports are looked for below the range the kernel gives to outgoing connections (32768 and up on Linux): a port that is only free by chance may become the
source port of one of the API server's hundred connections to etcd before its program listens on it, about one start in twenty with 12 ports.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from quorate.local.errors import LocalError, PortTaken

LOOPBACK = "127.0.0.1"
CANDIDATES = range(25000, 32768)  # above what CAPD counts up from 20000, below the kernel's range of source ports
_LISTEN = "0A"  # the state column of /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that listens on a port."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command})"


def is_free(port: int) -> bool:
    """Whether a program could listen on this port of loopback and on all addresses right now."""
    try:
        for address in (LOOPBACK, ""):
            with _bound(address, port):
                pass
    except OSError:
        return False
    return True


def choose(count: int, *, start: int) -> list[int]:
    """`count` different ports free at this moment, looked for upwards from the `start`th candidate, round once.

    Give starts that differ between processes (such as the pid), so that two that choose at the same time meet different ports.
    """
    chosen: list[int] = []
    with ExitStack() as held:
        for offset in range(len(CANDIDATES)):
            if len(chosen) == count:
                return chosen
            port = CANDIDATES[(start + offset) % len(CANDIDATES)]
            try:
                held.enter_context(_bound(LOOPBACK, port))
            except OSError:
                continue
            chosen.append(port)
    if len(chosen) == count:
        return chosen
    raise LocalError(
        f"only {len(chosen)} of {count} ports are free between {CANDIDATES[0]} and {CANDIDATES[-1]}: stop programs that listen there"
    )


def require_free(port: int, *, wanted_by: str) -> None:
    """Raise PortTaken, naming who holds the port, unless it is free."""
    if is_free(port):
        return
    holder = find_holder(port)
    if holder is None and is_free(port):  # whoever held it was ending
        return
    if holder is None:
        raise PortTaken(
            f"port {port}, which {wanted_by} fixes, is held by a process that only root can see: find it with `sudo ss -ltnp`, stop it, try again"
        )
    raise PortTaken(f"port {port}, which {wanted_by} fixes, is held by {holder}: stop it with `kill {holder.pid}`, then try again")


def find_holder(port: int, proc: Path = Path("/proc")) -> Holder | None:
    """The process that listens on `port`, or None where there is none or it belongs to somebody else."""
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    for folder in proc.glob("[0-9]*") if wanted else ():
        if any(link in wanted for link in _descriptors(folder)):
            command = " ".join((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split())
            return Holder(int(folder.name), command[:120] or (folder / "comm").read_text().strip())
    return None


def _bound(address: str, port: int) -> socket.socket:
    """A socket bound the way Go binds before it listens, so that connections that linger after a restart do not count."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((address, port))
        opened.listen(1)  # two sockets that both only bind with SO_REUSEADDR do not conflict: listening does
    except OSError:
        opened.close()
        raise
    return opened


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:  # no IPv6 in this kernel
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _descriptors(process: Path) -> Iterator[str]:
    """What a process has open; nothing of other users' processes, or once it has ended."""
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):  # closed since it was listed
                yield str(link.readlink())
