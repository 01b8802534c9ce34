"""Gather everything known of one control plane into one frozen value: from the caches, from the watches on its workload cluster, and from etcd itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from quorate.clusterapi import intent, machines
from quorate.clusterapi.caches import BY_CLUSTER, is_ours, owner_cluster
from quorate.clusterapi.clients import Clients
from quorate.clusterapi.defaults import default_kubeadm_control_plane
from quorate.clusterapi.foreign import ContractMissing, ForeignObject
from quorate.clusterapi.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.ring import Membership, finding, match, ring_of
from quorate.clusterapi.rings import Rings
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE, Annotation, Finalizer, Label, MachineCondition
from quorate.clusterapi.validation import surge_of, validate_create
from quorate.clusterapi.workloads import ClusterSecrets
from quorate.core.control_plane import Certificates, ControlPlane, Creation, Deletion, Desired, Kubeconfig, Replica
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.versions import Version, parse_or_none
from quorate.kubeadm.config import etcd_is_managed
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ApiError
from quorate.kubernetes.objects import Node
from quorate.pki import PkiError, is_generated, purposes, rotates_at
from quorate.workload.connection import LOST_AFTER_FAILURES, Phase
from quorate.workload.membership import RingReading

MEMBER_GRACE = timedelta(minutes=2)
"""How old a Node may be without a member before that counts: kubeadm registers the Node first and joins etcd after."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads; writes nothing. `wake` has a control plane looked at again, from any change in its workload cluster."""

    clients: Clients
    clock: Callable[[], datetime]
    wake: Callable[[Request], None]
    rings: Rings

    async def observe(self, request: Request) -> Observation | None:
        """The control plane as it is now, or None where there is none of this name."""
        stored = self.clients.caches.kcps.get(request.namespace, request.name)
        if stored is None:
            return None
        kcp = _defaulted(stored)
        cluster = self.clients.caches.clusters.get(request.namespace, owner_cluster(kcp.metadata))
        if cluster is None:
            connection = Connection(Health.UNKNOWN, "there is no Cluster yet")
            return Observation(kcp, None, (), connection, Unknown(connection.message))
        return await _Pass(self, kcp, cluster, request).observe()


