"""Updates kubeadm's and the kubelets' configuration in the cluster, which kubeadm reads on each host, before any host is reconfigured."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from quorate.core.checks import passed
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import Step, UpdateConfiguration
from quorate.core.proposal import NOTHING, Proposal

DRIFT = "the cluster's settings differ from the manifest"


def update_the_configuration(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Updates kubeadm's and the kubelets' configuration in the cluster, kube-proxy and CoreDNS to match the manifest."""
    drift = (*cluster.configuration_drift, *cluster.addon_drift)
    if not cluster.stands or not drift:
        return NOTHING
    return Proposal(UpdateConfiguration(), (passed(DRIFT, "; ".join(drift)),))


def after_the_configuration(proposal: Proposal[Step], drift: tuple[str, ...]) -> Proposal[Step]:
    """The proposal as it is, or the configuration first, which its step reads, where it has this drift.

    What the manifest no longer says may be the very setting with which no API server or kubelet starts: whoever got it would fail.
    """
    return proposal if proposal.step is None or not drift else replace(proposal, step=UpdateConfiguration(), prepares=type(proposal.step))
