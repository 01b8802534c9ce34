"""Hosts in words: what a table says of one at a glance."""

from __future__ import annotations

from dataclasses import replace

from quorate.cli.hosts.status import status_of
from quorate.core.health import Finding, Health
from quorate.core.hosts.state import Node
from quorate.hosts.run.overview import hosts_in_words
from tests.core.hosts.conftest import BAD, V134, Build

BUILD = Build()
SILENT = Finding(Health.UNKNOWN, "NodeReady", "its kubelet is silent")


def test_a_host_whose_node_is_not_ready_is_not_well_and_says_why() -> None:
    for ready in (BAD, SILENT):
        host = BUILD.host(2, node=Node("cp-2", ready, kubelet=V134))
        seen = status_of(BUILD.cluster(BUILD.host(1), host, BUILD.host(3)), BUILD.noon).machines[1]
        assert seen.state == "ill"
        assert seen.wrong == (f"its Node is not known to be ready: {ready.reason}: {ready.message}",)


def test_a_host_with_everything_well_has_nothing_wrong() -> None:
    cluster = BUILD.three()
    assert hosts_in_words(cluster) == {"cp-1": "well", "cp-2": "well", "cp-3": "well"}
    assert hosts_in_words(replace(cluster, hosts=(BUILD.bare(4),))) == {"cp-4": "bare"}
