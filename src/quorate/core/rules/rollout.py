"""Replicas that differ from what is desired. This release names them and holds everything else still; it does not replace them yet."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import failed, passed
from quorate.core.control_plane import ControlPlane
from quorate.core.opinion import Opinion, barring
from quorate.core.steps import CreateReplica, DeleteReplica

UP_TO_DATE = "replicas are up to date"


def hold_back(control_plane: ControlPlane, _now: datetime) -> Opinion:
    """A changed version or configuration is shown, and neither scaling nor a replacement is begun beside it."""
    if not control_plane.outdated:
        return Opinion(checks=(passed(UP_TO_DATE, "all of them"),) if control_plane.replicas else ())
    ways = "; ".join(f"{replica.name}: {', '.join(replica.outdated)}" for replica in control_plane.outdated)
    remedy = "This release does not roll out changes yet: undo the change, or let a provider that does take over."
    return barring(frozenset({CreateReplica, DeleteReplica}), failed(UP_TO_DATE, ways, remedy))
