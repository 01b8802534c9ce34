"""Whether this process may still make a write that cannot be undone, proven right before it: it leads, and the API still has what it decided by.

What was decided rests on caches, each of which may be minutes behind after an outage or a restore of the management cluster, and reading a ring or making a
bootstrap token may take 10 s: meanwhile somebody may have paused the Cluster to move it to another management cluster, Machines may have come and gone, or
this process may have been stopped for so long that another one leads. It costs two reads and a list of the control plane's Machines, all at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TypeVar

from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.connect.caches import clusters_of, is_ours, owner_cluster
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.observe import initialization, specification
from quorate.clusterapi.observe.machines import other_hooks, waits_at_hook
from quorate.clusterapi.observe.observation import Observation, ObservedMachine
from quorate.clusterapi.observe.ownership import Owner, is_of_control_plane, owner_of, ownership
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Finalizer, Label
from quorate.clusterapi.types.resources import CLUSTERS, KUBEADM_CONTROL_PLANES, MACHINE_POOLS, MACHINES
from quorate.core.checks import Check
from quorate.core.health import Unknown
from quorate.core.machines.rules.remove import has_arrived
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import Resource

T = TypeVar("T", KubeadmControlPlane, Cluster)


@dataclass(frozen=True, slots=True)
class Live:
    """What the API has, whatever the caches say."""

    kcp: KubeadmControlPlane
    cluster: Cluster
    everyone: tuple[Machine, ...]  # the Cluster's Machines; the workers' only where nobody has founded it yet, or the control plane goes

    @property
    def machines(self) -> dict[str, Machine]:
        """Those of the control plane, by name, whoever owns them."""
        return {machine.metadata.name: machine for machine in self.everyone if is_of_control_plane(machine, self.kcp)}

    @property
    def ours(self) -> dict[str, Machine]:
        """Those that the control plane owns, by name."""
        return {machine.metadata.name: machine for machine in self.everyone if is_ours(machine.metadata, self.kcp)}


def still_leads(clients: Clients) -> None:
    """Make sure that no other process can have begun to act. Asks nobody, so that it stands right before a write. Raises Refused."""
    if not clients.leads():
        raise Refused("this process may no longer lead: it could not confirm its Lease for too long")


async def still_in_charge(clients: Clients, observation: Observation) -> Live:
    """What the API has now of the control plane, its Cluster and its Machines. Raises what the API answered, and Refused

    where the control plane or its Cluster is gone, another one, or paused, or the control plane was given to another manager; where it is to live and was to
    go, or the other way round; and where this process may lead no more.

    `clusterctl move` pauses the Cluster, which the cache may learn of too late. All are read at once.
    """
    kcp, cluster = observation.kcp, observation.cluster
    if cluster is None:
        raise ValueError("there is no Cluster, so there is nothing to be permitted")
    try:
        async with asyncio.TaskGroup() as reads:
            newest_kcp = reads.create_task(_newest(clients, KUBEADM_CONTROL_PLANES, kcp))
            newest_cluster = reads.create_task(_newest(clients, CLUSTERS, cluster))
            machines = reads.create_task(_machines(clients, observation, cluster))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    live = Live(newest_kcp.result(), newest_cluster.result(), machines.result())
    if not clients.caches.watches(live.kcp):
        raise Refused(f"{_name(kcp)} now belongs to another manager: its label {Label.WATCH_FILTER} differs from this one's --watch-filter")
    if paused := specification.paused(live.kcp, live.cluster):
        raise Refused(f"{_name(kcp)} was paused after this was decided, by {paused}")
    _lives_or_goes_as_it_did(kcp, live.kcp)
    still_leads(clients)
    return live


async def still_permitted(clients: Clients, observation: Observation) -> Live:
    """`still_in_charge`, and, if the control plane is to live, its Cluster names it, its Machines are those that were seen, the same ones leave, and its
    cluster is still proven to be unfounded, if it was. Returns and raises as that does. This stands before every write that destroys.
    """
    live = await still_in_charge(clients, observation)
    kcp = observation.kcp
    if _is_to_live(kcp):
        if why := specification.not_the_clusters(live.kcp, live.cluster, await _claimants(clients, live.cluster)):
            raise Refused(f"{_name(kcp)} is no longer the one that its Cluster names: {why}")
        same_machines(observation, live)
        await still_uninitialized(clients, observation, live)
    still_leads(clients)
    return live


def _is_to_live(kcp: KubeadmControlPlane) -> bool:
    return kcp.metadata.deletion_timestamp is None


def _lives_or_goes_as_it_did(seen: KubeadmControlPlane, newest: KubeadmControlPlane) -> None:
    """A restore of the management cluster undoes a deletion, and all Machines would be deleted all the same."""
    if _is_to_live(seen) and not _is_to_live(newest):
        raise Refused(f"{_name(seen)} was deleted after this was decided")
    if _is_to_live(newest) and not _is_to_live(seen):
        raise Refused(f"{_name(seen)} is no longer being deleted")


async def _claimants(clients: Clients, cluster: Cluster) -> list[KubeadmControlPlane]:
    """The control planes that have the Cluster as their owner, where it names none: of the namespace, since a cache that is filtered has not all of them."""
    if cluster.spec.control_plane_ref is not None:
        return []
    listed = await clients.management.list(KUBEADM_CONTROL_PLANES, cluster.metadata.namespace)
    return [kcp for kcp in listed.items if owner_cluster(kcp.metadata) == cluster.metadata.name]


async def _machines(clients: Clients, observation: Observation, cluster: Cluster) -> tuple[Machine, ...]:
    """The Machines of the Cluster. Its control plane's alone, by their labels, where nothing depends on the workers, of whom there may be thousands; else, and
    where labels were taken off, those of the Cluster, and with them those without one in their labels, since what matters may have lost it. Never all that
    the namespace has: with a thousand clusters that is 3,000, for each look before a write.
    """
    name, namespace = cluster.metadata.name, cluster.metadata.namespace
    labels = [observed.machine.metadata.labels for observed in observation.machines]
    labelled = all(Label.CONTROL_PLANE in of and of.get(Label.CLUSTER_NAME) == name for of in labels)
    if labelled and _is_to_live(observation.kcp) and not _is_unfounded(observation):
        selectors = [f"{Label.CLUSTER_NAME}={name},{Label.CONTROL_PLANE}"]
    else:
        named = {name, *(of[Label.CLUSTER_NAME] for of in labels if Label.CLUSTER_NAME in of)}
        selectors = [*(f"{Label.CLUSTER_NAME}={each}" for each in sorted(named)), f"!{Label.CLUSTER_NAME}"]
    listed = [await clients.management.list(MACHINES, namespace, label_selector=selector) for selector in selectors]
    found = {machine.metadata.uid: machine for listing in listed for machine in listing.items}
    return tuple(machine for machine in found.values() if f"{namespace}/{name}" in clusters_of(machine))


def same_machines(observation: Observation, live: Live) -> None:
    """Make sure that the control-plane Machines are those that were seen, each whose it was, and that the same ones leave. One that was leaving may be gone.

    Raises Refused.
    """
    there = {machine.metadata.name: machine for machine in live.everyone}
    for observed in observation.machines:
        if why := _has_become(observed, there.get(observed.name)):
            raise Refused(f"Machine {observation.kcp.metadata.namespace}/{observed.name} {why}")
    same_owners(observation, live)


def same_owners(observation: Observation, live: Live) -> None:
    """Make sure that there are no control-plane Machines but those that were seen, and that each is whose it was. Raises Refused.

    Somebody who renames a control plane gives its Machines to the new one: they count for that from then on, and nobody else lets one go.
    One that goes has nothing to do with those of others that were not seen: it leaves them alone.
    """
    seen, concerns = _owners(observation), live.machines if _is_to_live(live.kcp) else live.ours
    for machine in sorted(live.everyone, key=lambda machine: machine.metadata.name):
        name, owner = machine.metadata.name, owner_of(machine, live.kcp)
        if name not in seen and name in concerns:
            raise Refused(f"Machine {machine.metadata.namespace}/{name} exists: it has yet to be seen")
        if name in seen and owner is not seen[name]:
            raise Refused(f"Machine {machine.metadata.namespace}/{name} is {owner} by now")


def _owners(observation: Observation) -> dict[str, Owner]:
    """Whose each control-plane Machine is that was seen, by its name."""
    owners = dict.fromkeys((observed.name for observed in observation.machines), Owner.CONTROL_PLANE)
    if view := observation.view:
        owners |= dict.fromkeys((adoptable.name for adoptable in view.adoptable), Owner.NONE)
        owners |= dict.fromkeys(view.foreign, Owner.OTHER)
    return owners


def _has_become(seen: ObservedMachine, now: Machine | None) -> str:
    """What has become of a Machine since it was seen; empty where that changes nothing."""
    if now is None:
        return "" if seen.deleting else "is gone, though nobody let it go"
    if now.metadata.uid != seen.machine.metadata.uid:
        return "is not the one that this was decided for"
    if (now.metadata.deletion_timestamp is not None) == seen.deleting:
        return ""
    return "is no longer being deleted" if seen.deleting else "began to leave after this was decided"


def _is_unfounded(observation: Observation) -> bool:
    """Whether the decision rests on the proof that nobody has founded the cluster."""
    return observation.view is not None and not observation.view.may_be_initialized


async def still_uninitialized(clients: Clients, observation: Observation, live: Live) -> None:
    """Make sure, where the decision rests on the proof that nobody has founded the cluster, that the proof holds by what the API has. Raises Refused."""
    if not _is_unfounded(observation):
        return
    config = await clients.workloads.existing(live.cluster).kubeadm_config_exists()
    ours = ownership(live.machines.values(), live.kcp).ours
    founded = initialization.is_initialized(live.kcp, live.cluster, ours, live.everyone, config)
    if founded is not False:
        raise Refused(founded.reason if isinstance(founded, Unknown) else "kubeadm has initialized the cluster meanwhile")


async def still_asked_for(clients: Clients, observation: Observation) -> Live:
    """`still_permitted`, and the control plane asks for what it was judged by. Returns and raises as that does.

    A watch of Machines may be ahead of that of control planes by minutes, after an outage for one: Machines of the newest specification then look outdated, and
    to delete them would be to undo what somebody else has just done. And a Machine that is being made may by then be one more than anybody wants.
    What is asked for is compared, not its generation: after a restore of the management cluster another specification comes to have the same one.
    """
    live = await still_permitted(clients, observation)
    if not specification.asks_the_same(live.kcp, observation.kcp):
        raise Refused(f"{_name(live.kcp)} was changed after this was decided")
    return live


async def still_taken_down(clients: Clients, observation: Observation) -> dict[str, Machine]:
    """`still_permitted`, of a control plane that goes, and of its own it has those Machines that were seen, or fewer, and no workers beside them. Returns its
    own as they are now, by name, and raises as that does.

    Its caches may be behind: Machines that were given to another control plane would go with this one, and one of its own that was not seen would wait at our
    hook for ever, since nobody is left to let it go.
    """
    live = await still_permitted(clients, observation)
    if Finalizer.ORPHAN in live.kcp.metadata.finalizers:
        raise Refused(f"{_name(live.kcp)} was deleted with --cascade=orphan after this was decided: its Machines stay")
    same_owners(observation, live)
    if live.ours and (workers := await _workers(clients, live)):
        raise Refused(f"{workers[0]} exists, and workers go before their control plane: it has yet to be seen")
    return live.ours


async def _workers(clients: Clients, live: Live) -> list[str]:
    """What of the Cluster needs its control plane, as a reader knows it."""
    metadata = live.cluster.metadata
    selector = f"{Label.CLUSTER_NAME}={metadata.name}"
    pools = await clients.management.list(MACHINE_POOLS, metadata.namespace, label_selector=selector)
    names = [f"MachinePool {metadata.namespace}/{pool.metadata.name}" for pool in pools.items]
    machines = sorted(machine.metadata.name for machine in live.everyone if machine.metadata.name not in live.machines)
    return names + [f"Machine {metadata.namespace}/{name}" for name in machines]


async def still_leaves(clients: Clients, observation: Observation, replica: str) -> Machine:
    """`still_permitted`, and the Machine of a replica is there, is being deleted, and waits for us alone. Returns it as it is now, and raises as that does.

    A restore of the management cluster brings a deleted Machine back to life, or takes it away while its host and member live on. And what needs its member,
    such as a backup, may have put a hook on it meanwhile.
    """
    machine = (await still_permitted(clients, observation)).machines.get(replica)
    name = f"Machine {observation.kcp.metadata.namespace}/{replica}"
    if machine is None:
        raise Refused(f"{name} is gone, though nobody let it go")
    if machine.metadata.deletion_timestamp is None:
        raise Refused(f"{name} is no longer being deleted")
    arrived = _has_arrived(observation, machine)
    if not arrived.passed:
        raise Refused(f"{arrived.name}: {arrived.evidence}")
    return machine


def _has_arrived(observation: Observation, machine: Machine) -> Check:
    """What was asked of the replica before this was decided, asked of its Machine as it is now."""
    if observation.view is None:
        raise ValueError("there is no Cluster, so there is no replica")
    seen = observation.view.replica(machine.metadata.name)
    return has_arrived(replace(seen, waits_at_hook=waits_at_hook(machine), other_hooks=other_hooks(machine)))


async def _newest(clients: Clients, resource: Resource[T], seen: T) -> T:
    """The object as the API has it now, if it is the one that was seen. Raises Refused."""
    try:
        newest = await clients.management.get(resource, seen.metadata.name, seen.metadata.namespace)
    except NotFound:
        raise Refused(f"{_name(seen)} is gone") from None
    if newest.metadata.uid != seen.metadata.uid:
        raise Refused(f"{_name(seen)} is not the one that this was decided for")
    return newest


def _name(of: KubeadmControlPlane | Cluster) -> str:
    kind = "Cluster" if isinstance(of, Cluster) else "KubeadmControlPlane"
    return f"{kind} {of.metadata.namespace}/{of.metadata.name}"
