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
from quorate.hosts.run import lock_file
from quorate.hosts.run.fence import FencedAccess
from quorate.hosts.run.lock import RENEW_EVERY, Lock, held
from quorate.hosts.run.lock_confirmed import TRUSTED
from quorate.hosts.run.lock_file import LASTS
from quorate.hosts.run.lock_refused import Locked, LockLost, NotLockable
from quorate.hosts.run.operator import Holder
from quorate.kubernetes.resource import NODES
from tests.hosts.act.running import NEW, cluster, tools
from tests.hosts.act.test_encryption import made as encrypting
from tests.hosts.act.test_settings import configured, put, with_workers
from tests.hosts.act.world import FakeHost, World
from tests.hosts.locks import JANE, JOHN, Full, Host, Leases
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


# Two operators who reach no common host.


@dataclass
class Apart:
    """Jane reaches cp-1 alone and John cp-2 alone, of three control-plane hosts; `world` is the cluster's etcd, which both reach."""

    jane: Locks
    john: Locks
    world: World

    @property
    def members(self) -> list[int]:
        return [member.id for member in self.world.members]

    async def removes(self, lock: Lock, member: int) -> None:
        await (await FencedAccess(Ways(self.jane, self.world), lock).etcd("h1")).remove_member(member)


@pytest.fixture
def apart(tmp_path: Path) -> Apart:
    """With one API."""
    api = Leases()
    jane = Locks({"cp-1": Host("cp-1", tmp_path / "cp-1")}, api, elsewhere=("cp-2", "cp-3"))
    john = Locks({"cp-2": Host("cp-2", tmp_path / "cp-2")}, api, elsewhere=("cp-1", "cp-3"))
    return Apart(jane, john, cluster())


async def test_who_was_stopped_while_the_lease_was_taken_by_somebody_elsewhere_runs_no_script(apart: Apart) -> None:
    lock, host = apart.jane.lock(JANE), apart.jane.states["cp-1"]
    await lock.acquire()
    await lock.change(host, host.changing("before"), deadline=20)
    await apart.john.lock(JOHN).acquire()
    await apart.jane.sleep(LASTS + 1)
    with pytest.raises(Locked, match="Lease kube-system/quorate-hosts is locked by john@couch"):
        await lock.change(host, host.changing("jane"), deadline=20)
    assert host.changes == ["before"]
    assert isinstance(lock.refused, Locked)


async def test_nor_does_she_remove_a_member(apart: Apart) -> None:
    lock = apart.jane.lock(JANE)
    await lock.acquire()
    await apart.john.lock(JOHN).acquire()
    await apart.jane.sleep(LASTS + 1)
    with pytest.raises(StepFailed, match="Lease kube-system/quorate-hosts: not done: it is locked by john@couch"):
        await apart.removes(lock, 13)
    assert apart.members == [11, 12, 13]


async def test_a_script_that_arrives_when_somebody_elsewhere_may_be_confirmed_does_nothing(apart: Apart) -> None:
    """She was stopped right before it was sent, and the first that she does when she goes on is to renew the host's lock."""
    lock, host = apart.jane.lock(JANE), apart.jane.states["cp-1"]
    await lock.acquire()
    real = host.run

    async def late(script: str, **options: Any) -> Outcome:
        host.run = real
        await apart.jane.sleep(LASTS + 1)
        await apart.john.lock(JOHN).acquire()
        assert await lock_file.renew(host, JANE) == lock_file.Taken()
        outcome: Outcome = await real(script, **options)
        return outcome

    host.run = late
    with pytest.raises(Locked, match="john@couch"):
        await lock.change(host, host.changing("jane"), deadline=20)
    assert host.changes == []


async def test_whose_api_server_is_down_removes_no_member_once_the_lease_has_run_out(apart: Apart) -> None:
    jane, john = apart.jane.lock(JANE), apart.john.lock(JOHN)
    await jane.acquire()
    apart.jane.leases = None  # that of her host alone
    await apart.jane.sleep(RENEW_EVERY)
    await jane.renew()
    await apart.removes(jane, 14)  # the Lease is hers still
    await john.acquire()
    await apart.jane.sleep(LASTS)
    await jane.renew()
    with pytest.raises(
        StepFailed,
        match=r"it may not be the only one: Lease kube-system/quorate-hosts cannot be asked for: no API server answers, and of 3",
    ):
        await apart.removes(jane, 13)
    with pytest.raises(NotLockable, match=r"\(cp-2: no answer; cp-3: no answer\); bring them back.*--without HOST"):
        await jane.change(apart.jane.states["cp-1"], "true", deadline=20)
    await apart.removes(john, 12)
    assert apart.members == [11, 13]


