"""Two operators are kept apart: the scripts of the lock file run by this machine's sh, the Lease in a small API."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.run import lock_file, operator
from quorate.hosts.run.lock import RENEW_EVERY, TIMEOUT, Lock, held
from quorate.hosts.run.lock_file import LASTS, Busy, Failed, Lost, Taken, Theirs, Unasked
from quorate.hosts.run.lock_refused import Locked, LockLost, NotLockable
from quorate.hosts.run.operator import Holder
from tests.hosts.locks import JANE, JOHN, NOON, Host, Leases, World


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


async def test_a_number_that_a_lock_script_never_ends_with_is_that_hosts_own_failure(world: World) -> None:
    host = world.states["cp-2"]
    host.prelude = "exit 77"
    with pytest.raises(NotLockable, match=r"host cp-2 cannot be locked: .*status 77"):
        await world.lock(JANE).acquire()
    assert await lock_file.renew(host, JANE) == Lost()
    host.prelude = "exit 75"
    assert isinstance(await lock_file.take(host, JANE), Busy)
    assert isinstance(await lock_file.renew(host, JANE), Failed)


async def test_whoever_is_refused_has_taken_nothing(world: World) -> None:
    assert await lock_file.take(world.states["cp-2"], JANE) == Taken()  # Jane has cp-2 alone
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


# A lock that cannot be had is a refusal, and says why.

FULL = "trap '' XFSZ; ulimit -f 0"
"""No file can be written any more, as on a disk that is full."""
NO_FLOCK = "flock() { echo 'flock: not found' >&2; return 127; }"


@pytest.mark.parametrize(("prelude", "reason"), [(FULL, "error"), (NO_FLOCK, "flock: not found")])
async def test_a_host_that_cannot_lock_is_a_refusal_with_its_reason(world: World, prelude: str, reason: str) -> None:
    world.states["cp-2"].prelude = prelude
    with pytest.raises(NotLockable, match=rf"host cp-2 cannot be locked: .*{reason}"):
        await world.lock(JANE).acquire()
    assert not any(host.locked for host in world.states.values())


class Late(Host):
    """A host on which a script begins only when another host has answered; `cut_off` tells whether the run went on before such a script had ended."""

    other_answered: asyncio.Event
    cut_off = False

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        await self.other_answered.wait()
        try:
            return await super().run(script, stdin=stdin, deadline=deadline, sudo=sudo)
        except asyncio.CancelledError:
            self.cut_off = True
            raise


class First(Host):
    """A host that tells when it has answered."""

    answered: asyncio.Event

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        outcome = await super().run(script, stdin=stdin, deadline=deadline, sudo=sudo)
        self.answered.set()
        return outcome


async def test_no_script_is_cut_off_that_takes_the_lock_where_another_host_cannot_lock(world: World, tmp_path: Path) -> None:
    first, late = First("first", tmp_path / "first", prelude=NO_FLOCK), Late("late", tmp_path / "late")
    first.answered = late.other_answered = asyncio.Event()
    world.states = {"cp-1": world.states["cp-1"], "cp-2": first, "cp-3": late}
    with pytest.raises(NotLockable, match="host first cannot be locked"):
        await world.lock(JANE).acquire()
    assert not late.cut_off
    assert not any(host.locked for host in world.states.values())


async def test_what_came_of_a_lock_is_one_of_six_answers(world: World) -> None:
    host = world.states["cp-1"]
    assert await lock_file.renew(host, JANE) == Lost()
    assert await lock_file.take(host, JANE) == Taken()
    assert await lock_file.look(host, JANE) == await lock_file.renew(host, JANE) == Taken()
    assert await lock_file.take(host, JOHN) == await lock_file.look(host, JOHN) == Theirs(JANE)
    async with working(world, JANE, "cp-1"):
        assert await lock_file.renew(host, JANE) == Taken()
        await world.sleep(LASTS)
        busy = await lock_file.take(host, JOHN, wait=0)
    assert isinstance(busy, Busy)
    assert "tee (" in busy.programs
    host.prelude = FULL
    assert isinstance(await lock_file.take(host, JOHN), Failed)
    host.silent = True
    assert await lock_file.take(host, JOHN) == Unasked("no answer")


class Work:
    """A script on a host that goes on until it is let end."""

    def __init__(self, folder: Path) -> None:
        self._begun, self._ending = folder / "begun", folder / "ending"
        os.mkfifo(self._begun)
        os.mkfifo(self._ending)
        self._pipe: int | None = os.open(self._ending, os.O_RDWR)
        self.script = f"tee {self._begun} <{self._ending} >/dev/null"

    async def begun(self) -> None:
        """Return once it runs: it hands on what it is told."""
        assert self._pipe is not None
        os.write(self._pipe, b".")
        await asyncio.to_thread(self._said)

    def _said(self) -> None:
        with self._begun.open("rb") as pipe:
            assert pipe.read(1) == b"."

    def end(self) -> None:
        """It has nothing more to hand on."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


