"""Everything that can happen beside quorate: Cluster API's other controllers, kubeadm, users, and faults.

Each move is a function from a state to the states that it can lead to, each with a sentence for a reader. A fault costs one of the few that a history may have;
what Cluster API and kubeadm do, and what comes back, costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.explore.machines.plant import Host, Member, Plant
from tests.explore.machines.starts import made_by_upstream
from tests.explore.machines.state import (
    CLUSTER,
    CLUSTERS,
    CONFIGS,
    CONTROL_PLANE,
    CONTROL_PLANES,
    INFRASTRUCTURE,
    MACHINES,
    NAME,
    NAMESPACE,
    Json,
    State,
)

Moves = Callable[[State], Iterator[tuple[str, State]]]

_WAITING = {"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}
_HEALTH = ("HealthCheckSucceeded", "OwnerRemediated")
_FAILED = [{"type": kind, "status": "False"} for kind in _HEALTH]
_HOOK_PREFIX = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/"
VERSIONS = ("v1.34.4", "v1.35.1")


def annotations_of(obj: Json) -> Json:
    """The annotations of an object."""
    found: Json = obj["metadata"].get("annotations") or {}
    return found


def deleting(obj: Json) -> bool:
    """Whether somebody has deleted it."""
    return "deletionTimestamp" in obj["metadata"]


def name_of(obj: Json) -> str:
    """Its name."""
    return str(obj["metadata"]["name"])


def is_drained(machine: Json) -> bool:
    """Whether core has drained a Machine that is being deleted, and says that it waits for hooks."""
    return any(condition.get("type") == "Deleting" for condition in (machine.get("status") or {}).get("conditions") or ())


def had_node(machine: Json) -> bool:
    """Whether core has ever seen a Node of its."""
    return bool((machine.get("status") or {}).get("nodeRef"))


def is_let_go(machine: Json) -> bool:
    """Whether it is being deleted, and holds no hook of quorate's any more."""
    return deleting(machine) and not any(key.startswith(_HOOK_PREFIX) for key in annotations_of(machine))


def with_deleted(state: State, name: str) -> State:
    """The state once somebody has deleted this Machine."""
    return state.changed(MACHINES, name, {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})


# Cluster API's other controllers, and kubeadm.


def machines_come_up(state: State) -> Iterator[tuple[str, State]]:
    """The infrastructure provider makes the host of a Machine that has its bootstrap data.

    Before the cluster is called initialized the bootstrap provider gives them to one Machine that founds it (its lock), and afterwards to everybody, to join.
    """
    for machine in state.machines:
        name = name_of(machine)
        config, infrastructure = state.find(CONFIGS, name), state.find(INFRASTRUCTURE, name)
        if machine["spec"].get("providerID") or deleting(machine) or config is None or infrastructure is None:
            continue
        joins = is_called_initialized(state)
        founds = "controlPlane" not in (config["spec"].get("joinConfiguration") or {})
        if not joins and (not founds or state.plant.holders or any(host.todo == "init" for host in state.plant.hosts)):
            continue
        owner = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "name": name,
            "uid": machine["metadata"]["uid"],
            "controller": True,
        }
        owned = {"metadata": {"ownerReferences": [owner]}}
        new = state.changed(CONFIGS, name, owned).changed(INFRASTRUCTURE, name, owned | {"spec": {"providerID": f"test:///{name}"}})
        new = new.changed(
            MACHINES,
            name,
            {
                "metadata": {"finalizers": ["machine.cluster.x-k8s.io"]},
                "spec": {"providerID": f"test:///{name}", "bootstrap": {"dataSecretName": name}},
            },
        )
        yield f"the host of {name} is made", new.at(new.plant.with_host(Host(name, "join" if joins else "init")))


def kubeadm_goes_on(state: State) -> Iterator[tuple[str, State]]:
    """kubeadm takes its next step on a host that runs."""
    plant = state.plant
    for host in plant.hosts:
        if not host.runs or not host.todo:
            continue
        if host.todo == "init":
            yield f"kubeadm init makes a cluster on {host.name}", _registered(state, _founded(state, host), host.name)
        elif host.todo == "join" and lets_join(plant) and not _too_late(state, host.name):
            member = state.unused_id()
            joining = plant.with_host(replace(host, todo="vote", member=member))
            yield f"kubeadm join adds {host.name} as a learner", state.at(joining.with_member(Member(member, host.name, True, False)))
        elif host.todo == "vote" and plant.has_quorum and plant.member(host.member):
            voting = plant.with_member(Member(host.member or 0, host.name)).with_host(replace(host, todo="register"))
            yield f"the member of {host.name} votes", state.at(voting)
        elif host.todo == "register" and plant.serves:
            yield f"{host.name} becomes a Node", _registered(state, plant.with_host(replace(host, todo="")), host.name)


