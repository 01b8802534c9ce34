"""The management objects come to be others than those that quorate wrote: set back to a backup, or moved to another management cluster.

What they speak of has gone on meanwhile, or has gone. Nothing of that is for quorate to guess; a person does what its conditions say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from random import Random

from quorate.clusterapi.observe import initialization
from quorate.core.machines.rules.orphans import CONSENT
from quorate.simulation.engine.objects import BACKED_UP, CLUSTERS, CONTROL_PLANES, MACHINES, TEMPLATES, Stored
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import NAME, USER
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.kubelet import forget_node

RESTORE, MOVE = "restore", "clusterctl"

_LOOKS_AGAIN = 30.0  # seconds after which a person reads the conditions anew
_NAMED = re.compile(rf"{re.escape(CONSENT)}=([0-9a-f]+)")


def restored_management_cluster(environment: Environment, random: Random) -> Callable[[], None] | None:
    """The management cluster is what it was when one of the last backups was made: status, uids and all. Until somebody reads what is wrong with it."""
    backups = [backup for backup in environment.backups if _speaks_of_the_living(environment, backup)]
    if not backups or not _lives(environment):
        return None
    environment.world.management.restore(random.choice(backups), BACKED_UP, who=RESTORE)
    environment.world.management.compact()
    for process in environment.processes:
        process.management.drop_watches()
    return lambda: put_right(environment)


def moved_status(environment: Environment, random: Random) -> Callable[[], None] | None:
    """`clusterctl move`: while the Cluster is paused its objects are made anew where another process of the provider is, without a status.

    From there the workload cluster is often not reached at first. In half of all cases nothing in the metadata tells either that it was initialized, as where
    upstream's provider was in charge until now.
    """
    if not environment.initialized or not _may_be_moved(environment):
        return None
    environment.edit_cluster({"paused": True})
    reached, recorded = random.random() < 0.3, random.random() < 0.5
    moving = environment.world.after(random.uniform(2.0, 30.0), move, environment, reached, recorded)

    def recover() -> None:
        moving.cancel()  # nobody would undo what it does after this
        environment.cluster.reachable = True
        if (cluster := environment.cluster_object) is not None and not cluster.deleting:
            environment.edit_cluster({"paused": None})

    return recover


def move(environment: Environment, reached: bool, recorded: bool) -> None:
    """The second half of it: `reached` is the endpoint from the other cluster, `recorded` in the metadata that the control plane is initialized."""
    cluster = environment.cluster_object
    if cluster is None:
        return
    if _may_be_moved(environment):
        management = environment.world.management
        management.recreate(BACKED_UP, who=MOVE)
        if not recorded:
            forgotten = {"metadata": {"annotations": {initialization.ANNOTATION: None}}}
            management.merge_patch(CONTROL_PLANES, NAMESPACE, NAME, forgotten, who=MOVE)
        if domains := cluster.status.get("failureDomains"):  # the infrastructure provider says them again
            management.merge_patch(CLUSTERS, NAMESPACE, NAME, {"status": {"failureDomains": domains}}, who=MOVE, subresource="status")
        environment.cluster.reachable = reached
        for process in environment.processes:
            process.crash()
    environment.edit_cluster({"paused": None})


def put_right(environment: Environment) -> None:
    """A person reads the conditions and does as they say, again and again, until no host is left that has no Machine."""
    if not _lives(environment):
        return
    strangers = _strangers(environment)
    _name_a_template(environment)
    _consent(environment)
    for name in strangers:
        _take_away(environment, name)
    if strangers:
        environment.world.after(_LOOKS_AGAIN, put_right, environment)


def _speaks_of_the_living(environment: Environment, backup: Iterable[Stored]) -> bool:
    """Whether every Machine in it has a host with the cluster's data: there may be others meanwhile of which it knows nothing."""
    machines = [stored for stored in backup if stored.kind is MACHINES]
    hosts = [environment.cluster.hosts.get(machine.name) for machine in machines if not machine.deleting]
    return len(hosts) == len(machines) > 0 and all(host is not None and environment.cluster.holds_data(host) for host in hosts)


def _strangers(environment: Environment) -> list[str]:
    """Hosts and Nodes that no Machine speaks of."""
    return sorted((set(environment.cluster.hosts) | set(environment.nodes)) - {machine.name for machine in environment.machines})


def _consent(environment: Environment) -> None:
    """To the removal of those members that a condition names, and that are on no Machine's host."""
    kept = {host.member for machine in environment.machines if (host := environment.cluster.hosts.get(machine.name)) is not None}
    named = sorted(set(_named(environment)) - kept)
    if named:
        value = ",".join(f"{member:x}" for member in named)
        environment.world.trace.add(USER, f"consents to the removal of {value}")
        patch = {"metadata": {"annotations": {CONSENT: value}}}
        environment.world.management.merge_patch(CONTROL_PLANES, NAMESPACE, NAME, patch, who=USER)


def _named(environment: Environment) -> Iterator[int]:
    control_plane = environment.control_plane
    for condition in control_plane.status.get("conditions") or () if control_plane is not None else ():
        yield from (int(member, 16) for member in _NAMED.findall(condition.get("message", "")))


def _name_a_template(environment: Environment) -> None:
    """One that exists, where the backup was made in the moment of a mistake."""
    control_plane = environment.control_plane
    reference = control_plane.spec["machineTemplate"]["spec"]["infrastructureRef"]["name"] if control_plane is not None else ""
    templates = [template.name for template in environment.world.management.objects(TEMPLATES)]
    if reference not in templates:
        environment.edit({"machineTemplate": {"spec": {"infrastructureRef": {"name": templates[0]}}}})


def _take_away(environment: Environment, name: str) -> None:
    """A host that is in no ring, and on which no kubeadm is about to join one, with its Node."""
    cluster = environment.cluster
    host = cluster.hosts.get(name)
    if host is not None and host.alive:
        others = any(cluster.serves(other) for other in cluster.hosts.values() if other is not host)
        if host.member in cluster.ring.members or environment.infrastructure.is_busy(name) or not others:
            return
        environment.infrastructure.destroy(name)
    if cluster.writable:
        forget_node(cluster, name, USER)


def _lives(environment: Environment) -> bool:
    control_plane, cluster = environment.control_plane, environment.cluster_object
    return control_plane is not None and cluster is not None and not control_plane.deleting and not cluster.deleting


def _may_be_moved(environment: Environment) -> bool:
    """clusterctl moves nothing that is being deleted."""
    return _lives(environment) and not any(stored.deleting for stored in environment.world.management.backup(BACKED_UP))
