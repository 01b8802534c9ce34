"""The reflector against a scripted server: what it asks, what it tells, and how it goes on after each kind of trouble."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from quorate.kubernetes.client import Listing, WatchEvent
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ConnectionFailed, Forbidden, Gone, Timeout
from quorate.kubernetes.handlers import enqueue_self
from quorate.kubernetes.objects import Node, ObjectMeta
from quorate.kubernetes.queue import WorkQueue
from quorate.kubernetes.reflector import Reflector
from quorate.kubernetes.resource import NODES, Resource
from quorate.kubernetes.store import Store


def node(name: str, version: int, *, uid: str = "", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", resource_version=str(version), labels=labels))


@dataclass
class FakeServer:
    """Lists what it holds; a watch yields what the test puts into `events`, raises what is an exception there, and ends at None."""

    items: list[Node] = field(default_factory=list)
    version: int = 10
    list_errors: list[Exception] = field(default_factory=list)
    lists: int = 0
    watches: list[dict[str, Any]] = field(default_factory=list)
    watched_at: list[float] = field(default_factory=list)
    events: asyncio.Queue[tuple[str, Node] | Exception | None] = field(default_factory=asyncio.Queue)
    selectors: list[tuple[str, str, str]] = field(default_factory=list)
    accepts: bool = True  # watches

    async def list(
        self,
        resource: Resource[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        keep: Callable[[Any], Any] = lambda item: item,
    ) -> Listing[Any]:
        assert resource is NODES
        assert limit == 500
        self.lists += 1
        self.selectors.append((namespace, label_selector, field_selector))
        if self.list_errors:
            raise self.list_errors.pop(0)
        return Listing([kept for item in self.items if (kept := keep(item)) is not None], str(self.version))

    async def watch(self, resource: Resource[Any], namespace: str = "", **options: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        assert resource is NODES
        self.watches.append({"namespace": namespace, **options})
        self.watched_at.append(asyncio.get_running_loop().time())
        if self.accepts:
            options["on_open"]()
        while (event := await self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield WatchEvent(*event)

    def send(self, *events: tuple[str, Node] | Exception | None) -> None:
        for event in events:
            self.events.put_nowait(event)


class Heard:
    """A handler that writes down what it is told, in one line each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_add(self, obj: Node, *, initial: bool) -> None:
        self.lines.append(f"{'initial' if initial else 'add'} {tag(obj)}")

    def on_update(self, old: Node, new: Node) -> None:
        self.lines.append(f"update {tag(old)} {tag(new)}")

    def on_delete(self, obj: Node, *, final_state_unknown: bool) -> None:
        self.lines.append(f"{'lost' if final_state_unknown else 'delete'} {tag(obj)}")

    def since(self, start: int) -> list[str]:
        return self.lines[start:]


def tag(item: Node) -> str:
    return f"{item.metadata.name}@{item.metadata.resource_version}"


@dataclass
class World:
    server: FakeServer
    store: Store[Node]
    heard: Heard
    errors: list[Exception]
    reflector: Reflector[Node]


def make(server: FakeServer, **options: Any) -> World:
    heard, errors, store = Heard(), list[Exception](), Store[Node]()
    reflector = Reflector(server, NODES, store, random=Random(1), **{"handlers": [heard], "on_error": errors.append, **options})
    return World(server, store, heard, errors, reflector)


@asynccontextmanager
async def running(server: FakeServer, **options: Any) -> AsyncIterator[World]:
    world = make(server, **options)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.reflector.run())
        await asyncio.sleep(0.1)
        yield world
        task.cancel()


async def test_the_first_list_fills_the_store_and_is_told_as_initial() -> None:
    async with running(FakeServer([node("a", 1), node("b", 2)])) as world:
        assert world.reflector.synced.is_set()
        assert world.reflector.healthy
        assert world.heard.lines == ["initial a@1", "initial b@2"]
        assert world.store.last_resource_version == "10"


async def test_handlers_have_heard_of_everything_when_it_is_synced() -> None:
    world = make(FakeServer([node("a", 1)]))
    assert (world.reflector.synced.is_set(), world.reflector.healthy, world.reflector.last_event_at) == (False, False, None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.reflector.run())
        await world.reflector.synced.wait()
        assert world.heard.lines == ["initial a@1"]
        task.cancel()


