"""What goes wrong with hosts, the ways to them, and operators: each fault is a small function that says how it is over, or that it cannot be done.

Faults that destroy data keep to a budget, so that a majority can come back once every fault is over; one in twenty does not, and then it is to be said
plainly that quorum is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

from quorate.simulation.hosts.machines import EtcdManifest, KubeletConf, Machine
from quorate.simulation.hosts.operators import Operations

Recovery = Callable[[], None]
Fault = Callable[[Operations, Random], Recovery | None]
"""Does something. Returns what ends it; None where it could not be done now."""

_REGARDLESS = 0.05
"""How often a fault destroys data that a majority needs."""


def _nothing() -> None:
    """It ends by itself, or is the operators' to end."""


# Hosts.


def host_lost(operations: Operations, random: Random) -> Recovery | None:
    """A host is gone for good, with everything on its disk. Somebody gives the manifest the address of another, or takes it out."""
    machine = _victim(operations, random)
    if machine is None or not _may_lose(operations, machine, random):
        return None
    machine.gone = True
    _end(operations, machine)
    stays = random.random() < 0.7

    def replace() -> None:
        entry = operations.manifest.entry(machine.name)
        if entry is None or entry.address != machine.address:
            return
        if stays or (entry.control_plane and len(operations.manifest.control_planes) == 1):
            operations.replace_host(entry)
        else:
            operations.remove_host(entry)

    return replace


def host_off(operations: Operations, random: Random) -> Recovery | None:
    """A host is switched off for a while."""
    machine = _victim(operations, random)
    if machine is None or not machine.on:
        return None
    operations.scripts.kill(machine)
    operations.site.power(machine, on=False)
    return lambda: operations.site.power(machine, on=True) if not machine.on and not machine.gone else None


def host_installed_anew(operations: Operations, random: Random) -> Recovery | None:
    """A host comes back empty, under the same name and address."""
    machine = _victim(operations, random)
    if machine is None or not _may_lose(operations, machine, random):
        return None
    machine.lose_disk()
    _end(operations, machine)
    machine.on = True
    return _nothing


def etcd_data_lost(operations: Operations, random: Random) -> Recovery | None:
    """The folder of a member is emptied. Its etcd ends, or runs on with what it has in memory until it is stopped."""
    machine = _victim(operations, random)
    if machine is None or machine.disk.data is None or not _may_lose(operations, machine, random):
        return None
    machine.disk.data, machine.emptied_at = None, operations.site.world.time()
    if random.random() < 0.7:
        machine.member = None
    operations.site.settle()
    return _nothing


def kubelet_stopped(operations: Operations, random: Random) -> Recovery | None:
    """Somebody stops a kubelet; what it started runs on."""
    machine = _victim(operations, random)
    if machine is None or not machine.kubelet_runs:
        return None
    machine.kubelet_runs, machine.kubelet_version = False, None
    if random.random() < 0.3:
        machine.containerd_runs = False
    operations.site.settle()
    return _nothing


def etcd_failing(operations: Operations, random: Random) -> Recovery | None:
    """The etcd of a host ends, and cannot start for a while."""
    machine = _victim(operations, random)
    if machine is None or machine.disk.etcd is EtcdManifest.NONE:
        return None
    machine.etcd_fails, machine.member = True, None
    operations.site.settle()

    def recover() -> None:
        machine.etcd_fails = False
        operations.site.settle()

    return recover


def host_isolated(operations: Operations, random: Random) -> Recovery | None:
    """A host and the others do not reach each other for a while."""
    machine = _victim(operations, random)
    if machine is None:
        return None
    machine.isolated = True
    operations.site.settle()

    def recover() -> None:
        machine.isolated = False
        operations.site.settle()

    return recover


def clock_apart(operations: Operations, random: Random) -> Recovery | None:
    """The clock of a host is minutes ahead for a while."""
    machine = _victim(operations, random)
    if machine is None:
        return None
    machine.clock_apart = True
    return lambda: setattr(machine, "clock_apart", False)


