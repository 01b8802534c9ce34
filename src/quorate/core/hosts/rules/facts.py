"""Questions that several rules ask about hosts: which are healthy, which have yet to join, which has etcd's leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quorate.core.checks import Check, failed, passed
from quorate.core.health import Finding, Health
from quorate.core.hosts.state import UNTOUCHED, Cluster, Host, Kind, MissedProbes, Node
from quorate.core.ring import Member, Ring

SOMEBODY_SERVES = "another control plane serves"
HOLDS_THE_DATA = "a host of the manifest holds the data"


def names(hosts: Iterable[Host]) -> str:
    """For a reader."""
    return ", ".join(host.name for host in hosts)


def ills(host: Host) -> tuple[str, ...]:
    """Everything that keeps a host from being well, in words; nothing: it is well."""
    return tuple(dict.fromkeys(_ills(host)))


def _ills(host: Host) -> Iterator[str]:
    if host.kind is not Kind.MEMBER:
        yield f"is {host.kind.value}"
    if data_lost(host):
        yield "has lost its etcd data"
    asked = (host.member_health, host.api_server) if host.control_plane else ()
    for finding in (*host.findings, *asked):
        if finding is not None and finding.health is not Health.GOOD:
            yield told(finding)


def told(finding: Finding) -> str:
    """A finding in words."""
    return f"{finding.reason}: {finding.message}" if finding.message else finding.reason


def member_of(cluster: Cluster, host: Host) -> Member | None:
    """Its member as the ring has it; None too where the ring was not read."""
    return cluster.ring.member(host.member_id) if isinstance(cluster.ring, Ring) and host.member_id is not None else None


def leader_last(cluster: Cluster, hosts: Iterable[Host]) -> list[Host]:
    """In the order given, but whose member leads last: leadership moves once and not at every host."""
    leader = cluster.ring.leader if isinstance(cluster.ring, Ring) else None
    return sorted(hosts, key=lambda host: leader is not None and host.member_id == leader)


def missed_probes_of(cluster: Cluster, member: int) -> MissedProbes | None:
    """Since when a host's member has been silent; None: it answers."""
    return next((missed_probes for silent, missed_probes in cluster.members_missed_probes if silent == member), None)


def data_lost(host: Host) -> bool:
    """Whether it is proven that the data of its member, if it has one, is gone."""
    return host.etcd_data_lost or host.is_wiped


def has_yet_to_join(host: Host) -> bool:
    """Whether it belongs to no cluster yet, or what it has of one is only fit to be taken away."""
    return host.kind in UNTOUCHED or host.kind is Kind.HALF_JOINED or host.is_wiped


def takes_evictions(node: Node) -> bool:
    """Whether it is a worker's Node whose kubelet answers, so that its Pods end when they are evicted. The kubelet of a control plane may have lost its API
    server by the time that its Node goes.
    """
    return not node.control_plane and node.ready.health is Health.GOOD


def somebody_serves(cluster: Cluster) -> Check:
    """Is there a control plane host with everything well, for others to join?"""
    well = [host for host in cluster.control_planes if not ills(host)]
    if well:
        return passed(SOMEBODY_SERVES, f"{well[0].name} serves with every component healthy")
    return failed(SOMEBODY_SERVES, "no control plane host has every component healthy", "Bring a control plane host back to health.")


def holds_the_data(cluster: Cluster, *, apart_from: int | None = None) -> Check:
    """Does a host of the manifest have a voter that is well, beside the member `apart_from` (S4)? A member of no host counts for nothing."""
    holders = [
        host.name
        for host in cluster.control_planes
        if host.member_id != apart_from and (member := member_of(cluster, host)) is not None and member.votes_well and not data_lost(host)
    ]
    if holders:
        return passed(HOLDS_THE_DATA, f"the member of {holders[0]} is a healthy voter")
    remedy = "Remove nothing by hand: bring a host back whose etcd member votes, or restore etcd from a snapshot (docs/restore.md)."
    return failed(HOLDS_THE_DATA, "no other host of the manifest has a healthy voter", remedy)
