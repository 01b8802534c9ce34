"""All machines together, the cluster that lives on them, and the manifests that operators have: the truth that a run is judged by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quorate.core.versions import Version
from quorate.hosts.observe.membership import Claims
from quorate.simulation.engine.ring import EtcdRing
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.kubelets import Kubelets
from quorate.simulation.hosts.machines import CERTIFICATES, EtcdManifest, KubeletConf, Lock, Machine
from quorate.simulation.hosts.settings import Configured, configured, kubelets
from quorate.workload.static_pods import Component

VALIDITY = timedelta(days=365)
"""Of a certificate that kubeadm has just made."""
GRACE = 50.0
"""Seconds until a Node whose kubelet is silent is called not ready (kube-controller-manager, node-monitor-grace-period)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One host of a manifest. `address` is where operators reach it; `claim` what the manifest says wrongly of its address among the hosts."""

    name: str
    address: str
    control_plane: bool = True
    claim: str = ""

    @property
    def private_address(self) -> str:
        """Where the manifest says that its member is."""
        return self.claim or self.address


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an operator wants. `settings` and `labels` are revisions: another number is another content."""

    version: Version
    entries: tuple[Entry, ...]
    settings: int = 1
    labels: int = 1
    encrypts: bool = False  # Secrets in etcd

    @property
    def control_planes(self) -> tuple[Entry, ...]:
        """The control plane's hosts."""
        return tuple(entry for entry in self.entries if entry.control_plane)

    @property
    def claims(self) -> Claims:
        """Where it says that each host's member is."""
        addresses = {entry.name: (entry.private_address,) for entry in self.entries}
        control_planes = {entry.name for entry in self.control_planes}
        return Claims(
            {name: each for name, each in addresses.items() if name in control_planes},
            {name: each for name, each in addresses.items() if name not in control_planes},
        )

    def entry(self, name: str) -> Entry | None:
        """The host of this name."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def with_entry(self, changed: Entry) -> Manifest:
        """With another host in the place of the one of this name."""
        return replace(self, entries=tuple(changed if entry.name == changed.name else entry for entry in self.entries))


@dataclass(slots=True)
class Node:
    """A Node object."""

    name: str
    address: str
    control_plane: bool
    kubelet: Version | None
    unschedulable: bool = False
    cordoned_by_us: bool = False
    labels: int = 0
    static_worker: bool = False  # it carries our annotation
    silent_since: float | None = None  # its kubelet does not report
    heard_since: float = 0.0  # while it does


@dataclass(slots=True)
class Objects:
    """What the API has, all of it in etcd: it is gone with the ring's data."""

    nodes: dict[str, Node] = field(default_factory=dict)
    kubeadm: str = ""  # the ClusterConfiguration that kubeadm keeps, as it was written; empty: it is not there
    kubelet: str = ""  # the KubeletConfiguration that all kubelets share
    kube_proxy: str = ""  # kube-proxy's
    discovery: bool = False  # what a token of kubeadm finds, and the rights of those who join
    addons: bool = False  # CoreDNS and kube-proxy
    budget: bool = False  # of CoreDNS, which a cluster of one Node has none of
    stored: tuple[str, ...] = ()  # the providers that Secrets are stored with
    written: str = ""  # the one that all are, as quorate has recorded it

    @property
    def configured(self) -> Configured:
        """What kubeadm's configuration says."""
        return configured(self.kubeadm)

    @property
    def running(self) -> Version | None:
        """The version of kubeadm's configuration."""
        return self.configured.version

    @property
    def settings(self) -> set[int]:
        """The revisions that kubeadm's and the kubelets' configuration is of."""
        return {self.configured.api_server, self.configured.etcd, kubelets(self.kubelet)}


