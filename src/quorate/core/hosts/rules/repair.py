"""Repair comes before every change to healthy hosts; what quorate cannot repair is reported."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import assert_never

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Health
from quorate.core.hosts.rules.facts import data_lost, has_yet_to_join, holds_the_data, ills, names
from quorate.core.hosts.rules.leftovers import is_to_be_reset
from quorate.core.hosts.state import EXPIRED, INITIALIZING, LIVEZ, NODE_NOT_LISTED, READYZ, UNTOUCHED, Cluster, Host, Kind
from quorate.core.hosts.steps import CHANGES_WHAT_RUNS, RenewCertificates, Step, TakeSnapshot
from quorate.core.proposal import NOTHING, Proposal, blocking

CONTROL_PLANE_WELL = "every control plane host is well"
RING_MATCHES = "every member of the ring is that of a host of the manifest"
WORKERS_WELL = "every worker that answers is well"
WORKERS_REACHABLE = "every worker can be reached"

WAITS_FOR_REPAIR = CHANGES_WHAT_RUNS | {TakeSnapshot}
"""Rules that come later take a snapshot for an upgrade only. Without the upgrade each run would push out an older one that may be needed."""


def repair_comes_first(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Changes no version, setting or certificate until every control plane host is healthy and every member of the ring belongs to a host of the manifest.

    Where nothing is wrong but certificates that have expired, their renewal is the repair.
    """
    if not cluster.stands:
        return NOTHING
    well, matches = _control_plane_well(cluster), _ring_matches(cluster)
    renewed = matches.passed and all(_has_only_expired(host) for host in cluster.control_planes if ills(host))
    return blocking(WAITS_FOR_REPAIR - {RenewCertificates} if renewed else WAITS_FOR_REPAIR, well, matches)


