"""Upgrades in place: API servers first, then kubelets, one host at a time after a quorum check. Skips hosts that have the version, so that an interrupted
upgrade resumes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from quorate.core.checks import Check, failed, passed
from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts.gates import restart
from quorate.core.hosts.rules.clocks import own_time
from quorate.core.hosts.rules.configuration import after_the_configuration
from quorate.core.hosts.rules.facts import leader_last, names
from quorate.core.hosts.rules.skew import others_allow, skew_allows
from quorate.core.hosts.rules.snapshot import after_a_snapshot
from quorate.core.hosts.state import Cluster, Host, Kind, Node
from quorate.core.hosts.steps import (
    ChangeEncryption,
    EnsureMachineDeployments,
    Reconfigure,
    RewriteSecrets,
    Step,
    UpdateConfiguration,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.core.proposal import NOTHING, Proposal, wanting

UPGRADE_WANTED = "another version is wanted"
NODES_READY = "the Nodes of the control plane are ready"
NOTHING_SHORT = "no Node of the control plane is short of disk, memory or process ids"
MEMBER_KNOWN = "it is known which member is the host's"

GETS_READY_WITHIN = timedelta(minutes=3)
"""A kubelet that began before its Node was there tries again after up to 2.3 minutes (kubelet 1.34, pkg/volume/csi/csi_plugin.go, initializeCSINode)."""
LOOK_AGAIN = timedelta(seconds=2)
"""Until a Node is looked at again that is not ready yet."""

AT_THE_NEW_VERSION: frozenset[type[Step]] = frozenset(
    {UpgradeKubelet, UpdateConfiguration, Reconfigure, ChangeEncryption, RewriteSecrets, EnsureMachineDeployments}
)
"""Steps that write what the desired version reads, and so wait until the API servers have it."""


def upgrade_the_control_plane(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Upgrades the next host whose API server is not of the desired version; the one whose member leads etcd comes last.

    As long as kubeadm's configuration in the cluster tells another version, the host is the first of the upgrade, which brings add-ons and configuration along.
    """
    pending = _pending(cluster)
    if not cluster.stands or not pending:
        return NOTHING
    host = pending[0]
    proposal = to_upgrade(
        cluster, host, passed(UPGRADE_WANTED, f"{cluster.version} on {names(pending)}"), nodes_ready(cluster), _nothing_short(cluster)
    )
    return replace(when_nodes_are_ready(cluster, now, proposal), blocks=AT_THE_NEW_VERSION)


