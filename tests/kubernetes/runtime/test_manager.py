"""The manager: the order in which things start and end, and what ends everything at once."""

# ruff: noqa: ARG002 - a fake takes whatever the client is given

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from quorate.kubernetes.client import Client, Listing, WatchEvent
from quorate.kubernetes.controller import Controller, Request, Result
from quorate.kubernetes.errors import Conflict, ConnectionFailed, Forbidden, NotFound
from quorate.kubernetes.events import EventClient
from quorate.kubernetes.handlers import enqueue_self
from quorate.kubernetes.leader import LeaderElector, LeadershipLost, LeaseClient
from quorate.kubernetes.manager import CachesNotSynced, Manager
from quorate.kubernetes.objects import Lease, LeaseSpec, Node, ObjectMeta
from quorate.kubernetes.queue import WorkQueue
from quorate.kubernetes.reflector import ListWatch, Reflector
from quorate.kubernetes.resource import NODES, SECRETS, Resource
from quorate.kubernetes.store import Store
from quorate.kubernetes.tasks import EndedEarly


def the_client_fits(client: Client) -> tuple[ListWatch, LeaseClient, EventClient]:
    """For the type checker: the real client is what these Protocols ask for."""
    return client, client, client


def now() -> float:
    return asyncio.get_running_loop().time()


