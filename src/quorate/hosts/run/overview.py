"""Hosts in words: what a table, a plan, a display and a record say of them. Pure; everything says the same thing the same way."""

from __future__ import annotations

from datetime import datetime

from quorate.core.health import Health
from quorate.core.hosts.rules.clocks import own_time
from quorate.core.hosts.rules.facts import ills, told
from quorate.core.hosts.state import UNTOUCHED, Cluster, Host, Kind, Node
from quorate.core.text import together


def lasting(cluster: Cluster) -> tuple[str, ...]:
    """Everything in which the cluster and its hosts differ from the manifest and stay so, each as a line that begins with whom it concerns."""
    found = (
        *((each, "cluster") for each in cluster.lasting_drift),
        *((each, host.name) for host in cluster.hosts for each in host.lasting_drift),
    )
    return tuple(together(found))


def reached(cluster: Cluster) -> str:
    """What can be said of a cluster with which there is nothing more to do."""
    different = lasting(cluster)
    if not different:
        return "everything is as the manifest says"
    return f"everything else is as the manifest says; this differs until you change it: {'; '.join(different)}"


def left(expires: datetime, host: Host, now: datetime) -> str:
    """For how long a certificate on the host is valid, by its own clock."""
    days = (expires - own_time(host, now)).days
    return f"{days} days" if days >= 0 else "expired"


def hosts_in_words(cluster: Cluster) -> dict[str, str]:
    """What each host is, in a word or two, and the first thing that is wrong with it."""
    return {host.name: "; ".join((state(host), *wrong(host)[:1])) for host in cluster.hosts}


def state(host: Host) -> str:
    """What a host is, in a word or two."""
    return host.kind.value if host.kind is not Kind.MEMBER else "ill" if wrong(host) else "well"


def wrong(host: Host) -> tuple[str, ...]:
    """Everything that is wrong with a host that is part of a cluster, and that its state does not say already."""
    if host.kind in UNTOUCHED:
        return ()
    found = tuple(ill for ill in ills(host) if ill != f"is {host.kind.value}")
    if host.kind is not Kind.MEMBER or not isinstance(host.node, Node) or host.node.ready.health is Health.GOOD:
        return found
    return (*found, f"its Node is not known to be ready: {told(host.node.ready)}")
