"""Members leave the ring when their Machine waits at our pre-terminate hook, and only in an order that keeps quorum."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import Check, another_serves, failed, passed, quorum_survives_removal
from quorate.core.control_plane import ControlPlane, Replica
from quorate.core.health import Absent
from quorate.core.opinion import NOTHING, Opinion, barring
from quorate.core.steps import CreateReplica, DeleteReplica, ReleaseHook, RemoveMember, Step

LAST_HOOK_SINCE = (1, 31, 0)  # from here the kubelet talks to the local API server, so whatever needs a working kubelet goes before us
AT_HOOK = "the Machine waits at our hook"


def release_the_leaving(control_plane: ControlPlane, _now: datetime) -> Opinion:
    """A Machine that waits at our hook gives up its member as soon as the others can do without it.

    Of several that wait, the first whose removal keeps quorum goes, longest waiting first; so that two deleted Machines of three do not hold each other up
    while a safe order exists, as they do in upstream's provider. Until all have gone, nothing joins and nothing else is deleted.
    """
    if not control_plane.leaving:
        return NOTHING
    checks: tuple[Check, ...] = ()
    for replica in control_plane.leaving:
        asked = _may_go(control_plane, replica)
        checks += asked
        if all(check.passed for check in asked):
            return Opinion(_let_go(control_plane, replica), asked)
    return barring(frozenset({CreateReplica, DeleteReplica}), *checks)


def _may_go(control_plane: ControlPlane, replica: Replica) -> tuple[Check, ...]:
    arrived = _has_arrived(control_plane, replica)
    if not arrived.passed:
        return (arrived,)
    if not control_plane.initialized:
        return (arrived, passed("exempt before initialization", f"{replica.name} holds no data yet"))
    if len(control_plane.holding) == 1:
        return (arrived, _last_one(replica))
    never_joined = replica.node is None and isinstance(replica.member, Absent)  # it serves nobody, so nobody misses it
    serving = () if never_joined else (another_serves(control_plane, replica),)
    return (arrived, *serving, quorum_survives_removal(control_plane, replica))


def _has_arrived(control_plane: ControlPlane, replica: Replica) -> Check:
    if not replica.waits_at_hook:
        return failed(AT_HOOK, f"{replica.name} is being drained, or waits for volumes or other hooks")
    if replica.other_hooks and control_plane.desired.version.release >= LAST_HOOK_SINCE:
        return failed(AT_HOOK, f"{replica.name} waits for other hooks first: {', '.join(replica.other_hooks)}")
    return passed(AT_HOOK, replica.name)


def _last_one(replica: Replica) -> Check:
    """The last holder of data is never released while the control plane is to live (S4)."""
    remedy = "Its deletion cannot be taken back: save what must be saved, then delete the KubeadmControlPlane or the Cluster."
    return failed("another replica holds the data", f"{replica.name} is the only control plane left: its etcd data would be lost", remedy)


def _let_go(control_plane: ControlPlane, replica: Replica) -> Step:
    if isinstance(replica.member, int) and control_plane.initialized and control_plane.desired.etcd_managed:
        return RemoveMember(replica.name, replica.member)
    return ReleaseHook(replica.name)
