"""What the manifest says beside the version, rolled out one host at a time after a quorum check; and certificates, renewed in time."""

from __future__ import annotations

from datetime import datetime, timedelta

from quorate.core.checks import Check, failed, passed
from quorate.core.hosts.rules.clocks import own_time
from quorate.core.hosts.rules.configuration import DRIFT
from quorate.core.hosts.rules.facts import leader_last
from quorate.core.hosts.rules.upgrade import bears_restart, nodes_ready, when_nodes_are_ready
from quorate.core.hosts.state import Cluster, Host, Kind
from quorate.core.hosts.steps import Reconfigure, RenewCertificates, Step
from quorate.core.proposal import NOTHING, Proposal, wanting

EXPIRES = "certificates are to be renewed"
HOST_WELL = "the host belongs to the cluster"

RENEW_BEFORE = timedelta(days=30)
"""Certificates of kubeadm are valid for a year, and nothing renews them between upgrades."""


def reconfigure_hosts(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Updates the next host whose components or files differ from the manifest: control planes, the one whose member leads etcd last, then workers."""
    drifting = [host for host in cluster.hosts if host.drift and host.kind is Kind.MEMBER]
    if not cluster.stands or not drifting:
        return NOTHING
    control_planes = leader_last(cluster, (host for host in drifting if host.control_plane))
    host = next(iter(control_planes), drifting[0])
    gate = (bears_restart(cluster, host),) if host.control_plane else ()
    proposal = wanting(Reconfigure(host.name), passed(DRIFT, f"{host.name}: {'; '.join(host.drift)}"), nodes_ready(cluster), *gate)
    return when_nodes_are_ready(cluster, now, proposal)


def renew_certificates(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Renews the certificates of the next control plane host on which they expire within 30 days, or of all if you ask for that, the earliest first."""
    if not cluster.stands:
        return NOTHING
    due = [host for host in cluster.control_planes if _is_due(cluster, host, now)]
    if not due:
        return NOTHING  # and wakes nobody: a run on hosts does not wait for months
    host = min(leader_last(cluster, due), key=lambda host: not _expires_soon(host, now))
    return wanting(RenewCertificates(host.name), passed(EXPIRES, _told(host)), _belongs(host), bears_restart(cluster, host))


def _is_due(cluster: Cluster, host: Host, now: datetime) -> bool:
    return _expires_soon(host, now) or (cluster.options.renew_certificates and host.name not in cluster.renewed)


def _expires_soon(host: Host, now: datetime) -> bool:
    return host.certificates_expire is not None and host.certificates_expire - RENEW_BEFORE <= own_time(host, now)


def _told(host: Host) -> str:
    if host.certificates_expire is None:
        return f"of {host.name}, as asked for"
    return f"of {host.name}: the first expires at {host.certificates_expire:%Y-%m-%d %H:%M}Z"


def _belongs(host: Host) -> Check:
    if host.kind is Kind.MEMBER:
        return passed(HOST_WELL, host.name)
    return failed(HOST_WELL, f"{host.name} is {host.kind.value}", f"Repair {host.name} first.")