async def test_the_watch_starts_where_the_list_ended_and_goes_on_where_the_last_event_was() -> None:
    async with running(FakeServer(version=10)) as world:
        world.server.send(("ADDED", node("a", 11)), ("BOOKMARK", node("", 15)), None)
        await asyncio.sleep(1)
        assert [watch["resource_version"] for watch in world.server.watches] == ["10", "15"]
        assert world.server.lists == 1


async def test_watch_events_change_the_store_and_are_told_with_old_and_new() -> None:
    async with running(FakeServer()) as world:
        world.server.send(("ADDED", node("a", 11)), ("MODIFIED", node("a", 12)), ("DELETED", node("a", 13)))
        await asyncio.sleep(1)
        assert world.heard.lines == ["add a@11", "update a@11 a@12", "delete a@12"]
        assert world.store.items() == []
        assert world.store.last_resource_version == "13"
        assert world.reflector.last_event_at == pytest.approx(0.1)


async def test_the_server_is_asked_for_selectors_bookmarks_and_a_jittered_end() -> None:
    options = {"namespace": "n", "label_selector": "l", "field_selector": "f"}
    async with running(FakeServer(), **options) as world:
        for _ in range(20):
            world.server.send(("BOOKMARK", node("", 11)), None)
        await asyncio.sleep(1)
        assert world.server.selectors == [("n", "l", "f")]
        assert all(
            watch["namespace"] == "n" and watch["label_selector"] == "l" and watch["field_selector"] == "f"
            for watch in world.server.watches
        )
        seconds = [watch["timeout_seconds"] for watch in world.server.watches]
        assert all(300 <= second <= 600 for second in seconds)
        assert len(set(seconds)) > 10
        assert {watch["inactivity"] for watch in world.server.watches} == {70.0}
        assert all(watch.get("bookmarks", True) for watch in world.server.watches)


async def test_410_lists_again_whether_it_answers_the_watch_or_comes_inside_it() -> None:
    async with running(FakeServer([node("a", 1)])) as world:
        world.server.send(Gone("too old"))  # before any event: as the HTTP answer
        await asyncio.sleep(1)
        assert world.server.lists == 2
        world.server.version = 30
        world.server.send(("MODIFIED", node("a", 20)), Gone("too old"))
        await asyncio.sleep(1)
        assert world.server.lists == 3
        assert world.server.watches[-1]["resource_version"] == "30"


async def test_a_delete_seen_only_by_listing_again_is_a_final_state_unknown_delete() -> None:
    async with running(FakeServer([node("a", 1), node("b", 2)])) as world:
        world.server.items = [node("b", 2)]
        world.server.send(Gone("too old"))
        await asyncio.sleep(1)
        assert world.heard.since(2) == ["lost a@1"]


async def test_a_new_list_tells_changes_as_updates_and_never_what_is_unchanged() -> None:
    async with running(FakeServer([node("same", 1), node("changed", 2)])) as world:
        world.server.items = [node("same", 1), node("changed", 20), node("new", 21)]
        world.server.send(Gone("too old"))
        await asyncio.sleep(1)
        assert world.heard.since(2) == ["update changed@2 changed@20", "add new@21"]


async def test_listing_again_never_bypasses_predicates(random: Random) -> None:
    queue = WorkQueue[Request]("nodes", random)
    handler = enqueue_self(queue, predicates=[lambda _, new: new is not None and "wanted" in new.metadata.labels])
    async with running(FakeServer([node("a", 1), node("b", 2, wanted="")]), handlers=[handler]) as world:
        assert await queue.get() == Request("", "b")
        queue.done(Request("", "b"))
        world.server.items = [node("a", 5), node("b", 2, wanted="")]
        world.server.send(Gone("too old"))
        await asyncio.sleep(1)
        assert len(queue) == 0


async def test_an_object_made_anew_under_its_name_is_never_an_update() -> None:
    async with running(FakeServer([node("a", 1, uid="first")])) as world:
        world.server.send(("ADDED", node("a", 11, uid="second")))
        await asyncio.sleep(1)
        assert world.heard.since(1) == ["lost a@1", "add a@11"]


async def test_a_watch_that_begins_with_everything_there_is_tells_nothing_twice() -> None:
    async with running(FakeServer([node("a", 1)])) as world:
        world.server.send(("ADDED", node("a", 1)), ("BOOKMARK", node("", 0)), ("MODIFIED", node("a", 12)))
        await asyncio.sleep(1)
        assert world.heard.lines == ["initial a@1", "update a@1 a@12"]
        assert world.store.last_resource_version == "12"