class Site:
    """The machines by address, the ring and the objects of the cluster that was founded last, and who has its Lease."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machines: dict[str, Machine] = {}
        self.broken_settings: set[int] = set()  # with which an API server does not start
        self.lease: Lock | None = None
        self.lease_refused = False  # by the API, for as long as this lasts
        self.tokens: set[str] = set()  # with which kubeadm may join, by the six characters that name each
        self.cas = 0  # made so far
        self.ca = 0  # of the cluster that was founded last
        self.founded = 0  # clusters
        self.objects = Objects()
        self.ring = self._new_ring()
        self.kubelets = Kubelets(world, self.settle, self.broken_settings)

    @property
    def ring_id(self) -> int:
        """Of the ring that was founded last; that of the one before is one less, and etcd has no id 0."""
        return self.founded + 1

    def _new_ring(self) -> EtcdRing:
        return EtcdRing(self.world, self.world.random(f"ring {self.founded}"), runs=self._member_runs, connected=self._member_talks)

    # Who is who.

    def machine_of(self, entry: Entry) -> Machine | None:
        """The machine at the host's address, as long as there is one."""
        machine = self.machines.get(entry.address)
        return machine if machine is not None and not machine.gone else None

    def holder_of(self, member: int) -> Machine | None:
        """The machine that has the member's data on its disk, or whose etcd runs as this member."""
        there = [machine for machine in self.machines.values() if not machine.gone]
        return next((machine for machine in there if member in (machine.disk.data, machine.member)), None)

    def owner_of(self, member: int) -> Machine | None:
        """The machine at the member's address."""
        url = self.ring.members[member].peer_url
        return next((machine for machine in self.machines.values() if machine.peer_url == url and not machine.gone), None)

    def member_at(self, address: str) -> int | None:
        """The member of the ring that lives at an address."""
        return next((member.id for member in self.ring.members.values() if member.peer_url == f"https://{address}:2380"), None)

    @property
    def stands(self) -> bool:
        """Whether a cluster was initialized to where others can join it, and its data is not destroyed."""
        return self.objects.running is not None and self.has_data

    @property
    def has_data(self) -> bool:
        """Whether anybody has data of the ring."""
        return any(machine.disk.data in self.ring.members for machine in self.machines.values() if not machine.gone)

    @property
    def quorum_is_gone(self) -> bool:
        """Whether so many data are destroyed that no majority of the voters can ever come back, nor runs on with what it has in memory beside data."""
        holders = {machine.disk.data for machine in self.machines.values() if not machine.gone}
        if self.ring.has_quorum and self.ring.well & holders:
            return False
        return bool(self.ring.voters) and len(self.ring.voters & holders) <= len(self.ring.voters) // 2

    # What works.

    def member_is_well(self, machine: Machine) -> bool:
        """Whether its member runs, votes and follows a leader."""
        return machine.member is not None and machine.member in self.ring.voters and self.ring.follows_leader(machine.member)

    def serves(self, machine: Machine) -> bool:
        """Whether its API server is ready."""
        return (
            machine.on
            and machine.api_version is not None
            and machine.api_settings not in self.broken_settings
            and self.member_is_well(machine)
            and not self._expired(machine)
        )

    def lets_in(self, machine: Machine) -> bool:
        """Whether there are credentials for API servers on it that count yet."""
        until = machine.disk.certificates.get("admin.conf")
        return machine.disk.admin_conf and (until is None or until > self.world.now())

    def serving(self) -> list[Machine]:
        """The machines whose API servers are ready."""
        return [machine for machine in self.machines.values() if self.serves(machine)]

    def reaches_api(self, machine: Machine) -> bool:
        """Whether its kubelet finds an API server."""
        return self.serves(machine) or (machine.talks and any(other.talks for other in self.serving()))

    def is_ready(self, node: Node) -> bool:
        """Whether the Node is called ready."""
        return node.silent_since is None or self.world.time() - node.silent_since < GRACE

    # What happens.

    def found(self, machine: Machine) -> None:
        """Its etcd starts for the first time with a manifest that founds a ring."""
        self.founded, self.ca = self.founded + 1, machine.disk.ca
        self.ring = self._new_ring()
        self.objects, self.lease, self.tokens = Objects(), None, set()
        member = self.ring.found(machine.name, machine.peer_url)
        machine.disk.data = machine.member = member.id
        self.settle()

    @property
    def revision(self) -> int:
        """Of the newest key: somebody writes in every second."""
        return int(self.world.time()) + 2

    def unlock(self, holder: str) -> None:
        """A run of this machine has ended: its locks count no more."""
        for machine in self.machines.values():
            if machine.lock is not None and machine.lock.holder == holder:
                machine.lock = None
        if self.lease is not None and self.lease.holder == holder:
            self.lease.holder = ""

    def settle(self) -> None:
        """Kubelets start what should run, reports come or do not, and the ring looks who is there. To be called whenever something has changed."""
        for machine in self.machines.values():
            self._start(machine)
            self.kubelets.note_containers(machine)
        self.ring.refresh()
        for machine in self.machines.values():
            self._register(machine)
        for node in self.objects.nodes.values():
            self._note(node, reports=self._reports(node))
        self.store({machine.api_providers.secrets[0] for machine in self.serving()})  # clients write at every moment

    def store(self, providers: set[str]) -> None:
        """Some Secrets are written with each of these."""
        if not providers <= set(self.objects.stored):
            self.objects.stored = tuple(sorted(providers.union(self.objects.stored)))

    def _note(self, node: Node, *, reports: bool) -> None:
        now = self.world.time()
        if reports and node.silent_since is not None:
            node.silent_since, node.heard_since = None, now
        elif not reports and node.silent_since is None:
            node.silent_since = now

    def _start(self, machine: Machine) -> None:
        disk = machine.disk
        if machine.member is not None and (machine.member in self.ring.removed or machine.member not in self.ring.members):
            machine.member = None  # etcd ends when it hears that it was removed
        if not (machine.on and machine.containerd_runs and machine.kubelet_runs) or machine.gone:
            return
        startable = disk.etcd is not EtcdManifest.NONE and not machine.etcd_fails and disk.data in self.ring.members
        if startable and machine.member is None and Component.ETCD not in machine.ended:
            machine.member = disk.data
        if disk.components is None or (disk.flagged and disk.providers is None) or Component.API_SERVER in machine.ended:
            return
        if (machine.api_version, machine.api_settings, machine.api_flagged) != (disk.components, disk.settings, disk.flagged):
            machine.api_providers = disk.stores_with  # a manifest that has changed starts it anew, and its files are read then
        machine.api_version, machine.api_settings, machine.api_flagged = disk.components, disk.settings, disk.flagged

    def certificates(self) -> dict[str, datetime]:
        """Those that kubeadm makes now."""
        return dict.fromkeys(CERTIFICATES, self.world.now() + VALIDITY)

    def _register(self, machine: Machine) -> None:
        """A kubelet with its credentials makes its Node where there is none, and reports its version."""
        if not machine.kubelet_runs or machine.disk.kubelet_conf is KubeletConf.NONE or not machine.disk.kubelet_configuration:
            return
        if machine.disk.ca != self.ca or not self.reaches_api(machine):
            return
        node = self.objects.nodes.get(machine.name)
        if node is not None and node.address == machine.address:
            node.kubelet = machine.kubelet_version

    def register(self, machine: Machine, *, control_plane: bool) -> None:
        """Its kubelet has made its Node."""
        self.objects.nodes[machine.name] = Node(machine.name, machine.address, control_plane, machine.kubelet_version)
        self.settle()

    def give_credentials(self, machine: Machine) -> bool:
        """Somebody makes a kubelet.conf where there is none, and its kubelet makes its Node. Whether that can be: with the cluster's CA, and where the API is
        reached.
        """
        if machine.disk.ca != self.ca or not self.reaches_api(machine):
            return False
        machine.disk.kubelet_conf = machine.disk.kubelet_conf or KubeletConf.INLINE
        self.register(machine, control_plane=machine.disk.components is not None)
        return True

    def _reports(self, node: Node) -> bool:
        machine = self.machines.get(node.address)
        return (
            machine is not None
            and machine.on
            and machine.name == node.name
            and machine.kubelet_runs
            and machine.disk.kubelet_conf is not KubeletConf.NONE
            and self.reaches_api(machine)
        )

    def power(self, machine: Machine, *, on: bool) -> None:
        """Switch a machine off, or on again with what is on its disk: its units are enabled."""
        machine.on = on
        machine.stop()
        if on and machine.disk.containerd:
            machine.containerd_runs = True
            self.start_kubelet(machine)
        self.settle()

    def start_kubelet(self, machine: Machine) -> None:
        """The kubelet that is installed starts; without a configuration it does nothing."""
        machine.containerd_runs = machine.kubelet_runs = True
        machine.kubelet_version = machine.disk.kubelet
        self.kubelets.started(machine)

    # Helpers of the ring.

    def _member_runs(self, member: int) -> bool:
        return any(machine.member == member and machine.on for machine in self.machines.values())

    def _member_talks(self, member: int) -> bool:
        return any(machine.member == member and machine.talks for machine in self.machines.values())

    def _expired(self, machine: Machine) -> bool:
        container = machine.containers.get(Component.API_SERVER)
        return container is not None and container.valid is not None and container.valid <= self.world.now()