def host_unreadable(operations: Operations, random: Random) -> Recovery | None:
    """Files of a host cannot be read for a while."""
    machine = _victim(operations, random)
    if machine is None:
        return None
    machine.unreadable = True
    return lambda: setattr(machine, "unreadable", False)


# The manifest.


def foreign_address(operations: Operations, random: Random) -> Recovery | None:
    """The manifest says of some hosts that they are where others are, or nobody is, until somebody corrects it."""
    entries = operations.manifest.entries
    wrong = random.sample(entries, random.randint(1, len(entries))) if entries else []
    taken = {entry.address for entry in entries} - {entry.address for entry in wrong}
    free = [machine.address for machine in operations.machines if machine.address not in taken] + [f"10.9.9.{n}" for n in range(len(wrong))]
    names = {entry.name for entry in wrong}
    for entry, claim in zip(wrong, random.sample(free, len(wrong)), strict=True):
        operations.manifest = operations.manifest.with_entry(replace(entry, claim=claim))

    def recover() -> None:
        for entry in operations.manifest.entries:
            if entry.name in names:
                operations.manifest = operations.manifest.with_entry(replace(entry, claim=""))

    return recover if names else None


# Ways, and what runs at their other end.


def ssh_unreachable(operations: Operations, random: Random) -> Recovery | None:
    """A host cannot be reached over SSH for a while. What was started there goes on."""
    machine = _victim(operations, random)
    if machine is None:
        return None
    machine.reachable = False
    operations.scripts.cut(machine)
    return lambda: setattr(machine, "reachable", True)


def connection_cut(operations: Operations, random: Random) -> Recovery | None:
    """A connection is cut while a script runs, which goes on."""
    busy = [machine for machine in operations.machines if operations.scripts.is_busy(machine)]
    return _nothing if busy and operations.scripts.cut(random.choice(busy)) else None


def script_killed(operations: Operations, random: Random) -> Recovery | None:
    """A script ends between two instants."""
    busy = [machine for machine in operations.machines if operations.scripts.is_busy(machine)]
    if not busy or not operations.scripts.kill(random.choice(busy)):
        return None
    operations.site.settle()
    return _nothing


def slow(operations: Operations, random: Random) -> Recovery | None:
    """Every answer takes many times as long for a while, so that what is acted on is old."""
    operations.sight.slow = random.uniform(5.0, 30.0)
    return lambda: setattr(operations.sight, "slow", 1.0)


def ring_unknown(operations: Operations, _random: Random) -> Recovery | None:
    """The ring cannot be read for a while."""
    operations.sight.ring = False
    return lambda: setattr(operations.sight, "ring", True)


def api_unknown(operations: Operations, _random: Random) -> Recovery | None:
    """The API does not answer observers for a while."""
    operations.sight.api = False
    return lambda: setattr(operations.sight, "api", True)


# Operators.


def operator_killed(operations: Operations, random: Random) -> Recovery | None:
    """A run dies at this instant, with its lock taken."""
    return _kill(operations, random, politely=False)


def operator_interrupted(operations: Operations, random: Random) -> Recovery | None:
    """Somebody presses Ctrl-C."""
    return _kill(operations, random, politely=True)


def second_operator(operations: Operations, _random: Random) -> Recovery | None:
    """Somebody starts a run while another goes on."""
    if not operations.working:
        return None
    operations.start()
    return _nothing


def operator_stopped(operations: Operations, random: Random) -> Recovery | None:
    """A run is stopped (a suspended laptop, Ctrl-Z), and goes on later as if nothing had been. Somebody else begins in the meantime."""
    if not operations.working:
        return None
    run = random.choice(operations.working)
    run.stop()
    waiting = [operations.start]
    operations.world.after(random.uniform(0.0, 150.0), lambda: waiting and waiting.pop()())

    def go_on() -> None:
        waiting.clear()
        run.go_on()

    return go_on


