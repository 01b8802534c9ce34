"""Deletes a Machine that failed, with a record before and after, so that a crash at any point loses neither the deletion nor the count of retries."""

from __future__ import annotations

from datetime import datetime

from quorate.clusterapi.act.control_plane_writes import patch_control_plane
from quorate.clusterapi.act.etcd_membership import pass_leadership_on, pass_the_gate, view_of
from quorate.clusterapi.act.machine_writes import delete_as_judged
from quorate.clusterapi.act.permission import still_asked_for
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.desired import remediation_record
from quorate.clusterapi.observe.observation import Observation
from quorate.core.checks import Check
from quorate.core.machines.rules.loss import safe_to_remediate
from quorate.core.machines.rules.remove import exempt_before_initialization
from quorate.core.machines.state import ControlPlane, Remediation


async def remediate(clients: Clients, observation: Observation, replica: str, retries: int, now: datetime) -> None:
    """Record what is about to be done, ask the ring anew, pass leadership on, delete the Machine as it was judged, and make the record upstream's.

    A repeat after a crash before the delete records it again, with its own time; after the delete, `record` does what is left.
    Raises Refused where the last look forbids it, it is not asked for any more or another began to leave, and Conflict where the control plane or the Machine
    changed since it was judged.
    """
    record = Remediation(replica, now, retries)
    version = await patch_control_plane(
        clients, observation.kcp, remediation_record.intended(observation.kcp.metadata.resource_version, record)
    )
    view = await pass_the_gate(clients, observation, lambda fresh: _asked(fresh, replica))
    await still_asked_for(clients, observation)
    await pass_leadership_on(clients, observation, view, replica)
    await delete_as_judged(clients, observation, replica)
    await patch_control_plane(clients, observation.kcp, remediation_record.done(version, record))


def _asked(view: ControlPlane, replica: str) -> list[Check]:
    """What an initialized control plane must not lose with the replica; before, that it is the only one, so that there is nothing to lose."""
    failed = view.replica(replica)
    return (
        [check for check, _ in safe_to_remediate(view, failed)] if view.may_be_initialized else [exempt_before_initialization(view, failed)]
    )


async def record(clients: Clients, observation: Observation) -> None:
    """Make our record upstream's: a crash came between the delete and that."""
    intended = view_of(observation).remediation_intended
    if intended is not None:
        await patch_control_plane(clients, observation.kcp, remediation_record.done(observation.kcp.metadata.resource_version, intended))


async def forget(clients: Clients, observation: Observation) -> None:
    """Clear both records."""
    await patch_control_plane(clients, observation.kcp, remediation_record.forgotten(observation.kcp.metadata.resource_version))
