"""What goes wrong: each fault is one small function that does it to a town, and says how it is mended, or that there is nothing to do it to.

Faults that take members away keep to a budget: enough data stay for a majority to come back once everything is mended, because what is to be shown is that
the provider never loses quorum, not that nobody can.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from quorate.simulation.engine.link import Fate
from quorate.simulation.engine.objects import NODES
from quorate.simulation.machines.hosts import Host, State
from quorate.simulation.machines.kubelet import forget_node
from quorate.simulation.machines.process import Process
from quorate.simulation.machines.restores import moved_status, restored_management_cluster
from quorate.simulation.machines.town import Town

Mend = Callable[[], None]
Fault = Callable[[Town, Random], Mend | None]
"""Does something to a town. Returns what mends it; None where it could not be done now."""


def _nothing() -> None:
    """It mends itself."""


# The provider's processes and their ways.


def crash(town: Town, random: Random) -> Mend | None:
    """A process dies between two instants."""
    process = _process(town, random)
    if process is None:
        return None
    process.crash()
    return _nothing


def crash_after_a_write(town: Town, random: Random) -> Mend | None:
    """A process dies right after one of its next writes has taken effect."""
    return _fate(town, random, Fate.FATAL, later=random.randrange(8))


def lost_answers(town: Town, random: Random) -> Mend | None:
    """Some writes take effect and their answers are lost."""
    return _fate(town, random, Fate.UNANSWERED, later=random.randrange(4), times=random.randint(1, 4))


def lost_requests(town: Town, random: Random) -> Mend | None:
    """Some writes never arrive."""
    return _fate(town, random, Fate.LOST, later=random.randrange(4), times=random.randint(1, 4))


def late_requests(town: Town, random: Random) -> Mend | None:
    """A write takes effect long after its sender gave it up."""
    return _fate(town, random, Fate.LATE, later=random.randrange(6))


def stale_caches(town: Town, random: Random) -> Mend | None:
    """Events of the management cluster arrive late."""
    process = _process(town, random)
    if process is None:
        return None
    process.management.lag = random.choice((0.5, 3.0, 15.0, 40.0))

    def mend() -> None:
        process.management.lag = 0.0

    return mend


def dropped_watches(town: Town, random: Random) -> Mend | None:
    """All watches of a process break."""
    process = _process(town, random)
    if process is None:
        return None
    random.choice((process.management, process.workload)).drop_watches()
    return _nothing


def expired_watches(town: Town, random: Random) -> Mend | None:
    """The management cluster's history is compacted, and the watches break: they must list again."""
    process = _process(town, random)
    if process is None:
        return None
    town.world.management.compact()
    process.management.drop_watches()
    return _nothing


def no_way_to_management(town: Town, random: Random) -> Mend | None:
    """A process does not reach the management cluster."""
    process = _process(town, random)
    if process is None:
        return None
    process.management.sever()
    return process.mend_management


def no_way_to_the_workload(town: Town, random: Random) -> Mend | None:
    """A process does not reach the workload cluster."""
    process = _process(town, random)
    if process is None:
        return None
    process.workload.sever()
    return process.mend_workload


def clock_jump(town: Town, random: Random) -> Mend | None:
    """A process' clock is wrong."""
    process = _process(town, random)
    if process is None:
        return None
    process.skew = random.choice((-7200.0, -60.0, 60.0, 600.0, 7200.0))

    def mend() -> None:
        process.skew = 0.0

    return mend


def freeze(town: Town, random: Random) -> Mend | None:
    """A process does nothing for a while, and then goes on as if nothing had been: it may lead no more, and not know it yet."""
    process = _process(town, random)
    if process is None or process.frozen:
        return None
    process.freeze()
    return process.thaw


def two_leaders(town: Town, random: Random) -> Mend | None:  # noqa: ARG001
    """A second process is started beside the first, and acts at once where nobody is elected."""
    if sum(process.alive for process in town.processes) != 1:
        return None
    return town.start().crash


# Other controllers.


def core_stops(town: Town, random: Random) -> Mend | None:  # noqa: ARG001
    """Cluster API's core does nothing for a while."""
    town.core.machines.stopped = True

    def mend() -> None:
        town.core.machines.stopped = False

    return mend


