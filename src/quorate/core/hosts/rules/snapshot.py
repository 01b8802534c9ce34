"""Takes an etcd snapshot before the first change to the ring or a version of an existing cluster."""

from __future__ import annotations

from dataclasses import replace

from quorate.core.checks import passed
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import CHANGES_RING_OR_VERSION, Step, TakeSnapshot
from quorate.core.proposal import Proposal

SNAPSHOT_WANTED = "a snapshot comes before the first change to the ring or a version"


def after_a_snapshot(cluster: Cluster, proposal: Proposal[Step]) -> Proposal[Step]:
    """The proposal as it is, or a snapshot first, where its step needs one and none was taken in this run."""
    if proposal.step is None or cluster.snapshot_taken or type(proposal.step) not in CHANGES_RING_OR_VERSION:
        return proposal
    checks = (*proposal.checks, passed(SNAPSHOT_WANTED, f"next: {proposal.step}"))
    return replace(proposal, step=TakeSnapshot(), checks=checks, prepares=type(proposal.step))
