"""What goes wrong: each fault is one small function that does it to an environment, and says how it is over, or that there is nothing to do it to.

Faults that take members away keep to a budget: enough data stay for a majority to come back once every fault is over, because what is to be shown is that
the provider never loses quorum, not that nobody can.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from quorate.simulation.engine.link import Fate
from quorate.simulation.engine.objects import NODES
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.extension import CONFIGURATION, INFRASTRUCTURE, VERSION
from quorate.simulation.machines.hosts import Host, State
from quorate.simulation.machines.kubelet import forget_node
from quorate.simulation.machines.process import Process
from quorate.simulation.machines.restores import moved_status, restored_management_cluster

Recovery = Callable[[], None]
Fault = Callable[[Environment, Random], Recovery | None]
"""Does something to an environment. Returns what ends it; None where it could not be done now."""


# The runtime extension.


def extension_is_down(environment: Environment, random: Random) -> Recovery | None:  # noqa: ARG001
    """Nobody reaches the extension that updates in place."""
    extension = environment.extension
    if extension is None or extension.down:
        return None
    extension.down = True

    def recover() -> None:
        extension.down = False

    return recover


def extension_fails(environment: Environment, random: Random) -> Recovery | None:  # noqa: ARG001
    """It answers that it failed."""
    extension = environment.extension
    if extension is None or extension.fails:
        return None
    extension.fails = True

    def recover() -> None:
        extension.fails = False

    return recover


def extension_changes_its_mind(environment: Environment, random: Random) -> Recovery | None:
    """From now on it can update other parts than before."""
    extension = environment.extension
    if extension is None:
        return None
    parts = (CONFIGURATION, VERSION, INFRASTRUCTURE)
    extension.covers = frozenset(random.sample(parts, random.randint(0, len(parts))))
    return _nothing


def _nothing() -> None:
    """It ends by itself."""


# The provider's processes and their ways.


def crash(environment: Environment, random: Random) -> Recovery | None:
    """A process dies between two instants."""
    process = _process(environment, random)
    if process is None:
        return None
    process.crash()
    return _nothing


def crash_after_a_write(environment: Environment, random: Random) -> Recovery | None:
    """A process dies right after one of its next writes has taken effect."""
    return _fate(environment, random, Fate.FATAL, later=random.randrange(8))


def lost_answers(environment: Environment, random: Random) -> Recovery | None:
    """Some writes take effect and their answers are lost."""
    return _fate(environment, random, Fate.UNANSWERED, later=random.randrange(4), times=random.randint(1, 4))


def lost_requests(environment: Environment, random: Random) -> Recovery | None:
    """Some writes never arrive."""
    return _fate(environment, random, Fate.LOST, later=random.randrange(4), times=random.randint(1, 4))


def late_requests(environment: Environment, random: Random) -> Recovery | None:
    """A write takes effect long after its sender gave it up."""
    return _fate(environment, random, Fate.LATE, later=random.randrange(6))


def stale_caches(environment: Environment, random: Random) -> Recovery | None:
    """Events of the management cluster arrive late."""
    process = _process(environment, random)
    if process is None:
        return None
    process.management.lag = random.choice((0.5, 3.0, 15.0, 40.0))

    def recover() -> None:
        process.management.lag = 0.0

    return recover


def dropped_watches(environment: Environment, random: Random) -> Recovery | None:
    """All watches of a process break."""
    process = _process(environment, random)
    if process is None:
        return None
    random.choice((process.management, process.workload)).drop_watches()
    return _nothing


def expired_watches(environment: Environment, random: Random) -> Recovery | None:
    """The management cluster's history is compacted, and the watches break: they must list again."""
    process = _process(environment, random)
    if process is None:
        return None
    environment.world.management.compact()
    process.management.drop_watches()
    return _nothing


def no_way_to_management(environment: Environment, random: Random) -> Recovery | None:
    """A process does not reach the management cluster."""
    process = _process(environment, random)
    if process is None:
        return None
    process.management.sever()
    return process.recover_management


def no_way_to_the_workload(environment: Environment, random: Random) -> Recovery | None:
    """A process does not reach the workload cluster."""
    process = _process(environment, random)
    if process is None:
        return None
    process.workload.sever()
    return process.recover_workload


def clock_jump(environment: Environment, random: Random) -> Recovery | None:
    """A process' clock is wrong."""
    process = _process(environment, random)
    if process is None:
        return None
    process.skew = random.choice((-7200.0, -60.0, 60.0, 600.0, 7200.0))

    def recover() -> None:
        process.skew = 0.0

    return recover