class FakeServer:
    """Two nodes, listed after `delay` seconds or never, and a Lease."""

    def __init__(self, story: list[str], *, delay: float = 1.0) -> None:
        self.story = story
        self.delay = delay
        self.refusal: Exception | None = None
        self.holder = ""
        self.version = 1
        self.cut = False

    async def list(self, resource: Resource[Any], namespace: str = "", **_: Any) -> Listing[Any]:
        await asyncio.sleep(self.delay)
        if self.refusal:
            raise self.refusal
        self.story.append(f"{now():.0f} listed {resource.plural}")
        return Listing([Node(metadata=ObjectMeta(name=name, uid=name, resource_version="1")) for name in ("a", "b")], "10")

    async def watch(self, resource: Resource[Any], namespace: str = "", **_: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        try:
            await asyncio.sleep(1e9)
            yield WatchEvent("BOOKMARK", Node(metadata=ObjectMeta()))
        finally:
            self.story.append(f"{now():.0f} watch ended")

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        if not self.holder:
            raise NotFound(name)
        return self._lease()

    async def create(self, resource: Resource[Any], body: Mapping[str, Any], namespace: str = "") -> Any:
        return self._written(body["spec"])

    async def merge_patch(self, resource: Resource[Any], name: str, patch: Mapping[str, Any], namespace: str = "") -> Any:
        if self.cut:
            raise ConnectionFailed("no route")
        if patch["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict("changed")
        return self._written(patch["spec"])

    def _written(self, spec: Mapping[str, Any]) -> Lease:
        self.version += 1
        if spec["holderIdentity"] != self.holder:
            self.holder = spec["holderIdentity"]
            self.story.append(f"{now():.0f} lease held by {self.holder or 'nobody'}")
        return self._lease()

    def _lease(self) -> Lease:
        metadata = ObjectMeta(name="lease", resource_version=str(self.version))
        return Lease(metadata=metadata, spec=LeaseSpec(holder_identity=self.holder, lease_duration_seconds=60))


class World:
    """A manager with one reflector, one controller whose reconciles take ten seconds, and a story of what happened when."""

    def __init__(self, *, elect: bool = True, delay: float = 1.0, **options: Any) -> None:
        self.story: list[str] = []
        self.server = FakeServer(self.story, delay=delay)
        self.stopping = asyncio.Event()
        self.queue = WorkQueue[Request]("test", Random(1))
        self.reflector = Reflector(self.server, NODES, Store[Node](), random=Random(1), handlers=[enqueue_self(self.queue)])
        elector = LeaderElector(
            self.server,
            namespace="n",
            name="lease",
            identity="me",
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            clock=now,
            random=Random(1),
        )
        self.manager = Manager(
            reflectors=[self.reflector],
            controllers=[Controller("test", self.reconcile, self.queue, Random(1), concurrency=1, caches=[self.reflector])],
            elector=elector if elect else None,
            **{"after_sync": lambda: self.story.append(f"{now():.0f} synced"), "runnables": [self], **options},
        )

    async def run(self) -> None:
        """Be a runnable too."""
        self.story.append(f"{now():.0f} server started")
        try:
            await asyncio.sleep(1e9)
        finally:
            self.story.append(f"{now():.0f} server stopped")

    async def reconcile(self, request: Request) -> Result:
        self.story.append(f"{now():.0f} reconcile {request} begins")
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            self.story.append(f"{now():.0f} reconcile {request} is cancelled")
            raise
        self.story.append(f"{now():.0f} reconcile {request} ends")
        return Result()

    async def stop_at(self, seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.manager.run(self.stopping))
            await asyncio.sleep(seconds)
            self.stopping.set()


async def test_caches_come_before_the_election_which_comes_before_work_and_all_ends_in_order() -> None:
    world = World()
    await world.stop_at(5)
    assert world.story == [
        "0 server started",
        "1 listed nodes",
        "1 synced",
        "1 lease held by me",
        "1 reconcile a begins",
        "11 reconcile a ends",
        "11 lease held by nobody",
        "11 server stopped",
        "11 watch ended",
    ]


async def test_the_lease_is_renewed_while_the_last_reconciles_are_drained() -> None:
    world = World(grace=30.0)
    before = world.server.version
    await world.stop_at(5)
    assert world.server.version - before >= 1 + 2 + 1, "made, renewed at 1 and 6 and 11 at the latest, released"


async def test_without_an_elector_work_starts_when_the_caches_are_filled() -> None:
    world = World(elect=False)
    await world.stop_at(5)
    assert "1 reconcile a begins" in world.story
    assert not any("lease" in line for line in world.story)


async def test_a_waiting_candidate_has_warm_caches_and_does_no_work() -> None:
    world = World()
    world.server.holder = "another"
    await world.stop_at(30)
    assert world.story == ["0 server started", "1 listed nodes", "1 synced", "30 server stopped", "30 watch ended"]
    assert world.server.holder == "another"


async def test_stopping_while_the_caches_fill_ends_at_once() -> None:
    world = World(delay=100.0)
    await world.stop_at(5)
    assert world.story == ["0 server started", "5 server stopped"]


async def test_losing_the_lease_cancels_everything_at_once() -> None:
    world = World()
    async with asyncio.TaskGroup() as group:
        group.create_task(expect_loss(world))
        await asyncio.sleep(3)
        world.server.holder, world.server.version = "thief", 100
    assert now() == 6, "the next renewal, not the end of the reconcile"
    assert "6 reconcile a is cancelled" in world.story
    assert "6 server stopped" in world.story
    assert world.server.holder == "thief", "what is lost is not released"


async def expect_loss(world: World) -> None:
    with pytest.raises(LeadershipLost, match="held by thief"):
        await world.manager.run(world.stopping)


async def test_caches_that_do_not_fill_are_named_with_verb_and_resource() -> None:
    world = World(sync_timeout=300.0)
    world.server.refusal = Forbidden("list nodes: nodes is forbidden: User cannot list resource nodes")
    with pytest.raises(CachesNotSynced, match=r"not filled within 300 s: nodes: list nodes: nodes is forbidden"):
        await world.manager.run(world.stopping)
    assert now() == pytest.approx(300)
    assert world.story == ["0 server started", "300 server stopped"]


async def test_a_cache_without_any_answer_is_named_too() -> None:
    world = World(delay=1000.0, sync_timeout=10.0)
    silent = Reflector(world.server, SECRETS, Store[Any](), random=Random(1))
    manager = Manager(reflectors=[world.reflector, silent], controllers=[], sync_timeout=10.0)
    with pytest.raises(CachesNotSynced, match="nodes: no answer; secrets: no answer"):
        await manager.run(world.stopping)


async def test_a_runnable_that_fails_ends_the_manager_with_its_own_error() -> None:
    class Failing:
        async def run(self) -> None:
            await asyncio.sleep(5)
            raise OSError("address in use")

    world = World(runnables=[Failing()])
    with pytest.raises(OSError, match="address in use"):
        await world.manager.run(world.stopping)
    assert {"5 watch ended", "5 reconcile a is cancelled"} <= set(world.story)


class Ending:
    """Ends after a second, by itself or by a cancellation that nobody asked for."""

    def __init__(self, how: type[BaseException] | None) -> None:
        self.how = how

    async def run(self) -> None:
        await asyncio.sleep(1)
        if self.how:
            raise self.how


@pytest.mark.parametrize("how", [None, asyncio.CancelledError])
async def test_a_runnable_that_ends_early_ends_the_manager_with_its_name(how: type[BaseException] | None) -> None:
    world = World(runnables=[Ending(how)])
    with pytest.raises(EndedEarly, match="Ending ended early"):
        async with asyncio.timeout(10):
            await world.manager.run(world.stopping)
