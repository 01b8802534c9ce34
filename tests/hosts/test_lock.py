"""Two operators are kept apart: the scripts of the lock file run by this machine's sh, the Lease in a small API."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.hosts import lock as locks
from quorate.hosts import operator
from quorate.hosts.access import AccessFailed
from quorate.hosts.lock import LASTS, RENEW_EVERY, Lock, Locked, held
from quorate.hosts.operator import Holder
from quorate.hosts.ssh.errors import NoAnswer
from quorate.hosts.ssh.hosts import Unreachable
from quorate.hosts.ssh.scripts import Outcome
from quorate.kubernetes.errors import AlreadyExists, Conflict, NotFound
from quorate.kubernetes.objects import Lease
from tests.core.in_place.conftest import Build

NOON = Build().noon
JANE = Holder("jane-1", "jane@desk", "apply", NOON, "desk 17@99")
JOHN = Holder("john-1", "john@couch", "apply", NOON, "couch 4@5")


@dataclass
class Host:
    """A host whose /run is a folder of the test and whose uptime is a file there. `silent`: nobody can ask it."""

    name: str
    root: Path
    silent: bool = False

    def __post_init__(self) -> None:
        self.root.mkdir()
        self.uptime(1000)

    def uptime(self, seconds: int) -> None:
        (self.root / "uptime").write_text(f"{seconds}.25 8000.12\n")

    @property
    def locked(self) -> bool:
        return (self.root / "run" / "quorate" / "lock.json").exists()

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        if self.silent:
            raise NoAnswer(self.name, "no answer")
        assert (deadline, sudo) == (15.0, True)
        script = script.replace("/run/quorate", f"{self.root}/run/quorate").replace("/proc/uptime", f"{self.root}/uptime")
        body = f"printf %s '{stdin.decode()}' | {{\nset -eu\n{script}\n}}"
        done = await asyncio.to_thread(subprocess.run, ["sh", "-s"], input=body.encode(), capture_output=True, timeout=20, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)


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


@dataclass
class World:
    """Hosts, perhaps an API, and a clock that only sleeps move."""

    states: dict[str, Any]
    leases: Leases | None = None
    slept: float = 0.0
    said: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)

    async def api(self) -> Leases:
        if self.leases is None:
            raise AccessFailed("no API server answers")
        return self.leases

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        for host in self.states.values():
            if isinstance(host, Host):
                host.uptime(1000 + int(self.slept))

    def lock(self, holder: Holder) -> Lock:
        return Lock(self, holder, now=lambda: NOON, sleep=self.sleep, has_ended=lambda other: other.id in self.ended, tell=self.said.append)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three hosts without a cluster."""
    return World({name: Host(name, tmp_path / name) for name in ("cp-1", "cp-2", "cp-3")})


async def test_the_second_operator_is_refused_and_told_who_is_first(world: World) -> None:
    await world.lock(JANE).acquire()
    with pytest.raises(Locked, match=r"host cp-1 is locked by jane@desk \(`quorate apply`, since 2026-01-01 12:00:00 UTC\)"):
        await world.lock(JOHN).acquire()
    assert await world.lock(JOHN).holder_elsewhere() == JANE
    assert await world.lock(JANE).holder_elsewhere() is None


async def test_whoever_is_refused_has_taken_nothing(world: World) -> None:
    await world.states["cp-2"].run(  # Jane has cp-2 alone
        locks._TAKE.format(path=locks.PATH, id=JANE.id, dead="''", lasts=LASTS, theirs=76), stdin=JANE.encode(), deadline=15.0
    )
    with pytest.raises(Locked, match="host cp-2"):
        await world.lock(JOHN).acquire()
    assert [name for name, host in world.states.items() if host.locked] == ["cp-2"]


async def test_what_is_released_can_be_taken_by_the_next(world: World) -> None:
    await world.lock(JANE).acquire()
    await world.lock(JANE).release()
    assert not any(host.locked for host in world.states.values())
    await world.lock(JOHN).acquire()


async def test_nobody_releases_the_lock_of_another(world: World) -> None:
    await world.lock(JANE).acquire()
    await world.lock(JOHN).release()
    assert all(host.locked for host in world.states.values())


