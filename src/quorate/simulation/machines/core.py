"""Cluster API's core provider: the controllers of Clusters and Machines, as far as a control-plane provider can tell them from the real ones.

Source: cluster-api v1.14, the machine and cluster controllers; the order of a Machine's deletion is pre-drain hooks, drain, volumes, pre-terminate hooks,
infrastructure, bootstrap configuration, Node, finalizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorate.clusterapi.extensions.caller import CallFailed
from quorate.clusterapi.report import merge_conditions
from quorate.clusterapi.types.names import UPDATE_MACHINE_HOOK, Annotation
from quorate.simulation.engine.apiserver import Change, Failure, timestamp
from quorate.simulation.engine.objects import (
    CLUSTERS,
    CONFIGS,
    CONTROL_PLANES,
    INFRASTRUCTURE,
    MACHINES,
    NODES,
    Json,
    Key,
    Kind,
    Stored,
)
from quorate.simulation.engine.world import NAMESPACE, Worker, World
from quorate.simulation.machines.extension import Extension
from quorate.simulation.machines.kubelet import forget_node
from quorate.simulation.machines.workload_cluster import WorkloadCluster

WHO = "core"
MACHINE_FINALIZER = "machine.cluster.x-k8s.io"
CLUSTER_FINALIZER = "cluster.cluster.x-k8s.io"

_PRE_DRAIN, _PRE_TERMINATE = "pre-drain.delete.hook.machine.cluster.x-k8s.io", "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
_AGAIN = 5.0
_NODE_DELETION_TIMEOUT = 10.0  # spec.deletion.nodeDeletionTimeoutSeconds: its default; the Node is left to whoever finds it
_KINDS: Mapping[str, Kind] = {"KubeadmConfig": CONFIGS, "DevMachine": INFRASTRUCTURE}


class Core:
    """The core provider, for one Cluster and its Machines."""

    def __init__(self, world: World, cluster: WorkloadCluster, extension: Extension | None = None) -> None:
        self._world, self._cluster, self._extension = world, cluster, extension
        self._server = world.management
        self._random = world.random("core")
        self._drained_at: dict[str, float] = {}  # by uid of the Machine
        self._node_given_up_at: dict[str, float] = {}
        self.machines = Worker(world, "machines", self._machine, delay=(0.02, 0.3))
        self.clusters = Worker(world, "clusters", self._cluster_object, delay=(0.02, 0.5))
        cluster.server.subscribe(self._node_changed)

    def _node_changed(self, change: Change) -> None:
        if change.kind is not NODES:
            return
        provider_id = change.object.spec.get("providerID")
        for machine in self._server.objects(MACHINES, NAMESPACE):
            if machine.spec.get("providerID") == provider_id:
                self.machines.poke(machine.key)

    # Clusters.

    def _cluster_object(self, key: Key) -> float | None:
        cluster = self._server.find(CLUSTERS, *key)
        if cluster is None:
            return None
        if cluster.deleting:
            return self._delete_cluster(cluster)
        if CLUSTER_FINALIZER not in (cluster.metadata.get("finalizers") or ()):
            self._patch(cluster, {"metadata": {"finalizers": [CLUSTER_FINALIZER]}})
            return 0.0
        control_plane = self._control_plane_of(cluster)
        initialization = {"infrastructureProvisioned": True}
        if control_plane is not None:
            self._own(control_plane, cluster)
            if (control_plane.status.get("initialization") or {}).get("controlPlaneInitialized"):
                initialization["controlPlaneInitialized"] = True
        elif any(machine.status.get("nodeRef") for machine in self._server.objects(MACHINES, key[0])):
            initialization["controlPlaneInitialized"] = True
        initialization |= cluster.status.get("initialization") or {}
        self._patch_status(cluster, cluster.status | {"initialization": initialization})
        return None

    def _control_plane_of(self, cluster: Stored) -> Stored | None:
        reference = cluster.spec.get("controlPlaneRef")
        return self._server.find(CONTROL_PLANES, cluster.key[0], reference["name"]) if reference else None

    def _own(self, control_plane: Stored, cluster: Stored) -> None:
        if not control_plane.owned_by(cluster.uid):
            owner = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "name": cluster.name, "uid": cluster.uid, "controller": True}
            labels = {"cluster.x-k8s.io/cluster-name": cluster.name}
            self._patch(control_plane, {"metadata": {"ownerReferences": [owner], "labels": labels}})

    def _delete_cluster(self, cluster: Stored) -> float | None:
        workers = [m for m in self._server.objects(MACHINES, cluster.key[0]) if "cluster.x-k8s.io/control-plane" not in m.labels]
        for worker in workers:
            self._delete(worker)
        control_plane = self._control_plane_of(cluster)
        if control_plane is not None:
            if not workers:
                self._delete(control_plane)
            return _AGAIN
        if workers:
            return _AGAIN
        self._patch(cluster, {"metadata": {"finalizers": []}})
        return None

    # Machines.

    def _machine(self, key: Key) -> float | None:
        machine = self._server.find(MACHINES, *key)
        if machine is None:
            return None
        if machine.deleting:
            return self._delete_machine(machine)
        if MACHINE_FINALIZER not in (machine.metadata.get("finalizers") or ()):
            self._patch(machine, {"metadata": {"finalizers": [*(machine.metadata.get("finalizers") or ()), MACHINE_FINALIZER]}})
            return 0.0
        self._take_companions(machine)
        self._fill_in(machine)
        again, updating = self._update_in_place(self._server.get(MACHINES, *key))
        self._report(self._server.get(MACHINES, *key), {}, updating)
        if again is not None:
            return again
        return None if self._cluster.answers or not machine.spec.get("providerID") else _AGAIN

    def _companions(self, machine: Stored) -> dict[str, Stored | None]:
        references = {
            "bootstrap": (machine.spec.get("bootstrap") or {}).get("configRef"),
            "infrastructure": machine.spec.get("infrastructureRef"),
        }
        return {
            what: self._server.find(_KINDS[reference["kind"]], machine.key[0], reference["name"]) if reference else None
            for what, reference in references.items()
        }

    def _take_companions(self, machine: Stored) -> None:
        """The Machine becomes the controller of its companions, and whoever made them lets go."""
        owner = {"apiVersion": MACHINES.api_version, "kind": "Machine", "name": machine.name, "uid": machine.uid, "controller": True}
        for companion in self._companions(machine).values():
            if companion is not None and not companion.owned_by(machine.uid):
                others = [o for o in companion.metadata.get("ownerReferences") or () if o["kind"] != "KubeadmControlPlane"]
                self._patch(companion, {"metadata": {"ownerReferences": [*others, {**owner, "blockOwnerDeletion": True}]}})

    def _fill_in(self, machine: Stored) -> None:
        companions = self._companions(machine)
        config, infrastructure = companions["bootstrap"], companions["infrastructure"]
        spec: Json = {}
        secret = config.status.get("dataSecretName") if config else None
        if secret and not (machine.spec.get("bootstrap") or {}).get("dataSecretName"):
            spec["bootstrap"] = {"dataSecretName": secret}
        if infrastructure is not None and (infrastructure.status.get("initialization") or {}).get("provisioned"):
            if infrastructure.spec["providerID"] != machine.spec.get("providerID"):
                spec["providerID"] = infrastructure.spec["providerID"]
            if infrastructure.status.get("failureDomain") and not machine.spec.get("failureDomain"):
                spec["failureDomain"] = infrastructure.status["failureDomain"]
        if spec:
            self._patch(machine, {"spec": spec})

    # A Machine that is updated in place.

    def _update_in_place(self, machine: Stored) -> tuple[float | None, str]:
        """In how many seconds to look again, and the reason of Updating; empty: it is not."""
        marked, pending = Annotation.UPDATE_IN_PROGRESS in machine.annotations, UPDATE_MACHINE_HOOK in _hooks(machine)
        if self._extension is None or not (marked or pending):
            return None, ""
        if not marked:
            return self._complete(machine)
        companions = self._companions(machine).values()
        if not pending or any(each is None or Annotation.UPDATE_IN_PROGRESS not in each.annotations for each in companions):
            return None, "InPlaceUpdating"
        host = self._cluster.hosts.get(machine.name)
        asked = ", ".join(str(each.metadata["generation"]) for each in (machine, *companions) if each is not None)
        try:
            again = self._extension.update(machine.uid, host, machine.spec["version"], asked)
        except CallFailed:
            return _AGAIN, "InPlaceUpdateFailed"
        return self._complete(machine) if again is None else (again, "InPlaceUpdating")

    def _complete(self, machine: Stored) -> tuple[float | None, str]:
        """Take the marks away: one a look, as a process that may die after each."""
        for stored in (machine, *self._companions(machine).values()):
            if stored is not None and Annotation.UPDATE_IN_PROGRESS in stored.annotations:
                self._patch(stored, {"metadata": {"annotations": {Annotation.UPDATE_IN_PROGRESS: None}}})
                return self._random.uniform(0.0, 0.5), "InPlaceUpdating"
        left = ",".join(sorted(_hooks(machine) - {UPDATE_MACHINE_HOOK})) or None
        self._patch(machine, {"metadata": {"annotations": {Annotation.PENDING_HOOKS: left}}})
        return 0.0, ""

    def _report(self, machine: Stored, deleting: Mapping[str, str], updating: str = "") -> None:
        status: Json = dict(machine.status)
        initialization = dict(status.get("initialization") or {})
        if machine.spec.get("providerID"):
            initialization["infrastructureProvisioned"] = True
        if (machine.spec.get("bootstrap") or {}).get("dataSecretName"):
            initialization["bootstrapDataSecretCreated"] = True
        if initialization:
            status["initialization"] = initialization
        node = self._node(machine)
        if node is not None:
            status["nodeRef"] = {"name": node.name}
            status["nodeInfo"] = node.status.get("nodeInfo") or {}
        expiry = self._certificates_expiry(machine)
        if expiry is not None:
            status["certificatesExpiryDate"] = expiry
        status["phase"] = "Deleting" if machine.deleting else "Running" if node else "Provisioning"
        status["conditions"] = self._conditions(machine, node, deleting, updating)
        self._patch_status(machine, status)

    def _certificates_expiry(self, machine: Stored) -> str | None:
        config = self._companions(machine)["bootstrap"]
        return config.annotations.get(Annotation.CERTIFICATES_EXPIRY) if config is not None else None

    def _node(self, machine: Stored) -> Stored | None:
        provider_id = machine.spec.get("providerID")
        if not provider_id or not self._cluster.answers:
            return None
        nodes = [node for node in self._cluster.server.objects(NODES) if node.spec.get("providerID") == provider_id]
        return nodes[0] if nodes else None

    def _conditions(self, machine: Stored, node: Stored | None, deleting: Mapping[str, str], updating: str) -> list[Json]:
        before = list(machine.status.get("conditions") or ())
        healthy = node is not None and node.condition("Ready").get("status") == "True"
        gates = [gate["conditionType"] for gate in machine.spec.get("readinessGates") or ()]
        ready = healthy and not deleting and not updating and all(machine.condition(gate).get("status") == "True" for gate in gates)
        wanted = {
            "NodeHealthy": (healthy, "NodeHealthy" if healthy else "NodeNotHealthy"),
            "Deleting": (bool(deleting), deleting.get("reason", "NotDeleting")),
            "Updating": (bool(updating), updating or "NotUpdating"),
            "Ready": (ready, "Ready" if ready else "NotReady"),
            "Available": (ready, "Available" if ready else "NotReady"),
        }
        ours = [self._condition(before, kind, *answer) for kind, answer in wanted.items()]
        return merge_conditions(before, ours)

    def _condition(self, before: list[Json], kind: str, status: bool, reason: str) -> Json:
        value = "True" if status else "False"
        same = next((old for old in before if old["type"] == kind and old["status"] == value), None)
        since = same["lastTransitionTime"] if same else timestamp(self._world.now())
        return {"type": kind, "status": value, "reason": reason, "message": "", "lastTransitionTime": since}

    # A Machine that leaves.

    def _delete_machine(self, machine: Stored) -> float | None:
        control_plane_goes = self._control_plane_goes(machine)
        if _held_by(machine, _PRE_DRAIN):
            self._report(machine, {"reason": "WaitingForPreDrainHook"})
            return None
        drained_at = self._drained_at.setdefault(machine.uid, self._drain_end(machine, skipped=control_plane_goes))
        if drained_at > self._world.time():
            self._report(machine, {"reason": "DrainingNode"})
            return drained_at - self._world.time()
        if _held_by(machine, _PRE_TERMINATE):
            self._report(machine, {"reason": "WaitingForPreTerminateHook"})
            return None
        companions = self._companions(machine)
        for what in ("infrastructure", "bootstrap"):
            companion = companions[what]
            if companion is not None:
                self._report(
                    machine, {"reason": "WaitingForInfrastructureDeletion" if what == "infrastructure" else "WaitingForBootstrapDeletion"}
                )
                self._delete(companion)
                return None
        return self._let_go(machine, control_plane_goes=control_plane_goes)

    def _drain_end(self, machine: Stored, *, skipped: bool) -> float:
        has_node = bool((machine.status.get("nodeRef") or {}).get("name"))
        return self._world.time() + (self._random.uniform(0.5, 5.0) if has_node and not skipped else 0.0)

    def _let_go(self, machine: Stored, *, control_plane_goes: bool) -> float | None:
        name = (machine.status.get("nodeRef") or {}).get("name")
        if name and not control_plane_goes:
            given_up_at = self._node_given_up_at.setdefault(machine.uid, self._world.time() + _NODE_DELETION_TIMEOUT)
            if self._cluster.answers:
                forget_node(self._cluster, name, WHO)
            elif self._world.time() < given_up_at:
                return _AGAIN
        finalizers = [finalizer for finalizer in machine.metadata.get("finalizers") or () if finalizer != MACHINE_FINALIZER]
        self._patch(machine, {"metadata": {"finalizers": finalizers}})
        return None

    def _control_plane_goes(self, machine: Stored) -> bool:
        cluster = self._server.find(CLUSTERS, machine.key[0], self._cluster.name)
        owners = [o["name"] for o in machine.metadata.get("ownerReferences") or () if o["kind"] == "KubeadmControlPlane"]
        control_plane = self._server.find(CONTROL_PLANES, machine.key[0], owners[0]) if owners else None
        return cluster is None or cluster.deleting or (bool(owners) and (control_plane is None or control_plane.deleting))

    # Writes.

    def _delete(self, stored: Stored) -> None:
        if not stored.deleting:
            self._server.delete(stored.kind, *stored.key, who=WHO)

    def _patch(self, stored: Stored, patch: Json) -> None:
        self._server.merge_patch(stored.kind, *stored.key, patch, who=WHO)

    def _patch_status(self, stored: Stored, status: Any) -> None:
        try:
            self._server.merge_patch(stored.kind, *stored.key, {"status": status}, who=WHO, subresource="status")
        except Failure as failure:
            if failure.code != 404:
                raise


def _hooks(machine: Stored) -> set[str]:
    return set(filter(None, machine.annotations.get(Annotation.PENDING_HOOKS, "").split(",")))


def _held_by(machine: Stored, prefix: str) -> bool:
    return any(key.startswith(prefix) for key in machine.annotations)
