"""What was observed of a cluster of existing hosts, frozen: all that the rules for existing hosts look at.

A host has an identity: it is repaired, upgraded or taken out, and never exchanged for another. Facts that could not be learned are `Unknown` with the
reason; a fact proven not to be there is `Absent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.encryption import Desired, Encryption
from quorate.core.maintenance import Maintenance
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version


class Kind(Enum):
    """What a host is, as far as its own facts and the cluster's lists say."""

    BARE = "bare"
    PACKAGES_ONLY = "packages only"
    HALF_INITIALIZED = "half initialized"
    HALF_JOINED = "half joined"
    MEMBER = "member"
    FOREIGN = "member of another cluster"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"


UNTOUCHED = frozenset({Kind.BARE, Kind.PACKAGES_ONLY})
"""Kinds of host with no trace of any cluster."""
BELONGING = frozenset({Kind.HALF_INITIALIZED, Kind.MEMBER, Kind.BROKEN})
"""Kinds of host that show that there is a cluster already."""


WIPED = "Wiped"
"""The reason of the finding that says so."""
JOINED_HALF = "JoinedHalf"
"""The reason of the finding that says that its member votes and that its kubelet never got its certificate."""
JOINED_AS_WORKER = "JoinedAsWorker"
"""The reason of the finding that says that it is to be a control plane host, and has joined as a worker."""
INITIALIZING = "Initializing"
"""The reason of the finding that says that the mark of an initialization is on it, which quorate takes away when that has ended."""
LEADERLESS = "EtcdWithoutLeader"
"""The reason of the finding that says that the etcd of a host whose initialization was cut short runs, and is not well."""
NODE_NOT_LISTED = "NodeNotListed"
"""The reason of the finding that says that the API has no Node for it, though it has joined."""
ANOTHER_ETCD = "AnotherEtcd"
"""The reason of the finding that says that an etcd is on it which is not this cluster's, or not known to be."""
CLUSTERS_DIFFER = "ClustersDiffer"
"""The reason of the finding that says that the hosts belong to different clusters, so that nobody knows whether it is of the one that is meant."""
NOT_UNIQUE = "NotUnique"
"""The reason of the finding that says that it cannot be told from another host."""
KUBEADM_RUNS = "KubeadmRuns"
"""The reason of the finding that says so."""
EXPIRED = "CertificatesExpired"
"""The reason of the finding that says that certificates have expired which a renewal makes anew."""

LIVEZ, READYZ = "APIServerLivez", "APIServerReadyz"
"""The reasons of the findings that say how its API server does."""


@dataclass(frozen=True, slots=True)
class MissedProbes:
    """How many probes in a row got no answer, and when the last of them was. A later probe counts only when it is at least 5 s after the one before."""

    count: int
    last: datetime


