"""Starts units that should run and do not, before anything counts as lost."""

from __future__ import annotations

from datetime import datetime

from quorate.core.checks import passed
from quorate.core.hosts.rules.facts import data_lost
from quorate.core.hosts.state import Cluster, Kind
from quorate.core.hosts.steps import StartServices, Step
from quorate.core.proposal import NOTHING, Proposal

STOPPED = "units that should run are stopped"


def start_services(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Starts stopped units on hosts of the cluster, one host at a time, control planes first. A start takes nothing away, so it needs no quorum check.

    Not where etcd's data is lost: a member that starts with an empty folder has forgotten what it voted for, and could vote again.
    """
    for host in cluster.hosts:
        if host.stopped and host.kind in (Kind.MEMBER, Kind.BROKEN) and not data_lost(host):
            return Proposal(StartServices(host.name, host.stopped), (passed(STOPPED, f"{host.name}: {', '.join(host.stopped)}"),))
    return NOTHING
