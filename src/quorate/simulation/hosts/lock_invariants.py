"""S15 on hosts: who may change anything there, by the locks that there are on the site."""

from __future__ import annotations

from quorate.hosts.run.lock_file import LASTS
from quorate.simulation.hosts.acts import Act, Action
from quorate.simulation.hosts.machines import Lock
from quorate.simulation.hosts.site import Site


def s15_nobody_changes_what_another_has_locked(site: Site, act: Act) -> str | None:
    """No script begins and nothing is written while another has what stands against it: the machine, the Lease, or most of the hosts for as long as locks last.

    Who has most of them, and found no API server to ask within that time, may go on beside somebody who has the Lease.
    """
    if act.action not in (Action.SCRIPT, Action.REMOVE, Action.DELETE_NODE):
        return None
    name, now, lease = act.actor.name, site.world.time(), site.lease
    machine = act.machine.lock if act.action is Action.SCRIPT and act.machine is not None else None
    if machine is not None and machine.holder != name:
        return f"{name} {act.action} although {machine.holder} has had {act.host} for {now - machine.taken:.0f} s"
    lasts = (
        lease is not None and lease.holder != "" and now - lease.renewed < LASTS
    )  # another one may have been left where the API refuses it
    if lease is not None and lasts and lease.holder != name:
        blind = act.action is not Action.DELETE_NODE and now - act.actor.unasked <= LASTS
        if not (blind and _has_most(site, act, name, since=now)):
            return f"{name} {act.action} although {lease.holder} has had the Lease for {now - lease.taken:.0f} s"
    elif not lasts:
        others = {lock.holder for lock in _locks(site, act)} - {name}
        if most := [other for other in others if _has_most(site, act, other, since=now - LASTS)]:
            return f"{name} {act.action} although {most[0]} has most of the hosts"
    return None


def is_overtaken(site: Site, act: Act) -> bool:
    """Whether somebody else has locked anything."""
    locks = [*_locks(site, act), *([site.lease] if site.lease is not None else [])]
    return any(lock.holder not in ("", act.actor.name) for lock in locks)


def _locks(site: Site, act: Act) -> list[Lock]:
    machines = map(site.machine_of, act.actor.manifest.control_planes)
    return [machine.lock for machine in machines if machine is not None and machine.lock is not None]


def _has_most(site: Site, act: Act, holder: str, *, since: float) -> bool:
    theirs = [lock for lock in _locks(site, act) if lock.holder == holder and lock.taken <= since]
    return 2 * len(theirs) > len(act.actor.manifest.control_planes)
