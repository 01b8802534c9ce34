"""Preconditions of a change in the number of replicas: to add one, to remove one, and to replace one.

Source: kubeadmcontrolplane/preflight.go; the version gate is Kubernetes' version skew policy as kubeadm enforces it for control planes (one minor at a time).
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core import quorum
from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.etcd_versions import flags_known, members_ready
from quorate.core.health import Unknown
from quorate.core.machines import checks
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.ring import Ring
from quorate.core.versions import Version, parse_or_none, within_one_minor

WORKLOAD_PREPARED = "the workload cluster is prepared for a replacement"


def before_joining(control_plane: ControlPlane) -> tuple[Check, ...]:
    """May one more replica join? Every other one must be well, and the ring must bear a joining member that fails to come up (S1, S2, S6)."""
    return (
        has_room(control_plane),
        _initialized(control_plane),
        topology_arrived(control_plane),
        _nobody_leaves_but_the_only_one(control_plane),
        *_well_enough_to_join(control_plane),
        *version_fits(control_plane),
        template_exists(control_plane),
        *_ring_bears_one_more(control_plane),
    )


def before_deleting(control_plane: ControlPlane, victim: Replica) -> tuple[Check, ...]:
    """May this replica be deleted? It need not be well itself; all the others must be, and keep quorum without it (S1, S5).

    Where fewer than desired would be left, it must be possible to make its replacement too: otherwise the control plane would stay smaller than it was.
    """
    others = tuple(replica for replica in control_plane.staying if replica.name != victim.name)
    replacement = _replacement_possible(control_plane, victim) if len(others) < control_plane.desired.replicas else ()
    return (
        _initialized(control_plane),
        topology_arrived(control_plane),
        _nobody_leaves(control_plane),
        *checks.components_healthy(control_plane, others),
        *replacement,
        _waits_for_us(victim),
        checks.quorum_survives_removal(control_plane, victim),
    )


def before_updating(control_plane: ControlPlane, replica: Replica) -> tuple[Check, ...]:
    """May this replica be updated in place? Everybody must be well, itself too, and etcd and the API do without it meanwhile (S1)."""
    return (
        _initialized(control_plane),
        topology_arrived(control_plane),
        _nobody_leaves(control_plane),
        *checks.components_healthy(control_plane, control_plane.staying),
        *version_fits(control_plane),
        template_exists(control_plane),
        _workload_prepared(control_plane),
        checks.another_serves(control_plane, replica),
        checks.quorum_survives_restart(control_plane, replica),
    )


def only_one_is_leaving(control_plane: ControlPlane) -> bool:
    """Whether the only replica that is left is being deleted: it is held at our hook until its replacement has joined (S4)."""
    return len(control_plane.holding) == 1 and not control_plane.staying


def wants_more(control_plane: ControlPlane) -> bool:
    """Fewer replicas than wanted hold their place (S6). With maxSurge 0 a leaving Machine counts until it is gone: it is the spare.

    The surge is for a rollout, and for the replacement of the only replica, which cannot leave before.
    """
    desired = control_plane.desired
    held = control_plane.replicas if desired.max_surge == 0 else control_plane.holding
    surge = desired.max_surge if control_plane.outdated or only_one_is_leaving(control_plane) else 0
    return len(held) < desired.replicas + surge


def has_room(control_plane: ControlPlane) -> Check:
    """Is there a place for one more replica?"""
    if wants_more(control_plane):
        return passed(checks.ROOM, "there are fewer replicas than wanted")
    names = ", ".join(sorted(replica.name for replica in control_plane.replicas if replica.deleting_since))
    if len(control_plane.replicas) == 1:  # no other replica goes and makes room
        remedy = "Allow a surge (rollout.strategy.rollingUpdate.maxSurge 1): the only one must not leave before another one has joined."
        return failed(checks.ROOM, f"{names} is being deleted, is the only one, and maxSurge is 0", remedy)
    return failed(checks.ROOM, f"{names} is being deleted and holds its place until then")


def template_exists(control_plane: ControlPlane) -> Check:
    """Is there a template to make infrastructure from?"""
    if control_plane.template_problem:
        return failed(
            checks.TEMPLATE,
            control_plane.template_problem,
            "Create the template, or point machineTemplate.spec.infrastructureRef at one that exists.",
        )
    return passed(checks.TEMPLATE, "it can be read")


def topology_arrived(control_plane: ControlPlane) -> Check:
    """Is the version that a managed topology is about to set the one that is desired already?"""
    pending = control_plane.topology_pending
    if pending:
        return failed(checks.TOPOLOGY, f"waiting for version {pending} to be propagated")
    return passed(checks.TOPOLOGY, "no other version is on its way")


def version_is_near(target: Version, replicas: Iterable[Replica]) -> Check:
    """Is `target` at most one minor away from what each replica and its kubelet run? From such a ring no step can lead to one that is further apart.

    A version that cannot be parsed, or is not known, is left out.
    """
    far = sorted(version for version in _running(replicas) if not within_one_minor(version, target))
    if not far:
        return passed(checks.VERSION_NEAR, f"{target} is near every version that runs")
    if far[0] < target:
        remedy = f"Set spec.version to a version of v{far[0].major}.{far[0].minor + 1} first."
        return failed(checks.VERSION_NEAR, f"{target} is more than one minor above {far[0]}, which still runs", remedy)
    remedy = f"Set spec.version to at least v{far[-1].major}.{far[-1].minor - 1}."
    return failed(checks.VERSION_NEAR, f"{target} is more than one minor below {far[-1]}, which runs already", remedy)


def version_is_not_below(target: Version, replicas: Iterable[Replica]) -> Check:
    """Does some replica run `target` or an older version still? etcd and the API keep no way back once all have left it behind."""
    running = [version for replica in replicas if (version := parse_or_none(replica.version)) is not None]
    if not running or min(running) <= target:
        return passed(checks.VERSION_NOT_BELOW, f"{target} is no step back")
    remedy = f"Set spec.version to {min(running)} or later: a control plane cannot be taken back to an older version."
    return failed(checks.VERSION_NOT_BELOW, f"{target} is older than {min(running)}, the oldest version that runs", remedy)


def version_fits(control_plane: ControlPlane, *, without: str = "") -> tuple[Check, ...]:
    """May a replica of the desired version, with the etcd that it brings, join those that run, all but the one named `without`?"""
    target = control_plane.desired.version
    running = [replica for replica in control_plane.replicas if replica.name != without]
    remaining = [
        replica for replica in control_plane.holding if replica.name != without
    ]  # what is let go already makes no older version current
    return version_is_near(target, running), version_is_not_below(target, remaining), *_etcd_fits(control_plane, without)


def _etcd_fits(control_plane: ControlPlane, without: str) -> tuple[Check, ...]:
    """May the etcd of a new replica join the ring? Of a ring that is not known others ask, and of an external one its owner."""
    desired, ring = control_plane.desired, control_plane.ring
    if not desired.etcd_managed or desired.etcd_minor is None or not isinstance(ring, Ring):
        return ()
    leaving = {replica.member for replica in control_plane.replicas if replica.name == without}
    members = [member for member in ring.members if member.id not in leaving]
    return members_ready(members, desired.etcd_minor), flags_known(desired.etcd_flags, desired.etcd_minor)


def _running(replicas: Iterable[Replica]) -> set[Version]:
    texts = {text for replica in replicas for text in (replica.version, replica.kubelet_version)}
    return {version for text in texts if (version := parse_or_none(text)) is not None}


def _replacement_possible(control_plane: ControlPlane, victim: Replica) -> tuple[Check, ...]:
    certificates = control_plane.certificates
    lacking = certificates.problem or ", ".join(certificates.missing)
    return (
        *version_fits(control_plane, without=victim.name),
        template_exists(control_plane),
        failed(checks.CERTIFICATES, f"no replacement could join: {lacking}") if lacking else passed(checks.CERTIFICATES, "all of them"),
        _workload_prepared(control_plane),
    )


def _workload_prepared(control_plane: ControlPlane) -> Check:
    preparation = control_plane.preparation
    if preparation.pending:
        return failed(WORKLOAD_PREPARED, f"nobody could join by it: {preparation.problem or 'its configuration is not written yet'}")
    return passed(WORKLOAD_PREPARED, "permissions and kubeadm's configuration are those of the desired version")


def _well_enough_to_join(control_plane: ControlPlane) -> tuple[Check, ...]:
    """Everybody well; or, while the replacement of a failed replica is missing, one that serves: the others may be what it is to make up for."""
    others = control_plane.staying or control_plane.leaving
    strict = checks.components_healthy(control_plane, others)
    if others and (control_plane.remediating is None or all(check.passed for check in strict)):
        return strict
    return (checks.somebody_serves(control_plane),)


def _ring_bears_one_more(control_plane: ControlPlane) -> tuple[Check, ...]:
    if not control_plane.may_be_initialized:
        return ()  # there is no ring yet, and nobody joins for that very reason
    if not control_plane.desired.etcd_managed:
        return (passed(quorum.QUORUM_SURVIVES_ADDITION, checks.EXTERNAL),)
    return (quorum.quorum_survives_addition(checks.dependable_ring(control_plane)),)


def _initialized(control_plane: ControlPlane) -> Check:
    if isinstance(control_plane.initialized, Unknown):
        return unknown(checks.INITIALIZED, control_plane.initialized.reason, control_plane.initialized.remedy)
    if control_plane.initialized:
        return passed(checks.INITIALIZED, "kubeadm init is done")
    return failed(checks.INITIALIZED, "waiting for the first control plane to finish kubeadm init")


def _nobody_leaves(control_plane: ControlPlane) -> Check:
    names = ", ".join(replica.name for replica in control_plane.leaving)
    return failed(checks.NOBODY_LEAVES, f"{names} is being deleted") if names else passed(checks.NOBODY_LEAVES, "none is being deleted")


def _nobody_leaves_but_the_only_one(control_plane: ControlPlane) -> Check:
    if only_one_is_leaving(control_plane):
        name = control_plane.leaving[0].name
        return passed(checks.NOBODY_LEAVES, f"{name} is the only one, and is held until its replacement has joined")
    return _nobody_leaves(control_plane)


def _waits_for_us(victim: Replica) -> Check:
    """Without our hook its Machine would end while its member is still in the ring."""
    if victim.holds_hook:
        return passed(checks.HOOK_HELD, victim.name)
    return failed(checks.HOOK_HELD, f"{victim.name} does not carry our pre-terminate hook")