def freeze(environment: Environment, random: Random) -> Recovery | None:
    """A process does nothing for a while, and then goes on as if nothing had been: it may lead no more, and not know it yet."""
    process = _process(environment, random)
    if process is None or process.frozen:
        return None
    process.freeze()
    return process.thaw


def two_leaders(environment: Environment, random: Random) -> Recovery | None:  # noqa: ARG001
    """A second process is started beside the first, and acts at once where nobody is elected."""
    if sum(process.alive for process in environment.processes) != 1:
        return None
    return environment.start().crash


# Other controllers.


def core_stops(environment: Environment, random: Random) -> Recovery | None:  # noqa: ARG001
    """Cluster API's core does nothing for a while."""
    environment.core.machines.stopped = True

    def recover() -> None:
        environment.core.machines.stopped = False

    return recover


def slow_infrastructure(environment: Environment, random: Random) -> Recovery | None:
    """Machines take much longer to come and to go."""
    environment.infrastructure.slowness = random.choice((5.0, 20.0))

    def recover() -> None:
        environment.infrastructure.slowness = 1.0

    return recover


def unknown_field(environment: Environment, random: Random) -> Recovery | None:
    """A newer bootstrap provider defaults a field of every KubeadmConfig that the provider does not know."""
    environment.bootstrap.upgrade(
        {"bootTimeoutSeconds": random.randint(1, 3) * 100, "hardening": {"level": random.choice(("low", "high"))}}
    )
    return _nothing


# Hosts.


def power_cut(environment: Environment, random: Random) -> Recovery | None:
    """A host goes down and comes back with its disk."""
    host = _victim(environment, random)
    if host is None:
        return None
    host.alive = False
    environment.kubelets.poke(host)

    def recover() -> None:
        if environment.cluster.hosts.get(host.name) is host:
            host.alive = True
            environment.kubelets.poke(host)

    return recover


def isolated_host(environment: Environment, random: Random) -> Recovery | None:
    """A host is cut off from all others."""
    host = _victim(environment, random)
    if host is None:
        return None
    host.isolated = True
    environment.kubelets.poke(host)

    def recover() -> None:
        host.isolated = False
        environment.kubelets.poke(host)

    return recover


def no_way_to_a_kubelet(environment: Environment, random: Random) -> Recovery | None:
    """The API servers do not reach one kubelet, so nobody is let through to its etcd."""
    if not environment.cluster.hosts:
        return None
    name = random.choice(sorted(environment.cluster.hosts))
    environment.cluster.cut_off.add(name)
    return lambda: environment.cluster.cut_off.discard(name)


def ghost(environment: Environment, random: Random) -> Recovery | None:
    """A host disappears for good, and its object stays."""
    host = _victim(environment, random, for_good=True)
    if host is None:
        return None
    environment.infrastructure.destroy(host.name)
    return _nothing


def reborn_empty(environment: Environment, random: Random) -> Recovery | None:
    """A host is replaced by an empty one of the same name, which runs kubeadm join again, at the same address or at another."""
    host = _victim(environment, random, for_good=True)
    if host is None:
        return None
    environment.infrastructure.destroy(host.name)
    address = host.address if random.random() < 0.5 else environment.cluster.new_address()
    reborn = Host(host.name, host.provider_id, address, host.version, registered=host.registered)
    environment.cluster.hosts[host.name] = reborn
    environment.world.trace.add("fault", f"host {host.name} is reborn empty at {address}")
    environment.kubelets.poke(reborn)
    environment.infrastructure.boot(reborn, init=False)
    return _nothing


def broken_join(environment: Environment, random: Random) -> Recovery | None:
    """kubeadm fails on the next host at some moment, and nobody runs it again."""
    after = random.uniform(1.0, 20.0)

    def spoil(host: Host) -> None:
        environment.infrastructure.boots.remove(spoil)
        if environment.cluster.initialized:
            environment.world.after(after, environment.infrastructure.spoil, host.name)

    environment.infrastructure.boots.append(spoil)
    return lambda: environment.infrastructure.boots.remove(spoil) if spoil in environment.infrastructure.boots else None


def failing_component(environment: Environment, random: Random) -> Recovery | None:
    """A static Pod crashes again and again."""
    host = _victim(environment, random)
    if host is None:
        return None
    component = random.choice(sorted(host.components))
    host.components[component] = State.FAILING
    environment.world.trace.add("fault", f"{component} fails on {host.name}")
    environment.kubelets.poke(host)

    def recover() -> None:
        if environment.cluster.hosts.get(host.name) is host and host.components.get(component) is State.FAILING:
            host.components[component] = State.RUNNING
            environment.kubelets.poke(host)

    return recover


