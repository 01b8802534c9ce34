"""Where the next replica comes, and which one goes: the same answer for the same replicas in any order, down to the last tie."""

from __future__ import annotations

from datetime import datetime

from quorate.core.health import Health
from quorate.core.machines.checks import components_healthy
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.ring import Ring


def next_failure_domain(control_plane: ControlPlane) -> str:
    """The failure domain with the fewest up-to-date replicas, then the fewest, then the first by name; empty where there are none."""

    def load(domain: str) -> tuple[int, int, str]:
        inside = [replica for replica in control_plane.staying if replica.failure_domain == domain]
        return sum(not replica.outdated for replica in inside), len(inside), domain

    return min(control_plane.desired.failure_domains, key=load, default="")


def choose_victim(control_plane: ControlPlane) -> Replica:
    """Who goes when one has to: marked by its owner, updated in place in vain, outdated, ill, not come up, any; outdated and marked or ill first of each.

    Within the first kind that there is, one whose failure domain the cluster does not know (any more), the oldest of them; otherwise the oldest in the
    failure domain with the most of that kind. Needs at least one replica that stays. Source: kubeadmcontrolplane/scale.go, selectMachineForScaleDown.
    """
    staying = control_plane.staying
    groups = (
        [r for r in staying if r.delete_first and r.outdated],
        [r for r in staying if r.delete_first],
        [r for r in staying if r.outdated and r.update],
        [r for r in staying if r.outdated and is_ill(r)],
        [r for r in staying if r.outdated and r.node is None],
        [r for r in staying if r.outdated],
        [r for r in staying if is_ill(r)],
        [r for r in staying if r.node is None],
        staying,
    )
    return _by_failure_domain(control_plane, next(group for group in groups if group))


def candidates(control_plane: ControlPlane) -> tuple[Replica, ...]:
    """The victim; then, as all the others must be well, those that are not and so keep it from going: some replica has to go, and they may.

    Where the owner marked some and nothing is outdated, nobody else goes for them. Needs at least one replica that stays.
    """
    chosen, staying = choose_victim(control_plane), control_plane.staying
    marked = [replica for replica in staying if replica.delete_first]
    eligible = [r for r in staying if r.outdated or r.delete_first] if control_plane.outdated else (marked or staying)
    unwell = [r for r in eligible if r is not chosen and not all(check.passed for check in components_healthy(control_plane, (r,)))]
    return (chosen, *sorted(unwell, key=age))


def next_leaders(control_plane: ControlPlane, ring: Ring, leaving: str) -> tuple[int, ...]:
    """The members that may lead once this replica's does no more: of replicas that stay, the well ones first, then those no health check failed, up-to-date
    ones, the newest.

    Those of replicas that wait at our hook come last: where everybody leaves, one that has yet to go takes it.
    """
    voters = {member.id: member for member in ring.successors}
    others = [
        (r, voters[r.member]) for r in control_plane.holding if r.name != leaving and isinstance(r.member, int) and r.member in voters
    ]
    others.sort(key=lambda other: other[0].created, reverse=True)
    others.sort(
        key=lambda other: (other[0].deleting_since is not None, not other[1].votes_well, other[0].unhealthy, bool(other[0].outdated))
    )
    return tuple(member.id for _, member in others)


def is_ill(replica: Replica) -> bool:
    """Whether something of the replica is known to be bad. What nobody could tell is not."""
    return any(finding.health is Health.BAD for _, finding in (*replica.component_findings, *replica.member_findings))


def age(replica: Replica) -> tuple[datetime, str]:
    """For sorting: the oldest first, names break ties."""
    return replica.created, replica.name


def _by_failure_domain(control_plane: ControlPlane, eligible: list[Replica] | tuple[Replica, ...]) -> Replica:
    misplaced = [replica for replica in eligible if replica.failure_domain not in control_plane.desired.failure_domains]
    if misplaced:
        return min(misplaced, key=age)

    def crowd(domain: str) -> tuple[int, int, str]:
        everyone = sum(replica.failure_domain == domain for replica in control_plane.staying)
        return -sum(replica.failure_domain == domain for replica in eligible), -everyone, domain

    fullest = min({replica.failure_domain for replica in eligible}, key=crowd)
    return min((replica for replica in eligible if replica.failure_domain == fullest), key=age)
