"""Scaling: one replica more or one fewer, when everything that stays is well."""

from __future__ import annotations

from datetime import datetime

from quorate.core import checks
from quorate.core.checks import Check, failed, passed
from quorate.core.control_plane import ControlPlane, Replica
from quorate.core.health import Finding, Health
from quorate.core.opinion import NOTHING, Opinion, wanting
from quorate.core.steps import AbandonCreation, CreateReplica, DeleteReplica


def take_back_an_abandoned_creation(control_plane: ControlPlane, _now: datetime) -> Opinion:
    """A creation that was begun and is no longer wanted leaves nothing behind."""
    creation = control_plane.creation
    if creation is None or creation.machine_exists or _wants_more(control_plane):
        return NOTHING
    return Opinion(AbandonCreation(creation.name))


def scale_up(control_plane: ControlPlane, _now: datetime) -> Opinion:
    """One more replica, once the cluster is initialized and every other replica is well."""
    if not control_plane.replicas or len(control_plane.staying) >= control_plane.desired.replicas:
        return NOTHING
    step = CreateReplica(next_failure_domain(control_plane), initialize=False)
    ready = (_has_room(control_plane), _initialized(control_plane))
    return wanting(step, *ready, *preflight(control_plane, control_plane.staying), *_addition(control_plane))


def scale_down(control_plane: ControlPlane, _now: datetime) -> Opinion:
    """One replica fewer. The one that goes need not be well itself; all the others must be."""
    if len(control_plane.staying) <= max(control_plane.desired.replicas, 1):
        return NOTHING
    victim = choose_victim(control_plane)
    others = tuple(replica for replica in control_plane.staying if replica is not victim)
    safe = (_waits_for_us(victim), checks.quorum_survives_removal(control_plane, victim))
    return wanting(DeleteReplica(victim.name), *preflight(control_plane, others), *safe)


def preflight(control_plane: ControlPlane, replicas: tuple[Replica, ...]) -> tuple[Check, ...]:
    """What must hold before the number of replicas changes; `replicas` are those that have to be well."""
    return (
        _topology_arrived(control_plane),
        _nobody_leaves(control_plane),
        *checks.components_healthy(replicas, etcd_managed=control_plane.desired.etcd_managed),
    )


def next_failure_domain(control_plane: ControlPlane) -> str:
    """The failure domain with the fewest up-to-date replicas, then the fewest, then the first by name; empty where there are none."""

    def load(domain: str) -> tuple[int, int, str]:
        inside = [replica for replica in control_plane.staying if replica.failure_domain == domain]
        return sum(not replica.outdated for replica in inside), len(inside), domain

    return min(control_plane.desired.failure_domains, key=load, default="")


def choose_victim(control_plane: ControlPlane) -> Replica:
    """Who goes: one that its owner marked, or an ill one, or one that has not come up, or any; the oldest in the most crowded failure domain.

    A failure domain that the cluster does not know (any more) comes before all others. Needs at least one replica that stays.
    """
    staying = control_plane.staying
    groups = (
        [r for r in staying if r.delete_first and r.outdated],
        [r for r in staying if r.delete_first],
        [r for r in staying if _is_ill(r)],
        [r for r in staying if r.node is None],
        staying,
    )
    eligible = next(group for group in groups if group)
    known = control_plane.desired.failure_domains

    def crowd(replica: Replica) -> tuple[bool, int, int, str]:
        inside = [other for other in eligible if other.failure_domain == replica.failure_domain]
        everyone = [other for other in staying if other.failure_domain == replica.failure_domain]
        return replica.failure_domain in known, -len(inside), -len(everyone), replica.failure_domain

    return min(eligible, key=lambda replica: (crowd(replica), replica.created, replica.name))


def template_exists(control_plane: ControlPlane) -> Check:
    """Is there a template to make infrastructure from?"""
    if control_plane.template_problem:
        return failed(
            checks.TEMPLATE,
            control_plane.template_problem,
            "Create the template, or point machineTemplate.spec.infrastructureRef at one that exists.",
        )
    return passed(checks.TEMPLATE, "it can be read")


def _wants_more(control_plane: ControlPlane) -> bool:
    """Fewer replicas than desired hold their place (S6). With maxSurge 0 a leaving Machine counts until it is gone: it is the spare."""
    held = control_plane.replicas if control_plane.desired.max_surge == 0 else control_plane.holding
    return len(held) < control_plane.desired.replicas


def _has_room(control_plane: ControlPlane) -> Check:
    if _wants_more(control_plane):
        return passed(checks.ROOM, f"fewer than {control_plane.desired.replicas} hold their place")
    names = ", ".join(sorted(replica.name for replica in control_plane.replicas if replica.deleting_since))
    return failed(checks.ROOM, f"{names} is being deleted and holds its place until then")


def _waits_for_us(victim: Replica) -> Check:
    """Without our hook its Machine would end while its member is still in the ring."""
    if victim.holds_hook:
        return passed(checks.HOOK_HELD, victim.name)
    return failed(checks.HOOK_HELD, f"{victim.name} does not carry our pre-terminate hook")


def _addition(control_plane: ControlPlane) -> tuple[Check, ...]:
    if not control_plane.initialized:
        return (template_exists(control_plane),)
    if not control_plane.desired.etcd_managed:
        return (template_exists(control_plane), passed(checks.QUORUM_SURVIVES_ADDITION, checks.EXTERNAL))
    return (template_exists(control_plane), checks.quorum_survives_addition(checks.dependable_ring(control_plane)))


def _initialized(control_plane: ControlPlane) -> Check:
    name = "the cluster is initialized"
    return (
        passed(name, "kubeadm init is done")
        if control_plane.initialized
        else failed(name, "waiting for the first control plane to finish kubeadm init")
    )


def _topology_arrived(control_plane: ControlPlane) -> Check:
    pending = control_plane.topology_pending
    return (
        failed(checks.TOPOLOGY, f"waiting for version {pending} to be propagated")
        if pending
        else passed(checks.TOPOLOGY, "no other version is on its way")
    )


def _nobody_leaves(control_plane: ControlPlane) -> Check:
    names = ", ".join(replica.name for replica in control_plane.leaving)
    return failed(checks.NOBODY_LEAVES, f"{names} is being deleted") if names else passed(checks.NOBODY_LEAVES, "none is being deleted")


def _is_ill(replica: Replica) -> bool:
    findings: tuple[tuple[str, Finding], ...] = replica.component_findings + replica.member_findings
    return any(finding.health is Health.BAD for _, finding in findings)
