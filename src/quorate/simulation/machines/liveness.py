"""What must be true once faults have stopped: the desired state is reached and stays, nothing is left over, or it is said plainly why not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quorate.clusterapi.types.names import Annotation
from quorate.pki import Purpose
from quorate.simulation.engine.objects import CONFIGS, INFRASTRUCTURE, NODES, SECRETS, Stored
from quorate.simulation.engine.outdated import differences
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import NAME
from quorate.simulation.machines.environment import Environment

_AHEAD = timedelta(hours=1)  # a rollout that is scheduled, or comes before a certificate expires, is still to come
_INTENTS = ("quorate.dev/creating", "quorate.dev/remediating", Annotation.REMEDIATION_IN_PROGRESS)


def unfinished(environment: Environment) -> list[str]:
    """What is not yet as the specification asks; empty: all is."""
    control_plane = environment.control_plane
    return list(_unfinished(environment, control_plane)) if control_plane is not None else ["there is no control plane"]


def _unfinished(environment: Environment, control_plane: Stored) -> Iterator[str]:
    spec, status = control_plane.spec, control_plane.status
    machines = [machine for machine in environment.machines if machine.owned_by(control_plane.uid)]
    if status.get("observedGeneration") != control_plane.metadata["generation"]:
        yield "the last change has not been observed"
    if control_plane.condition("Paused").get("status") == "True":  # said by a process that has ended, and nobody pauses it any more
        yield "it is said to be paused"
    for name in ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"):
        if status.get(name) != spec["replicas"]:
            yield f"status.{name} is {status.get(name)} of {spec['replicas']}"
    if len(machines) != spec["replicas"]:
        yield f"{len(machines)} Machines of {spec['replicas']}"
    for machine in machines:
        if machine.deleting:
            yield f"{machine.name} is being deleted"
        for difference in differences(environment.world.management, spec, machine, environment.world.now() + _AHEAD):
            yield f"{machine.name}: {difference}"
        yield from _expiry_problems(environment, machine)
    yield from _ring_problems(environment, {machine.name for machine in machines})
    for annotation in _INTENTS:
        if annotation in control_plane.annotations:
            yield f"the annotation {annotation} is still there"
    yield from _borrowed_secrets(environment, control_plane)
    yield from leftovers(environment)


def _borrowed_secrets(environment: Environment, control_plane: Stored) -> Iterator[str]:
    """A Secret of the cluster that belongs to a KubeadmConfig goes with it, and nobody can join any more."""
    for purpose in Purpose:
        secret = environment.world.management.find(SECRETS, NAMESPACE, purpose.secret_name(NAME))
        owners = secret.metadata.get("ownerReferences") or () if secret is not None else ()
        if owners and [owner["uid"] for owner in owners] != [control_plane.uid]:
            yield f"Secret {purpose.secret_name(NAME)} belongs to {', '.join(owner['kind'] for owner in owners)}"


def _expiry_problems(environment: Environment, machine: Stored) -> Iterator[str]:
    """It is recorded when the certificate of a Machine's API server expires, as that server said."""
    config = environment.world.management.find(CONFIGS, *machine.key)
    recorded = config.annotations.get(Annotation.CERTIFICATES_EXPIRY) if config is not None else None
    if recorded is None:
        yield f"{machine.name}: it is not recorded when its certificates expire"
    elif datetime.fromisoformat(recorded) not in environment.cluster.shown_expiries.get(machine.name, ()):
        yield f"{machine.name}: its certificates are recorded to expire at {recorded}, and nobody was shown that"


def _ring_problems(environment: Environment, machines: set[str]) -> Iterator[str]:
    ring = environment.cluster.ring
    if environment.cluster.external is not None:
        silent = sorted(
            name
            for name in machines
            if name not in environment.cluster.hosts or not environment.cluster.serves(environment.cluster.hosts[name])
        )
        yield from (f"no API server answers on {name}" for name in silent)
        return
    names = {member.name for member in ring.members.values()}
    if names != machines:
        yield f"the ring has {sorted(names)}, the Machines are {sorted(machines)}"
    if len(ring.well) != len(ring.members):
        yield f"of {len(ring.members)} members {len(ring.well)} vote and are well"


def leftovers(environment: Environment) -> Iterator[str]:
    """Objects and hosts that belong to no Machine."""
    machines = {machine.name for machine in environment.machines}
    for kind in (CONFIGS, INFRASTRUCTURE):
        for stored in environment.world.management.objects(kind, NAMESPACE):
            if stored.name not in machines:
                yield f"{kind.kind} {stored.name} is left over"
    for name, host in environment.cluster.hosts.items():
        if host.alive and name not in machines:
            yield f"host {name} is left over"
    if machines:
        for node in environment.cluster.server.objects(NODES):
            if node.name not in machines:
                yield f"Node {node.name} is left over"


def quorum_is_lost(environment: Environment) -> bool:
    """Whether so many data were destroyed that no majority of the voters can ever come back, or with an external etcd no API server."""
    cluster = environment.cluster
    if cluster.external is not None:
        return cluster.initialized and not any(cluster.holds_data(host) for host in cluster.hosts.values())
    holders = [host for host in cluster.hosts.values() if cluster.holds_data(host)]
    return bool(cluster.ring.voters) and len(holders) <= len(cluster.ring.voters) // 2


def explained(environment: Environment) -> bool:
    """Whether the control plane says that a human is needed."""
    control_plane = environment.control_plane
    return control_plane is not None and control_plane.condition("Stalled").get("status") == "True"
