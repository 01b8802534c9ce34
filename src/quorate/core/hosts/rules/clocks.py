"""Clocks: each host's is compared with those of the control plane; the operator's decides nothing.

What depends on a clock is a certificate or a token that somebody makes by it, and somebody else judges: a host that joins, the first CAs, certificates
that are renewed (an upgrade renews them too). Everything else goes on beside a clock that is wrong.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from statistics import median_low

from quorate.core.checks import Check, failed, passed
from quorate.core.hosts.state import BELONGING, Cluster, Host
from quorate.core.hosts.steps import RenewCertificates, Step, UpgradeControlPlane
from quorate.core.proposal import NOTHING, Proposal, blocking

CLOCK = "the host's clock is that of the control plane"
APART = timedelta(seconds=60)
"""How far clocks may be apart. Hosts are asked within a few seconds of each other."""
_BY_CERTIFICATES: frozenset[type[Step]] = frozenset({UpgradeControlPlane, RenewCertificates})


def agree_on_the_time(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """While control plane hosts disagree about the time, renews no certificates: one of them could take them for expired, or not valid yet."""
    members = [host for host in cluster.control_planes if host.kind in BELONGING]
    apart = [check for host in members if not (check := clock_fits(cluster, host)).passed]
    return blocking(_BY_CERTIFICATES, *apart) if apart else NOTHING


def clock_fits(cluster: Cluster, host: Host) -> Check:
    """Whether the host's clock is within APART of what most of the control plane has, hosts of the cluster before those that have yet to join.

    A clock that could not be asked is no reason against the host: it tells nothing else either then.
    """
    known = [each for each in cluster.control_planes if each.clock_ahead is not None]
    judges = [each for each in known if each.kind in BELONGING] or known
    if host.clock_ahead is None or not judges:
        return passed(CLOCK, f"{host.name}'s clock is not known")
    middle = median_low(ahead for each in judges if (ahead := each.clock_ahead) is not None)
    apart = host.clock_ahead - middle
    if abs(apart) <= APART:
        return passed(CLOCK, host.name)
    judge = next(each.name for each in judges if each.clock_ahead == middle)
    direction = "ahead of" if apart > timedelta() else "behind"
    return failed(CLOCK, f"the clock of {host.name} is {abs(apart).total_seconds():.0f} s {direction} {judge}'s", "Set both by NTP.")


def own_time(host: Host, now: datetime) -> datetime:
    """What the host's clock shows when the operator's shows `now`: its certificates expire by that."""
    return now + (host.clock_ahead or timedelta())
