"""Hosts whose lock scripts are run by this machine's sh, each in a folder of its own; an API with one Lease; and a clock that only sleeps move."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.errors import NoAnswer
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.run.lock import Lock
from quorate.hosts.run.operator import Holder
from quorate.kubernetes.errors import AlreadyExists, Conflict, NotFound, ServerError
from quorate.kubernetes.objects import Lease
from tests.core.hosts.conftest import Build

NOON = Build().noon
JANE = Holder("jane-1", "jane@desk", "apply", NOON, "desk 17@99")
JOHN = Holder("john-1", "john@couch", "apply", NOON, "couch 4@5")
SH = shutil.which("sh") or "/bin/sh"


def in_folder(script: str, root: Path) -> str:
    """The script with the host's /run and uptime in a folder."""
    return script.replace("/run/quorate", f"{root}/run/quorate").replace("/proc/uptime", f"{root}/uptime")


@dataclass
class Host:
    """A host whose /run is a folder of the test and whose uptime is a file there. `silent`: nobody can ask it; `prelude`: what is wrong with it, in sh."""

    name: str
    root: Path
    silent: bool = False
    prelude: str = ":"

    def __post_init__(self) -> None:
        self.root.mkdir()
        self.uptime(1000)

    def uptime(self, seconds: int) -> None:
        (self.root / "uptime").write_text(f"{seconds}.25 8000.12\n")

    def restart(self) -> None:
        """Start anew: /run is empty, and the uptime goes on from little."""
        shutil.rmtree(self.root / "run", ignore_errors=True)

    @property
    def locked(self) -> bool:
        return (self.root / "run" / "quorate" / "lock.json").exists()

    @property
    def changes(self) -> list[str]:
        """What scripts have written by `changing`."""
        file = self.root / "changes"
        return file.read_text().split() if file.exists() else []

    def changing(self, word: str) -> str:
        """A script that leaves a word behind."""
        return f"echo {word} >>{self.root}/changes"

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        if self.silent:
            raise NoAnswer(self.name, "no answer")
        assert (deadline > 0, sudo) == (True, True)
        body = f"printf %s '{stdin.decode()}' | {{\nset -eu\n{self.prelude}\n{in_folder(script, self.root)}\n}}"
        process = await asyncio.create_subprocess_exec(
            *(SH, "-s"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        stdout, stderr = await process.communicate(body.encode())
        assert process.returncode is not None
        return Outcome(process.returncode, stdout, stderr)


@dataclass
class Leases:
    """An API with one Lease."""

    lease: dict[str, Any] | None = None
    version: int = 0

    async def get(self, _resource: Any, _name: str, _namespace: str = "") -> Lease:
        if self.lease is None:
            raise NotFound("no such Lease")
        return msgspec.convert(self.lease, Lease)

    async def create(self, _resource: Any, body: Mapping[str, Any], _namespace: str = "") -> Lease:
        if self.lease is not None:
            raise AlreadyExists("there is one")
        return self._store(dict(body))

    async def merge_patch(self, _resource: Any, _name: str, patch: Mapping[str, Any], _namespace: str = "") -> Lease:
        assert self.lease is not None
        if patch["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("it has changed")
        merged = {key: {**self.lease[key], **patch.get(key, {})} for key in ("metadata", "spec")}
        return self._store({**self.lease, **merged})

    def _store(self, body: dict[str, Any]) -> Lease:
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return msgspec.convert(self.lease, Lease)

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


class Full(Leases):
    """An API that answers and takes no write: its etcd has no space left."""

    async def create(self, *_: Any, **__: Any) -> Lease:
        raise ServerError("create leases: etcdserver: mvcc: database space exceeded")

    async def merge_patch(self, *_: Any, **__: Any) -> Lease:
        raise ServerError("patch leases: etcdserver: mvcc: database space exceeded")


@dataclass
class World:
    """Hosts, perhaps an API, and a clock that only sleeps move. `elsewhere`: control-plane hosts of the manifest that are not reached from here."""

    states: dict[str, Any]
    leases: Leases | None = None
    slept: float = 0.0
    said: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    elsewhere: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.states.update({name: Unreachable(name, "NoAnswer", "no answer", "") for name in self.elsewhere})

    @property
    def control_planes(self) -> tuple[str, ...]:
        return tuple(self.states)

    async def api(self) -> Leases:
        if self.leases is None:
            raise AccessFailed("no API server answers")
        return self.leases

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        for host in self.states.values():
            if isinstance(host, Host):
                host.uptime(1000 + int(self.slept))

    def lock(self, holder: Holder, *without: str) -> Lock:
        return Lock(
            self,
            holder,
            now=lambda: NOON,
            sleep=self.sleep,
            has_ended=lambda other: other.id in self.ended,
            tell=self.said.append,
            elapsed=lambda: self.slept,
            without=without,
        )
