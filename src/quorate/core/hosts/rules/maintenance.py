"""Maintenance once versions and settings are as desired: uncordon Nodes, set labels and taints, ensure MachineDeployments."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import failed, passed
from quorate.core.hosts.rules.facts import has_yet_to_join, names
from quorate.core.hosts.rules.skew import none_is_older
from quorate.core.hosts.state import Cluster, Kind, Node
from quorate.core.hosts.steps import EnsureMachineDeployments, Step, Uncordon, UpdateNodes
from quorate.core.proposal import NOTHING, Proposal, wanting

CORDONED = "an upgrade that was interrupted left Nodes cordoned"
NODE_DRIFT = "Nodes differ from the manifest"
DEPLOYMENTS = "the MachineDeployments of the manifest are there"
NOT_ABOVE = "no API server is older than the MachineDeployments' version"


def let_pods_return(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Uncordons a Node that quorate cordoned, once its upgrade is over or does not go on. Leaves a Node alone that somebody else cordoned."""
    if not cluster.stands:
        return NOTHING
    for host in cluster.hosts:
        if host.kind is Kind.MEMBER and isinstance(host.node, Node) and host.node.cordoned_by_us:
            return Proposal(Uncordon(host.name), (passed(CORDONED, host.name),))
    return NOTHING


def update_nodes(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Updates labels, annotations and taints of all Nodes at once: nothing restarts for them. Skips the Node of a host that has yet to join: it belongs to
    another machine, or will be deleted."""
    drifting = [host for host in cluster.hosts if host.node_drift and isinstance(host.node, Node) and not has_yet_to_join(host)]
    if not cluster.stands or not drifting:
        return NOTHING
    return Proposal(UpdateNodes(tuple(host.name for host in drifting)), (passed(NODE_DRIFT, names(drifting)),))


def ensure_machine_deployments(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Creates the MachineDeployments of `dynamicWorkers` and sets their version, once no API server is older."""
    maintenance = cluster.machine_deployments
    if not cluster.stands or not maintenance.pending:
        return NOTHING
    if maintenance.retry_at is not None and maintenance.retry_at > now:
        return Proposal(checks=(failed(DEPLOYMENTS, f"the last attempt failed: {maintenance.problem}"),), wake_at=maintenance.retry_at)
    if maintenance.problem and maintenance.retry_at is None:
        return Proposal(
            checks=(failed(DEPLOYMENTS, maintenance.problem, "Install machine-controller, or remove dynamicWorkers from the manifest."),)
        )
    return wanting(EnsureMachineDeployments(), none_is_older(cluster, NOT_ABOVE))