def operators_apart(operations: Operations, random: Random) -> Recovery | None:
    """Somebody starts a run who reaches just those hosts for a while that one who works already does not."""
    if not operations.working:
        return None
    first = random.choice(operations.working)
    hosts = [machine for machine in operations.machines if operations.is_wanted(machine)]
    lost = set(random.sample(hosts, random.randint(0, len(hosts))))
    for machine in lost:
        operations.scripts.cut(machine)
    first.actor.cut_off |= lost
    operations.start().actor.cut_off |= set(hosts) - lost

    def recover() -> None:
        for run in operations.runs:
            run.actor.cut_off.clear()

    return recover


def lease_refused(operations: Operations, _random: Random) -> Recovery | None:
    """The API answers, and does not let the Lease be taken or renewed for a while: etcd is full, or a webhook is down."""
    operations.site.lease_refused = True
    return lambda: setattr(operations.site, "lease_refused", False)


def clock_jumps(operations: Operations, random: Random) -> Recovery | None:
    """The operator's clock jumps, forth or back."""
    operations.clock_offset += timedelta(seconds=random.choice((-300, -5, 5, 20, 300)))
    return _nothing


def _kill(operations: Operations, random: Random, *, politely: bool) -> Recovery | None:
    if not operations.working:
        return None
    random.choice(operations.working).kill(politely=politely)
    return _nothing


def host_hostile(operations: Operations, random: Random) -> Recovery | None:
    """A host sends what it likes for a while: noise, escape codes, false facts, or more than anybody reads."""
    machine = _victim(operations, random)
    if machine is None:
        return None
    machine.hostile = random.choice(_HOSTILE)(random)
    return lambda: setattr(machine, "hostile", None)


_HOSTILE: tuple[Callable[[Random], bytes], ...] = (
    lambda random: random.randbytes(4096),
    lambda _: b"hostname\t=\t\x1b]52;c;eA==\x07\x1b[2J\nmachine_id\t=\t\xe2\x80\xae\netcd_data\t=\tmember\n",
    lambda _: b"manifests\t=\t9999999999\nclock\t=\t99999999999999999999\nrunning_for\t=\t-1\nos\t=\n",
    lambda _: b"x" * (1 << 20),
    lambda _: b"",
)


def _victim(operations: Operations, random: Random) -> Machine | None:
    """A machine of the manifest or of the ring; rather one on which something is being done."""
    machines = [machine for machine in operations.machines if machine.traces or operations.is_wanted(machine)]
    busy = [machine for machine in machines if operations.scripts.is_busy(machine)]
    if busy and random.random() < 0.6:
        return random.choice(busy)
    return random.choice(machines) if machines else None


def _may_lose(operations: Operations, machine: Machine, random: Random) -> bool:
    site = operations.site
    if random.random() < _REGARDLESS:
        return True
    holders = {other.disk.data for other in operations.machines if other is not machine} & site.ring.voters
    if not site.ring.voters or (not site.objects.addons and len(site.ring.members) == 1):  # nobody misses a cluster that never was
        return machine.disk.data is None or not any(
            other.disk.kubelet_conf is not KubeletConf.NONE for other in operations.machines if other is not machine
        )
    return len(holders) > len(site.ring.voters) // 2


def _end(operations: Operations, machine: Machine) -> None:
    operations.scripts.kill(machine)
    machine.stop()
    operations.site.settle()


HOST_FAULTS: tuple[Fault, ...] = (
    host_lost,
    host_off,
    host_installed_anew,
    etcd_data_lost,
    kubelet_stopped,
    etcd_failing,
    host_isolated,
    clock_apart,
    host_unreadable,
    host_hostile,
    foreign_address,
)
WAY_FAULTS: tuple[Fault, ...] = (ssh_unreachable, connection_cut, script_killed, slow, ring_unknown, api_unknown, lease_refused)
OPERATOR_FAULTS: tuple[Fault, ...] = (
    operator_killed,
    operator_interrupted,
    operator_stopped,
    second_operator,
    operators_apart,
    clock_jumps,
)
FAULTS: tuple[Fault, ...] = (*HOST_FAULTS, *WAY_FAULTS, *OPERATOR_FAULTS)