def is_wanted(item: Node) -> bool:
    return "wanted" in item.metadata.labels


async def test_the_client_side_selector_filters_lists_and_events_of_servers_that_do_not() -> None:
    async with running(FakeServer([node("a", 1), node("b", 2, wanted="")]), client_side_selector=is_wanted) as world:
        world.server.send(("ADDED", node("c", 11)), ("ADDED", node("d", 12, wanted="")), ("DELETED", node("c", 13)))
        await asyncio.sleep(1)
        assert world.heard.lines == ["initial b@2", "add d@12"]


async def test_an_object_that_stops_matching_is_a_delete_and_one_that_starts_is_an_add() -> None:
    async with running(FakeServer([node("a", 1, wanted="")]), client_side_selector=is_wanted) as world:
        world.server.send(("MODIFIED", node("a", 11)), ("MODIFIED", node("a", 12)), ("MODIFIED", node("a", 13, wanted="")))
        await asyncio.sleep(1)
        assert world.heard.since(1) == ["delete a@1", "add a@13"]
        assert world.store.last_resource_version == "13"


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("may not list nodes"),
        ConnectionFailed("refused"),
        Timeout("slow"),
        OSError("no route"),
        msgspec.ValidationError("odd object"),
    ],
)
async def test_trouble_with_the_list_is_told_and_tried_again(error: Exception) -> None:
    async with running(FakeServer([node("a", 1)], list_errors=[error])) as world:
        assert world.errors == [error]
        assert world.reflector.last_error is error
        assert not world.reflector.healthy
        await asyncio.sleep(1)
        assert world.reflector.synced.is_set()
        assert world.reflector.last_error is None


async def test_a_probe_hears_how_long_nothing_was_heard_and_why() -> None:
    async with running(FakeServer(list_errors=[Forbidden("no")] * 3)) as world:
        assert world.reflector.problem(600) == "nodes are not listed yet"
        await asyncio.sleep(60)
        assert world.reflector.problem(0) == ""
        world.server.accepts, world.server.list_errors = False, [ConnectionFailed("no route")] * 99
        world.server.send(ConnectionFailed("reset"), ConnectionFailed("reset"))
        await asyncio.sleep(120)
        assert world.reflector.problem(600) == ""
        assert re.fullmatch(r"nodes were heard of 1[0-9]{2} s ago: no route", world.reflector.problem(30))


async def test_backoff_grows_from_a_fifth_of_a_second_to_half_a_minute_with_jitter() -> None:
    server = FakeServer(list_errors=[ConnectionFailed("refused") for _ in range(20)])
    world = make(server)
    times: list[float] = []
    world.reflector = Reflector(
        server, NODES, world.store, random=Random(1), on_error=lambda _: times.append(asyncio.get_running_loop().time())
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.reflector.run())
        await world.reflector.synced.wait()
        task.cancel()
    gaps = [after - before for before, after in pairwise(times)]
    assert 0.1 <= gaps[0] <= 0.2
    assert all(15 <= gap <= 30 for gap in gaps[8:])
    assert len({round(gap, 6) for gap in gaps[8:]}) > 5


async def test_what_keeps_failing_is_logged_once_for_whoever_looks() -> None:
    with capture_logs() as logged:
        async with running(FakeServer(list_errors=[Forbidden("no")] * 20)) as world:
            await world.reflector.synced.wait()
    told = [(entry["log_level"], entry["resource"], entry["error"]) for entry in logged if entry["log_level"] != "debug"]
    assert told == [("warning", "nodes", "no")]


async def test_a_broken_watch_goes_on_from_the_last_version_without_a_list() -> None:
    async with running(FakeServer()) as world:
        world.server.send(("ADDED", node("a", 11)), ConnectionFailed("reset"))
        await asyncio.sleep(1)
        assert [watch["resource_version"] for watch in world.server.watches] == ["10", "11"]
        assert world.server.lists == 1


async def test_backoff_starts_over_after_an_event() -> None:
    async with running(FakeServer()) as world:
        for _ in range(6):
            world.server.send(ConnectionFailed("reset"))
        await asyncio.sleep(60)
        started = asyncio.get_running_loop().time()
        world.server.send(("ADDED", node("a", 11)), ConnectionFailed("reset"))
        await asyncio.sleep(1)
        assert world.server.watched_at[-1] - started <= 0.2


