"""A run that was stopped, and goes on when another has begun, changes nothing: no script, nothing in the API, nothing in etcd."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quorate.core.hosts import encryption, steps
from quorate.core.hosts.encryption import IDENTITY, SECRETS, Configuration
from quorate.core.hosts.steps import (
    ChangeEncryption,
    DeleteNode,
    EnsureMachineDeployments,
    Initialize,
    Join,
    JoinWorkers,
    Prepare,
    Reconfigure,
    RemoveMember,
    RenewCertificates,
    Reset,
    RewriteSecrets,
    StartServices,
    Step,
    TakeSnapshot,
    Uncordon,
    UpdateConfiguration,
    UpdateNodes,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.core.versions import Version
from quorate.hosts import act
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.connect.ssh.host import SshHost
from quorate.hosts.connect.ssh.host_keys import fingerprint
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.render.marks import CORDONED
from quorate.hosts.run.fence import FencedAccess
from quorate.hosts.run.lock import TRUSTED, Lock, Locked, LockLost, NotLockable, held
from quorate.hosts.run.lock_file import LASTS
from quorate.hosts.run.operator import Holder
from quorate.kubernetes.resource import NODES
from tests.hosts.act.running import NEW, cluster, tools
from tests.hosts.act.test_settings import configured, put, with_workers
from tests.hosts.act.world import FakeHost, World
from tests.hosts.locks import JANE, JOHN, Host
from tests.hosts.locks import World as Locks
from tests.hosts.ssh.machine import Machine
from tests.hosts.stopped_run import STOPS
from tests.hosts.stopped_run import Ways as Only


@pytest.fixture
def locks(tmp_path: Path) -> Locks:
    """Three hosts without a cluster."""
    return Locks({name: Host(name, tmp_path / name) for name in ("cp-1", "cp-2", "cp-3")})


# Scripts.


async def test_a_script_runs_while_this_run_has_the_lock(locks: Locks) -> None:
    lock, host = locks.lock(JANE), locks.states["cp-2"]
    await lock.acquire()
    outcome = await lock.change(host, f"cat; {host.changing('jane')}; exit 3", stdin=b"in", deadline=20)
    assert (outcome.exit_status, outcome.stdout, host.changes) == (3, b"in", ["jane"])


async def test_a_script_does_nothing_once_another_run_has_the_lock(locks: Locks) -> None:
    lock, host = locks.lock(JANE), locks.states["cp-2"]
    await lock.acquire()
    lock._elapsed = lambda: 0.0  # its clock stood still with it: the host knows better
    await locks.sleep(LASTS)
    await locks.lock(JOHN).acquire()
    with pytest.raises(Locked, match="host cp-2 is locked by john@couch"):
        await lock.change(host, host.changing("jane"), deadline=20)
    assert host.changes == []


async def test_nor_when_that_run_has_ended_since(locks: Locks) -> None:
    lock, host = locks.lock(JANE), locks.states["cp-2"]
    await lock.acquire()
    await locks.sleep(LASTS)
    async with held(locks.lock(JOHN)):
        pass
    with pytest.raises(LockLost):
        await lock.change(host, host.changing("jane"), deadline=20)
    assert host.changes == []


async def test_a_run_that_nobody_followed_goes_on(locks: Locks) -> None:
    lock, host = locks.lock(JANE), locks.states["cp-2"]
    await lock.acquire()
    lock._elapsed = lambda: 0.0
    await locks.sleep(10 * LASTS)
    await lock.change(host, host.changing("jane"), deadline=20)
    assert host.changes == ["jane"]


async def test_a_host_that_could_not_be_locked_is_not_changed_and_the_reason_is_said(locks: Locks) -> None:
    lock, host = locks.lock(JANE), locks.states["cp-2"]
    host.silent = True
    await lock.acquire()
    with pytest.raises(NotLockable, match="host cp-2 cannot be locked: no answer"):
        await lock.change(host, host.changing("jane"), deadline=20)
    host.silent = False
    await lock.change(host, host.changing("jane"), deadline=20)  # it is locked as soon as it answers
    assert host.changes == ["jane"]


async def test_nothing_is_changed_after_the_lock_was_given_back(locks: Locks) -> None:
    lock, host = locks.lock(JANE), locks.states["cp-1"]
    async with held(lock):
        pass
    host.silent = True
    with pytest.raises(NotLockable):
        await lock.change(host, host.changing("jane"), deadline=20)
    assert host.changes == []


async def test_a_step_that_meets_the_fence_ends_the_run_with_the_locks_reason(locks: Locks) -> None:
    lock, host = locks.lock(JANE), locks.states["cp-2"]
    lock._elapsed = lambda: 0.0
    lock._sleep = lambda _: asyncio.sleep(3600)  # the next renewal is far away

    async def work() -> None:
        async with held(lock):
            await locks.sleep(LASTS)
            await locks.lock(JOHN).acquire()
            with pytest.raises(StepFailed, match="not done: it is locked by john@couch"):
                await FencedAccess(Ways(locks), lock).ssh("cp-2").change(host.changing("jane"), deadline=20)

    with pytest.raises(Locked, match="john@couch"):
        await work()
    assert host.changes == []


# Two real runs on one machine, the first of which is stopped.


@pytest.mark.parametrize("where", STOPS)
async def test_no_command_of_a_run_that_was_stopped_takes_effect_after_the_next_has_begun(
    where: str, machine: Machine, host: SshHost, key_file: Path
) -> None:
    uptime = machine.folder / "uptime"
    uptime.write_text("1000.00 1\n")
    machine.program("sh", f"sed -e 's#/run/quorate#{machine.folder}/run/quorate#g' -e 's#/proc/uptime#{uptime}#g' | /bin/sh -s")
    arguments = (str(machine.port), str(key_file), fingerprint(machine.host_keys[0]), where)
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.hosts.stopped_run", *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert first.stderr is not None
    try:
        await stopped(first.pid)
        uptime.write_text("1100.00 1\n")
        second = run_on(host)
        await second.acquire()
        await second.change(host, "echo second >>changes", deadline=20)
        os.kill(first.pid, signal.SIGCONT)
        complaint = (await first.stderr.read()).decode()
        assert (await first.wait(), "host cp-1 is locked by john@couch" in complaint) == (16, True), complaint
        await second.change(host, "echo second >>changes", deadline=20)
    finally:
        if first.returncode is None:
            first.kill()
            await first.wait()
    changes = (machine.folder / "changes").read_text().split()
    assert changes[-2:] == ["second", "second"], changes
    assert changes.count("second") == 2


async def stopped(pid: int) -> None:
    """Wait until the process, a child of this one, is stopped."""
    await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def run_on(host: SshHost) -> Lock:
    """The second run."""
    holder = Holder("second", "john@couch", "apply", datetime.now(UTC))

    return Lock(
        Only({"cp-1": host}), holder, now=lambda: datetime.now(UTC), sleep=asyncio.sleep, has_ended=lambda _: False, tell=lambda _: None
    )


# The API and etcd, where there is no shell.


@dataclass
class Ways:
    """A world of steps, or nothing but hosts, as FencedAccess enters it."""

    locks: Locks
    world: World | None = None

    @property
    def states(self) -> Any:
        return self.world.states if self.world else self.locks.states

    def ssh(self, name: str) -> Any:
        return self.locks.states[name] if self.world is None else Plain(self.world.ssh(name))

    async def api(self) -> Any:
        assert self.world is not None
        return await self.world.api_client()

    async def api_of(self, name: str) -> Any:
        assert self.world is not None
        return await self.world.api_of(name)

    async def etcd(self, through: str | None = None) -> Any:
        assert self.world is not None
        return await self.world.etcd(through)

    async def etcd_at(self, address: str, through: str) -> Any:
        assert self.world is not None
        return await self.world.etcd_at(address, through)

    def forget(self, name: str) -> None:
        """Nothing is kept."""


@dataclass
class Plain:
    """A host of that world as SSH has it."""

    host: FakeHost

    @property
    def name(self) -> str:
        return self.host.name

    async def run(self, script: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:
        assert sudo
        return await self.host.change(script, stdin=stdin, deadline=deadline)

    async def read_file(self, path: str, *, sudo: bool = True) -> bytes:
        assert sudo
        return await self.host.read_file(path)


NODE = "/api/v1/nodes/h4"


async def test_nothing_is_written_to_the_api_by_a_run_that_was_stopped(locks: Locks) -> None:
    world, lock = cluster(), locks.lock(JANE)
    await lock.acquire()
    client = await FencedAccess(Ways(locks, world), lock).api()
    await client.delete(NODES, "h3")
    await locks.sleep(LASTS)
    await locks.lock(JOHN).acquire()
    writes = list(world.api.log)
    with pytest.raises(StepFailed, match="john@couch"):
        await client.delete(NODES, "h4")
    assert (await client.get(NODES, "h4")).metadata.name == "h4", "it may look"
    assert (NODE in world.api.objects, world.api.log) == (True, writes)


async def test_nor_by_one_whose_lease_is_somebody_elses(locks: Locks) -> None:
    world, lock = cluster(), locks.lock(JANE)
    await lock.acquire()
    client = await FencedAccess(Ways(locks, world), lock).api()
    await client.delete(NODES, "h3")
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/quorate-hosts"
    world.api.objects[path]["spec"]["holderIdentity"] = JOHN.id
    with pytest.raises(StepFailed, match="Lease kube-system/quorate-hosts: not done"):
        await client.delete(NODES, "h4")
    assert NODE in world.api.objects
    assert isinstance(lock.refused, Locked)


async def test_a_run_that_was_stopped_while_it_asked_asks_again(locks: Locks) -> None:
    world, lock = cluster(), locks.lock(JANE)
    await lock.acquire()
    client = await FencedAccess(Ways(locks, world), lock).api()
    real = lock._look_at_lease

    async def look(asked: Any) -> None:
        await real(asked)
        lock._look_at_lease = real  # type: ignore[method-assign]
        await locks.sleep(LASTS)  # stopped right here, and John begins
        await locks.lock(JOHN).acquire()

    lock._look_at_lease = look  # type: ignore[method-assign,assignment]
    with pytest.raises(StepFailed, match="john@couch"):
        await client.delete(NODES, "h4")
    assert NODE in world.api.objects


@pytest.mark.parametrize("write", [lambda member: member.remove_member(13), lambda member: member.move_leader(12)])
async def test_nothing_is_changed_in_etcd_by_a_run_that_was_stopped(locks: Locks, write: Callable[[Any], Any]) -> None:
    world, lock = cluster(), locks.lock(JANE)
    await lock.acquire()
    member = await FencedAccess(Ways(locks, world), lock).etcd("h1")
    before = list(world.members)
    await locks.sleep(LASTS)
    await locks.lock(JOHN).acquire()
    with pytest.raises(StepFailed, match="john@couch"):
        await write(member)
    assert world.members == before == list((await member.members()).members) or world.members == before


async def test_without_a_lock_on_any_host_nothing_is_written(locks: Locks) -> None:
    world, lock = cluster(), locks.lock(JANE)
    for host in locks.states.values():
        host.silent = True
    await lock.acquire()
    access = FencedAccess(Ways(locks, world), lock)
    with pytest.raises(StepFailed, match="no host: not done: it is locked by this run: cp-1: no answer"):
        await (await access.api()).delete(NODES, "h4")
    assert NODE in world.api.objects


def test_what_is_trusted_has_arrived_while_the_lock_lasts() -> None:
    from quorate.etcd.client import CALL_TIMEOUT, DIAL_TIMEOUT
    from quorate.kubernetes.client import TIMEOUT

    assert TRUSTED + max(TIMEOUT, CALL_TIMEOUT + DIAL_TIMEOUT) < LASTS


# Every step.


class Refusing(Lock):
    """The lock of a run that may change nothing."""

    async def change(self, host: Any, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:  # noqa: ARG002
        raise Locked(f"host {host.name}", JOHN)

    async def permit(self, client: Any = None) -> None:  # noqa: ARG002
        raise Locked("Lease", JOHN)


class Allowing:
    """The lock of a run that may change everything; `changed` are the scripts that went through it."""

    def __init__(self) -> None:
        self.changed: list[str] = []

    async def change(self, host: Any, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        self.changed.append(script)
        outcome: Outcome = await host.run(script, stdin=stdin, deadline=deadline)
        return outcome

    async def permit(self, client: Any = None) -> None:
        """Always."""


TARGET = Version.parse(NEW)
STEPS: tuple[Step, ...] = (
    Prepare(("h4",)),
    Initialize("h1"),
    Join("h3"),
    JoinWorkers(("h4",)),
    Reset("h4"),
    StartServices("h1", ("kubelet.service",)),
    RemoveMember(13, "h3"),
    DeleteNode("h4", drain=True),
    UpdateConfiguration(),
    UpgradeControlPlane("h1", TARGET, first=True),
    UpgradeKubelet("h1", TARGET),
    UpgradeKubelet("h4", TARGET),
    Reconfigure("h1"),
    ChangeEncryption("h1", Configuration.made({SECRETS: (IDENTITY, encryption.NEW)})),
    RewriteSecrets(IDENTITY),
    RenewCertificates("h1"),
    Uncordon("h4"),
    UpdateNodes(("h4",)),
    EnsureMachineDeployments(),
)


def stepping(step: Step) -> World:
    """A world in which every step has something to do."""
    world = configured()
    world.manifest = replace(with_workers(), cluster_network=world.manifest.cluster_network)
    put(world, "kubelet-config", "kubelet", {"maxPods": 42})
    world.api.objects[NODE].update(spec={"unschedulable": True})
    world.api.objects[NODE]["metadata"]["annotations"] = {CORDONED: "true"}
    if isinstance(step, Join):
        world.hosts["h3"].files.clear()
        world.members.pop()
    return world


def working(world: World, lock: Any) -> Tools:
    """Tools behind the fence of this lock."""
    return replace(tools(world), access=FencedAccess(Ways(Locks({}), world), lock))


def state_of(world: World) -> Any:
    asked = ("base64 -w 0", "containerd --version")
    hosts = {name: (dict(host.files), [each for each in host.ran if each not in asked]) for name, host in world.hosts.items()}
    return hosts, list(world.members), list(world.api.log)


def test_every_kind_of_step_is_looked_at() -> None:
    assert {type(step) for step in STEPS} | {TakeSnapshot} == steps.EVERYTHING


@pytest.mark.parametrize("step", STEPS, ids=str)
async def test_no_step_changes_anything_for_a_run_without_the_lock(step: Step) -> None:
    world = stepping(step)
    before = state_of(world)
    refusing = Refusing.__new__(Refusing)
    with pytest.raises(StepFailed, match="john@couch"):
        await Executor(working(world, refusing)).carry_out(step, world.observed())
    assert state_of(world) == before


CHANGING = re.compile(
    r"\b(mv|rm|cp|mkdir|chmod|chown|touch|tee|ln|truncate|kill|kubeadm|apt-get|apt-mark|dnf|modprobe|flock)\b"
    r"|sed -i|systemctl (?!show|is-)|ctr .*(kill|delete|pull)|exec \d|(?<!2)>{1,2} *(?!/dev/null|&2)"
)
"""What a script that only looks has none of, texts in quotes apart."""


def test_what_changes_a_host_is_found_in_a_script() -> None:
    for script in ("mv -f a b", "echo x >/etc/x", "systemctl restart kubelet", "exec 9>>/run/x", "ctr -n k8s.io tasks kill 1"):
        assert CHANGING.search(script), script
    for script in ("cat /etc/x 2>/dev/null", "systemctl show kubelet", "echo x >&2", "ctr -n k8s.io tasks ls"):
        assert not CHANGING.search(script), script


@pytest.mark.parametrize("step", STEPS, ids=str)
async def test_every_script_of_a_step_passes_the_fence_or_only_looks(step: Step) -> None:
    world, allowing = stepping(step), Allowing()
    with suppress(StepFailed):
        await Executor(working(world, allowing)).carry_out(step, world.observed())
    scripts = [script for host in world.hosts.values() for script in host.scripts]
    looked = [script for script in scripts if script not in allowing.changed]
    assert not [script for script in looked if CHANGING.search(re.sub(r"\"[^\"]*\"|'[^']*'", "", script))]
    of_hosts = not isinstance(
        step, RemoveMember | DeleteNode | UpdateConfiguration | Uncordon | UpdateNodes | EnsureMachineDeployments | RewriteSecrets
    )
    assert bool(allowing.changed) == of_hosts


def test_no_step_has_a_way_around_the_fence() -> None:
    modules = sorted(Path(act.__path__[0]).glob("*.py"))
    assert len(modules) > 20
    for module in modules:
        imports = [line for line in module.read_text().splitlines() if line.startswith(("from ", "import "))]
        assert not [
            line
            for line in imports
            if re.search(r"ssh\.(host|kept|scripts import .*execute|dial) |access import .*\bAccess\b|asyncssh", line)
        ]
