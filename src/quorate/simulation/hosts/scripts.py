"""Scripts on machines: they go on when the connection is cut or the operator is gone, and end with the machine, or when somebody kills them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from quorate.hosts.connect.ssh.errors import ConnectionCut, NoAnswer
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.machines import Machine

_PATIENCE = 600.0
"""Seconds for which a script that needs kubeadm's lock waits for it."""


class Refused(Exception):
    """A script ended with another status than zero, for this reason."""


class Scripts:
    """What runs on all machines, and the connections through which somebody waits for it."""

    def __init__(self, world: World, tasks: asyncio.TaskGroup) -> None:
        self._world, self._tasks = world, tasks
        self._running: dict[Machine, set[asyncio.Task[None]]] = {}
        self._owners: dict[asyncio.Task[None], str] = {}
        self._lines: dict[Machine, set[asyncio.Future[None]]] = {}
        self.at_next_start: list[Callable[[], object]] = []  # each is called once, when a script begins anywhere

    async def run(
        self, machine: Machine, script: Coroutine[Any, Any, None], *, owner: str, admit: Callable[[Machine], None], kubeadm: bool = False
    ) -> None:
        """Start a script of the run `owner` and wait for its end; one that needs kubeadm's lock waits for it there. `admit` is its first act.

        Raises SshErrors, after which it may run on, and Refused.
        """
        if not machine.answers:
            script.close()
            raise NoAnswer(machine.name, "no answer")
        line: asyncio.Future[None] = self._world.loop.create_future()
        admitted = _admitted(machine, script, admit)
        task = self._tasks.create_task(self._alone(machine, admitted, line) if kubeadm else _told(admitted, line))
        self._owners[task] = owner
        task.add_done_callback(lambda _: self._owners.pop(task))
        task.add_done_callback(lambda _: admitted.close())
        task.add_done_callback(lambda _: script.close())  # one that was killed before its first instant
        task.add_done_callback(lambda _: self._running[machine].discard(task))
        self._running.setdefault(machine, set()).add(task)
        lines = self._lines.setdefault(machine, set())
        lines.add(line)
        waiting, self.at_next_start = self.at_next_start, []
        for started in waiting:
            started()
        try:
            await line
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
        machine.kubeadm_since, machine.restarting = None, False
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

    async def _alone(self, machine: Machine, script: Coroutine[Any, Any, None], line: asyncio.Future[None]) -> None:
        end = self._world.time() + _PATIENCE
        while machine.kubeadm_runs:
            if self._world.time() > end:
                script.close()
                _tell(line, Refused("another kubeadm has been running for too long"))
                return
            await asyncio.sleep(1.0)
        machine.kubeadm_since = self._world.time()
        try:
            await _told(script, line)
        finally:
            machine.kubeadm_since = None


async def _admitted(machine: Machine, script: Coroutine[Any, Any, None], admit: Callable[[Machine], None]) -> None:
    admit(machine)
    await script


async def _told(script: Coroutine[Any, Any, None], line: asyncio.Future[None]) -> None:
    try:
        await script
    except Refused as refused:
        _tell(line, refused)
    else:
        _tell(line, None)


def _tell(line: asyncio.Future[None], failure: Exception | None) -> None:
    if line.done():  # cut, or nobody waits any more
        return
    if failure is None:
        line.set_result(None)
    else:
        line.set_exception(failure)
