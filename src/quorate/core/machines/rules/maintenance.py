"""Keeps the workload cluster to the specification: kubeadm's configuration before a replica joins, add-ons and certificate expiries afterwards.

And CoreDNS, which leaves the Node of whoever goes next while others wait anyway.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from quorate.core.checks import Check, failed
from quorate.core.health import Absent, Health
from quorate.core.machines.rules.in_place import takes_place
from quorate.core.machines.rules.placement import choose_victim, is_ill
from quorate.core.machines.rules.preflight import version_fits
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.machines.steps import CreateReplica, MoveCoreDNS, PrepareWorkload, RecordExpiries, Step, UpdateAddons
from quorate.core.maintenance import Maintenance
from quorate.core.proposal import NOTHING, Proposal

PREPARED = "kubeadm's configuration is that of the desired version"
COREDNS = "CoreDNS has left the node that goes next"
ADDONS = "kube-proxy and CoreDNS are those of the desired version"
EXPIRIES = "it is recorded when API server certificates expire"
_API_SERVER = "APIServerPodHealthy"


def prepare_the_workload(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Updates permissions and kubeadm's configuration before it creates a replica, or updates one in place, that will read them, and only then.

    Not for a version that no replica may have: workers that join meanwhile would read it too.
    """
    maintenance = control_plane.preparation
    joins = bool(control_plane.outdated or control_plane.begun) or len(control_plane.staying) < control_plane.desired.replicas
    joins = joins and all(check.passed for check in version_fits(control_plane))
    if not _can_be_asked(control_plane) or not maintenance.pending or not joins:
        return NOTHING
    return replace(_attempt(PrepareWorkload(), maintenance, now, _failing(PREPARED, maintenance)), blocks=frozenset({CreateReplica}))


def move_coredns(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """While the surge of a rollout joins, moves CoreDNS off the Node that goes next, so that Cluster API's drain does not wait 20 s for its Pods."""
    surging = len(control_plane.staying) > control_plane.desired.replicas and control_plane.outdated
    if not surging or not _can_be_asked(control_plane):
        return NOTHING
    victim = choose_victim(control_plane)
    elsewhere = any(replica.node for replica in control_plane.staying if replica is not victim)
    if takes_place(control_plane, victim):
        return NOTHING  # it is updated in place, and its Pods stay
    if not victim.outdated or not victim.coredns.pending or victim.node is None or is_ill(victim) or not elsewhere:
        return NOTHING
    return _attempt(MoveCoreDNS(victim.name), victim.coredns, now, failed(COREDNS, victim.coredns.problem))


def update_addons(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Updates kube-proxy and CoreDNS once every replica is as desired and has joined: neither may be newer than the API servers that it talks to."""
    maintenance = control_plane.addons
    if not _can_be_asked(control_plane) or not maintenance.pending or not _converged(control_plane):
        return NOTHING
    return _attempt(UpdateAddons(), maintenance, now, _failing(ADDONS, maintenance))


def record_expiries(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Asks each healthy API server once when its certificate expires; `rollout.before.certificatesExpiryDays` uses these dates."""
    maintenance = control_plane.expiries
    asked = tuple(sorted(replica.name for replica in control_plane.staying if not replica.expiry_known and _serves_tls(replica)))
    if not _can_be_asked(control_plane) or not asked:
        return NOTHING
    return _attempt(RecordExpiries(asked), maintenance, now, _failing(EXPIRIES, maintenance))


def _can_be_asked(control_plane: ControlPlane) -> bool:
    return control_plane.initialized is True and control_plane.workload.health is Health.GOOD


def _attempt(step: Step, maintenance: Maintenance, now: datetime, unfinished: Check) -> Proposal[Step]:
    """The step as soon as an attempt is due; until then what the last one left unfinished, and when the next one is."""
    if maintenance.retry_at is None or maintenance.retry_at <= now:
        return Proposal(step)
    return Proposal(checks=(unfinished,), wake_at=maintenance.retry_at)


def _failing(name: str, maintenance: Maintenance) -> Check:
    return failed(name, f"the last attempt failed: {maintenance.problem}")


def _converged(control_plane: ControlPlane) -> bool:
    """Whether exactly the desired replicas are there, up to date, and none is leaving or has yet to join."""
    replicas = control_plane.replicas
    if len(replicas) != control_plane.desired.replicas or len(control_plane.staying) != len(replicas) or control_plane.outdated:
        return False
    return all(_joined(replica, etcd_managed=control_plane.desired.etcd_managed) for replica in replicas)


def _joined(replica: Replica, *, etcd_managed: bool) -> bool:
    return replica.node is not None and not (etcd_managed and isinstance(replica.member, Absent))


def _serves_tls(replica: Replica) -> bool:
    return replica.node is not None and any(
        name == _API_SERVER and finding.health is Health.GOOD for name, finding in replica.component_findings
    )