def _too_late(state: State, name: str) -> bool:
    """Its Machine was let go, in a ring that could not lose one more: it is held for so long that kubeadm has joined by then, or never does."""
    machine = state.find(MACHINES, name)
    return (machine is None or is_let_go(machine)) and 2 * len(state.plant.well) <= len(state.plant.voters) + 1


def is_called_initialized(state: State) -> bool:
    """Whether the control plane's status says so."""
    control_plane = state.objects.get(CONTROL_PLANE, {})
    return bool(((control_plane.get("status") or {}).get("initialization") or {}).get("controlPlaneInitialized"))


def _founded(state: State, host: Host) -> Plant:
    """A cluster of its own: whatever members there were are not in it."""
    member = state.unused_id()
    fresh = replace(state.plant, members=(Member(member, host.name),), nodes=(), founded=True)
    return fresh.with_host(replace(host, todo="", member=member))


def lets_join(plant: Plant) -> bool:
    """Whether a host may join now: kubeadm asks every member that ever started, and etcd has room for one learner."""
    started = {member.id for member in plant.members if member.started}
    return plant.serves and started <= plant.running and not any(member.learner for member in plant.members)


def _registered(state: State, plant: Plant, name: str) -> State:
    """Its kubelet made its Node, and kubeadm is through."""
    new = state.at(plant.with_node(name))
    config = new.find(CONFIGS, name)
    return new.changed(CONFIGS, name, {"metadata": {"annotations": {_EXPIRY: "2027-01-01T00:00:00Z"}}}) if config else new


_EXPIRY = "machine.cluster.x-k8s.io/certificates-expiry"


def as_core_reports(state: State) -> State:
    """With what core writes soon after anything: into a Machine's status which Node is its, into the Cluster's that its infrastructure is there."""
    new = state
    for machine in state.machines:
        name = name_of(machine)
        if (
            not had_node(machine)
            and name in state.plant.nodes
            and state.plant.reachable
            and state.plant.serves
            and machine["spec"].get("providerID")
        ):
            new = new.changed(MACHINES, name, {"status": {"nodeRef": {"name": name}}})
    if not ((state.objects[CLUSTER].get("status") or {}).get("initialization") or {}).get("infrastructureProvisioned"):
        new = new.changed(CLUSTERS, NAME, {"status": {"initialization": {"infrastructureProvisioned": True}}})
    return new


def deletions_go_on(state: State) -> Iterator[tuple[str, State]]:
    """core drains the Machine and waits for hooks; then the host goes with its disk, then the Node, as far as the API is reached, and the Machine."""
    for machine in state.machines:
        name = name_of(machine)
        if not deleting(machine):
            continue
        if not is_drained(machine):
            yield f"{name} is drained and waits", state.changed(MACHINES, name, {"status": {"conditions": [_WAITING]}})
        elif is_let_go(machine):
            if state.find(INFRASTRUCTURE, name):
                gone = state.without((INFRASTRUCTURE, NAMESPACE, name))
                yield f"the host of {name} is destroyed", gone.at(gone.plant.without_host(name))
            else:
                gone = state.without((MACHINES, NAMESPACE, name), (CONFIGS, NAMESPACE, name))
                reaches = gone.plant.reachable and gone.plant.serves
                yield f"Machine {name} is gone", gone.at(gone.plant.without_node(name)) if reaches else gone


def health_checks_fail(state: State) -> Iterator[tuple[str, State]]:
    """A MachineHealthCheck fails a Machine whose host does not run, or runs without its data, or whose Node is gone."""
    for machine in state.machines:
        host = state.plant.host(name_of(machine))
        well = host is not None and host.runs and (host.todo or (host.member in state.plant.running and host.name in state.plant.nodes))
        if machine["spec"].get("providerID") and not well and not deleting(machine) and not is_failed(machine):
            yield f"a health check fails {name_of(machine)}", _failed(state, name_of(machine))


def hosts_come_back(state: State) -> Iterator[tuple[str, State]]:
    """What was switched off is switched on, and a way that was cut is there again."""
    for host in state.plant.hosts:
        if not host.runs:
            yield f"{host.name} is back", state.at(state.plant.with_host(replace(host, runs=True)))
    if not state.plant.reachable:
        yield "the endpoint is reached again", state.at(replace(state.plant, reachable=True))