def alarm(environment: Environment, random: Random) -> Recovery | None:
    """A member raises an alarm."""
    ring = environment.cluster.ring
    if not ring.voters:
        return None
    raised = random.choice(sorted(ring.voters)), "NOSPACE"
    ring.alarms.add(raised)
    return lambda: ring.alarms.discard(raised)


def deleted_node(environment: Environment, random: Random) -> Recovery | None:
    """Somebody deletes a Node object; its kubelet registers again when it is restarted."""
    nodes = environment.cluster.server.objects(NODES)
    if not nodes:
        return None
    name = random.choice(nodes).name
    forget_node(environment.cluster, name, "fault")

    def recover() -> None:
        if (host := environment.cluster.hosts.get(name)) is not None and host.alive:
            environment.kubelets.poke(host)

    return recover


def orphan_member(environment: Environment, random: Random) -> Recovery | None:
    """Somebody adds a member that never starts."""
    ring = environment.cluster.ring
    if not ring.leader or len(ring.well) <= (len(ring.voters) + 1) // 2 or random.random() < 0.3:
        return None
    if any(member.learner or not member.name for member in ring.members.values()):
        return None
    ring.add_learner("https://10.99.99.99:2380")
    return _nothing


def external_etcd_down(environment: Environment, random: Random) -> Recovery | None:  # noqa: ARG001
    """The etcd of others confirms nothing for a while."""
    external = environment.cluster.external
    if external is None:
        return None
    external.well = False

    def recover() -> None:
        external.well = True

    return recover


def short_certificates(environment: Environment, random: Random) -> Recovery | None:
    """The certificates of the next host expire in little more than a week."""
    lasting = timedelta(days=7, seconds=random.uniform(60.0, 900.0))

    def shorten(host: Host) -> None:
        environment.infrastructure.boots.remove(shorten)
        host.certificates_last = lasting

    environment.infrastructure.boots.append(shorten)
    return lambda: environment.infrastructure.boots.remove(shorten) if shorten in environment.infrastructure.boots else None


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
MEMBERSHIP_FAULTS: tuple[Fault, ...] = (reborn_empty, broken_join, orphan_member)
"""What happens to machines that join, and to the list of members."""
OBJECT_FAULTS: tuple[Fault, ...] = (restored_management_cluster, moved_status)
"""What happens to the objects of the management cluster as a whole."""
EXTENSION_FAULTS: tuple[Fault, ...] = (extension_is_down, extension_fails, extension_changes_its_mind)
"""What happens to the runtime extension, where there is one."""
FAULTS = PROCESS_FAULTS + CONTROLLER_FAULTS + HOST_FAULTS + MEMBERSHIP_FAULTS + OBJECT_FAULTS


def _process(environment: Environment, random: Random) -> Process | None:
    alive = [process for process in environment.processes if process.alive]
    return random.choice(alive) if alive else None


def _fate(environment: Environment, random: Random, fate: Fate, *, later: int, times: int = 1) -> Recovery | None:
    """Let the next writes of a process but `later` meet this fate, `times` in a row."""
    process = _process(environment, random)
    if process is None:
        return None
    link = process.management if random.random() < 0.85 else process.workload
    fates = iter([Fate.ANSWERED] * later + [fate] * times)
    link.fate = lambda _: next(fates, Fate.ANSWERED)

    def recover() -> None:
        link.fate = lambda _: Fate.ANSWERED

    return recover


def _victim(environment: Environment, random: Random, *, for_good: bool = False) -> Host | None:
    """A host that may be taken away within the budget."""
    cluster = environment.cluster
    if not cluster.initialized:
        return None
    healthy = [host for _, host in sorted(cluster.hosts.items()) if host.alive and not host.isolated and host.components]
    candidates = [host for host in healthy if _within_budget(environment, host, for_good=for_good)]
    return random.choice(candidates) if candidates else None


def _within_budget(environment: Environment, host: Host, *, for_good: bool) -> bool:
    ring = environment.cluster.ring
    if not environment.cluster.holds_data(host):
        return True
    if environment.cluster.external is not None:
        staying = {machine.name for machine in environment.machines if not machine.deleting}
        return any(
            other is not host and other.name in staying and environment.cluster.holds_data(other)
            for other in environment.cluster.hosts.values()
        )
    majority = len(ring.voters) // 2
    left = {name for name, other in environment.cluster.hosts.items() if other is not host and environment.cluster.holds_data(other)}
    if for_good:
        return len(left) > majority and len(ring.well - {host.member}) > majority
    return len(left) >= 1
