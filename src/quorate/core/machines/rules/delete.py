"""Taking a control plane down: workers first, then everything at once, then the finalizer."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import failed, passed
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import EVERYTHING, DeleteAll, RemoveFinalizer, Step
from quorate.core.proposal import NOTHING, Proposal, blocking

MACHINES_GO_TOO = "its Machines are to go with it"
MACHINES_STAY = (
    "it was deleted with --cascade=orphan: the garbage collector has yet to remove it from the owners of its Machines, which stay. "
    "To delete them too, remove its finalizer `orphan`"
)
WORKERS_ARE_GONE = "workers are gone"
SHOWN = 5  # names in a message, as upstream shows


def take_down(control_plane: ControlPlane, _now: datetime) -> Proposal[Step]:
    """When the whole control plane is deleted, no ring is kept: quorate moves no leadership and removes no member."""
    if control_plane.deletion is None:
        return NOTHING
    if control_plane.deletion.keeps_machines:
        return blocking(EVERYTHING, failed(MACHINES_GO_TOO, MACHINES_STAY))
    workers = control_plane.deletion.workers
    if workers:
        listed = ", ".join(workers[:SHOWN]) + (f" and {len(workers) - SHOWN} more" if len(workers) > SHOWN else "")
        return blocking(EVERYTHING, failed(WORKERS_ARE_GONE, f"still there: {listed}"))
    gone = passed(WORKERS_ARE_GONE, "no Machine but the control plane's own is left")
    if not control_plane.replicas:
        return Proposal(RemoveFinalizer(), (gone,), EVERYTHING)
    held = tuple(replica.name for replica in control_plane.replicas if replica.holds_hook or replica.deleting_since is None)
    if held:
        return Proposal(DeleteAll(held), (gone,), EVERYTHING)
    names = ", ".join(replica.name for replica in control_plane.replicas)
    return blocking(EVERYTHING, gone, failed("control-plane Machines are gone", f"being deleted: {names}"))
