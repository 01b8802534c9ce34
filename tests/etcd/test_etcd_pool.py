"""Lending and closing of clients, with clients that only remember what was done to them."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from quorate.etcd.client import EtcdClient
from quorate.etcd.dialers import Dialer, DirectDialer
from quorate.etcd.errors import DeadlineExceeded, MemberNotFound, Unreachable
from quorate.etcd.pool import LIMIT, SHARE, Access, Pool
from quorate.etcd.tls import Credentials


@dataclass
class RecordedClient:
    node: str
    closed: int = 0
    close_gate: asyncio.Event | None = None
    close_error: Exception | None = None

    async def close(self) -> None:
        self.closed += 1
        if self.close_error:
            raise self.close_error
        if self.close_gate:
            await self.close_gate.wait()


@dataclass
class World:
    """A pool on a clock that only the test moves."""

    limit: int = 10
    now: float = 1000.0
    made: list[RecordedClient] = field(default_factory=list)
    contexts: list[ssl.SSLContext] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pool = Pool(lambda: self.now, connect=self.connect, limit=self.limit, idle_timeout=300)

    def connect(self, node: str, _: Dialer, context: ssl.SSLContext) -> EtcdClient:
        self.made.append(RecordedClient(node))
        self.contexts.append(context)
        client: Any = self.made[-1]
        return client  # type: ignore[no-any-return]

    async def use(self, access: Access, node: str = "cp-a", cluster: str = "default/blue") -> Any:
        async with self.pool.client(cluster, node, access) as client:
            return client


@pytest.fixture(scope="module")
def credentials_of() -> Any:
    """Credentials by name; the same name gives equal ones."""
    cache: dict[str, Credentials] = {}

    def make(name: str, ca: Any) -> Credentials:
        return cache.setdefault(name, ca().credentials())

    return make


@pytest.fixture
def access(credentials_of: Any, make_ca: Any) -> Access:
    return Access(DirectDialer({}), credentials_of("first", make_ca))


@pytest.fixture
def world() -> World:
    return World()


async def test_the_same_node_is_lent_the_same_client(world: World, access: Access) -> None:
    assert await world.use(access) is await world.use(access)
    assert len(world.made) == 1


async def test_nodes_and_clusters_have_their_own_clients_and_a_cluster_one_context(world: World, access: Access) -> None:
    await world.use(access, "cp-a")
    await world.use(access, "cp-b")
    await world.use(access, "cp-a", "default/green")
    assert len(world.pool) == 3
    assert world.contexts[0] is world.contexts[1]
    assert world.contexts[0] is not world.contexts[2]


@pytest.mark.parametrize("error", [Unreachable("cp-a", "gone"), DeadlineExceeded("cp-a", "late")])
async def test_a_client_that_did_not_answer_is_closed(world: World, access: Access, error: Exception) -> None:
    with pytest.raises(type(error)):
        async with world.pool.client("default/blue", "cp-a", access):
            raise error
    assert world.made[0].closed == 1
    assert await world.use(access) is world.made[1]


async def test_an_answer_that_is_an_error_keeps_the_client(world: World, access: Access) -> None:
    with pytest.raises(MemberNotFound):
        async with world.pool.client("default/blue", "cp-a", access):
            raise MemberNotFound("cp-a", "member not found")
    assert await world.use(access) is world.made[0]
    assert world.made[0].closed == 0


async def test_a_new_ca_closes_the_old_connection(world: World, access: Access, credentials_of: Any, make_ca: Any) -> None:
    await world.use(access)
    renewed = Access(access.dialer, credentials_of("second", make_ca))
    assert await world.use(renewed) is world.made[1]
    assert world.made[0].closed == 1
    assert world.contexts[0] is not world.contexts[1]


async def test_equal_credentials_read_again_change_nothing(world: World, access: Access) -> None:
    await world.use(access)
    same = access.credentials
    await world.use(Access(access.dialer, Credentials(same.ca, same.certificate, same.key)))
    assert len(world.made) == 1


async def test_what_is_idle_for_five_minutes_is_closed_and_what_was_used_is_not(world: World, access: Access) -> None:
    await world.use(access, "cp-a")
    world.now += 200
    await world.use(access, "cp-b")
    world.now += 100
    await world.pool.close_idle()
    assert [client.closed for client in world.made] == [1, 0]


async def test_a_cluster_of_a_thousand_nodes_that_do_not_answer_keeps_no_other_waiting(access: Access) -> None:
    """Whoever may create Nodes in a workload cluster decides how many control-plane Nodes it has."""
    world = World(limit=LIMIT)

    async def hang(node: str) -> None:
        async with world.pool.client("default/greedy", node, access):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        greedy = [tasks.create_task(hang(f"node-{number}")) for number in range(1000)]
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await world.use(access)
        assert len(world.pool) == SHARE + 1
        for task in greedy:
            task.cancel()


async def test_a_client_in_use_is_closed_by_its_last_user_only(world: World, access: Access) -> None:
    async with world.pool.client("default/blue", "cp-a", access):
        async with world.pool.client("default/blue", "cp-a", access):
            await world.pool.forget("default/blue")
            world.now += 1000
            await world.pool.close_idle()
        assert world.made[0].closed == 0
    assert world.made[0].closed == 1
    assert len(world.pool) == 0


async def test_a_cluster_that_goes_leaves_the_others_alone(world: World, access: Access) -> None:
    await world.use(access, cluster="default/blue")
    await world.use(access, cluster="default/green")
    await world.pool.forget("default/blue")
    assert [client.closed for client in world.made] == [1, 0]


async def test_more_than_the_limit_closes_the_least_recently_used(access: Access) -> None:
    world = World(limit=2)
    for node in ("cp-a", "cp-b", "cp-a", "cp-c"):
        world.now += 1
        await world.use(access, node)
    assert {client.node: client.closed for client in world.made} == {"cp-a": 0, "cp-b": 1, "cp-c": 0}


async def test_a_lender_waits_when_all_are_lent(access: Access) -> None:
    world = World(limit=1)
    async with asyncio.TaskGroup() as tasks:
        async with world.pool.client("default/blue", "cp-a", access):
            waiting = tasks.create_task(world.use(access, "cp-b"))
            for _ in range(3):
                await asyncio.sleep(0)
            assert not waiting.done()
            assert len(world.made) == 1
        assert (await waiting).node == "cp-b"


async def test_a_cancelled_call_gives_the_client_back_whole(world: World, access: Access) -> None:
    async def call() -> None:
        async with world.pool.client("default/blue", "cp-a", access):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(call())
        await asyncio.sleep(0)
        task.cancel()
    assert await world.use(access) is world.made[0]
    world.now += 300
    await world.pool.close_idle()
    assert world.made[0].closed == 1


async def test_a_closing_that_fails_is_nobody_elses_trouble(world: World, access: Access) -> None:
    for cluster in ("default/red", "default/blue", "default/green"):
        await world.use(access, cluster=cluster)
    world.made[1].close_error = RuntimeError("odd")
    world.now += 300
    with capture_logs() as logged:
        await world.pool.close_idle()
    assert [client.closed for client in world.made] == [1, 1, 1]
    assert [entry["event"] for entry in logged] == ["a connection to etcd could not be closed"]


async def test_what_a_cancelled_closing_left_is_closed_later(access: Access) -> None:
    world = World(limit=100)
    for number in range(40):
        await world.use(access, f"cp-{number}", f"default/{number}")
    for client in world.made:
        client.close_gate = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        closing = tasks.create_task(world.pool.aclose())
        for _ in range(3):
            await asyncio.sleep(0)
        closing.cancel()
    assert 0 < sum(client.closed for client in world.made) < len(world.made)
    for client in world.made:
        client.close_gate = None
    await world.pool.aclose()
    assert all(client.closed == 1 for client in world.made)


async def test_running_closes_idle_connections_by_itself(access: Access) -> None:
    pool = Pool(asyncio.get_running_loop().time, connect=World().connect, idle_timeout=0.02)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(pool.run())
        async with pool.client("default/blue", "cp-a", access):
            pass
        async with asyncio.timeout(5):
            while len(pool):  # noqa: ASYNC110 (the pool's own timer ends it)
                await asyncio.sleep(0.005)
        running.cancel()


@given(st.lists(st.tuples(st.sampled_from(["use", "fail", "forget", "idle"]), st.sampled_from(["cp-a", "cp-b", "cp-c"])), max_size=40))
def test_every_client_made_is_closed_exactly_once_whatever_happens(steps: list[tuple[str, str]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[tuple[str, str]]) -> None:
    world = World(limit=2)
    world.pool._context = lambda *_: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # type: ignore[method-assign]
    access = Access(DirectDialer({}), Credentials(b"", b"", b""))
    for step, node in steps:
        world.now += 100
        match step:
            case "use":
                await world.use(access, node)
            case "fail":
                with pytest.raises(Unreachable):
                    async with world.pool.client("default/blue", node, access):
                        raise Unreachable(node, "gone")
            case "forget":
                await world.pool.forget("default/blue")
            case "idle":
                await world.pool.close_idle()
        assert len(world.pool) <= 2
    await world.pool.aclose()
    assert all(client.closed == 1 for client in world.made)
