"""Renews the certificates of one control-plane host by kubeadm, and restarts what reads them: etcd with its API server, then the others.

The CAs stay, so that every old certificate is trusted beside every new one (S9). The kubelet renews its own. Source: kubeadm 1.34,
cmd/kubeadm/app/phases/certs/renewal/manager.go for the names.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from quorate.core.hosts.steps import RenewCertificates
from quorate.hosts.act import containers, kubeadm
from quorate.hosts.act.gates import api_server_is_ready, member_votes
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.settled import DEADLINE, components, control_plane_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.probe.facts import HostFacts, Kubeconfig
from quorate.workload.static_pods import Component

OF_COMPONENT = {
    Component.ETCD: ("etcd-server", "etcd-peer", "etcd-healthcheck-client"),
    Component.API_SERVER: ("apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client"),
    Component.CONTROLLER_MANAGER: ("controller-manager.conf",),
    Component.SCHEDULER: ("scheduler.conf",),
}
"""kubeadm's names, by who reads them."""
_SUPER_ADMIN = "[ ! -e /etc/kubernetes/super-admin.conf ] || kubeadm certs renew super-admin.conf >/dev/null"


async def renew_certificates(tools: Tools, step: RenewCertificates, observation: Observation) -> None:
    """Renew all that kubeadm renews, and restart what reads it, each when what it stands on serves again. Idempotent. Raises StepFailed.

    admin.conf, which nothing on the host reads, comes last: until everything was restarted it has its old end, and so an attempt that was cut short is seen.
    One that has expired lets nobody ask the API server, and comes before that is asked, too.
    """
    for name in (name for names in OF_COMPONENT.values() for name in names):  # with the API at hand, which tells kubeadm for how long
        await _renew(tools, step.host, name)
    if _lets_nobody_in(observation.facts[step.host], tools.now()):
        await _renew(tools, step.host, "admin.conf")
    await make_ready(tools, step.host, observation)
    await containers.restart_etcd(tools, step.host)
    tools.access.forget(step.host)
    for component in (Component.ETCD, Component.API_SERVER):
        await serves(tools, step.host, component)
    for component in (Component.CONTROLLER_MANAGER, Component.SCHEDULER):
        await containers.restart(tools, step.host, component)
        await serves(tools, step.host, component)
    await _renew(tools, step.host, "admin.conf", before=_SUPER_ADMIN)
    await control_plane_is_back(tools, step.host)


async def serves(tools: Tools, host: str, component: Component) -> None:
    """Wait until this component of the host, just restarted, does its work. Raises StepFailed."""
    question = {Component.ETCD: member_votes, Component.API_SERVER: api_server_is_ready}.get(component, components)
    await tools.waits.until(host, f"{component} to serve", partial(question, tools, host), deadline=DEADLINE)


def _lets_nobody_in(facts: HostFacts | Unreachable, now: datetime) -> bool:
    """Whether the host's admin.conf has expired, by its own clock."""
    admin = facts.kubeconfigs["admin"] if isinstance(facts, HostFacts) else None
    if not isinstance(facts, HostFacts) or not isinstance(admin, Kubeconfig) or not isinstance(admin.client, tuple):
        return False
    return admin.client[0].not_after <= (facts.clock if isinstance(facts.clock, datetime) else now)


async def _renew(tools: Tools, host: str, name: str, before: str = "") -> None:
    tools.report(host, f"renewing {name}")
    await kubeadm.run(tools, host, kubeadm.Command(f"certs renew {name}", f"renewing {name}", before=before))