def health_checks_pass(state: State) -> Iterator[tuple[str, State]]:
    """What was called failed is well, and is called so again. The condition that its owner is to replace it goes with that: the owner takes it away."""
    for machine in state.machines:
        host = state.plant.host(name_of(machine))
        well = host is not None and host.runs and not host.todo and host.member in state.plant.running and host.name in state.plant.nodes
        if is_failed(machine) and well:
            kept = [c for c in machine["status"]["conditions"] if c["type"] not in _HEALTH]
            yield (
                f"a health check passes {name_of(machine)} again",
                state.changed(MACHINES, name_of(machine), {"status": {"conditions": kept}}),
            )


def nodes_of_nobody_go(state: State) -> Iterator[tuple[str, State]]:
    """A cloud's controller, or who sees that it is not ready, deletes the Node of a host that is gone."""
    for node in state.plant.nodes:
        if state.plant.serves and state.plant.host(node) is None and state.find(MACHINES, node) is None:
            yield f"Node {node}, whose host is gone, is deleted", state.at(state.plant.without_node(node))


def hosts_of_nobody_go(state: State) -> Iterator[tuple[str, State]]:
    """Whoever let a host of no Machine leave the ring takes it away, with its Node."""
    for host in state.plant.hosts:
        left = state.plant.member(host.member) is None and state.find(MACHINES, host.name) is None
        if left and not host.todo and state.plant.serves:
            yield (
                f"{host.name}, which belongs to no Machine, is taken away",
                state.at(state.plant.without_host(host.name).without_node(host.name)),
            )


def is_failed(machine: Json) -> bool:
    """Whether a health check has left it to its owner to replace it."""
    return any(condition.get("type") == "OwnerRemediated" for condition in (machine.get("status") or {}).get("conditions") or ())


def _failed(state: State, name: str) -> State:
    machine = state.find(MACHINES, name) or {}
    conditions = [c for c in (machine.get("status") or {}).get("conditions") or () if c["type"] not in _HEALTH]
    return state.changed(MACHINES, name, {"status": {"conditions": [*conditions, *_FAILED]}})


def a_pause_ends(state: State) -> Iterator[tuple[str, State]]:
    """What paused the Cluster lets it go on."""
    if state.objects[CLUSTER]["spec"].get("paused"):
        yield "the Cluster is no longer paused", state.changed(CLUSTERS, NAME, {"spec": {"paused": None}})


ORDINARY: tuple[Moves, ...] = (
    machines_come_up,
    kubeadm_goes_on,
    deletions_go_on,
    health_checks_fail,
    health_checks_pass,
    hosts_come_back,
    hosts_of_nobody_go,
    nodes_of_nobody_go,
    a_pause_ends,
)
"""What happens in an installation in which nothing is wrong, or in which something has been mended."""


# Faults, and users.


def a_host_falls_silent(state: State) -> Iterator[tuple[str, State]]:
    """It is switched off, with its data."""
    for host in state.plant.hosts:
        if host.runs:
            yield f"{host.name} falls silent", state.at(state.plant.with_host(replace(host, runs=False)))


def a_disk_is_emptied(state: State) -> Iterator[tuple[str, State]]:
    """A host loses its member's data."""
    for host in state.plant.hosts:
        if host.member is not None:
            yield f"{host.name} loses its data", state.at(state.plant.with_host(replace(host, member=None)))


def a_node_is_deleted(state: State) -> Iterator[tuple[str, State]]:
    """Somebody deletes a Node whose host goes on."""
    for node in state.plant.nodes:
        if state.plant.serves:
            yield f"somebody deletes Node {node}", state.at(state.plant.without_node(node))


def a_machine_is_deleted(state: State) -> Iterator[tuple[str, State]]:
    """A user deletes a Machine."""
    for machine in state.machines:
        if not deleting(machine):
            yield f"a user deletes {name_of(machine)}", with_deleted(state, name_of(machine))


def a_health_check_errs(state: State) -> Iterator[tuple[str, State]]:
    """A Machine that is well is called failed."""
    for machine in state.machines:
        host = state.plant.host(name_of(machine))
        if host is not None and host.runs and not is_failed(machine) and not deleting(machine):
            yield f"a health check fails {name_of(machine)}, which is well", _failed(state, name_of(machine))