def slow_infrastructure(town: Town, random: Random) -> Mend | None:
    """Machines take much longer to come and to go."""
    town.infrastructure.slowness = random.choice((5.0, 20.0))

    def mend() -> None:
        town.infrastructure.slowness = 1.0

    return mend


def unknown_field(town: Town, random: Random) -> Mend | None:
    """A newer bootstrap provider defaults a field of every KubeadmConfig that the provider does not know."""
    town.bootstrap.upgrade({"bootTimeoutSeconds": random.randint(1, 3) * 100, "hardening": {"level": random.choice(("low", "high"))}})
    return _nothing


# Hosts.


def power_cut(town: Town, random: Random) -> Mend | None:
    """A host goes down and comes back with its disk."""
    host = _victim(town, random)
    if host is None:
        return None
    host.alive = False
    town.kubelets.poke(host)

    def mend() -> None:
        if town.cluster.hosts.get(host.name) is host:
            host.alive = True
            town.kubelets.poke(host)

    return mend


def isolated_host(town: Town, random: Random) -> Mend | None:
    """A host is cut off from all others."""
    host = _victim(town, random)
    if host is None:
        return None
    host.isolated = True
    town.kubelets.poke(host)

    def mend() -> None:
        host.isolated = False
        town.kubelets.poke(host)

    return mend


def no_way_to_a_kubelet(town: Town, random: Random) -> Mend | None:
    """The API servers do not reach one kubelet, so nobody is let through to its etcd."""
    if not town.cluster.hosts:
        return None
    name = random.choice(sorted(town.cluster.hosts))
    town.cluster.cut_off.add(name)
    return lambda: town.cluster.cut_off.discard(name)


def ghost(town: Town, random: Random) -> Mend | None:
    """A host disappears for good, and its object stays."""
    host = _victim(town, random, for_good=True)
    if host is None:
        return None
    town.infrastructure.destroy(host.name)
    return _nothing


def reborn_empty(town: Town, random: Random) -> Mend | None:
    """A host is replaced by an empty one of the same name, which runs kubeadm join again, at the same address or at another."""
    host = _victim(town, random, for_good=True)
    if host is None:
        return None
    town.infrastructure.destroy(host.name)
    address = host.address if random.random() < 0.5 else town.cluster.new_address()
    reborn = Host(host.name, host.provider_id, address, host.version, registered=host.registered)
    town.cluster.hosts[host.name] = reborn
    town.world.trace.add("fault", f"host {host.name} is reborn empty at {address}")
    town.kubelets.poke(reborn)
    town.infrastructure.boot(reborn, init=False)
    return _nothing


def broken_join(town: Town, random: Random) -> Mend | None:
    """kubeadm fails on the next host at some moment, and nobody runs it again."""
    after = random.uniform(1.0, 20.0)

    def spoil(host: Host) -> None:
        town.infrastructure.boots.remove(spoil)
        if town.cluster.initialized:
            town.world.after(after, town.infrastructure.spoil, host.name)

    town.infrastructure.boots.append(spoil)
    return lambda: town.infrastructure.boots.remove(spoil) if spoil in town.infrastructure.boots else None


def failing_component(town: Town, random: Random) -> Mend | None:
    """A static Pod crashes again and again."""
    host = _victim(town, random)
    if host is None:
        return None
    component = random.choice(sorted(host.components))
    host.components[component] = State.FAILING
    town.world.trace.add("fault", f"{component} fails on {host.name}")
    town.kubelets.poke(host)

    def mend() -> None:
        if town.cluster.hosts.get(host.name) is host and host.components.get(component) is State.FAILING:
            host.components[component] = State.RUNNING
            town.kubelets.poke(host)

    return mend


def alarm(town: Town, random: Random) -> Mend | None:
    """A member raises an alarm."""
    ring = town.cluster.ring
    if not ring.voters:
        return None
    raised = random.choice(sorted(ring.voters)), "NOSPACE"
    ring.alarms.add(raised)
    return lambda: ring.alarms.discard(raised)


def deleted_node(town: Town, random: Random) -> Mend | None:
    """Somebody deletes a Node object; its kubelet registers again when it is restarted."""
    nodes = town.cluster.server.objects(NODES)
    if not nodes:
        return None
    name = random.choice(nodes).name
    forget_node(town.cluster, name, "fault")

    def mend() -> None:
        if (host := town.cluster.hosts.get(name)) is not None and host.alive:
            town.kubelets.poke(host)

    return mend