class _Pass:
    """One observation in the making."""

    def __init__(self, observer: Observer, kcp: KubeadmControlPlane, cluster: Cluster, request: Request) -> None:
        self.clients, self.kcp, self.cluster = observer.clients, kcp, cluster
        self.now = observer.clock()
        self.rings = observer.rings
        self.namespace, self.name = cluster.metadata.namespace, cluster.metadata.name
        self.etcd_managed = etcd_is_managed(kcp.spec.kubeadm_config_spec)
        algorithm = (kcp.spec.kubeadm_config_spec.get("clusterConfiguration") or {}).get("encryptionAlgorithm") or ""
        self.workload = observer.clients.workloads.of(self.namespace, self.name, algorithm, lambda: observer.wake(request))

    async def observe(self) -> Observation:
        everyone = self.clients.caches.machines.by_index(BY_CLUSTER, f"{self.namespace}/{self.name}")
        control_plane = [machine for machine in everyone if machine.metadata.labels.get(Label.CONTROL_PLANE) == ""]
        ours = machines.oldest_first(machine for machine in control_plane if is_ours(machine.metadata, self.kcp))
        foreign = tuple(sorted(m.metadata.name for m in control_plane if not is_ours(m.metadata, self.kcp)))
        infrastructure = {machine.metadata.name: await self._infrastructure(machine) for machine in ours}
        self._hurry(ours, infrastructure)
        nodes = {m.metadata.name: await machines.find(self.workload, m, infrastructure[m.metadata.name]) for m in ours}
        initialized = await self._initialized(ours)
        reading = await self._ring(nodes) if initialized else Unknown("the control plane is not initialized yet")
        members = match(reading, {name: node if isinstance(node, Node) else None for name, node in nodes.items()})
        observed = tuple(
            self._machine(machine, infrastructure[machine.metadata.name], nodes[machine.metadata.name], members, reading)
            for machine in ours
        )
        connection = self._connection()
        template_problem = await self._template_problem()
        certificates, kubeconfig = await self._secrets()
        return Observation(
            kcp=self.kcp,
            cluster=self.cluster,
            machines=observed,
            connection=connection,
            ring=ring_of(reading),
            nodes=self._control_plane_nodes(),
            strays=self._strays(members, observed),
            unmatched=self._unmatched(members, observed),
            initialized=initialized,
            template_missing=bool(template_problem),
            view=ControlPlane(
                name=self.kcp.metadata.name,
                desired=self._desired(),
                replicas=tuple(self._replica(machine, members) for machine in observed),
                ring=ring_of(reading),
                initialized=initialized,
                workload=Finding(connection.health, "Connection", connection.message),
                has_finalizer=Finalizer.KUBEADM_CONTROL_PLANE in self.kcp.metadata.finalizers,
                paused=self._paused(),
                invalid=_problems(msgspec.json.encode({"metadata": {"name": self.kcp.metadata.name}, "spec": self.kcp.spec})),
                unsupported=self._unsupported(observed),
                foreign=foreign,
                infrastructure_ready=bool(self.cluster.status.initialization.infrastructure_provisioned),
                endpoint=str(self.cluster.spec.control_plane_endpoint),
                certificates=certificates,
                kubeconfig=kubeconfig,
                template_problem=template_problem,
                topology_pending=self._topology_pending(),
                creation=self._creation(everyone),
                deletion=self._deletion(everyone, control_plane),
            ),
        )

    def _hurry(self, ours: Sequence[Machine], infrastructure: dict[str, ForeignObject | None]) -> None:
        expected = any(machines.provider_id(machine, infrastructure[machine.metadata.name]) for machine in ours)
        self.workload.expect_soon(expected=expected and not self.kcp.metadata.deletion_timestamp)

    async def _infrastructure(self, machine: Machine) -> ForeignObject | None:
        reference = machine.spec.infrastructure_ref
        if reference is None:
            return None
        try:
            store = await self.clients.caches.foreign.store(reference.api_group, reference.kind)
        except (ContractMissing, TimeoutError, ApiError):
            return None  # the same trouble with the template is reported
        return store.get(self.namespace, reference.name)

    async def _template_problem(self) -> str:
        reference = self.kcp.spec.machine_template.spec.infrastructure_ref
        try:
            store = await self.clients.caches.foreign.store(reference.api_group, reference.kind)
        except (ContractMissing, TimeoutError, ApiError) as error:
            return str(error)
        return "" if store.get(self.namespace, reference.name) else f"{reference.kind} {self.namespace}/{reference.name} does not exist"

    async def _initialized(self, ours: Sequence[Machine]) -> bool:
        """The latch: set for good once kubeadm has left its configuration in the cluster.

        Not while the only Machine is going: kubeadm may finish just as it does, and its successor would wait to join nothing.
        """
        if self.kcp.status.initialization.control_plane_initialized:
            return True
        if len(ours) == 1 and (ours[0].metadata.deletion_timestamp or _to_be_remediated(ours[0])):
            return False
        return await self.workload.kubeadm_config_exists() is True

    async def _ring(self, nodes: dict[str, Node | Absent | Unknown]) -> RingReading | Unknown:
        if not self.etcd_managed:
            return Unknown("etcd is external")
        names = [node.metadata.name for node in nodes.values() if isinstance(node, Node)]
        return await self.rings.read(self.workload, names)

    def _machine(
        self,
        machine: Machine,
        infrastructure: ForeignObject | None,
        node: Node | Absent | Unknown,
        members: Membership,
        reading: RingReading | Unknown,
    ) -> ObservedMachine:
        reference = machine.spec.bootstrap.config_ref
        config = self.clients.caches.configs.get(self.namespace, reference.name) if reference else None
        found: dict[str, Finding] = {}
        if not isinstance(self.workload.client, Unknown):
            found = machines.findings(self.workload, machine, config, infrastructure, node, etcd_managed=self.etcd_managed)
            if self.etcd_managed:
                member = members.of[machine.metadata.name]
                waits = not isinstance(node, Node) and not isinstance(member, int)
                found[MachineCondition.ETCD_MEMBER_HEALTHY] = (
                    found[MachineCondition.ETCD_POD_HEALTHY] if waits else finding(member, reading)
                )
        return ObservedMachine(
            machine=machine,
            config=config,
            infrastructure=infrastructure,
            node=node if isinstance(node, Node) else None,
            findings=found,
            outdated=machines.outdated(self.kcp, machine, config, infrastructure, self.now),
        )

    def _replica(self, observed: ObservedMachine, members: Membership) -> Replica:
        machine, metadata = observed.machine, observed.machine.metadata
        return Replica(
            name=metadata.name,
            version=machine.spec.version,
            created=metadata.creation_timestamp or self.now,
            member=members.of[metadata.name] if self.etcd_managed else Absent(),
            node=observed.node.metadata.name if observed.node else None,
            failure_domain=machine.spec.failure_domain,
            component_findings=tuple(
                (str(kind), observed.findings[kind])
                for kind in machines.components(etcd_managed=self.etcd_managed)
                if kind in observed.findings
            ),
            member_findings=tuple(
                (str(k), observed.findings[k]) for k in (MachineCondition.ETCD_MEMBER_HEALTHY,) if k in observed.findings
            ),
            outdated=tuple(way.message for way in observed.outdated),
            deleting_since=metadata.deletion_timestamp,
            holds_hook=machines.holds_hook(machine),
            waits_at_hook=machines.waits_at_hook(machine),
            other_hooks=machines.other_hooks(machine),
            delete_first=Annotation.DELETE_MACHINE in metadata.annotations,
        )

    def _connection(self) -> Connection:
        state = self.workload.connectivity
        if state.phase is Phase.CONNECTED:
            return Connection(Health.GOOD, "connected", state.last_success)
        given_up = state.phase is Phase.LOST or state.consecutive_failures >= LOST_AFTER_FAILURES
        return Connection(Health.BAD if given_up else Health.UNKNOWN, state.reason, state.last_success)

    def _control_plane_nodes(self) -> tuple[Node, ...]:
        nodes = self.workload.nodes()
        return () if isinstance(nodes, Unknown) else tuple(sorted(nodes, key=lambda node: node.metadata.name))

    def _strays(self, members: Membership, observed: tuple[ObservedMachine, ...]) -> tuple[str, ...]:
        """Members and Nodes of nobody; none as long as a Machine without a Node may yet turn out to be theirs."""
        if any(machine.node is None for machine in observed):
            return ()
        ours = {machine.node.metadata.name for machine in observed if machine.node}
        nodes = [node.metadata.name for node in self._control_plane_nodes() if node.metadata.name not in ours]
        found = [f"etcd member {member.label} has no Machine" for member in members.strays]
        return tuple(sorted(found) + [f"control plane Node {name} has no Machine" for name in nodes])

    def _unmatched(self, members: Membership, observed: tuple[ObservedMachine, ...]) -> tuple[str, ...]:
        def old_enough(node: Node | None) -> bool:
            return (
                node is not None
                and node.metadata.creation_timestamp is not None
                and self.now - node.metadata.creation_timestamp >= MEMBER_GRACE
            )

        return tuple(m.name for m in observed if isinstance(members.of[m.name], Absent) and not m.deleting and old_enough(m.node))

    def _desired(self) -> Desired:
        spec = self.kcp.spec
        version = parse_or_none(spec.version) or Version(0, 0, 0, text=spec.version)  # refused as invalid before anybody reads it
        rolling = spec.rollout.strategy.rolling_update if spec.rollout.strategy else None
        surge = rolling.max_surge if rolling else None
        domains = tuple(sorted(domain.name for domain in self.cluster.status.failure_domains if domain.control_plane))
        return Desired(spec.replicas or 0, version, 1 if surge is None else surge_of(surge), self.etcd_managed, failure_domains=domains)

    def _paused(self) -> str:
        reasons = [f"Cluster {self.name} spec.paused"] if self.cluster.spec.paused else []
        reasons += [f"annotation {Annotation.PAUSED}"] if Annotation.PAUSED in self.kcp.metadata.annotations else []
        return " and ".join(reasons)

    def _unsupported(self, observed: tuple[ObservedMachine, ...]) -> tuple[str, ...]:
        external = () if self.etcd_managed else ("external etcd is not supported by this release",)
        marks = (Annotation.UPDATE_IN_PROGRESS, Annotation.PENDING_HOOKS)
        updating = [m.name for m in observed if any(mark in m.machine.metadata.annotations for mark in marks)]
        return external + tuple(f"Machine {name} is being updated in place, which is not supported by this release" for name in updating)

    async def _secrets(self) -> tuple[Certificates, Kubeconfig]:
        """Certificates and kubeconfig; Secrets that the API will not let us read are a problem to report, not an end to the pass."""
        try:
            return await self._certificates(), await self._kubeconfig()
        except ApiError as error:
            return Certificates(problem=str(error)), Kubeconfig(exists=True, problem=str(error))

    async def _certificates(self) -> Certificates:
        secrets = self.clients.workloads.secrets(self.namespace, self.name)
        needed = purposes(external_etcd=not self.etcd_managed)
        missing = [purpose for purpose in needed if await secrets.find(purpose) is None]
        empty = [p.secret_name(self.name) for p in needed if p not in missing and not await _has_certificate(secrets, p)]
        problem = f"Secret {self.namespace}/{empty[0]} has no tls.crt" if empty else ""
        generatable = all(is_generated(purpose, external_etcd=not self.etcd_managed) for purpose in missing)
        return Certificates(tuple(map(str, missing)), generatable, problem)

    async def _kubeconfig(self) -> Kubeconfig:
        secret = await self.clients.workloads.secrets(self.namespace, self.name).find("kubeconfig")
        if secret is None:
            return Kubeconfig(exists=False)
        if secret.type != CLUSTER_SECRET_TYPE or not is_ours(secret.metadata, self.kcp):
            return Kubeconfig(exists=True, ours=False)
        try:
            return Kubeconfig(exists=True, rotates_at=rotates_at(secret.data.get("value", b"")))
        except PkiError as error:
            return Kubeconfig(exists=True, problem=f"Secret {self.namespace}/{secret.metadata.name}: {error}")

    def _topology_pending(self) -> str:
        topology = self.cluster.spec.topology
        if topology is None or not topology.version or topology.version == self.kcp.spec.version:
            return ""
        step = self.cluster.metadata.annotations.get(Annotation.UPGRADE_STEP)
        return "" if step == self.kcp.spec.version else step or topology.version

    def _creation(self, everyone: Sequence[Machine]) -> Creation | None:
        planned = intent.read(self.kcp.metadata.annotations)
        if planned is None:
            return None
        return Creation(planned.name, any(machine.metadata.name == planned.name for machine in everyone))

    def _deletion(self, everyone: Sequence[Machine], control_plane: Sequence[Machine]) -> Deletion | None:
        since = self.kcp.metadata.deletion_timestamp
        if since is None:
            return None
        pools = self.clients.caches.pools.by_index(BY_CLUSTER, f"{self.namespace}/{self.name}")
        ours = {machine.metadata.uid for machine in control_plane}
        workers = sorted(f"Machine {machine.metadata.name}" for machine in everyone if machine.metadata.uid not in ours)
        return Deletion(since, tuple(sorted(f"MachinePool {pool.metadata.name}" for pool in pools) + workers))


async def _has_certificate(secrets: ClusterSecrets, purpose: str) -> bool:
    secret = await secrets.find(purpose)
    return secret is not None and bool(secret.data.get("tls.crt"))


def _to_be_remediated(machine: Machine) -> bool:
    failed = {condition.type for condition in machine.status.conditions if condition.status == "False"}
    return {MachineCondition.HEALTH_CHECK_SUCCEEDED, MachineCondition.OWNER_REMEDIATED} <= failed


def _defaulted(kcp: KubeadmControlPlane) -> KubeadmControlPlane:
    """The control plane with what admission would have filled in."""
    return msgspec.convert(default_kubeadm_control_plane(msgspec.to_builtins(kcp)), KubeadmControlPlane)


@lru_cache(maxsize=1024)
def _problems(encoded: bytes) -> tuple[str, ...]:
    """What admission would refuse, as sentences. Cached: it is asked in every pass and changes with the object alone."""
    return tuple(f"{error.path}: {error.message}" for error in validate_create(msgspec.json.decode(encoded)))