def the_specification_changes(state: State) -> Iterator[tuple[str, State]]:
    """A user asks for another number of replicas, for the next version, or for machines of another template."""
    spec = state.control_plane["spec"]
    for replicas in (1, 3):
        if replicas != spec["replicas"]:
            yield f"a user asks for {replicas} replicas", state.changed(CONTROL_PLANES, NAME, {"spec": {"replicas": replicas}})
    if spec["version"] == VERSIONS[0]:
        yield f"a user asks for {VERSIONS[1]}", state.changed(CONTROL_PLANES, NAME, {"spec": {"version": VERSIONS[1]}})
    if spec["machineTemplate"]["spec"]["infrastructureRef"]["name"] != OTHER_TEMPLATE:
        other = {"machineTemplate": {"spec": {"infrastructureRef": {"name": OTHER_TEMPLATE}}}}
        yield "a user asks for another template", state.changed(CONTROL_PLANES, NAME, {"spec": other})


OTHER_TEMPLATE = "large"


def the_cluster_is_paused(state: State) -> Iterator[tuple[str, State]]:
    """As clusterctl does before it moves anything."""
    if not state.objects[CLUSTER]["spec"].get("paused"):
        yield "the Cluster is paused", state.changed(CLUSTERS, NAME, {"spec": {"paused": True}})


def a_failure_domain_goes(state: State) -> Iterator[tuple[str, State]]:
    """Nothing new may be made there."""
    domains = (state.objects[CLUSTER].get("status") or {}).get("failureDomains") or []
    if len(domains) > 1:
        yield f"failure domain {domains[0]['name']} goes", state.changed(CLUSTERS, NAME, {"status": {"failureDomains": domains[1:]}})


def another_provider_founds_the_cluster(state: State) -> Iterator[tuple[str, State]]:
    """Upstream's provider, which was in charge for a moment, has made the first Machine."""
    if not state.machines and not state.plant.founded:
        objects = {**state.objects, **made_by_upstream()}
        yield "upstream's provider makes the first machine", replace(state, objects=objects, version=state.version + 1)


def the_management_cluster_is_restored(state: State) -> Iterator[tuple[str, State]]:
    """Its objects are as they were when the backup was made; what they speak of has gone on."""
    if state.backup:
        others = {key: obj for key, obj in state.objects.items() if key[0] not in _RESTORED}
        yield (
            "the management cluster is restored from an older backup",
            replace(state, objects={**others, **state.backup}, version=state.version + 1),
        )


_RESTORED = (CONTROL_PLANES, MACHINES, CONFIGS, INFRASTRUCTURE)


def the_objects_are_moved(state: State) -> Iterator[tuple[str, State]]:
    """clusterctl move: every status is lost, and the new management cluster cannot reach the endpoint yet. Ids that the API server gives are others."""
    new = _without_status(state)
    yield "clusterctl moves the objects to where the endpoint is not reached", new.at(replace(new.plant, reachable=False))


def every_status_is_lost(state: State) -> Iterator[tuple[str, State]]:
    """A backup that keeps no status is put back, or a manifest of everything is applied anew; the endpoint is reached."""
    yield "every status is lost", _without_status(state)


def _without_status(state: State) -> State:
    new = state.changed(CONTROL_PLANES, NAME, {"status": None}).changed(CLUSTERS, NAME, {"status": None})
    for machine in state.machines:
        new = new.changed(MACHINES, name_of(machine), {"status": None})
    return new


def somebody_changes_the_ring(state: State) -> Iterator[tuple[str, State]]:
    """An operator removes a member, or lets a host of his own join, by hand."""
    plant = state.plant
    if not plant.serves:
        return
    for member in plant.members:
        if 2 * len(plant.well - {member.id}) > len(plant.voters - {member.id}):
            yield f"somebody removes member {member.id} of {member.host}", state.at(plant.without_member(member.id))
    stays = any(not is_let_go(machine) for machine in state.machines)  # nobody joins one that goes in the next seconds
    if stays and lets_join(plant) and plant.host("foreign") is None:
        own = state.unused_id()
        grown = plant.with_host(Host("foreign", member=own)).with_member(Member(own, "foreign")).with_node("foreign")
        yield "somebody lets a host of his own join", state.at(grown)


FAULTS: tuple[Moves, ...] = (
    a_host_falls_silent,
    a_disk_is_emptied,
    a_node_is_deleted,
    a_machine_is_deleted,
    a_health_check_errs,
    the_specification_changes,
    the_management_cluster_is_restored,
    the_objects_are_moved,
    every_status_is_lost,
    somebody_changes_the_ring,
    the_cluster_is_paused,
    a_failure_domain_goes,
    another_provider_founds_the_cluster,
)
"""What a history may have a few of."""
