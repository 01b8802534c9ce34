"""Snapshots of a real member: streamed, verified, and read for their revision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quorate.etcd.grpc_client import GrpcClient
from quorate.etcd.snapshot_file import DIGEST_SIZE, SnapshotBroken, examine
from quorate.etcd.tls import client_context

pytestmark = pytest.mark.integration

Connect = Callable[[Any, str], GrpcClient]


async def gateway(ring: Any, path: str, body: dict[str, Any]) -> None:
    """Etcd's JSON gateway: our client reads and writes no keys."""
    context = client_context(ring.credentials)
    context.set_alpn_protocols(["http/1.1"])
    address = f"https://127.0.0.1:{ring.client_ports['cp-a']}/v3/{path}"
    async with aiohttp.ClientSession() as session, session.post(address, json=body, ssl=context) as response:
        assert response.status == 200, await response.text()


async def put(ring: Any, count: int) -> None:
    for number in range(count):
        await gateway(ring, "kv/put", {"key": "aw==", "value": f"{number:04d}"})


async def saved(client: GrpcClient, path: Path) -> Path:
    with path.open("wb") as file:
        async for piece in client.snapshot():
            file.write(piece)
    return path


async def test_a_snapshot_arrives_whole_and_has_the_members_revision(own_ring: Any, connect: Connect, tmp_path: Path) -> None:
    await put(own_ring, 3)
    client = connect(own_ring, "cp-a")
    await client.members()
    revision = (await client.status()).revision
    snapshot = examine(await saved(client, tmp_path / "db"))
    assert (snapshot.revision, revision) == (4, 4)
    assert snapshot.size == (tmp_path / "db").stat().st_size - DIGEST_SIZE


async def test_the_revision_is_found_in_a_tree_of_several_pages(own_ring: Any, connect: Connect, tmp_path: Path) -> None:
    await put(own_ring, 300)
    client = connect(own_ring, "cp-a")
    await client.members()
    assert examine(await saved(client, tmp_path / "db")).revision == 301


async def test_a_deletion_that_was_compacted_away_counts(own_ring: Any, connect: Connect, tmp_path: Path) -> None:
    await put(own_ring, 2)
    await gateway(own_ring, "kv/deleterange", {"key": "aw=="})
    await gateway(own_ring, "kv/compaction", {"revision": "4", "physical": True})
    client = connect(own_ring, "cp-a")
    await client.members()
    assert examine(await saved(client, tmp_path / "db")).revision == 4


async def test_a_member_without_any_key_has_the_first_revision(own_ring: Any, connect: Connect, tmp_path: Path) -> None:
    assert examine(await saved(connect(own_ring, "cp-b"), tmp_path / "db")).revision == 1


@pytest.mark.parametrize("damage", ["a bit is another", "the end is missing", "it is empty"])
async def test_a_damaged_file_is_told_from_a_snapshot(ring: Any, connect: Connect, tmp_path: Path, damage: str) -> None:
    content = bytearray((await saved(connect(ring, "cp-a"), tmp_path / "db")).read_bytes())
    if damage == "a bit is another":
        content[5000] ^= 1
    else:
        content = content[: 0 if damage == "it is empty" else -4096]
    (tmp_path / "db").write_bytes(content)
    with pytest.raises(SnapshotBroken):
        examine(tmp_path / "db")