def stray_member(town: Town, random: Random) -> Mend | None:
    """Somebody adds a member that never starts."""
    ring = town.cluster.ring
    if not ring.leader or len(ring.well) <= (len(ring.voters) + 1) // 2 or random.random() < 0.3:
        return None
    if any(member.learner or not member.name for member in ring.members.values()):
        return None
    ring.add_learner("https://10.99.99.99:2380")
    return _nothing


def external_etcd_down(town: Town, random: Random) -> Mend | None:  # noqa: ARG001
    """The etcd of others confirms nothing for a while."""
    external = town.cluster.external
    if external is None:
        return None
    external.well = False

    def mend() -> None:
        external.well = True

    return mend


def short_certificates(town: Town, random: Random) -> Mend | None:
    """The certificates of the next host expire in little more than a week."""
    lasting = timedelta(days=7, seconds=random.uniform(60.0, 900.0))

    def shorten(host: Host) -> None:
        town.infrastructure.boots.remove(shorten)
        host.certificates_last = lasting

    town.infrastructure.boots.append(shorten)
    return lambda: town.infrastructure.boots.remove(shorten) if shorten in town.infrastructure.boots else None


PROCESS_FAULTS: tuple[Fault, ...] = (
    crash,
    crash_after_a_write,
    lost_answers,
    lost_requests,
    late_requests,
    stale_caches,
    dropped_watches,
    expired_watches,
    no_way_to_management,
    no_way_to_the_workload,
    clock_jump,
    freeze,
    two_leaders,
)
"""What happens to the provider's processes and their ways."""
CONTROLLER_FAULTS: tuple[Fault, ...] = (core_stops, slow_infrastructure, unknown_field)
"""What happens to other controllers of the management cluster."""
HOST_FAULTS: tuple[Fault, ...] = (
    power_cut,
    isolated_host,
    no_way_to_a_kubelet,
    ghost,
    failing_component,
    alarm,
    deleted_node,
    external_etcd_down,
    short_certificates,
)
"""What happens to machines that run."""
MEMBERSHIP_FAULTS: tuple[Fault, ...] = (reborn_empty, broken_join, stray_member)
"""What happens to machines that join, and to the list of members."""
OBJECT_FAULTS: tuple[Fault, ...] = (restored_management_cluster, moved_status)
"""What happens to the objects of the management cluster as a whole."""
FAULTS = PROCESS_FAULTS + CONTROLLER_FAULTS + HOST_FAULTS + MEMBERSHIP_FAULTS + OBJECT_FAULTS


def _process(town: Town, random: Random) -> Process | None:
    alive = [process for process in town.processes if process.alive]
    return random.choice(alive) if alive else None


def _fate(town: Town, random: Random, fate: Fate, *, later: int, times: int = 1) -> Mend | None:
    """Let the next writes of a process but `later` meet this fate, `times` in a row."""
    process = _process(town, random)
    if process is None:
        return None
    link = process.management if random.random() < 0.85 else process.workload
    fates = iter([Fate.ANSWERED] * later + [fate] * times)
    link.fate = lambda _: next(fates, Fate.ANSWERED)

    def mend() -> None:
        link.fate = lambda _: Fate.ANSWERED

    return mend


def _victim(town: Town, random: Random, *, for_good: bool = False) -> Host | None:
    """A host that may be taken away within the budget."""
    cluster = town.cluster
    if not cluster.initialized:
        return None
    healthy = [host for _, host in sorted(cluster.hosts.items()) if host.alive and not host.isolated and host.components]
    candidates = [host for host in healthy if _within_budget(town, host, for_good=for_good)]
    return random.choice(candidates) if candidates else None


def _within_budget(town: Town, host: Host, *, for_good: bool) -> bool:
    ring = town.cluster.ring
    if not town.cluster.holds_data(host):
        return True
    if town.cluster.external is not None:
        staying = {machine.name for machine in town.machines if not machine.deleting}
        return any(other is not host and other.name in staying and town.cluster.holds_data(other) for other in town.cluster.hosts.values())
    majority = len(ring.voters) // 2
    left = {name for name, other in town.cluster.hosts.items() if other is not host and town.cluster.holds_data(other)}
    if for_good:
        return len(left) > majority and len(ring.well - {host.member}) > majority
    return len(left) >= 1
