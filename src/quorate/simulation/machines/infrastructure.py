"""An infrastructure provider: makes a host once there is bootstrap data, and takes it away with its object."""

from __future__ import annotations

from collections.abc import Callable

from quorate.simulation.engine.objects import CONFIGS, INFRASTRUCTURE, MACHINES, Json, Key, Stored
from quorate.simulation.engine.world import Worker, World
from quorate.simulation.machines.hosts import Host
from quorate.simulation.machines.kubeadm import Kubeadm
from quorate.simulation.machines.kubelet import Kubelets, forget_node
from quorate.simulation.machines.workload_cluster import WorkloadCluster

FINALIZER = "devmachine.infrastructure.cluster.x-k8s.io"
WHO = "infrastructure"

_CLOUD_NOTICES = 60.0  # seconds until the cloud's controller deletes the Node of an instance that is gone


class Infrastructure:
    """The provider of one kind of machine. `slowness` multiplies what its work takes; `boots` hears of each host that begins to boot."""

    def __init__(self, world: World, cluster: WorkloadCluster, kubelets: Kubelets) -> None:
        self._world, self._cluster, self._kubelets = world, cluster, kubelets
        self._random = world.random("infrastructure")
        self._ready_at: dict[str, float] = {}  # by uid of the object
        self._gone_at: dict[str, float] = {}
        self.slowness = 1.0
        self.boots: list[Callable[[Host], None]] = []
        self._runs: dict[str, Kubeadm] = {}
        self.worker = Worker(world, "infrastructure", self._reconcile)

    def _reconcile(self, key: Key) -> float | None:
        infrastructure = self._world.management.find(INFRASTRUCTURE, *key)
        if infrastructure is None:
            return None
        if infrastructure.deleting:
            return self._delete(infrastructure)
        if FINALIZER not in (infrastructure.metadata.get("finalizers") or ()):
            finalizers = [*(infrastructure.metadata.get("finalizers") or ()), FINALIZER]
            self._patch(infrastructure, {"metadata": {"finalizers": finalizers}})
            return 0.0
        machine = self._machine(infrastructure)
        if machine is None or not (machine.spec.get("bootstrap") or {}).get("dataSecretName"):
            return None
        if (host := self._made_before(infrastructure)) is not None:
            self._report(infrastructure, machine, host)
            return None
        if infrastructure.spec.get("providerID"):
            return None
        ready_at = self._ready_at.setdefault(infrastructure.uid, self._world.time() + self._random.uniform(2.0, 8.0) * self.slowness)
        if ready_at > self._world.time():
            return ready_at - self._world.time()
        self._provision(infrastructure, machine)
        return None

    def _provision(self, infrastructure: Stored, machine: Stored) -> None:
        host = Host(
            infrastructure.name, f"dev:///{infrastructure.name}", self._cluster.new_address(), str(machine.spec.get("version") or "")
        )
        self._cluster.hosts[host.name] = host
        self._world.trace.add(WHO, f"host {host.name} boots at {host.address}")
        self._report(infrastructure, machine, host)
        config = self._world.management.find(CONFIGS, machine.key[0], machine.spec["bootstrap"]["configRef"]["name"])
        self.boot(host, init=config is not None and "joinConfiguration" not in config.spec)

    def _made_before(self, infrastructure: Stored) -> Host | None:
        """The host of this name where it runs already: the object is of an older day, or was moved, and knows nothing of it any more."""
        host = self._cluster.hosts.get(infrastructure.name)
        return host if host is not None and host.alive else None

    def _report(self, infrastructure: Stored, machine: Stored, host: Host) -> None:
        self._patch(infrastructure, {"spec": {"providerID": host.provider_id}})
        addresses = [{"type": "InternalIP", "address": host.address}]
        status = {"initialization": {"provisioned": True}, "addresses": addresses}
        if machine.spec.get("failureDomain"):
            status["failureDomain"] = machine.spec["failureDomain"]
        self._patch(infrastructure, {"status": status}, subresource="status")

    def boot(self, host: Host, *, init: bool) -> None:
        """Run kubeadm on a host."""
        kubeadm = self._runs[host.name] = Kubeadm(self._world, self._cluster, self._kubelets, host, self._random)
        for callback in tuple(self.boots):
            callback(host)
        if init:
            kubeadm.init()
        else:
            kubeadm.join()

    def is_busy(self, name: str) -> bool:
        """Whether kubeadm works on this host."""
        run, host = self._runs.get(name), self._cluster.hosts.get(name)
        return run is not None and host is not None and host.alive and not host.joined and not run.failed

    def spoil(self, name: str) -> None:
        """kubeadm on this host ends here, unless its components run already: what it does then is done within seconds."""
        run, host = self._runs.get(name), self._cluster.hosts.get(name)
        if run is not None and host is not None and not host.registered:
            run.fail("spoiled")

    def _delete(self, infrastructure: Stored) -> float | None:
        gone_at = self._gone_at.setdefault(infrastructure.uid, self._world.time() + self._random.uniform(0.5, 4.0) * self.slowness)
        if gone_at > self._world.time():
            return gone_at - self._world.time()
        self.destroy(infrastructure.name)
        self._world.after(_CLOUD_NOTICES, forget_node, self._cluster, infrastructure.name, "cloud-controller")
        finalizers = [finalizer for finalizer in infrastructure.metadata.get("finalizers") or () if finalizer != FINALIZER]
        self._patch(infrastructure, {"metadata": {"finalizers": finalizers}})
        return None

    def destroy(self, name: str) -> None:
        """Take a host away for good, with everything on its disk. Idempotent."""
        host = self._cluster.hosts.get(name)
        if host is None:
            return
        host.alive = False
        del self._cluster.hosts[name]
        self._cluster.hosts[name] = Host(name, host.provider_id, host.address, host.version, alive=False, registered=host.registered)
        self._kubelets.poke(
            self._cluster.hosts[name]
        )  # a host that was switched off and is empty: its Node stays until somebody deletes it
        self._world.trace.add(WHO, f"host {name} is gone")

    def _machine(self, infrastructure: Stored) -> Stored | None:
        owners = [owner["name"] for owner in infrastructure.metadata.get("ownerReferences") or () if owner["kind"] == "Machine"]
        return self._world.management.find(MACHINES, infrastructure.key[0], owners[0]) if owners else None

    def _patch(self, stored: Stored, patch: Json, *, subresource: str = "") -> None:
        self._world.management.merge_patch(INFRASTRUCTURE, *stored.key, patch, who=WHO, subresource=subresource)
