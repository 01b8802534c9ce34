"""The limit of file descriptors of a real process, and what fits into it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from quorate.clusterapi.connect.descriptors import Descriptors
from quorate.etcd.pool import SHARE

_CHILD = """
import json, resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from quorate.clusterapi.connect.descriptors import raised
print(json.dumps([raised().limit, *resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""


@pytest.mark.parametrize(("soft", "hard", "then"), [(256, 512, 512), (512, 512, 512), (64, 300, 300)])
def test_the_soft_limit_becomes_the_hard_one(soft: int, hard: int, then: int) -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD.format(soft=soft, hard=hard)], capture_output=True, check=True, timeout=60)
    assert json.loads(child.stdout) == [then, then, hard]


@pytest.mark.parametrize(
    ("limit", "control_planes", "connections"), [(1024, 51, 153), (4096, 256, 768), (65536, 4352, 4096), (1 << 20, 69888, 4096)]
)
def test_what_fits_leaves_room_for_watches_and_for_the_process_itself(limit: int, control_planes: int, connections: int) -> None:
    room = Descriptors(limit)
    assert (room.control_planes, room.etcd_connections) == (control_planes, connections)
    assert 256 + 4 * room.etcd_connections + 3 * min(room.control_planes, room.etcd_connections // 3) <= limit


def test_little_room_is_still_some() -> None:
    assert Descriptors(100).etcd_connections == 3 < SHARE
