"""Everything learned of one control plane in one pass: the objects as they were read, what the workload cluster said, and the pure view made of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.state import ControlPlane
from quorate.core.ring import Member, Ring
from quorate.kubernetes.objects import Node

COMING_UP = timedelta(minutes=2)
"""For how long after its creation a Machine that is not well is on its way rather than ill."""


def is_coming_up(created: datetime, now: datetime) -> bool:
    """Whether a Machine is so young that its components and its member may be well at any moment."""
    return now - created < COMING_UP


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to the workload cluster's API server: GOOD it answers, BAD it did and no longer does, UNKNOWN it never has yet."""

    health: Health
    message: str
    last_success: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outdated:
    """One way in which a Machine differs from what is desired: `message` as the UpToDate condition words it, `details` for `explain`."""

    message: str
    details: tuple[str, ...] = ()
    by_time: bool = False  # time alone made it so: a host made anew is what is asked for


@dataclass(frozen=True, slots=True)
class ObservedMachine:
    """One control-plane Machine of ours and everything that belongs to it.

    The findings are what is really seen, of a Machine that is being deleted too; they are keyed by the condition type that reports them.
    """

    machine: Machine
    config: KubeadmConfig | None = None
    infrastructure: ForeignObject | None = None  # the infrastructure machine, as its provider shapes it
    node: Node | None = None  # matched by name or provider id, whether or not the Machine's status says so yet
    findings: Mapping[str, Finding] = field(
        default_factory=dict
    )  # APIServerPodHealthy, ..., EtcdMemberHealthy, NodeKubeadmLabelsAndTaintsSet
    outdated: tuple[Outdated, ...] = ()
    outdated_from: datetime | None = None  # when time alone adds another way; None: never
    unknown_fields: tuple[str, ...] = ()  # of its KubeadmConfig: they differ, and are not known well enough to be a reason for anything

    @property
    def name(self) -> str:
        """The Machine's name."""
        return self.machine.metadata.name

    @property
    def had_node(self) -> bool:
        """Whether a Node of its own is there, or was."""
        return self.node is not None or self.machine.status.node_ref is not None

    @property
    def deleting(self) -> bool:
        """Whether somebody has deleted the Machine."""
        return self.machine.metadata.deletion_timestamp is not None


@dataclass(frozen=True, slots=True)
class Observation:
    """One control plane at one moment."""

    kcp: KubeadmControlPlane
    cluster: Cluster | None  # None: nobody owns the control plane yet
    machines: tuple[ObservedMachine, ...]  # oldest first, then by name
    connection: Connection
    ring: Ring | Unknown  # of managed etcd
    nodes: tuple[Node, ...] = ()  # control-plane Nodes of the workload cluster
    orphans: tuple[Member, ...] = ()  # members of etcd without a Machine
    lost_nodes: tuple[str, ...] = ()  # control-plane Nodes without a Machine, by name
    alarms: tuple[str, ...] = ()  # of etcd, and of none of its members, as sentences for a condition
    unmatched: tuple[str, ...] = ()  # Machines that have had a Node for over two minutes and no member, by name
    initialized: bool = False  # status says so already, or kubeadm-config was seen in this pass
    template_missing: bool = False
    template: ForeignObject | None = None  # that infrastructure is made from
    view: ControlPlane | None = None  # what `decide` looks at; None while there is no Cluster
