"""CoreDNS as a manifest asks for it: how many Pods, from which repository, and a PodDisruptionBudget for them. Pure.

Source: KubeOne's addon coredns-pdb for the budget, which has the same name and says the same there.
"""

from __future__ import annotations

from typing import Any

from quorate.hosts.manifest import Manifest
from quorate.kubernetes.resource import Resource
from quorate.workload.coredns import NAME
from quorate.workload.static_pods import NAMESPACE

BUDGETS: Resource[dict[str, Any]] = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict)
BUDGET: dict[str, Any] = {
    "apiVersion": BUDGETS.api_version,
    "kind": BUDGETS.kind,
    "metadata": {"name": NAME, "namespace": NAMESPACE},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"k8s-app": "kube-dns"}}},
}
"""Lets a drained Node's Pods of CoreDNS go one after the other, each when the one before runs elsewhere."""


def budget_wanted(manifest: Manifest) -> bool | None:
    """Whether there is to be a budget. None, and what is there stays, where the manifest has a single Node: Pods that leave it have no other, and it could
    never be drained.
    """
    if not manifest.features.core_dns.deploy_pod_disruption_budget:
        return False
    return True if len(manifest.hosts) + len(manifest.dynamic_workers) > 1 else None
