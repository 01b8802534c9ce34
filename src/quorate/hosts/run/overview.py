"""Hosts and their ring in words: what a table, a plan, a display and a record say of them. Pure; everything says the same thing the same way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.rules.clocks import own_time
from quorate.core.hosts.rules.facts import ills, member_of, told
from quorate.core.hosts.state import UNTOUCHED, Cluster, Host, Kind, Node
from quorate.core.ring import Ring

NONE = "-"


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host at a glance; `wrong` is everything about it that is not as it should be."""

    name: str
    role: str  # control plane, worker
    state: str
    packages: str  # ready, or how many are missing
    kubelet: str  # the installed program's version
    api_server: str
    etcd: str
    node: str
    version: str  # of its control plane
    certificates: str
    wrong: tuple[str, ...]
    missing: tuple[str, ...]  # packages and settings
    guarded_by: tuple[str, ...]  # firewalls and SELinux that are on while it has yet to be prepared
    drift: tuple[str, ...]  # settings of it and of its Node that differ from the manifest
    lasting: tuple[str, ...]  # in what it differs from the manifest and stays so, with what somebody can do


def row(cluster: Cluster, host: Host, now: datetime) -> HostRow:
    """A host as it was observed."""
    return HostRow(
        name=host.name,
        role="control plane" if host.control_plane else "worker",
        state=_state(host),
        packages=_packages(host),
        kubelet=str(host.kubelet or NONE),
        api_server=_health(host.api_server),
        etcd=_member(cluster, host),
        node=_node(host),
        version=str(host.components or NONE),
        certificates=_certificates(host, now),
        wrong=_wrong(host),
        missing=host.lacks,
        guarded_by=host.guarded_by,
        drift=(*host.drift, *host.node_drift),
        lasting=host.lasting_drift,
    )


def rows(cluster: Cluster, now: datetime) -> tuple[HostRow, ...]:
    """Every host, in the manifest's order."""
    return tuple(row(cluster, host, now) for host in cluster.hosts)


def lasting(cluster: Cluster) -> tuple[str, ...]:
    """Everything in which the cluster and its hosts differ from the manifest and stay so, each as a line that begins with whom it concerns."""
    found = (
        *((each, "cluster") for each in cluster.lasting_drift),
        *((each, host.name) for host in cluster.hosts for each in host.lasting_drift),
    )
    return tuple(together(found))


def together(said: Iterable[tuple[str, str]]) -> list[str]:
    """What is said of somebody, once for all of whom it is true, in a line that begins with them."""
    found: dict[str, list[str]] = {}
    for what, whom in said:
        found.setdefault(what, []).append(whom)
    return [f"{', '.join(names)}: {what}" for what, names in found.items()]


def reached(cluster: Cluster) -> str:
    """What can be said of a cluster with which there is nothing more to do."""
    different = lasting(cluster)
    if not different:
        return "everything is as the manifest says"
    return f"everything else is as the manifest says; until somebody changes it, this differs: {'; '.join(different)}"


def ring_in_words(ring: Ring | Unknown | Absent) -> str:
    """The ring's verdict with its numbers, or why there is none."""
    match ring:
        case Absent():
            return "there is none yet"
        case Unknown(reason):
            return f"unknown: {reason}"
    return str(ring.now) if ring.members else "unknown: etcd named no members at all"


def left(expires: datetime, host: Host, now: datetime) -> str:
    """For how long a certificate on the host is valid, by its own clock."""
    days = (expires - own_time(host, now)).days
    return f"{days} days" if days >= 0 else "expired"


def hosts_in_words(cluster: Cluster) -> dict[str, str]:
    """What each host is, in a word or two, and the first thing that is wrong with it."""
    return {host.name: "; ".join((_state(host), *_wrong(host)[:1])) for host in cluster.hosts}


def _state(host: Host) -> str:
    return host.kind.value if host.kind is not Kind.MEMBER else "ill" if _wrong(host) else "well"


def _wrong(host: Host) -> tuple[str, ...]:
    """Everything that is wrong with a host that is part of a cluster, and that its state does not say already."""
    if host.kind in UNTOUCHED:
        return ()
    found = tuple(ill for ill in ills(host) if ill != f"is {host.kind.value}")
    if host.kind is not Kind.MEMBER or not isinstance(host.node, Node) or host.node.ready.health is Health.GOOD:
        return found
    return (*found, f"its Node is not known to be ready: {told(host.node.ready)}")


def _packages(host: Host) -> str:
    if host.kind is Kind.UNREACHABLE:
        return "unknown"
    return f"{len(host.lacks)} missing" if host.lacks else "ready"


def _health(finding: Finding | None) -> str:
    if finding is None:
        return NONE
    return {Health.GOOD: "well", Health.BAD: "ill", Health.UNKNOWN: "unknown"}[finding.health]


def _member(cluster: Cluster, host: Host) -> str:
    match host.member:
        case Unknown():
            return "unknown"
        case Absent():
            return NONE
    member = member_of(cluster, host)
    if member is None or not isinstance(cluster.ring, Ring):
        return "unknown"
    kind = cluster.ring.role(member)
    return kind if member.health is Health.GOOD else f"{kind}, {'ill' if member.health is Health.BAD else 'unknown'}"


def _node(host: Host) -> str:
    match host.node:
        case Unknown():
            return "unknown"
        case Absent():
            return NONE
        case Node(ready=ready, unschedulable=cordoned, pressures=pressures):
            word = {Health.GOOD: "ready", Health.BAD: "not ready", Health.UNKNOWN: "unknown"}[ready.health]
            return ", ".join((word, *(["cordoned"] if cordoned else []), *pressures))


def _certificates(host: Host, now: datetime) -> str:
    if host.certificates_expire is None:
        return NONE
    return left(host.certificates_expire, host, now)
