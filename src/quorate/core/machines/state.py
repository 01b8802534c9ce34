"""What was observed of one control plane, frozen: the only thing that `decide` looks at.

A replica is one control-plane node, whoever made it: a Machine or a host. Facts that could not be learned are `Unknown` with the reason; a fact proven not to
be there is `Absent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from quorate.core import etcd_versions
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.maintenance import UP_TO_DATE, Maintenance
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version


@dataclass(frozen=True, slots=True)
class RemediationPolicy:
    """How often, and how soon, a replica may be replaced again when its replacement fails too."""

    max_retry: int | None = None  # retries after the first remediation; None: no limit
    retry_period: timedelta = timedelta(0)
    min_healthy_period: timedelta = timedelta(hours=1)  # what fails later than this after the last remediation is another failure


@dataclass(frozen=True, slots=True)
class Remediation:
    """One remediation, as its record tells it."""

    replica: str  # the one that was, or is about to be, replaced
    at: datetime | None
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Orphan:
    """An etcd member that belongs to no replica, or of which nobody can tell whether, or to which, it does."""

    member: Member
    since: datetime  # when it was first seen as an orphan
    may_be_of: tuple[str, ...] = ()  # the replicas that it fits, as other members do, or of which it fits several; empty: it fits none
    node: str | Unknown = ""  # the Node that it runs on, which belongs to no replica; empty: none has its name or its address
    node_ready: bool = False  # that Node's kubelet says that it is ready
    consented: bool = False  # the owner of the control plane asked for its removal, by its id


@dataclass(frozen=True, slots=True)
class Adoptable:
    """A control-plane Machine of the cluster without an owner, and why it cannot be adopted; an empty problem: it can."""

    name: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Desired:
    """What the owner of the control plane asked for."""

    replicas: int
    version: Version
    max_surge: int = 1
    etcd_managed: bool = True
    etcd_minor: etcd_versions.Minor | None = None  # of the etcd that a new replica brings; None: not known
    etcd_flags: tuple[str, ...] = ()  # those that it is given
    remediation: RemediationPolicy = RemediationPolicy()
    failure_domains: tuple[str, ...] = ()  # those that may hold control planes; empty: there are none to choose from


class Answer(Enum):
    """Can an extension update a replica in place?"""

    UNASKED = "nobody has asked yet"
    YES = "it can do all of it"
    NO = "something is left over"
    UNKNOWN = "it is configured, and could not be asked"


@dataclass(frozen=True, slots=True)
class InPlace:
    """What a runtime extension says of one replica and of what is desired of it."""

    answer: Answer
    extension: str = ""
    reason: str = ""  # what it cannot update, or why it could not be asked
    remedy: str = ""
    retry_at: datetime | None = None  # when it is asked again


@dataclass(frozen=True, slots=True)
class Update:
    """An update in place that was begun, and is not over."""

    mark: str  # by which mark it is known
    started: bool  # whoever carries it out may have touched the host
    message: str = ""  # what is told of it
    failed: bool = False  # it is tried again and again, without success


@dataclass(frozen=True, slots=True)
class Replica:
    """One control-plane node and everything known of it."""

    name: str
    version: str
    created: datetime
    member: int | Absent | Unknown  # the id of its etcd member, matched by name, id or peer URL
    node: str | None = None  # its Node's name, once there is one
    node_created: datetime | None = None  # when its Node came, by its own word and by our clock; None: not known
    failure_domain: str = ""
    component_findings: tuple[tuple[str, Finding], ...] = ()  # by component: API server, controller manager, scheduler, etcd's Pod
    member_findings: tuple[tuple[str, Finding], ...] = ()  # its etcd member as the ring tells it
    outdated: tuple[str, ...] = ()  # in which ways it differs from what is desired; empty: up to date
    outdated_from: datetime | None = None  # when time alone adds another way; None: never
    deleting_since: datetime | None = None
    holds_hook: bool = True  # its Machine cannot go before we let it
    waits_at_hook: bool = False  # everything that comes before our hook is done: drained, volumes detached
    other_hooks: tuple[str, ...] = ()  # of other controllers, which go before ours
    delete_first: bool = False  # its owner asked for it to be chosen when one has to go
    kubelet_version: str = ""  # as its Node tells it; empty: not known
    node_findings: tuple[tuple[str, Finding], ...] = ()  # the marks that kubeadm leaves on its Node
    unhealthy: bool = False  # a health check failed it, and left it to us to replace it
    remediate_first: bool = False  # its owner asked for it to be chosen when one is to be remediated
    replaces: Remediation | None = None  # the remediation that it was made for
    record_problem: str = ""  # why the record of that remediation cannot be read
    update: Update | None = None  # an update in place is under way
    in_place: InPlace | None = None  # it may be updated in place rather than replaced; None: it may not, or nothing is to be updated
    expiry_known: bool = True  # is it recorded when its API server's certificate expires
    coredns: Maintenance = UP_TO_DATE  # CoreDNS has yet to be asked to leave its Node, and only we and core have a say in its drain
    had_node: bool = False  # a Node of its own is there, or was: somebody may have deleted it while the kubelet runs
    joins_until: datetime | None = None  # until when kubeadm may be joining on its host, which has yet to be a Node; None: it cannot be
    overdue: bool = False  # it never had a Node, and is older than any host takes to boot and kubeadm to join


@dataclass(frozen=True, slots=True)
class Certificates:
    """The cluster's CAs, by purpose."""

    missing: tuple[str, ...] = ()
    generatable: bool = True  # False where the missing ones are for the user to supply
    problem: str = ""  # why they could not be read; nothing is generated then


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The admin kubeconfig."""

    exists: bool
    ours: bool = True  # one that a user supplied is never touched
    rotates_at: datetime | None = None  # half of its life is over then
    problem: str = ""
    write_problem: str = ""  # why the last attempt to write it failed
    retry_at: datetime | None = None  # when the next one is due


@dataclass(frozen=True, slots=True)
class Creation:
    """A creation that was recorded as intended before anything was made."""

    name: str
    machine_exists: bool


@dataclass(frozen=True, slots=True)
class Deletion:
    """The control plane itself is being deleted; what else of the cluster is still there."""

    since: datetime
    workers: tuple[str, ...] = ()  # what must go first, as a reader knows it
    keeps_machines: bool = False  # its owner wants to keep its Machines: the garbage collector is about to take it off their owners


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One control plane at one moment."""

    name: str
    desired: Desired
    replicas: tuple[Replica, ...]
    ring: Ring | Unknown
    initialized: bool | Unknown  # False only with a proof that kubeadm has founded nothing: whatever it is, it survives in no status
    workload: Finding  # can the workload cluster be asked
    has_finalizer: bool = True
    paused: str = ""  # by what; empty: not paused
    invalid: tuple[str, ...] = ()  # what is wrong with the object itself
    unsupported: tuple[str, ...] = ()  # what is asked for that is not done yet
    foreign: tuple[str, ...] = ()  # control-plane Machines of the cluster that somebody else owns
    adoptable: tuple[Adoptable, ...] = ()  # control-plane Machines of the cluster that nobody owns
    not_the_clusters: str = ""  # why the cluster's control plane is another one, or may be; empty: it is this one
    infrastructure_ready: bool = True
    endpoint: str = ""  # host:port; empty: not known yet
    certificates: Certificates = Certificates()
    kubeconfig: Kubeconfig = Kubeconfig(exists=True)
    template_problem: str = ""  # why the infrastructure template cannot be used
    topology_pending: str = ""  # the version that a managed topology is about to set
    creation: Creation | None = None
    remediation_intended: Remediation | None = None  # our own record, made before the replica is deleted
    remediating: Remediation | None = None  # upstream's record, made after it was deleted and kept until its replacement exists
    remediation_problem: str = ""  # why one of the two cannot be read
    orphans: tuple[Orphan, ...] = ()
    membership_problem: str = ""  # in what the members disagree about who they are
    external_etcd: Finding | None = None  # how the API servers find the etcd that is not ours; None: it is ours
    preparation: Maintenance = UP_TO_DATE  # permissions and kubeadm's configuration, as the desired version wants them before anybody joins
    addons: Maintenance = UP_TO_DATE  # kube-proxy and CoreDNS
    expiries: Maintenance = UP_TO_DATE  # when the API servers' certificates expire, recorded for each replica
    deletion: Deletion | None = None

    def replica(self, name: str) -> Replica:
        """The replica of this name, which exists."""
        return next(replica for replica in self.replicas if replica.name == name)

    @property
    def may_be_initialized(self) -> bool:
        """Whether there may be data: for all that is known, kubeadm has founded the cluster. What is not known is never taken for "no" (S16)."""
        return self.initialized is not False

    @property
    def knows_nodes(self) -> bool:
        """Whether a replica without a Node has none. Of a cluster that may be initialized and cannot be asked no Node is known, which proves nothing."""
        return self.workload.health is Health.GOOD or not self.may_be_initialized

    @property
    def leaving(self) -> tuple[Replica, ...]:
        """Replicas being deleted that still hold their place in the control plane, longest first."""
        waiting = [
            (replica.deleting_since, replica.name, replica) for replica in self.replicas if replica.deleting_since and replica.holds_hook
        ]
        return tuple(replica for *_, replica in sorted(waiting, key=lambda item: item[:2]))

    @property
    def vanishing(self) -> tuple[Replica, ...]:
        """Replicas being deleted without our hook, whoever took it away: their Machines may end at any moment."""
        return tuple(replica for replica in self.replicas if replica.deleting_since and not replica.holds_hook)

    @property
    def holding(self) -> tuple[Replica, ...]:
        """Replicas that hold their place in the control plane: they stay, or wait until we let them go."""
        return tuple(replica for replica in self.replicas if replica.deleting_since is None or replica.holds_hook)

    @property
    def staying(self) -> tuple[Replica, ...]:
        """Replicas that nobody is deleting."""
        return tuple(replica for replica in self.replicas if replica.deleting_since is None)

    @property
    def updating(self) -> tuple[Replica, ...]:
        """Replicas that nobody is deleting and whose hosts are updated in place: whoever does that may restart anything there at any moment."""
        return tuple(replica for replica in self.staying if replica.update and replica.update.started)

    @property
    def begun(self) -> tuple[Replica, ...]:
        """Replicas that nobody is deleting and that are marked for an update in place, of which nothing has reached the host."""
        return tuple(replica for replica in self.staying if replica.update and not replica.update.started)

    @property
    def outdated(self) -> tuple[Replica, ...]:
        """Replicas that differ from what is desired and are not leaving already."""
        return tuple(replica for replica in self.staying if replica.outdated)
