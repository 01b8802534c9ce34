"""Gather everything known of one control plane into one frozen value: from the caches, from the watches on its workload cluster, and from etcd itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quorate.clusterapi.connect.caches import BY_CLUSTER, is_ours, owner_cluster
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.foreign import ContractMissing, ForeignObject
from quorate.clusterapi.desired import intent, remediation_record
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.desired.remediation_record import MalformedRecord
from quorate.clusterapi.observe import initialization, machines, specification, wanted
from quorate.clusterapi.observe.comparisons import Comparisons
from quorate.clusterapi.observe.credentials import Credentials
from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.observe.orphans import (
    consents,
    control_plane_nodes,
    described,
    look_for_nodes,
    node_names,
    nodes_without_machine,
    read_nodes,
)
from quorate.clusterapi.observe.ownership import is_of_control_plane, ownership
from quorate.clusterapi.observe.replicas import replica
from quorate.clusterapi.observe.ring import Membership, finding, match, ring_of
from quorate.clusterapi.observe.rings import Rings
from quorate.clusterapi.observe.sightings import Sightings
from quorate.clusterapi.observe.specification import Specifications
from quorate.clusterapi.observe.updates import Updates, is_eligible
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Annotation, Finalizer, MachineCondition
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.state import ControlPlane, Creation, Deletion, InPlace, Orphan, Remediation, Replica
from quorate.core.ring import Member
from quorate.core.text import printable
from quorate.kubeadm.compare import Compare
from quorate.kubeadm.config import etcd_is_managed
from quorate.kubernetes.client import Client
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ApiError
from quorate.kubernetes.objects import Node
from quorate.workload.connection import LOST_AFTER_FAILURES, Phase, Workload
from quorate.workload.membership import RingReading, alarms_without_member

MEMBER_GRACE = timedelta(minutes=2)
"""How old a Node may be without a member before that counts: kubeadm registers the Node first and joins etcd after."""


Edit = Callable[[KubeadmControlPlane], KubeadmControlPlane]
"""What somebody thinks of changing; its result has another resourceVersion than what is stored."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads objects and writes none. To see the workload cluster of a control plane it begins a connection, which outlives the look, and ends those that no
    control plane has a claim to any more (`_begin_connection`, `_end_connections`).

    `wake` has a control plane looked at again, from any change in its workload cluster.
    """

    clients: Clients
    clock: Callable[[], datetime]
    wake: Callable[[Request], None]
    rings: Rings
    specifications: Specifications = field(default_factory=Specifications)
    updates: Updates | None = None  # None: Machines are not updated in place
    comparisons: Comparisons = field(default_factory=Comparisons)
    credentials: Credentials = field(default_factory=Credentials)
    sightings: Sightings[int] = field(default_factory=Sightings)  # of orphan members, by id
    arrivals: Sightings[str] = field(default_factory=Sightings)  # of Machines and their Nodes, by uid

    async def observe(self, request: Request, edit: Edit | None = None) -> Observation | None:
        """The control plane as it is now, or as it would be seen after an edit of its object; None where there is none of this name."""
        stored = self.clients.caches.kcps.get(request.namespace, request.name)
        if stored is None:
            self._forget(request)
            self._end_connections()
            return None
        kcp, invalid = self.specifications.of(edit(stored) if edit else stored)
        cluster = self.clients.caches.clusters.get(request.namespace, owner_cluster(kcp.metadata))
        if cluster is None:
            self._end_connections()
            connection = Connection(Health.UNKNOWN, "there is no Cluster yet")
            return Observation(kcp, None, (), connection, Unknown(connection.message))
        return await _Pass(self, kcp, cluster, request, self._begin_connection(cluster)).observe(invalid)

    def wake_all_of(self, cluster: str) -> None:
        """Have the control planes of a Cluster (`namespace/name`) looked at again."""
        for request in self.clients.caches.requests_of(cluster):
            self.wake(request)

    def _begin_connection(self, cluster: Cluster) -> Workload[Client]:
        """The connection to the workload cluster, begun by the first look."""
        namespace, name = cluster.metadata.namespace, cluster.metadata.name
        return self.clients.workloads.begin(cluster, lambda: self.wake_all_of(f"{namespace}/{name}"))

    def _end_connections(self) -> None:
        for cluster in self.clients.workloads.end_unclaimed():
            self.rings.forget(cluster)

    def _forget(self, request: Request) -> None:
        self.specifications.forget(request)
        self.comparisons.forget(request)
        self.credentials.forget(request)
        self.sightings.forget(request)
        self.arrivals.forget(request)


class _Pass:
    """One observation in the making."""

    def __init__(
        self, observer: Observer, kcp: KubeadmControlPlane, cluster: Cluster, request: Request, workload: Workload[Client]
    ) -> None:
        self.observer, self.clients, self.rings = observer, observer.clients, observer.rings
        self.kcp, self.cluster, self.request, self.workload = kcp, cluster, request, workload
        self.now = observer.clock()
        self.namespace, self.name = cluster.metadata.namespace, cluster.metadata.name
        claimants = self.clients.caches.control_planes_of(f"{self.namespace}/{self.name}")
        self.not_the_clusters = specification.not_the_clusters(kcp, cluster, claimants)
        self.etcd_managed = etcd_is_managed(kcp.spec.kubeadm_config_spec)

    async def observe(self, invalid: tuple[str, ...]) -> Observation:
        everyone = self.clients.caches.machines.by_index(BY_CLUSTER, f"{self.namespace}/{self.name}")
        control_plane = [machine for machine in everyone if is_of_control_plane(machine, self.kcp)]
        owned = ownership(control_plane, self.kcp)
        ours = machines.oldest_first(owned.ours)
        infrastructure = {machine.metadata.name: await self._infrastructure(machine) for machine in ours}
        configs = {machine.metadata.name: self._config(machine) for machine in ours}
        compare = await self._comparison(configs.values())
        listed = await control_plane_nodes(self.workload)
        connection = self._connection(listed)
        there = () if isinstance(listed, Unknown) else listed
        nodes = await self._nodes(ours, infrastructure, listed)
        on_record = initialization.is_on_record(self.kcp, self.cluster)
        config = True if on_record else await self.workload.kubeadm_config_exists()
        initialized = initialization.is_initialized(self.kcp, self.cluster, ours, everyone, config)
        standing = [machine for machine in ours if not machines.is_torn_down(machine, infrastructure[machine.metadata.name])]
        unclaimed = nodes_without_machine(there, nodes.values())
        asked = [nodes[machine.metadata.name] for machine in standing]
        reading = (
            await self._ring((*asked, *unclaimed.values()))
            if initialized is True
            else initialized or Unknown("the control plane is not initialized yet")
        )
        known = {name: node if isinstance(node, Node) else None for name, node in nodes.items()}
        unlisted = await look_for_nodes(self.workload, reading, node_names((*there, *nodes.values())))
        if found := {name: node for name, node in unlisted.items() if isinstance(node, Node)}:  # whose members are asked, too
            there, unclaimed = (*there, *found.values()), unclaimed | found
            reading = await self._ring((*asked, *unclaimed.values()))
        members = match(reading, known, {**unclaimed, **unlisted})
        observed = tuple(
            self._machine(
                machine,
                configs[machine.metadata.name],
                infrastructure[machine.metadata.name],
                nodes[machine.metadata.name],
                members,
                reading,
                compare,
            )
            for machine in ours
        )
        template, template_problem = await self._template()
        secrets = self.clients.workloads.secrets(self.namespace, self.name)
        certificates, kubeconfig = await self.observer.credentials.read(secrets, self.kcp, etcd_managed=self.etcd_managed)
        if not self.not_the_clusters:
            self.workload.expect_soon(self._coming_up(ours, infrastructure) if kubeconfig.exists else ())
        written = wanted.kubeconfig(self.clients, self.kcp)
        kubeconfig = replace(kubeconfig, write_problem=written.problem, retry_at=written.retry_at)
        intended, remediating, remediation_problem = self._remediation()
        seen = (metadata.uid for m in observed for metadata in (m.machine.metadata, *([m.node.metadata] if m.node else [])))
        arrivals = self.observer.arrivals.of(self.request, seen, self.now)
        replicas = tuple(self._replica(m, members, arrivals, template) for m in observed)
        orphans, lost_nodes = _orphans(members, observed, there)
        return Observation(
            kcp=self.kcp,
            cluster=self.cluster,
            machines=observed,
            connection=connection,
            ring=ring_of(reading),
            nodes=there,
            orphans=orphans,
            lost_nodes=lost_nodes,
            alarms=alarms_without_member(reading),
            unmatched=self._unmatched(members, observed),
            initialized=initialized is True,
            template_missing=bool(template_problem),
            template=template,
            view=ControlPlane(
                name=self.kcp.metadata.name,
                desired=specification.desired(self.kcp, self.cluster),
                replicas=replicas,
                ring=ring_of(reading),
                initialized=initialized,
                workload=Finding(connection.health, "Connection", connection.message),
                has_finalizer=Finalizer.KUBEADM_CONTROL_PLANE in self.kcp.metadata.finalizers,
                paused=specification.paused(self.kcp, self.cluster),
                invalid=(*invalid, *self._moved_etcd(observed, nodes)),
                unsupported=() if self.observer.updates else _unsupported(replicas),
                foreign=owned.foreign,
                adoptable=owned.adoptable,
                infrastructure_ready=bool(self.cluster.status.initialization.infrastructure_provisioned),
                endpoint=str(self.cluster.spec.control_plane_endpoint),
                certificates=certificates,
                kubeconfig=kubeconfig,
                template_problem=template_problem,
                not_the_clusters=self.not_the_clusters,
                topology_pending=specification.topology_pending(self.kcp, self.cluster),
                creation=self._creation(everyone),
                remediation_intended=intended,
                remediating=remediating,
                remediation_problem=remediation_problem,
                orphans=self._orphan_members(members, reading),
                membership_problem="" if isinstance(reading, Unknown) else reading.disagreement,
                external_etcd=await self._external_etcd(initialized=initialized is True),
                preparation=wanted.preparation(self.clients, self.kcp),
                addons=wanted.addons(self.clients, self.kcp),
                expiries=wanted.expiries(self.clients, self.kcp, (r.name for r in replicas if not r.expiry_known)),
                deletion=self._deletion(everyone, control_plane),
            ),
        )

    async def _nodes(
        self, ours: Sequence[Machine], infrastructure: Mapping[str, ForeignObject | None], listed: tuple[Node, ...] | Unknown
    ) -> dict[str, Node | Absent | Unknown]:
        """The Machines' Nodes, by the Machines' names. Those that have to be asked for are asked for at once."""
        named: dict[str, Node | Absent | Unknown] = {} if isinstance(listed, Unknown) else {node.metadata.name: node for node in listed}
        unlisted = [name for machine in ours if (name := machines.node_name(machine)) and name not in named]
        named |= await read_nodes(self.workload, unlisted)
        nodes = {machine.metadata.name: machines.find(machine, infrastructure[machine.metadata.name], listed, named) for machine in ours}
        ids = {machine.metadata.name: machines.provider_id(machine, infrastructure[machine.metadata.name]) for machine in ours}
        return machines.told_apart(nodes, ids)

    def _coming_up(self, ours: Sequence[Machine], infrastructure: dict[str, ForeignObject | None]) -> Iterator[str]:
        """The Machines that run and may become Nodes at any moment."""
        for machine in ours:
            ends = machine.metadata.deletion_timestamp or self.kcp.metadata.deletion_timestamp
            if machine.status.node_ref is None and not ends and machines.provider_id(machine, infrastructure[machine.metadata.name]):
                yield machine.metadata.name

    def _config(self, machine: Machine) -> KubeadmConfig | None:
        reference = machine.spec.bootstrap.config_ref
        return self.clients.caches.configs.get(self.namespace, reference.name) if reference else None

    async def _comparison(self, configs: Iterable[KubeadmConfig | None]) -> Compare:
        """How KubeadmConfigs are compared. What differs for the first time is believed by a definition alone that was read after it was seen: another release
        of the bootstrap provider may have come meanwhile, which drops fields, or defaults them.
        """
        schema, comparisons = self.clients.caches.bootstrap_schema, self.observer.comparisons
        compare = comparisons.begin(self.request, await schema.known_fields())
        for config in configs:
            machines.differences_of(self.kcp, config, compare)
        if not compare.news:
            return compare
        comparisons.forget(self.request)  # news for the next pass, too, should the definition not be read now
        return comparisons.begin(self.request, await schema.known_fields_now())

    async def _infrastructure(self, machine: Machine) -> ForeignObject | None:
        reference = machine.spec.infrastructure_ref
        if reference is None:
            return None
        try:
            store = await self.clients.caches.foreign.store(reference.api_group, reference.kind)
        except (ContractMissing, TimeoutError, ApiError):
            return None  # the same trouble with the template is reported
        return store.get(self.namespace, reference.name)

    async def _template(self) -> tuple[ForeignObject | None, str]:
        """The template that infrastructure is made from, and why nothing can be made of it."""
        reference = self.kcp.spec.machine_template.spec.infrastructure_ref
        try:
            store = await self.clients.caches.foreign.store(reference.api_group, reference.kind)
        except (ContractMissing, TimeoutError, ApiError) as error:
            return None, printable(str(error))
        template = store.get(self.namespace, reference.name)
        missing = f"{reference.kind} {self.namespace}/{reference.name} does not exist"
        return template, printable(desired.shape_problem(template) if template else missing)

    async def _ring(self, nodes: Iterable[Node | Absent | Unknown]) -> RingReading | Unknown:
        if not self.etcd_managed:
            return Unknown("etcd is external")
        names = [node.metadata.name for node in nodes if isinstance(node, Node)]
        return await self.rings.read(self.workload, names)

    def _machine(
        self,
        machine: Machine,
        config: KubeadmConfig | None,
        infrastructure: ForeignObject | None,
        node: Node | Absent | Unknown,
        members: Membership,
        reading: RingReading | Unknown,
        compare: Compare,
    ) -> ObservedMachine:
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
            outdated=machines.outdated(self.kcp, machine, config, infrastructure, self.now, compare),
            outdated_from=machines.outdated_from(self.kcp, machine, self.now),
            unknown_fields=machines.unknown_fields(self.kcp, config, compare),
        )

    def _replica(
        self, observed: ObservedMachine, members: Membership, arrivals: Mapping[str, datetime], template: ForeignObject | None
    ) -> Replica:
        coredns = wanted.coredns(self.clients, self.kcp, observed.machine)
        left = self.clients.progress.last_joiner_left(wanted.request_of(self.kcp)) == observed.name
        member = members.of[observed.name]
        return replica(
            observed,
            member,
            coredns,
            etcd_managed=self.etcd_managed,
            joiner_left=left,
            arrivals=arrivals,
            in_place=self._in_place(observed, template),
            now=self.now,
        )

    def _in_place(self, observed: ObservedMachine, template: ForeignObject | None) -> InPlace | None:
        asked = self.observer.updates
        return asked.in_place(self.kcp, self.name, observed, template, eligible=is_eligible(observed)) if asked else None

    def _moved_etcd(self, observed: tuple[ObservedMachine, ...], nodes: Mapping[str, Node | Absent | Unknown]) -> tuple[str, ...]:
        """That etcd is asked for elsewhere than where the Machines have it, as a sentence. Whatever counts members would count those of another etcd."""
        known = {machine.name: machines.has_etcd(self.workload, machine.config, nodes[machine.name]) for machine in observed}
        others = [name for name, managed in known.items() if managed not in (None, self.etcd_managed)]
        if not others:
            return ()
        where = "external etcd" if self.etcd_managed else "etcd on the Machines"
        path = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.external"
        return (
            f"{path}: etcd cannot be changed between local and external, as its data would not move; made with {where}: {', '.join(others)}",
        )

    def _connection(self, listed: tuple[Node, ...] | Unknown) -> Connection:
        """The way to the workload cluster as the Nodes were listed. It may have come, or gone, in the middle of this pass: Machines would then seem to have
        lost their Nodes in a cluster that answers.
        """
        state = self.workload.connectivity
        if state.phase is Phase.CONNECTED:
            health, reason = (Health.UNKNOWN, listed.reason) if isinstance(listed, Unknown) else (Health.GOOD, "connected")
            return Connection(health, reason, state.last_success)
        given_up = state.phase is Phase.LOST or state.consecutive_failures >= LOST_AFTER_FAILURES
        return Connection(Health.BAD if given_up else Health.UNKNOWN, state.reason, state.last_success)

    def _unmatched(self, members: Membership, observed: tuple[ObservedMachine, ...]) -> tuple[str, ...]:
        def old_enough(node: Node | None) -> bool:
            return (
                node is not None
                and node.metadata.creation_timestamp is not None
                and self.now - node.metadata.creation_timestamp >= MEMBER_GRACE
            )

        return tuple(m.name for m in observed if isinstance(members.of[m.name], Absent) and not m.deleting and old_enough(m.node))

    def _orphan_members(self, members: Membership, reading: RingReading | Unknown) -> tuple[Orphan, ...]:
        """Orphan members, each since it was first seen as that. A ring that could not be read says nothing, for or against."""
        if isinstance(reading, Unknown):
            return ()
        since = self.observer.sightings.of(self.request, (member.id for member in members.orphans), self.now)
        consented = consents(self.kcp)
        return tuple(described(Orphan(member, since[member.id]), members, consented) for member in members.orphans)

    async def _external_etcd(self, *, initialized: bool) -> Finding | None:
        return await self.rings.external(self.workload) if initialized and not self.etcd_managed else None

    def _remediation(self) -> tuple[Remediation | None, Remediation | None, str]:
        """Our record, upstream's, and why one of them cannot be read."""
        found: list[Remediation | None] = []
        problems: list[str] = []
        for key in (remediation_record.INTENT, Annotation.REMEDIATION_IN_PROGRESS):
            try:
                found.append(remediation_record.read(self.kcp.metadata.annotations, key))
            except MalformedRecord as error:
                found.append(None)
                problems.append(str(error))
        intended, remediating = found
        return intended, remediating, "; ".join(problems)

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
        if Finalizer.ORPHAN in self.kcp.metadata.finalizers:
            return Deletion(since, keeps_machines=True)
        if not any(is_ours(machine.metadata, self.kcp) for machine in control_plane):
            return Deletion(since)  # it has nothing that workers need
        workers = sorted(f"Machine {machine.metadata.name}" for machine in everyone if machine.metadata.uid not in ours)
        return Deletion(since, tuple(sorted(f"MachinePool {pool.metadata.name}" for pool in pools) + workers))


def _unsupported(replicas: Sequence[Replica]) -> tuple[str, ...]:
    updating = [replica.name for replica in replicas if replica.update]
    return tuple(f"Machine {name} is being updated in place, and the feature gate InPlaceUpdates is off" for name in updating)


def _orphans(
    members: Membership, observed: tuple[ObservedMachine, ...], there: Iterable[Node]
) -> tuple[tuple[Member, ...], tuple[str, ...]]:
    """Members and Nodes without a Machine; none as long as a Machine without a Node may yet turn out to be theirs."""
    if any(machine.node is None for machine in observed):
        return (), ()
    orphans = (member for member in members.orphans if member.id not in members.contested)
    nodes = nodes_without_machine(there, (machine.node for machine in observed))
    return tuple(sorted(orphans, key=lambda member: member.label)), tuple(sorted(nodes))
