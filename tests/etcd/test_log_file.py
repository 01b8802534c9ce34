"""The first records of etcd's log, as an etcd wrote them: whose member's log it is."""

from __future__ import annotations

import base64

import pytest

from quorate.etcd.log_file import HEAD, LogIdentity, identity
from tests.hosts.probe.machine import etcd_log

WRITTEN = base64.b64decode("BAAAAAAAAIQIBBAAAAAAAB0AAAAAAACDCAEQjZz5FhoUCMDAyq/BupaJLhCH1e26j9WdwQQAAAA=")
"""By etcd 3.6, which said: local-member-id 2e1259d415f2a040, cluster-id 48276a8f75b6a87."""


def test_the_ids_are_those_that_etcd_told() -> None:
    assert len(WRITTEN) == HEAD
    assert identity(WRITTEN) == LogIdentity(0x2E1259D415F2A040, 0x48276A8F75B6A87)


@pytest.mark.parametrize(("member", "cluster"), [(1, 1), (2**64 - 1, 2**64 - 1), (2**63, 127)])
def test_the_head_is_long_enough_for_all_ids(member: int, cluster: int) -> None:
    head = etcd_log(member, cluster)[:HEAD]
    assert identity(head) == LogIdentity(member, cluster)


@pytest.mark.parametrize(
    "head", [b"", bytes(HEAD), b"data", WRITTEN[:40], WRITTEN[16:], WRITTEN[:26] + b"\xff" * 30, etcd_log(0, 5), b"\xff" * HEAD]
)
def test_what_is_no_log_is_said_to_be_none(head: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        identity(head)