def upgrade_kubelets(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Upgrades kubelets once all API servers have the desired version: control planes, then workers, one by one, an interrupted one first."""
    if not cluster.stands:
        return NOTHING
    workers = [host for host in cluster.workers if _kubelet_pending(cluster, host)]
    control_planes = [host for host in cluster.control_planes if _kubelet_pending(cluster, host)]
    ordered = [*leader_last(cluster, control_planes), *workers]
    pending = sorted(ordered, key=lambda host: (not host.control_plane, not _was_interrupted(host)))
    if not pending:
        return NOTHING
    host = pending[0]
    gate = (bears_restart(cluster, host),) if host.control_plane else ()
    wanted = passed(UPGRADE_WANTED, f"the kubelets of {names(pending)}")
    asked = (wanted, *skew_allows(cluster), nodes_ready(cluster, apart_from=host), *gate)
    step: Step = UpgradeKubelet(host.name, cluster.version)
    proposal = wanting(step, *asked)
    if not _pending(cluster):
        proposal = when_nodes_are_ready(cluster, now, proposal)
    return replace(proposal, blocks=AT_THE_NEW_VERSION)


def to_upgrade(cluster: Cluster, host: Host, *reasons: Check) -> Proposal[Step]:
    """To upgrade this host's control plane, after what has to come before it, if the version skew and the ring permit it."""
    step = UpgradeControlPlane(host.name, cluster.version, first=_is_first(cluster))
    proposal = wanting(step, *reasons, *skew_allows(cluster), others_allow(cluster), bears_restart(cluster, host))
    drift = (
        *cluster.configuration_drift,
        *cluster.addon_drift,
    )  # the new version may refuse what no longer holds, and Nodes are drained for it
    return after_a_snapshot(cluster, after_the_configuration(proposal, drift))


def is_under_way(cluster: Cluster) -> bool:
    """Whether an upgrade to the desired version began: some of it runs already."""
    return cluster.running == cluster.version or any(host.components == cluster.version for host in cluster.control_planes)


def bears_restart(cluster: Cluster, host: Host) -> Check:
    """May this host's control plane be down for a while?"""
    if host.member_id is None:
        return failed(MEMBER_KNOWN, f"not for {host.name}", "Repair the host's membership first.")
    return restart(cluster.ring, host.member_id)


def nodes_ready(cluster: Cluster, *, apart_from: Host | None = None) -> Check:
    """Is every Node of the control plane ready, apart from that of a host whose upgrade goes on?"""
    unready = [
        f"{host.name} {_unready(host.node)}"
        for host in cluster.control_planes
        if host is not apart_from and not (isinstance(host.node, Node) and host.node.ready.health is Health.GOOD)
    ]
    if unready:
        return failed(
            NODES_READY, "; ".join(unready), "`kubectl describe node` shows why; a Node without a network plug-in is never ready."
        )
    return passed(NODES_READY, "all of them")


def when_nodes_are_ready(cluster: Cluster, now: datetime, proposal: Proposal[Step]) -> Proposal[Step]:
    """The proposal, to be asked for again soon where all that it waits for is a Node that was ready, or was not there, a short while ago."""
    waits_for = {check.name for check in proposal.checks if not check.passed}
    if waits_for != {NODES_READY} or not all(_may_get_ready(host, now) for host in cluster.control_planes):
        return proposal
    return replace(proposal, wake_at=now + LOOK_AGAIN)


def _pending(cluster: Cluster) -> list[Host]:
    hosts = [host for host in cluster.control_planes if host.kind is Kind.MEMBER or host.components is not None]
    behind = [host for host in hosts if host.components != cluster.version]
    if _configuration_behind(cluster):  # a host that has the version already began, and was interrupted before it told the cluster
        begun = [host for host in hosts if host.components == cluster.version]
        return [*begun[:1], *leader_last(cluster, behind)]
    if cluster.options.force_upgrade:
        behind = [host for host in hosts if host in behind or host.name not in cluster.regenerated]
    return leader_last(cluster, behind)


def _configuration_behind(cluster: Cluster) -> bool:
    return cluster.running != cluster.version


def _is_first(cluster: Cluster) -> bool:
    return _configuration_behind(cluster) or (cluster.options.force_upgrade and not cluster.regenerated)


def _kubelet_pending(cluster: Cluster, host: Host) -> bool:
    return host.kind is Kind.MEMBER and any(version != cluster.version for version in host.kubelets)


def _was_interrupted(host: Host) -> bool:
    return isinstance(host.node, Node) and host.node.cordoned_by_us


def _nothing_short(cluster: Cluster) -> Check:
    """A Node that is short of something evicts the Pod with which `kubeadm upgrade` begins, and kubeadm does not say why."""
    short = [
        f"{host.name} has {', '.join(host.node.pressures)}"
        for host in cluster.control_planes
        if isinstance(host.node, Node) and host.node.pressures
    ]
    if short:
        return failed(NOTHING_SHORT, "; ".join(short), "Free what it is short of: `kubectl describe node` shows since when.")
    return passed(NOTHING_SHORT, "none of them")


def _may_get_ready(host: Host, now: datetime) -> bool:
    """By the clock of the host, whose kubelet says since when."""
    node = host.node
    if not isinstance(node, Node):
        return False
    return node.ready.health is Health.GOOD or (node.ready_since is not None and own_time(host, now) - node.ready_since < GETS_READY_WITHIN)


def _unready(node: Node | Absent | Unknown) -> str:
    match node:
        case Node():
            return node.ready.message or node.ready.reason
        case Unknown(reason):
            return f"may have a Node or not: {reason}"
    return "has no Node"