@asynccontextmanager
async def working(world: World, holder: Holder, name: str, then: str = ":") -> AsyncIterator[Work]:
    """A script of a run that has the lock goes on meanwhile until it is let end, and does this then; at the end of the block it has ended."""
    host = world.states[name]
    work = Work(host.root)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(host.run(lock_file.fenced(f"{work.script}\n{then}", holder, until=10**9), deadline=20.0))
        try:
            await work.begun()
            yield work
        finally:
            work.end()
    assert running.result().exit_status == 0


async def test_scripts_of_an_earlier_run_are_waited_for_by_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_file, "GUARD_WAIT", 0)
    await world.lock(JANE).acquire()
    host = world.states["cp-2"]
    async with working(world, JANE, "cp-2", then=host.changing("first")) as work:
        await world.sleep(LASTS)  # Jane's run is stopped, or gone
        lock = world.lock(JOHN)

        def tell(said: str) -> None:
            world.said.append(said)
            work.end()

        lock._tell = tell
        await lock.acquire()
        assert host.changes == ["first"]
    assert any("host cp-2 is still changed by" in said and "tee (" in said for said in world.said), world.said
    assert await world.lock(JANE).holder_elsewhere() == JOHN


async def test_a_script_that_never_ends_is_a_refusal_in_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_file, "GUARD_WAIT", 0)
    lock = world.lock(JOHN)
    lock._elapsed = iter([0.0, 0.0, TIMEOUT + 1, TIMEOUT + 1]).__next__
    assert await lock_file.take(world.states["cp-1"], JANE) == Taken()
    async with working(world, JANE, "cp-1"):
        await world.sleep(LASTS)
        with pytest.raises(NotLockable, match=r"host cp-1 is still changed by .*tee \("):
            await lock._take_or_wait(world.states["cp-1"])


async def test_a_host_that_was_started_anew_is_locked_anew(world: World) -> None:
    lock = world.lock(JANE)
    await lock.acquire()
    world.states["cp-2"].restart()
    await world.sleep(RENEW_EVERY)
    await lock.renew()
    assert await world.lock(JOHN).holder_elsewhere() == JANE


async def test_a_lock_that_somebody_had_since_is_lost_though_nobody_has_it_now(world: World) -> None:
    lock = world.lock(JANE)
    await lock.acquire()
    await world.sleep(LASTS)
    await world.lock(JOHN).acquire()
    await world.lock(JOHN).release()
    with pytest.raises(LockLost, match="run the same command again"):
        await lock.renew()


async def test_a_lease_that_somebody_had_since_is_lost_though_nobody_has_it_now(world: World) -> None:
    world.leases = Leases()
    lock = world.lock(JANE)
    await lock.acquire()
    world.leases.lease["spec"]["holderIdentity"] = ""  # type: ignore[index]  # somebody took it, and has given it back
    with pytest.raises(Locked, match="Lease kube-system/quorate-hosts"):
        await lock.renew()


async def test_a_lease_keeps_operators_apart_who_reach_different_hosts(world: World, tmp_path: Path) -> None:
    world.leases = Leases()
    await world.lock(JANE).acquire()
    assert world.leases.holder == JANE.id
    elsewhere = Elsewhere({"cp-4": Host("cp-4", tmp_path / "cp-4")}, world.leases, renewing=world.lock(JANE))
    with pytest.raises(Locked, match="Lease kube-system/quorate-hosts is locked by jane@desk"):
        await elsewhere.lock(JOHN).acquire()
    assert "watching for 60 s" in elsewhere.said[0]
    assert not elsewhere.states["cp-4"].locked


async def test_whoever_holds_a_lease_is_not_taken_for_ended_because_the_api_does_not_answer_any_more(world: World, tmp_path: Path) -> None:
    world.leases = Leases()
    await world.lock(JANE).acquire()
    elsewhere = Vanishing({"cp-4": Host("cp-4", tmp_path / "cp-4")}, world.leases)
    with pytest.raises(Locked, match="Lease kube-system/quorate-hosts is locked by jane@desk"):
        await elsewhere.lock(JOHN).acquire()
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
    await lock.renew()
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
        await self.renewing._renew_lease()
        await World.sleep(self, seconds)


class Vanishing(World):
    """Whose API does not answer any more once somebody has waited."""

    async def sleep(self, seconds: float) -> None:
        self.leases = None
        await super().sleep(seconds)


def test_a_run_of_another_user_that_proc_does_not_show_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc is mounted with hidepid=2, as on machines that several operators share: what others run has no folder there."""
    theirs = operator.this_run("apply", "theirs", NOON)
    reading = Path.read_text
    answers: list[OSError | None] = [PermissionError(), None, ProcessLookupError()]

    def read_text(self: Path, *arguments: Any, **settings: Any) -> str:
        if str(self) == f"/proc/{os.getpid()}/stat":
            raise FileNotFoundError(str(self))
        return reading(self, *arguments, **settings)

    def kill(process: int, signal: int) -> None:
        assert (process, signal) == (os.getpid(), 0)
        if (answer := answers.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(os, "kill", kill)
    assert [operator.has_ended(theirs) for _ in range(3)] == [False, False, True]