@dataclass(frozen=True, slots=True)
class Node:
    """A Node object, as far as it matters here."""

    name: str
    ready: Finding
    kubelet: Version | None = None  # as the kubelet reports it
    unschedulable: bool = False
    cordoned_by_us: bool = False  # an upgrade of ours was interrupted
    pressures: tuple[str, ...] = ()  # what its kubelet is short of, such as DiskPressure: no Pod without the right toleration stays on it
    control_plane: bool = False  # by its label
    static_worker: bool = False  # by the annotation that quorate puts on every worker that it joined
    machine: str = ""  # of a machine controller, by its marks
    kept_by: str = ""  # who else made it, and takes it away with its machine: a machine controller, or a cloud
    ready_since: datetime | None = None  # or not ready since; None: the Node does not tell


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the manifest and everything known of it."""

    name: str  # of the host, its Node and its etcd member: the manifest's, or what the host calls itself
    control_plane: bool  # False: a static worker
    kind: Kind
    findings: tuple[Finding, ...] = ()  # everything behind its kind, good findings too
    not_unique: tuple[str, ...] = ()  # why it may not be the machine that the manifest means, of a host that belongs to no cluster
    missed_probes: MissedProbes | None = None  # it cannot be reached over SSH
    member: int | Absent | Unknown = Absent()  # noqa: RUF009 (frozen, and without fields)
    member_health: Finding | None = None  # its member asked itself; None: it has none, or nobody asked
    node: Node | Absent | Unknown = Absent()  # noqa: RUF009
    components: Version | None = None  # the lowest of its static Pods' manifests; None: there is none, or none could be read
    kubelet: Version | None = None  # the installed program
    kubeadm: Version | None = None
    api_server: Finding | None = None  # asked itself; None: it has none
    just_booted: bool = False  # a moment ago: what fails on it may only be starting
    api_server_restarts: bool = False  # one runs that does not listen: it was asked to end, or has just been started
    lacks: tuple[str, ...] = ()  # packages and settings that must be there before kubeadm runs
    guarded_by: tuple[
        str, ...
    ] = ()  # firewalls and SELinux that are on, or not known to be off: what preparing it turns off unless they are to be kept
    stopped: tuple[str, ...] = ()  # units that should run, can be started, and do not run
    etcd_runs: bool = False  # or may, where that could not be asked: what a kubelet started runs on without it
    etcd_data_lost: bool = False  # proven: its member's data folder is empty, begun anew, or without its log, while the ring has the member
    holds_a_copy: bool = False  # its etcd's log is of the ring's cluster, and there with what it acknowledged
    holds_other_data: bool = False  # its etcd's log is of another cluster than the ring's, and there with what it acknowledged
    drift: tuple[str, ...] = ()  # in what its components' flags and files differ from the manifest
    lasting_drift: tuple[
        str, ...
    ] = ()  # in what it differs from the manifest and stays so, since no step changes it; with what somebody can do
    node_drift: tuple[str, ...] = ()  # labels, annotations and taints of its Node that differ from the manifest
    new_node_drift: tuple[str, ...] = ()  # those in which a Node that it gets anew would differ, as kubeadm makes it
    certificates_expire: datetime | None = None  # the earliest that kubeadm renews
    clock_ahead: timedelta | None = None  # of the operator's; None: not known
    encryption: Encryption | Unknown | None = None  # how its API server stores Secrets; None: it has none

    @property
    def is_well(self) -> bool:
        """It belongs to the cluster, and nothing about it is bad or unknown."""
        return self.kind is Kind.MEMBER and all(finding.health is Health.GOOD for finding in self.findings)

    @property
    def is_wiped(self) -> bool:
        """Nothing of the cluster is on it, although the cluster lists it: it was installed anew, or its disk was."""
        return self.kind is Kind.BROKEN and any(finding.reason == WIPED for finding in self.findings)

    @property
    def has_joined_half(self) -> bool:
        """Its join was cut short after its member had become a voter: its kubelet has no certificate of its own, and there is no Node."""
        cut_short = any(finding.reason == JOINED_HALF for finding in self.findings)
        return self.control_plane and self.kind is Kind.BROKEN and cut_short and isinstance(self.node, Absent)

    @property
    def works(self) -> bool:
        """It has joined as a worker, and has a Node, though the manifest has it as a control plane host."""
        joined = any(finding.reason == JOINED_AS_WORKER for finding in self.findings)
        return joined and isinstance(self.node, Node) and not self.node.control_plane

    @property
    def kubeadm_runs(self) -> bool:
        """A kubeadm that somebody started, perhaps an interrupted run of ours, has not ended."""
        return any(finding.reason == KUBEADM_RUNS for finding in self.findings)

    @property
    def member_id(self) -> int | None:
        """The id of its member, where it is known to have one."""
        return self.member if isinstance(self.member, int) else None

    @property
    def kubelets(self) -> tuple[Version, ...]:
        """The kubelet that is installed and the one that runs, as far as they are known: they differ where an upgrade was interrupted."""
        running = self.node.kubelet if isinstance(self.node, Node) else None
        return tuple(version for version in (self.kubelet, running) if version is not None)


@dataclass(frozen=True, slots=True)
class OrphanMember:
    """A member of the ring that belongs to no host of the manifest; with `missed_probes` while it does not answer."""

    member: Member
    missed_probes: MissedProbes | None = None
    without_vote_for: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the operator asked for beside the manifest."""

    initialize: bool = True  # False: prepare hosts and stop before kubeadm
    force_upgrade: bool = False  # regenerate what kubeadm makes although the versions are equal
    renew_certificates: bool = False
    rotate_encryption_key: bool = False  # store Secrets with a new key
    without: tuple[str, ...] = ()  # hosts that cannot be asked, and of which the operator knows that they hold no cluster
    parallel_workers: int = 10
    remove_hosts: int = 1  # that are in the cluster and not in the manifest, and may leave
    keep_firewall: bool = False  # hosts that are prepared keep their firewalls and SELinux as they are


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster of hosts at one moment."""

    name: str
    version: Version  # desired
    hosts: tuple[Host, ...]  # of the manifest: control planes first, in its order
    leader: str  # the host that the manifest would have initialize the cluster
    ring: Ring | Unknown | Absent  # Absent: there is no cluster yet
    api: Finding  # can the API be asked, through any host
    running: Version | None = None  # what kubeadm's configuration in the cluster says; None: not known, or there is no cluster
    orphans: tuple[OrphanMember, ...] = ()
    lost_nodes: tuple[str, ...] = ()  # Nodes of control planes, and of workers that we joined, that no host of the manifest is
    other_nodes: tuple[Node, ...] = ()  # every Node that no host of the manifest is: these, and those of workers that somebody else joined
    members_missed_probes: tuple[tuple[int, MissedProbes], ...] = ()  # of hosts' members that do not answer
    membership_problem: str = ""  # in what the members disagree about who they are
    alarms: tuple[str, ...] = ()  # of etcd, and of none of its members: why it refuses writes, with the way out
    configuration_drift: tuple[str, ...] = ()  # in what kubeadm's and the kubelets' configuration in the cluster differs from the manifest
    addon_drift: tuple[str, ...] = ()  # in what kube-proxy and CoreDNS differ from it
    lasting_drift: tuple[str, ...] = ()  # in what the cluster differs from the manifest and stays so, as that of a host
    encryption: Desired = Desired()  # noqa: RUF009 (frozen)
    machine_deployments: Maintenance = Maintenance()  # noqa: RUF009 (frozen)
    snapshot_taken: bool = False  # of this ring, in this run
    regenerated: tuple[str, ...] = ()  # hosts for which `force_upgrade` was carried out in this run
    renewed: tuple[str, ...] = ()  # hosts for which `renew_certificates` was carried out in this run
    rotated: bool = False  # a change of keys, which `rotate_encryption_key` asks for, was begun or continued in this run
    locked_by: str = ""  # who else works on these hosts; empty: nobody
    problems: tuple[str, ...] = ()  # about the hosts together, such as the same machine twice
    options: RunOptions = RunOptions()

    def host(self, name: str) -> Host:
        """The host of this name, which exists."""
        return next(host for host in self.hosts if host.name == name)

    @property
    def control_planes(self) -> tuple[Host, ...]:
        """The control plane's hosts."""
        return tuple(host for host in self.hosts if host.control_plane)

    @property
    def workers(self) -> tuple[Host, ...]:
        """The static workers."""
        return tuple(host for host in self.hosts if not host.control_plane)

    @property
    def api_servers(self) -> dict[str, Encryption]:
        """How each API server of which that is known stores Secrets, by the name of its host."""
        return {host.name: host.encryption for host in self.control_planes if isinstance(host.encryption, Encryption)}

    @property
    def exchanges_keys(self) -> bool:
        """Whether an exchange of keys is under way: some API server reads with the one before, too."""
        return any(len(each.configuration.keys) > 1 for each in self.api_servers.values())

    @property
    def encrypts(self) -> bool:
        """Whether all API servers have a file of providers, so that whoever joins needs one, too."""
        return bool(self.api_servers) and all(each.flagged for each in self.api_servers.values())

    @property
    def is_provisioned(self) -> bool:
        """Whether any control-plane host belongs to this cluster already, however ill it is."""
        return any(host.control_plane and host.kind in BELONGING for host in self.hosts)

    @property
    def is_booting(self) -> bool:
        """Whether a control plane host that has joined was switched on a moment ago."""
        return any(host.control_plane and host.just_booted and host.kind in (Kind.MEMBER, Kind.BROKEN) for host in self.hosts)

    @property
    def is_restarting(self) -> bool:
        """Whether an API server of a control plane host that has joined was asked to end a moment ago, or has just been started."""
        return any(host.control_plane and host.api_server_restarts and host.kind in (Kind.MEMBER, Kind.BROKEN) for host in self.hosts)

    @property
    def is_being_founded(self) -> bool:
        """Whether all that there is of this cluster is an initialization that was cut short."""
        return self.is_provisioned and not self.stands

    @property
    def stands(self) -> bool:
        """Whether a cluster was initialized, however ill it is."""
        return any(host.control_plane and host.kind in (Kind.MEMBER, Kind.BROKEN) for host in self.hosts)
