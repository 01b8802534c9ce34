"""Scripts on machines: they go on when the connection is cut or the operator is gone, and end with the machine, or when somebody kills them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.kubeadm import BUSY
from quorate.hosts.connect.ssh.errors import ConnectionCut, NoAnswer
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.machines import Machine

_TIMEOUT = 600.0
"""Seconds for which a script that needs kubeadm's lock waits for it."""


Script = Callable[[], Awaitable[bytes | None]]
"""Begins what a script does. Returns what it has written, None for nothing."""


class Refused(Exception):
    """A script ended with another status than zero, for this reason."""

    def __init__(self, reason: str, status: int = 1) -> None:
        super().__init__(reason)
        self.status = status


class Scripts:
    """What runs on all machines, and the connections through which somebody waits for it."""

    def __init__(self, world: World, tasks: asyncio.TaskGroup) -> None:
        self._world, self._tasks = world, tasks
        self._running: dict[Machine, set[asyncio.Task[None]]] = {}
        self._owners: dict[asyncio.Task[None], str] = {}
        self._lines: dict[Machine, set[asyncio.Future[bytes]]] = {}
        self.at_next_start: list[Callable[[], object]] = []  # each is called once, when a script begins anywhere

    async def run(self, machine: Machine, script: Script, *, owner: str, admit: Callable[[Machine], None], kubeadm: bool = False) -> bytes:
        """Start a script of the run `owner`, and wait for its end and what it wrote; one that needs kubeadm's lock waits for it. `admit` is its first act.

        Raises SshErrors, after which it may run on, Refused, and StepFailed where it is not admitted.
        """
        if not machine.answers:
            raise NoAnswer(machine.name, "no answer")
        line: asyncio.Future[bytes] = self._world.loop.create_future()
        admitted = partial(_admitted, machine, script, admit)
        task = self._tasks.create_task(self._alone(machine, admitted, line) if kubeadm else _told(admitted, line))
        self._owners[task] = owner
        task.add_done_callback(lambda _: self._owners.pop(task))
        task.add_done_callback(lambda _: self._running[machine].discard(task))
        self._running.setdefault(machine, set()).add(task)
        lines = self._lines.setdefault(machine, set())
        lines.add(line)
        waiting, self.at_next_start = self.at_next_start, []
        for started in waiting:
            started()
        try:
            return await line
        finally:
            lines.discard(line)

    def cut(self, machine: Machine) -> int:
        """Cut every connection; what runs goes on. Tells how many there were."""
        lines = [line for line in self._lines.get(machine, ()) if not line.done()]
        for line in lines:
            line.set_exception(ConnectionCut(machine.name, "the connection was cut"))
        return len(lines)

    def kill(self, machine: Machine) -> int:
        """End every script at this instant. Tells how many there were."""
        running = [task for task in self._running.get(machine, ()) if not task.done()]
        for task in running:
            task.cancel()
        machine.kubeadm_since = None
        self.cut(machine)
        return len(running)

    def runs_for_another(self, machine: Machine, name: str) -> bool:
        """Whether a script of another run goes on there. What somebody runs by hand is of none."""
        return any(not task.done() and self._owners[task] not in (name, "") for task in self._running.get(machine, ()))

    def is_busy(self, machine: Machine) -> bool:
        """Whether a script runs there."""
        return any(not task.done() for task in self._running.get(machine, ()))

    def close(self) -> None:
        """End everything everywhere."""
        for machine in list(self._running):
            self.kill(machine)

    async def _alone(self, machine: Machine, script: Script, line: asyncio.Future[bytes]) -> None:
        end = self._world.time() + _TIMEOUT
        while machine.kubeadm_runs:
            if self._world.time() > end:
                _tell(line, Refused("another kubeadm has been running for too long", BUSY))
                return
            await asyncio.sleep(1.0)
        machine.kubeadm_since = self._world.time()
        try:
            await _told(script, line)
        finally:
            machine.kubeadm_since = None


async def _admitted(machine: Machine, script: Script, admit: Callable[[Machine], None]) -> bytes:
    admit(machine)
    return await script() or b""


async def _told(script: Script, line: asyncio.Future[bytes]) -> None:
    try:
        _tell(line, await script() or b"")
    except (Refused, StepFailed) as failure:
        _tell(line, failure)


def _tell(line: asyncio.Future[bytes], came: bytes | Exception) -> None:
    if line.done():  # cut, or nobody waits any more
        return
    if isinstance(came, bytes):
        line.set_result(came)
    else:
        line.set_exception(came)