async def test_silence_on_a_server_without_bookmarks_does_not_grow_the_backoff() -> None:
    async with running(FakeServer()) as world:
        for _ in range(12):
            await asyncio.sleep(69)
            world.server.send(Timeout("no byte for 70 s"))
            await asyncio.sleep(1)
        gaps = [later - earlier for earlier, later in pairwise(world.server.watched_at[1:])]
        assert all(gap <= 70.3 for gap in gaps)


@pytest.mark.parametrize("ending", [None, Timeout("no byte for 70 s"), ConnectionFailed("reset")], ids=str)
async def test_after_two_watches_without_a_word_it_lists_again(ending: Exception | None) -> None:
    """A server whose etcd was restored has lower versions, accepts a watch from one that has yet to come, and stays silent."""
    async with running(FakeServer([node("a", 5)], version=100)) as world:
        world.server.items, world.server.version = [node("b", 7)], 20
        for _ in range(2):
            await asyncio.sleep(60)
            world.server.send(ending)
        await asyncio.sleep(5)
        assert world.heard.since(1) == ["lost a@5", "add b@7"]
        assert [watch["resource_version"] for watch in world.server.watches] == ["100", "100", "20"]
        assert world.store.era == 1


async def test_a_word_now_and_then_is_enough() -> None:
    async with running(FakeServer()) as world:
        for number in range(6):
            await asyncio.sleep(30)
            world.server.send(("BOOKMARK", node("", 11 + number)) if number % 2 else Timeout("no byte for 70 s"))
        await asyncio.sleep(5)
        assert world.server.lists == 1


async def test_a_watch_that_nobody_accepts_is_no_word_from_the_server_however_long_it_takes() -> None:
    async with running(FakeServer()) as world:
        world.server.accepts = False
        world.server.send(Timeout("no byte for 70 s"))
        await asyncio.sleep(1)
        before = world.reflector.last_event_at
        world.server.list_errors = [ConnectionFailed("no route")] * 20
        for _ in range(12):
            await asyncio.sleep(30)
            world.server.send(Timeout("connecting took longer than 10 s"))
        assert world.reflector.last_event_at == before
        assert not world.reflector.healthy


async def test_after_a_watch_that_nobody_accepted_it_lists_again_and_waits_ever_longer() -> None:
    """A dial that fails after 12 s, as through a network that drops what is sent, is no watch that has lasted."""
    async with running(FakeServer(accepts=False)) as world:
        world.server.send(ConnectionFailed("reset"))
        await asyncio.sleep(0.3)
        assert world.server.lists == 2
        for _ in range(8):
            await asyncio.sleep(12)
            world.server.send(Timeout("connecting took longer than 10 s"))
            await asyncio.sleep(30.1)
        gaps = [later - earlier - 12 for earlier, later in pairwise(world.server.watched_at)]
        assert gaps[-1] > 15


async def test_a_server_that_closes_every_watch_at_once_is_not_asked_in_a_tight_loop() -> None:
    async with running(FakeServer()) as world:
        world.server.send(*[None] * 100)
        await asyncio.sleep(60)
        assert len(world.server.watches) < 20
        assert isinstance(world.errors[-1], ConnectionFailed)
        assert "closed the watch of nodes at once" in str(world.errors[-1])


async def test_a_watch_that_ends_as_announced_is_no_error() -> None:
    async with running(FakeServer()) as world:
        await asyncio.sleep(120)
        world.server.send(None)
        await asyncio.sleep(0.01)
        assert world.errors == []
        assert world.reflector.healthy
        assert len(world.server.watches) == 2


async def test_a_fault_of_a_handler_is_raised_not_retried() -> None:
    class Faulty(Heard):
        def on_add(self, obj: Node, *, initial: bool) -> None:
            raise ZeroDivisionError(tag(obj), initial)

    with pytest.raises(ZeroDivisionError):
        await make(FakeServer([node("a", 1)]), handlers=[Faulty()]).reflector.run()


async def test_foreign_kinds_are_kept_as_dicts() -> None:
    item = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "1", "uid": "u"}, "spec": {"any": "thing"}}
    server = FakeServer(cast("list[Node]", [item]))
    store = Store[Any]()
    reflector = Reflector(server, cast("Resource[Any]", NODES), store, random=Random(1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run())
        await reflector.synced.wait()
        task.cancel()
    assert store.get("n", "a") == item
