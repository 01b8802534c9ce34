"""Starts units that should run and do not, before anything counts as lost; after a quorum check if the start ends a running etcd member."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from quorate.core.checks import Check, passed, unknown
from quorate.core.health import Absent, Unknown
from quorate.core.hosts.gates import restart
from quorate.core.hosts.rules.facts import data_lost
from quorate.core.hosts.state import Cluster, Host, Kind, Node
from quorate.core.hosts.steps import StartServices, Step
from quorate.core.proposal import Proposal, wanting
from quorate.core.quorum import QUORUM_SURVIVES_RESTART
from quorate.core.versions import Version, minor_distance

STOPPED = "units that should run are stopped"
NO_MEMBER_RUNS = "exempt: no member of etcd runs on the host, so that a start only adds"
MEMBER_RUNS_ON = "exempt: a kubelet of the same minor version lets etcd run on"


def start_services(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Starts stopped units on hosts of the cluster, one host at a time, control planes first; after a quorum check if that restarts a running member.

    Not where etcd's data is lost: a member that starts with an empty folder has forgotten what it voted for, and could vote again.
    """
    waiting = [host for host in cluster.hosts if host.stopped and host.kind in (Kind.MEMBER, Kind.BROKEN) and not data_lost(host)]
    proposals = [_to_start(cluster, host) for host in waiting]
    refused: Proposal[Step] = Proposal(checks=tuple(check for proposal in proposals for check in proposal.checks))
    return next((proposal for proposal in proposals if proposal.step is not None), refused)


def restarts_member(host: Host) -> bool:
    """Whether to start what is stopped on this host ends a member of etcd that runs, and starts it anew; or may, by what is not known.

    What a kubelet started runs on while it is stopped. One of another minor version than it runs all static Pods anew.
    """
    before = _before(host)
    return _has_member_that_runs(host) and (host.kubelet is None or before is None or minor_distance(host.kubelet, before) != 0)


def _to_start(cluster: Cluster, host: Host) -> Proposal[Step]:
    stopped = passed(STOPPED, f"{host.name}: {', '.join(host.stopped)}")
    return wanting(StartServices(host.name, host.stopped), stopped, _bears_start(cluster, host))


def _bears_start(cluster: Cluster, host: Host) -> Check:
    """May what is stopped on this host be started?"""
    if not _has_member_that_runs(host):
        return passed(NO_MEMBER_RUNS, host.name)
    if not restarts_member(host):
        return passed(MEMBER_RUNS_ON, f"{host.name} has {host.kubelet}, as before")
    gate = _bears_restart(cluster, host.member)
    return replace(gate, evidence=f"{_why_it_restarts(host)}; {gate.evidence}")


def _bears_restart(cluster: Cluster, member: int | Absent | Unknown) -> Check:
    match member:
        case int():
            return restart(cluster.ring, member)
        case Absent():
            return passed(NO_MEMBER_RUNS, "it has none")
        case Unknown(reason, remedy):
            wait = "Bring back what keeps the ring from being read; what runs on the host runs on meanwhile."
            return unknown(QUORUM_SURVIVES_RESTART, f"which member is its own is not known: {reason}", remedy or wait)


def _has_member_that_runs(host: Host) -> bool:
    return host.control_plane and host.etcd_runs and not isinstance(host.member, Absent)


def _before(host: Host) -> Version | None:
    """The kubelet that ran last, as its Node tells; None: not known."""
    return host.node.kubelet if isinstance(host.node, Node) else None


def _why_it_restarts(host: Host) -> str:
    before = _before(host)
    if host.kubelet is None or before is None:
        return f"of which version the kubelet of {host.name} was is not known, and one of another minor version restarts etcd"
    return f"the kubelet of {host.name} is of {host.kubelet}, the one before was of {before}, and it restarts etcd"
