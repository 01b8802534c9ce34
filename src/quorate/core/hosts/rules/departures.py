"""How many hosts may leave the cluster: more than one only with --remove-hosts, since a truncated manifest looks like one whose hosts are to be removed."""

from __future__ import annotations

from collections import Counter

from quorate.core.checks import Check, failed, passed
from quorate.core.hosts.state import Cluster

AS_MANY_AS_SAID = "no more hosts leave the cluster than allowed"


def departing(cluster: Cluster) -> tuple[str, ...]:
    """Who is in the cluster and in no manifest: Nodes of no host, and voters of no host, by name. Who never voted and is no Node was never a host of it.

    A Node of a machine controller's machine does not leave by us. Two voters of one name are two hosts, one of which may be the Node of that name.
    """
    machines = {node.name for node in cluster.other_nodes if node.machine and not node.static_worker}
    voters = [orphan.member for orphan in cluster.orphans if orphan.member.votes]
    alike = Counter(member.label for member in voters)
    told = (f"{member.label} ({member.id:x})" if alike[member.label] > 1 else member.label for member in voters)
    nodes = (name for name in cluster.lost_nodes if name not in machines and not alike[name])
    return tuple(sorted((*nodes, *told)))


def as_many_as_said(cluster: Cluster) -> Check:
    """Were so many hosts meant to leave? One may always: that is what taking a host out of the manifest is for."""
    leaving, said = departing(cluster), cluster.options.remove_hosts
    if len(leaving) <= said:
        return passed(AS_MANY_AS_SAID, f"{len(leaving)}, and {said} may")
    evidence = f"{len(leaving)} hosts of the cluster are not in the manifest: {', '.join(leaving)}; {said} may leave"
    remedy = (
        f"Put them back into the manifest, or give Terraform's outputs with -t if they come from there. "
        f"To remove all of them, give --remove-hosts {len(leaving)}."
    )
    return failed(AS_MANY_AS_SAID, evidence, remedy)
