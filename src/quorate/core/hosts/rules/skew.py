"""The version skew policy as Kubernetes documents it and kubeadm enforces it: one minor at a time, kubelets at most three behind, nothing ever back.

Source: kubernetes.io/releases/version-skew-policy; kubeadm's policy of upgrades (cmd/kubeadm/app/phases/upgrade/policy.go).
"""

from __future__ import annotations

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.hosts.rules.facts import names
from quorate.core.hosts.state import Cluster, Node
from quorate.core.versions import Version, minor_distance

VERSIONS_KNOWN = "the version of every API server is known"
NO_STEP_BACK = "the version is not below any that runs"
ONE_MINOR = "the version is at most one minor above every API server"
KUBELETS_NEAR = "no kubelet would be more than three minors behind"

OTHERS_NEAR = "no kubelet of another Node would be newer, or more than three minors behind"

KUBELET_MINORS = 3
"""How far a kubelet may be behind an API server, since Kubernetes 1.28."""


def skew_allows(cluster: Cluster) -> tuple[Check, ...]:
    """May the control plane be brought to the desired version? A mixture of it and the one before is an upgrade that was interrupted, and goes on."""
    untold = [host for host in cluster.control_planes if host.components is None]
    if untold:
        return (unknown(VERSIONS_KNOWN, f"not of {names(untold)}", "Make the manifest of the API server there readable."),)
    target = cluster.version
    components = [host.components for host in cluster.control_planes if host.components is not None]
    servers = components + ([cluster.running] if cluster.running is not None else [])
    kubelets = [version for host in cluster.hosts for version in host.kubelets]
    return _no_step_back(target, [*servers, *kubelets]), _one_minor(target, servers), _kubelets_near(target, kubelets)


def others_allow(cluster: Cluster) -> Check:
    """Would the kubelets of Nodes that no host of the manifest is still fit to API servers of the desired version? Only their minor version is asked."""
    target = cluster.version
    near = range(target.minor - KUBELET_MINORS, target.minor + 1)
    left = [node for node in cluster.other_nodes if node.kubelet is not None and node.kubelet.minor not in near]
    if not left:
        return passed(OTHERS_NEAR, f"{len(cluster.other_nodes)} Nodes" if cluster.other_nodes else "there is none")
    told = ", ".join(f"Node {node.name} runs {node.kubelet}" for node in left)
    oldest = f"v{target.major}.{near.start}"
    remedy = f"Bring their kubelets to {oldest} or later first, and to none newer than {target}; delete a Node whose machine is gone."
    return failed(OTHERS_NEAR, told, remedy)


def none_is_older(cluster: Cluster, name: str) -> Check:
    """Has every API server the desired version, so that kubelets may have it? One that cannot be asked is no older than its host's kubelet, which follows it,
    and of which its Node goes on telling.
    """
    older = [host for host in cluster.control_planes if host.components is not None and host.components < cluster.version]
    if older:
        return failed(name, f"waiting for the upgrade of {names(older)} to {cluster.version}")
    told = {host.name: host.node.kubelet for host in cluster.control_planes if host.components is None and isinstance(host.node, Node)}
    may_be = [host for host, kubelet in told.items() if kubelet is not None and kubelet < cluster.version]
    if may_be:
        evidence = f"{', '.join(may_be)} cannot be asked, and its kubelet is older than {cluster.version}: its API server may be, too"
        return unknown(name, evidence, f"Bring {', '.join(may_be)} back, or remove it from the manifest.")
    return passed(name, str(cluster.version))


def _no_step_back(target: Version, running: list[Version]) -> Check:
    newest = max(running)
    if newest <= target:
        return passed(NO_STEP_BACK, f"{target}; the newest that runs is {newest}")
    return failed(NO_STEP_BACK, f"{target} is below {newest}, which runs already", f"Set versions.kubernetes to {newest} or later.")


def _one_minor(target: Version, servers: list[Version]) -> Check:
    oldest = min(servers)
    distance = minor_distance(oldest, target)
    if distance is not None and distance <= 1:
        return passed(ONE_MINOR, f"from {oldest} to {target}")
    remedy = f"Set versions.kubernetes to a version of v{oldest.major}.{oldest.minor + 1} first."
    return failed(ONE_MINOR, f"{target} is more than one minor above {oldest}", remedy)


def _kubelets_near(target: Version, kubelets: list[Version]) -> Check:
    if not kubelets:
        return unknown(KUBELETS_NEAR, "no kubelet's version is known")
    oldest = min(kubelets)
    distance = minor_distance(oldest, target)
    if distance is not None and distance <= KUBELET_MINORS:
        return passed(KUBELETS_NEAR, f"the oldest is {oldest}")
    return failed(KUBELETS_NEAR, f"{oldest} still runs", "Upgrade that kubelet first, or remove its host from the manifest.")
