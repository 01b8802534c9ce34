"""The kubeadm bootstrap provider (CABPK): gives out bootstrap data, init to one machine alone, join once the control plane is initialized.

Source: cluster-api, bootstrap/kubeadm: the init lock is the ConfigMap `<cluster>-lock`, released when its Machine is gone.
"""

from __future__ import annotations

from quorate.kubeadm.config import brings_discovery
from quorate.simulation.engine.apiserver import Failure
from quorate.simulation.engine.objects import CLUSTERS, CONFIG_MAPS, CONFIGS, MACHINES, SECRETS, Json, Key, Stored
from quorate.simulation.engine.world import Worker, World
from quorate.simulation.machines.workload_cluster import WorkloadCluster

WHO = "bootstrap"
_AGAIN = 5.0


class Bootstrap:
    """The provider for the machines of one cluster."""

    def __init__(self, world: World, cluster: WorkloadCluster) -> None:
        self._world, self._cluster = world, cluster
        self._defaults: Json = {}  # of a newer release: fields that the provider under test does not know
        self.worker = Worker(world, "bootstrap", self._reconcile, delay=(0.05, 0.5))

    def upgrade(self, defaults: Json) -> None:
        """A newer release takes over: it writes these defaults into the specification of every KubeadmConfig, those that were made already too."""
        self._defaults = defaults
        for config in self._world.management.objects(CONFIGS):
            self.worker.poke(config.key)

    def _fill_in(self, config: Stored) -> None:
        if not self._defaults.items() <= config.spec.items():
            self._world.management.merge_patch(CONFIGS, *config.key, {"spec": self._defaults}, who=WHO)

    def _reconcile(self, key: Key) -> float | None:
        config = self._world.management.find(CONFIGS, *key)
        if config is not None and not config.deleting:
            self._fill_in(config)
        if config is None or config.deleting or (config.status.get("initialization") or {}).get("dataSecretCreated"):
            return None
        owners = [owner["name"] for owner in config.metadata.get("ownerReferences") or () if owner["kind"] == "Machine"]
        cluster = self._world.management.find(CLUSTERS, key[0], self._cluster.name)
        machine = self._world.management.find(MACHINES, key[0], owners[0]) if owners else None
        if machine is None or cluster is None or machine.deleting:
            return None
        if (machine.spec.get("bootstrap") or {}).get("dataSecretName"):  # it gave them out before the object was moved
            self._report(config)
            return None
        initialization = cluster.status.get("initialization") or {}
        if not initialization.get("infrastructureProvisioned"):
            return None
        if not initialization.get("controlPlaneInitialized"):
            if "joinConfiguration" in config.spec or not self._lock(key[0], machine):
                return _AGAIN
        elif not brings_discovery(config.spec) and not self._cluster.answers:  # it makes the token in the workload cluster
            return _AGAIN
        self._give(config)
        return None

    def _lock(self, namespace: str, machine: Stored) -> bool:
        name = f"{self._cluster.name}-lock"
        server = self._world.management
        held = server.find(CONFIG_MAPS, namespace, name)
        if held is not None and held.obj["data"]["machine"] != machine.name:
            if server.find(MACHINES, namespace, held.obj["data"]["machine"]) is not None:
                return False
            server.delete(CONFIG_MAPS, namespace, name, who=WHO)
            held = None
        if held is None:
            server.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace}, "data": {"machine": machine.name}}, who=WHO)
        return True

    def _give(self, config: Stored) -> None:
        server, (namespace, name) = self._world.management, config.key
        owner = {"apiVersion": CONFIGS.api_version, "kind": "KubeadmConfig", "name": name, "uid": config.uid, "controller": True}
        labels = {"cluster.x-k8s.io/cluster-name": self._cluster.name}
        secret = {
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]},
            "data": {"value": "eA=="},
        }
        try:
            server.create(SECRETS, {**secret, "type": "cluster.x-k8s.io/secret"}, who=WHO)
        except Failure as failure:
            if failure.reason != "AlreadyExists":
                raise
        self._report(config)

    def _report(self, config: Stored) -> None:
        status = {"initialization": {"dataSecretCreated": True}, "dataSecretName": config.name}
        self._world.management.merge_patch(CONFIGS, *config.key, {"status": status}, who=WHO, subresource="status")
