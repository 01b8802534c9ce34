"""Starting, watching and stopping the programs of one local cluster, with every step recorded in the run folder before the next."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from quorate.local import processes
from quorate.local.commands import Command, environment
from quorate.local.errors import LocalError, StartFailed
from quorate.local.folder import Phase, RunFolder, State

GRACE = 3.0  # seconds between SIGTERM and SIGKILL: an API server with watches or a manager without API server takes longer
_LOOK_AGAIN = 0.05  # seconds between questions whether a program is ready

_LAST = ("kube-apiserver", "etcd")

Probe = Callable[[], Awaitable[str]]  # what is still missing, in words; empty when ready


def stop_order(names: Iterable[str]) -> list[list[str]]:
    """The programs in tiers that may end at once: what uses the API server, the API server, etcd."""
    tiers: dict[int, list[str]] = {}
    for name in names:
        tiers.setdefault(_LAST.index(name) if name in _LAST else -1, []).append(name)
    return [tiers[rank] for rank in sorted(tiers)]


class Launcher:
    """The programs one process started for one run folder."""

    def __init__(self, folder: RunFolder, state: State) -> None:
        self.folder = folder
        self.state = state  # as it was last recorded
        self._commands: dict[str, Command] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, command: Command, *, inherit: Sequence[int] = ()) -> None:
        """Start a program and record it. Raises StartFailed where the system refuses."""
        log = self.folder.log(command.name)
        try:
            child = processes.spawn(
                command.arguments, log=log, environment=environment(command), bound_to_parent=not self.state.detached, inherit=inherit
            )
        except OSError as error:
            raise StartFailed(f"{command.name} could not be started from {command.arguments[0]}: {error}") from None
        self._commands[command.name], self._children[command.name] = command, child
        identity = processes.identify(child.pid)
        if identity is None:
            raise LocalError(f"/proc does not show pid {child.pid} ({command.name}): the local cluster needs Linux with /proc mounted")
        self._record(processes={**self.state.processes, command.name: identity})

    async def until(self, name: str, probe: Probe, *, timeout: float) -> None:
        """Wait until `probe` misses nothing. Raises StartFailed, with the end of its log, where the program ends first or `timeout` seconds pass."""
        missing = "it was not asked yet"
        try:
            async with asyncio.timeout(timeout):
                while missing := await probe():
                    self._require_running(name)
                    await asyncio.sleep(_LOOK_AGAIN)
        except TimeoutError:
            raise StartFailed(f"{name} was not ready within {timeout:.0f} s ({missing}); the end of {self._told(name)}") from None

    def ended(self) -> tuple[str, ...]:
        """The programs that have ended though nobody stopped them."""
        return tuple(name for name, child in self._children.items() if child.poll() is not None)

    def command(self, name: str) -> Command:
        """What `start` was given for this program; raises KeyError naming those there are."""
        if name not in self._commands:
            raise KeyError(f"no program {name} in this local cluster: it has {', '.join(self._commands)}")
        return self._commands[name]

    async def stop(self, name: str, *, grace: float = GRACE) -> None:
        """End one program: SIGTERM, then SIGKILL; with grace 0 SIGKILL at once. Idempotent."""
        child = self._children.pop(name, None)
        if child is not None:
            await processes.stop(self.state.processes[name], grace=grace)
            child.wait()

    async def stop_all(self) -> None:
        """End every program, those first that need the others. Idempotent."""
        for tier in stop_order(self._children):
            async with asyncio.TaskGroup() as group:
                for name in tier:
                    group.create_task(self.stop(name))
        self._record(phase=Phase.ENDED)

    def mark_ready(self) -> None:
        """Record that everything runs."""
        self._record(phase=Phase.READY)

    def let_go(self) -> None:
        """Leave the programs of a detached cluster to themselves."""
        for child in self._children.values():
            child.returncode = 0  # no longer ours to wait for: without it Popen warns of a child that still runs
        self._children.clear()

    def _record(self, **changes: object) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)
        self.folder.write(self.state)

    def _require_running(self, name: str) -> None:
        code = self._children[name].poll()
        if code is not None:
            raise StartFailed(f"{name} ended with code {code} while it started; the end of {self._told(name)}")

    def _told(self, name: str) -> str:
        return f"{self.folder.log(name)}:\n{self.folder.log_tail(name) or '  (empty)'}"