async def test_a_lock_that_nobody_renews_runs_out_by_the_hosts_own_clock(world: World) -> None:
    await world.lock(JANE).acquire()
    await world.sleep(LASTS - 1)
    with pytest.raises(Locked):
        await world.lock(JOHN).acquire()
    await world.sleep(1)
    await world.lock(JOHN).acquire()


async def test_a_run_that_was_killed_on_this_machine_stands_in_nobodys_way(world: World) -> None:
    await world.lock(JANE).acquire()
    world.ended.add(JANE.id)
    assert await world.lock(JOHN).holder_elsewhere() is None
    await world.lock(JOHN).acquire()
    assert await world.lock(JANE).holder_elsewhere() == JOHN


async def test_hosts_that_cannot_be_asked_have_no_say(world: World) -> None:
    world.states["cp-1"] = Unreachable("cp-1", "NoAnswer", "no answer", "")
    world.states["cp-2"].silent = True
    await world.lock(JANE).acquire()
    with pytest.raises(Locked, match="host cp-3"):
        await world.lock(JOHN).acquire()


async def test_a_lease_keeps_operators_apart_who_reach_different_hosts(world: World, tmp_path: Path) -> None:
    world.leases = Leases()
    await world.lock(JANE).acquire()
    assert world.leases.holder == JANE.id
    elsewhere = Elsewhere({"cp-4": Host("cp-4", tmp_path / "cp-4")}, world.leases, renewing=world.lock(JANE))
    with pytest.raises(Locked, match="Lease kube-system/quorate-hosts is locked by jane@desk"):
        await elsewhere.lock(JOHN).acquire()
    assert "watching for 60 s" in elsewhere.said[0]
    assert not elsewhere.states["cp-4"].locked


async def test_a_lease_that_nobody_renewed_while_it_was_watched_is_taken(world: World) -> None:
    world.leases = Leases()
    await world.lock(JANE).acquire()
    for host in world.states.values():
        await host.run("rm -f -- /run/quorate/lock.json", deadline=15.0)
    await world.lock(JOHN).acquire()
    assert (world.leases.holder, world.slept) == (JOHN.id, LASTS)


async def test_a_lease_appears_with_the_cluster_and_goes_with_the_run(world: World) -> None:
    lock = world.lock(JANE)
    await lock.acquire()
    world.leases = Leases()
    await lock._take_files()
    assert await lock._take_lease() is None
    assert world.leases.holder == JANE.id
    await lock.release()
    assert world.leases.holder == ""


async def test_whoever_lost_the_lock_is_stopped_in_the_middle(world: World) -> None:
    reached = asyncio.Event()

    async def sleep(seconds: float) -> None:
        assert seconds == RENEW_EVERY
        await world.sleep(LASTS)  # it hung for a minute
        await world.lock(JOHN).acquire()

    lock = world.lock(JANE)
    lock._sleep = sleep
    with pytest.raises(Locked, match="john@couch"):
        async with held(lock):
            await reached.wait()
    assert await world.lock(JANE).holder_elsewhere() == JOHN


async def test_what_fails_under_the_lock_is_raised_as_it_is_and_the_lock_given_back(world: World) -> None:
    with pytest.raises(KeyError):
        async with held(world.lock(JANE)):
            raise KeyError("cp-9")
    assert not any(host.locked for host in world.states.values())


def test_this_process_is_known_to_run_and_another_start_of_its_number_is_not() -> None:
    here = operator.this_run("apply", "1", NOON)
    assert not operator.has_ended(here)
    process, _, _ = here.process.rpartition("@")
    assert operator.has_ended(replace(here, process=f"{process}@1"))
    assert not operator.has_ended(replace(here, process=f"another-machine {process.rpartition(' ')[2]}@1"))
    assert not operator.has_ended(replace(here, process=""))
    assert operator.decode(here.encode()) == here
    assert operator.decode("nonsense") is None


@dataclass
class Elsewhere(World):
    """Other hosts of the same cluster; while somebody sleeps here, the first run goes on renewing there."""

    renewing: Lock | None = None

    async def sleep(self, seconds: float) -> None:
        assert self.renewing is not None
        await self.renewing._take_lease()
        await World.sleep(self, seconds)
