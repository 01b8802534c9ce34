"""A run as a process of its own: it locks a machine, changes it over and over, and stops itself (SIGSTOP) at a named instant of its third change.

Ends with 0 when nobody disturbed it, and with 16, as quorate does, when the lock was lost.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quorate.hosts.connect.ssh import scripts
from quorate.hosts.connect.ssh.dial import Dialer
from quorate.hosts.connect.ssh.hosts import Hosts
from quorate.hosts.connect.ssh.known_hosts import KnownHosts
from quorate.hosts.connect.ssh.target import Endpoint, Identity, Target
from quorate.hosts.run import lock, lock_file
from quorate.hosts.run.lock import Lock, held
from quorate.hosts.run.lock_refused import LockRefused
from quorate.hosts.run.operator import Holder

CHANGES = 40
STOPS = (
    "before a script is sent",
    "when its shell has started and its text has not arrived",
    "while it runs",
    "before a renewal",
    "after a renewal",
)


def stop() -> None:
    """Until somebody continues this process."""
    os.kill(os.getpid(), signal.SIGSTOP)


class Stopping:
    """Puts the stop where it is wanted, once, when `armed`."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.armed = False

    def at(self, where: str) -> None:
        """This is the instant `where`."""
        if self.armed and where == self.where:
            self.armed = False
            stop()

    def patch(self, module: Any, name: str, before: str, after: str = "") -> None:
        """Make the instants before a function is called and after it has returned."""
        real = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.at(before)
            made = real(*arguments, **named)
            return self._then(made, after) if after else made

        setattr(module, name, call)

    async def _then(self, made: Any, after: str) -> Any:
        result = await made
        self.at(after)
        return result


async def work(port: int, key: str, host_key: str, stopping: Stopping) -> None:
    endpoint = Endpoint(address="127.0.0.1", port=port, user="operator", identity=Identity(key_file=Path(key)), host_key=host_key)
    async with Hosts(Dialer(KnownHosts(Path("/nowhere/known_hosts")))) as hosts:
        host = hosts.host(Target(name="cp-1", endpoint=endpoint))
        holder = Holder("first", "jane@desk", "apply", datetime.now(UTC))
        run = Lock(Ways({"cp-1": host}), holder, now=lambda: datetime.now(UTC), sleep=asyncio.sleep, has_ended=lambda _: False, tell=print)
        async with held(run):
            for number in range(CHANGES):
                stopping.armed = stopping.armed or number == 2
                async with asyncio.TaskGroup() as group:
                    group.create_task(run.change(host, "echo first >>changes; sleep 0.3; echo first >>changes", deadline=20))
                    await asyncio.sleep(0.15)
                    stopping.at("while it runs")


class Ways:
    """One host, and no API."""

    def __init__(self, states: dict[str, Any]) -> None:
        self.states = states
        self.control_planes = tuple(states)

    async def api(self) -> Any:
        raise TimeoutError


def main() -> int:
    port, key, host_key, where = sys.argv[1:]
    stopping = Stopping(where)
    stopping.patch(scripts, "_start", "before a script is sent")
    stopping.patch(scripts, "_send", "when its shell has started and its text has not arrived")
    stopping.patch(lock_file, "renew", "before a renewal", "after a renewal")
    if "renewal" in where:
        lock.RENEW_EVERY = 0.2
    try:
        asyncio.run(work(int(port), key, host_key, stopping))
    except LockRefused as refused:
        sys.stderr.write(f"{refused}\n")
        return 16
    return 0


if __name__ == "__main__":
    sys.exit(main())
