"""The way back: etcd's data is saved before the ring or a version of a standing cluster changes for the first time."""

from __future__ import annotations

from dataclasses import replace

from quorate.core.checks import passed
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import CHANGES_RING_OR_VERSION, Step, TakeSnapshot
from quorate.core.opinion import Opinion

SNAPSHOT_WANTED = "a snapshot comes before the first change to the ring or a version"


def after_a_snapshot(cluster: Cluster, opinion: Opinion[Step]) -> Opinion[Step]:
    """The opinion as it is, or a snapshot first, where its step needs one and none was taken in this run."""
    if opinion.step is None or cluster.snapshot_taken or type(opinion.step) not in CHANGES_RING_OR_VERSION:
        return opinion
    checks = (*opinion.checks, passed(SNAPSHOT_WANTED, f"next: {opinion.step}"))
    return replace(opinion, step=TakeSnapshot(), checks=checks, prepares=type(opinion.step))