async def test_where_etcd_is_full_neither_of_them_changes_anything(apart: Apart) -> None:
    apart.jane.leases = apart.john.leases = Full()
    for world, holder, name in ((apart.jane, JANE, "cp-1"), (apart.john, JOHN, "cp-2")):
        lock, host = world.lock(holder), world.states[name]
        await lock.acquire()
        with pytest.raises(StepFailed, match="is refused by the API: create leases: etcdserver: mvcc: database space exceeded"):
            await apart.removes(lock, 13)
        with pytest.raises(NotLockable, match="of 3 control-plane hosts more than half"):
            await lock.change(host, host.changing("x"), deadline=20)
        assert host.changes == []
    assert apart.members == [11, 12, 13]


async def test_without_the_lease_and_without_most_of_the_hosts_nothing_is_changed(locks: Locks) -> None:
    world, lock = cluster(), locks.lock(JANE)
    for name in ("cp-2", "cp-3"):
        locks.states[name].silent = True
    await lock.acquire()
    with pytest.raises(NotLockable, match=r"this run may not be the only one: .*cp-2: no answer; cp-3: no answer"):
        await lock.change(locks.states["cp-1"], locks.states["cp-1"].changing("jane"), deadline=20)
    with pytest.raises(StepFailed, match="cp-2: no answer; cp-3: no answer"):
        await (await FencedAccess(Ways(locks, world), lock).etcd("h1")).remove_member(13)
    assert locks.states["cp-1"].changes == []
    locks.states["cp-3"].silent = False  # and as soon as there are enough
    await lock.change(locks.states["cp-1"], locks.states["cp-1"].changing("jane"), deadline=20)


# Whoever has most of the hosts needs no API.


async def test_hosts_that_the_operator_vouches_for_do_not_count(locks: Locks) -> None:
    lock, host = locks.lock(JANE, "cp-2", "cp-3"), locks.states["cp-1"]
    for name in ("cp-2", "cp-3"):
        locks.states[name].silent = True
    await lock.acquire()
    await lock.change(host, host.changing("jane"), deadline=20)
    await lock.permit()
    assert host.changes == ["jane"]


async def test_the_only_control_plane_is_worked_on_while_its_api_server_restarts(tmp_path: Path) -> None:
    locks = Locks({"cp-1": Host("cp-1", tmp_path / "cp-1")}, Leases())
    lock, host = locks.lock(JANE), locks.states["cp-1"]
    await lock.acquire()
    locks.leases = None
    for _ in range(10):
        await locks.sleep(RENEW_EVERY)
        await lock.renew()
    await lock.change(host, host.changing("jane"), deadline=20)
    await lock.permit()
    assert host.changes == ["jane"]


async def test_nobody_goes_on_with_the_hosts_alone_once_the_api_says_that_the_lease_is_anothers(locks: Locks) -> None:
    lock, host, api = locks.lock(JANE), locks.states["cp-1"], Leases()
    await lock.acquire()
    await Locks({}, api, elsewhere=("cp-1", "cp-2", "cp-3")).lock(JOHN).acquire()
    await lock.change(host, host.changing("jane"), deadline=20)  # she reaches no API server, and has all hosts
    locks.leases = api
    with pytest.raises(Locked, match="Lease kube-system/quorate-hosts is locked by john@couch"):
        await lock.change(host, host.changing("jane"), deadline=20)
    assert host.changes == ["jane"]


async def test_a_full_etcd_is_worked_on_by_whoever_has_most_of_the_hosts(locks: Locks) -> None:
    locks.leases, host = Full(), locks.states["cp-1"]
    lock = locks.lock(JANE)
    await lock.acquire()
    await lock.change(host, host.changing("jane"), deadline=20)
    await lock.permit()
    assert host.changes == ["jane"]


async def test_a_lease_that_was_left_behind_in_an_etcd_that_is_full_by_now_is_watched_once(locks: Locks) -> None:
    api = Leases()
    await Locks({}, api, elsewhere=("cp-1",)).lock(JOHN).acquire()  # and killed
    locks.leases, host = Full(api.lease, api.version), locks.states["cp-1"]
    lock = locks.lock(JANE)
    await lock.acquire()
    assert locks.slept == LASTS
    await lock.renew()
    await lock.change(host, host.changing("jane"), deadline=20)
    assert (host.changes, locks.slept) == (["jane"], LASTS)
    locks.leases.version += 1
    locks.leases.lease["metadata"]["resourceVersion"] = str(locks.leases.version)  # type: ignore[index]  # he lives after all
    with pytest.raises(Locked, match="john@couch"):
        await lock.renew()


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
    if isinstance(step, RewriteSecrets):
        return encrypting()
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