def workers_come_first(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """While a worker is broken, changes no version or setting, but still renews certificates. Only names a worker that it cannot reach."""
    if not cluster.stands:
        return NOTHING
    ill = [host for host in cluster.workers if host.kind not in (*UNTOUCHED, Kind.UNREACHABLE) and ills(host)]
    silent = [host for host in cluster.workers if host.kind is Kind.UNREACHABLE]
    waiting = [host for host in cluster.workers if has_yet_to_join(host) and cluster.running != cluster.version and host not in ill]
    checks = [_worker_well(cluster, host) for host in ill]
    checks += [failed(WORKERS_WELL, f"{names(waiting)} has yet to join")] if waiting else []
    proposal = blocking(WAITS_FOR_REPAIR - {RenewCertificates}, *checks)
    if not silent:
        return proposal
    remedy = "Bring them back, or remove them from the manifest."
    unreachable = failed(WORKERS_REACHABLE, names(silent), remedy)
    return Proposal(checks=(*proposal.checks, unreachable), blocks=proposal.blocks)


def _worker_well(cluster: Cluster, host: Host) -> Check:
    answer = unknown if _may_pass((host,)) else failed
    return answer(WORKERS_WELL, f"{host.name} {_told(host)}", _remedy(cluster, host))


def _control_plane_well(cluster: Cluster) -> Check:
    ill = [host for host in cluster.control_planes if ills(host)]
    if not ill:
        return passed(CONTROL_PLANE_WELL, f"all {len(cluster.control_planes)}")
    evidence = "; ".join(f"{host.name} {_told(host)}" for host in ill)
    remedy = " ".join(dict.fromkeys(_remedy(cluster, host) for host in ill))
    return unknown(CONTROL_PLANE_WELL, evidence, remedy) if _may_pass(ill) else failed(CONTROL_PLANE_WELL, evidence, remedy)


def _may_pass(ill: Iterable[Host]) -> bool:
    """Whether kubelets may be about to make their Nodes, or to start API servers anew: a run waits for that as long as it can."""
    return all(_only_lacks_its_node(host) or _only_restarts(host) for host in ill)


def _ring_matches(cluster: Cluster) -> Check:
    labels = ", ".join(orphan.member.label for orphan in cluster.orphans)
    return failed(RING_MATCHES, f"of no host: {labels}") if labels else passed(RING_MATCHES, "all of them")


def _told(host: Host) -> str:
    return "; ".join(ills(host))


def _remedy(cluster: Cluster, host: Host) -> str:
    look = f"`quorate explain -m MANIFEST {host.name}`"
    leave = f"Leave {host.name} alone: quorate first removes what is left of it in the cluster, then it joins again."
    free = f"`quorate reset -m MANIFEST {host.name}`"
    match host.kind:
        case Kind.UNREACHABLE:
            return f"Bring {host.name} back; if it is gone for good, remove it from the manifest or give it the address of its replacement."
        case Kind.FOREIGN:
            return f"Remove {host.name} from the manifest, or reset it: {free}."
        case Kind.BARE | Kind.PACKAGES_ONLY:
            return f"{host.name} joins once nothing else is in its way."
        case Kind.HALF_JOINED:
            return f"Put {host.name} under staticWorkers; or reset it: {free}, then apply again." if host.works else leave
        case Kind.HALF_INITIALIZED if not is_to_be_reset(host) and any(finding.reason == INITIALIZING for finding in host.findings):
            return f"Once kube-system has CoreDNS and kube-proxy, `kubeadm init` has finished on {host.name}: remove the file that says otherwise."
        case Kind.MEMBER:
            renewed = f"The certificates of {host.name} are renewed once everything else is well."
            return renewed if _has_only_expired(host) else f"See what is wrong with {look}."
        case Kind.BROKEN if _may_pass((host,)):
            return _if_it_does_not_pass(host, look)
        case Kind.BROKEN | Kind.HALF_INITIALIZED if host.control_plane and not holds_the_data(cluster, apart_from=host.member_id).passed:
            mend = _finish_the_join(host) if host.has_joined_half else f"See what fails on {host.name} with {look}."
            return f"{mend} Do not reset it: no other host of the manifest holds the data."
        case Kind.BROKEN | Kind.HALF_INITIALIZED if data_lost(host) or host.has_joined_half or is_to_be_reset(host):
            return leave
        case Kind.BROKEN | Kind.HALF_INITIALIZED:
            return f"See what fails on {host.name} with {look}; if it cannot be repaired: {free}, then apply again."
        case Kind.UNKNOWN:
            return f"Make what is not known of {host.name} readable."
    assert_never(host.kind)


def _if_it_does_not_pass(host: Host, look: str) -> str:
    if _only_restarts(host):
        return f"Wait for the API server of {host.name}; if it is not back after two minutes, see what fails there with {look}."
    return f"Restart the kubelet of {host.name}, which creates its Node again: `systemctl restart kubelet` on it, then apply again."


def _finish_the_join(host: Host) -> str:
    """Its API server runs, and its kubelet has no credentials: the token with which it was to get them is gone."""
    make = f"`kubeadm init phase kubeconfig kubelet --node-name {host.name} --apiserver-advertise-address ADDRESS`"
    return f"Give the kubelet of {host.name} its credentials there: {make}, with its own address, then `systemctl restart kubelet`, then apply again."


def _has_only_expired(host: Host) -> bool:
    """Whether nothing is wrong with it but certificates that a renewal makes anew."""
    return host.kind is Kind.MEMBER and not data_lost(host) and _not_good(host) == [EXPIRED]


def _only_lacks_its_node(host: Host) -> bool:
    """Whether everything else about it is good. Its kubelet made the Node when it started, and makes it again when it starts again."""
    return isinstance(host.node, Absent) and not data_lost(host) and _not_good(host) == [NODE_NOT_LISTED]


def _only_restarts(host: Host) -> bool:
    """Whether everything else about it is good. An API server that was asked to end stays for up to 70 s, and its kubelet starts the next one."""
    return host.api_server_restarts and not data_lost(host) and {LIVEZ, READYZ}.issuperset(_not_good(host))


def _not_good(host: Host) -> list[str]:
    """The reasons of everything found about it that is not good."""
    found = (*host.findings, host.member_health, host.api_server)
    return [finding.reason for finding in found if finding is not None and finding.health is not Health.GOOD]
