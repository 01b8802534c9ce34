"""The controller: one reconcile a key at a time, and what each outcome leads to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from quorate.kubernetes.controller import Controller, Request, Result, TerminalError, is_terminal, reconcile_id
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.queue import WorkQueue

A, B = Request("default", "a"), Request("default", "b")


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class World:
    queue: WorkQueue[Request]
    controller: Controller
    registry: CollectorRegistry
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, {"controller": "test", **labels}) or 0.0


def make(reconcile: Callable[[Request], Awaitable[Result]], **options: Any) -> World:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    queue = WorkQueue[Request]("test", Random(1), base_delay=1.0, jitter=0.0, metrics=metrics)
    return World(queue, Controller("test", reconcile, queue, Random(1), metrics=metrics, **options), registry)


@asynccontextmanager
async def running(reconcile: Callable[[Request], Awaitable[Result]], *, grace: float = 30.0, **options: Any) -> AsyncIterator[World]:
    world = make(reconcile, **options)
    async with asyncio.TaskGroup() as group:
        group.create_task(world.controller.run(world.stopping, grace=grace))
        yield world
        world.stopping.set()


class Recorder:
    """A reconcile that plays the given outcomes in order, then succeeds, and writes down when it was called."""

    def __init__(self, *outcomes: Result | Exception, takes: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.takes = takes
        self.calls: list[float] = []
        self.running: list[Request] = []
        self.most_at_once = 0
        self.overlaps = 0

    async def __call__(self, request: Request) -> Result:
        self.calls.append(now())
        self.overlaps += request in self.running
        self.running.append(request)
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.running.remove(request)
        outcome = self.outcomes.pop(0) if self.outcomes else Result()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_an_error_is_retried_with_growing_delays_until_it_succeeds() -> None:
    reconcile = Recorder(ValueError("one"), ValueError("two"), ValueError("three"))
    async with running(reconcile) as world:
        world.queue.add(A)
        await asyncio.sleep(100)
        assert reconcile.calls == pytest.approx([0, 1, 3, 7])
        assert world.queue.failures(A) == 0, "success forgets the failures"
        assert world.count("controller_runtime_reconcile_errors_total") == 3
        assert world.count("controller_runtime_reconcile_total", result="error") == 3
        assert world.count("controller_runtime_reconcile_total", result="success") == 1


async def test_requeue_after_calls_again_and_forgets_the_failure_count() -> None:
    reconcile = Recorder(ValueError("x"), ValueError("x"), Result(requeue_after=50.0), ValueError("x"))
    async with running(reconcile) as world:
        world.queue.add(A)
        await asyncio.sleep(200)
        assert reconcile.calls == pytest.approx([0, 1, 3, 53, 54])
        assert world.count("controller_runtime_reconcile_total", result="requeue_after") == 1


async def test_an_error_does_not_forget_the_failure_count() -> None:
    reconcile = Recorder(*[ValueError("x")] * 5)
    async with running(reconcile) as world:
        world.queue.add(A)
        await asyncio.sleep(8)
        assert world.queue.failures(A) == 4


async def test_an_error_wins_over_the_requeue_after_that_was_about_to_be_returned() -> None:
    calls: list[float] = []

    async def reconcile(_: Request) -> Result:
        calls.append(now())
        async with asyncio.TaskGroup() as group:  # one part wants to be called in 100 s, another fails
            group.create_task(asyncio.sleep(0, Result(requeue_after=100.0)))
            group.create_task(fail())
        return Result(requeue_after=100.0)

    async with running(reconcile) as world:
        world.queue.add(A)
        await asyncio.sleep(5)
        assert calls == pytest.approx([0, 1, 3])


async def fail() -> None:
    raise ValueError("no")


async def test_terminal_errors_are_counted_but_not_retried() -> None:
    reconcile = Recorder(TerminalError("the spec makes no sense"))
    async with running(reconcile) as world:
        world.queue.add(A)
        await asyncio.sleep(5000)
        assert len(reconcile.calls) == 1
        assert world.count("controller_runtime_terminal_reconcile_errors_total") == 1
        assert world.count("controller_runtime_reconcile_errors_total") == 1
        world.queue.add(A)
        await asyncio.sleep(1)
        assert len(reconcile.calls) == 2, "a change of the object calls it again"


def test_a_group_is_terminal_only_if_all_of_it_is() -> None:
    terminal = TerminalError("x")
    assert is_terminal(ExceptionGroup("", [terminal, ExceptionGroup("", [terminal])]))
    assert not is_terminal(ExceptionGroup("", [terminal, ValueError()]))
    assert not is_terminal(ValueError())


async def test_one_key_is_never_reconciled_twice_at_once_and_different_keys_are() -> None:
    reconcile = Recorder(takes=20.0)
    async with running(reconcile, concurrency=3) as world:
        for _ in range(5):
            for request in (A, B):
                world.queue.add(request)
            await asyncio.sleep(3)
        await asyncio.sleep(100)
        assert reconcile.overlaps == 0
        assert reconcile.most_at_once == 2
        assert len(reconcile.calls) == 4, "each key once more for all that was added while it was busy"


async def test_no_more_reconciles_run_at_once_than_there_are_workers() -> None:
    reconcile = Recorder(takes=4.0)
    async with running(reconcile, concurrency=3) as world:
        for number in range(10):
            world.queue.add(Request("default", str(number)))
        await asyncio.sleep(2)
        assert world.count("controller_runtime_active_workers") == 3
        assert world.count("controller_runtime_max_concurrent_reconciles") == 3
        await asyncio.sleep(100)
        assert reconcile.most_at_once == 3
        assert len(reconcile.calls) == 10
        assert world.count("controller_runtime_active_workers") == 0
        assert world.count("controller_runtime_reconcile_time_seconds_sum") == pytest.approx(40)


class Ward:
    """Those that hang for 70 s at a time, and are looked at again a second later; and one that is well."""

    def __init__(self) -> None:
        self.looked_at = asyncio.Queue[float]()  # the one that is well
        self.hanging = self.most_hanging = 0

    async def __call__(self, request: Request) -> Result:
        if request == A:
            self.looked_at.put_nowait(now())
            return Result()
        self.hanging += 1
        self.most_hanging = max(self.most_hanging, self.hanging)
        try:
            await asyncio.sleep(70)
        finally:
            self.hanging -= 1
        return Result(requeue_after=1.0)


async def waits(world: World, ward: Ward, *, hanging: int) -> list[float]:
    """How long the one that is well waits for a worker, each time that something happens to it: beside so many that hang at once, and then every 7 s."""
    for number in range(hanging):
        world.queue.add(Request("hangs", str(number)))
    waited = []
    for _ in range(50):
        asked = now()
        world.queue.add(A)
        waited.append(await ward.looked_at.get() - asked)
        await asyncio.sleep(7)
    return waited


async def test_those_that_hang_keep_no_other_waiting_but_once_for_a_moment() -> None:
    ward = Ward()
    async with running(ward, grace=0.0) as world:
        first, *others = await waits(world, ward, hanging=100)
        assert first == pytest.approx(5)
        assert max(others) == 0


async def test_of_those_that_hung_before_no_more_begin_at_once_than_there_are_workers() -> None:
    ward = Ward()
    async with running(ward, concurrency=10, grace=0.0) as world:
        waited = await waits(world, ward, hanging=100)
        assert ward.most_hanging == 20  # before it was known of them
        assert max(waited[20:]) == 0
        ward.most_hanging = 0
        await asyncio.sleep(300)
        assert ward.most_hanging == 10


async def test_one_that_hung_and_does_so_no_more_waits_for_no_other() -> None:
    hangs = {A, *(Request("hangs", str(number)) for number in range(20))}
    began: list[float] = []

    async def reconcile(request: Request) -> Result:
        if request == A:
            began.append(now())
        await asyncio.sleep(70 if request in hangs else 0)
        return Result(requeue_after=1.0)

    async with running(reconcile, concurrency=10, grace=0.0) as world:
        world.queue.add(A)
        for request in hangs - {A}:
            world.queue.add(request)
        await asyncio.sleep(60)
        hangs.remove(A)
        await asyncio.sleep(300)
        began.clear()
        await asyncio.sleep(60)
        assert len(began) > 50


async def test_a_shutdown_begins_none_that_waits_behind_those_that_hang() -> None:
    ward = Ward()
    async with running(ward, concurrency=2, grace=100.0) as world:
        for number in range(6):
            world.queue.add(Request("hangs", str(number)))
        await asyncio.sleep(300)
        stopped = now()
    assert now() - stopped < 75
    assert ward.hanging == 0


async def test_a_reconcile_that_takes_too_long_is_cancelled_and_retried() -> None:
    reconcile = Recorder(takes=1000.0)
    async with running(reconcile, timeout=180.0, grace=0.0) as world:
        world.queue.add(A)
        await asyncio.sleep(182)
        assert reconcile.calls == pytest.approx([0, 181])
        assert world.count("controller_runtime_reconcile_errors_total") == 1


class FakeCache:
    def __init__(self) -> None:
        self.synced = asyncio.Event()


async def test_a_reconcile_whose_request_was_cancelled_by_others_failed_and_its_worker_goes_on() -> None:
    """aiohttp cancels a resolution that several requests share when one session is closed."""
    shared = asyncio.get_running_loop().create_future()
    calls: list[float] = []

    async def reconcile(_: Request) -> Result:
        calls.append(now())
        if len(calls) == 1:
            await shared
        return Result()

    async with running(reconcile, concurrency=1) as world:
        world.queue.add(A)
        await asyncio.sleep(0.1)
        shared.cancel()
        await asyncio.sleep(5)
        assert len(calls) == 2
        assert world.controller.problem() == ""
        assert world.count("controller_runtime_reconcile_errors_total") == 1


async def test_a_worker_that_ends_early_ends_the_controller_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def done(_: Request) -> Result:
        return Result()

    world = make(done, concurrency=2)
    monkeypatch.setattr(world.queue, "done", lambda _: asyncio.current_task().cancel())  # type: ignore[union-attr]
    world.queue.add(A)
    with pytest.raises(ExceptionGroup) as raised:
        await world.controller.run(world.stopping)
    assert str(raised.value.exceptions[0]) == "controller test: 1 of 2 workers have ended"


async def test_a_worker_that_is_cancelled_by_others_while_it_waits_for_work_ends_the_controller_too() -> None:
    world = make(Recorder(), concurrency=2)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(_raised_by(world.controller.run(world.stopping)))
        await asyncio.sleep(1)
        next(task for task in asyncio.all_tasks() if task.get_name() == "test-0").cancel()
        assert await running == ["controller test: 1 of 2 workers have ended"]


async def _raised_by(run: Coroutine[Any, Any, None]) -> list[str]:
    with pytest.raises(ExceptionGroup) as raised:
        await run
    return [str(error) for error in raised.value.exceptions]


async def test_workers_start_only_after_all_caches_are_synced() -> None:
    reconcile, caches = Recorder(), [FakeCache(), FakeCache()]
    async with running(reconcile, caches=caches) as world:
        world.queue.add(A)
        caches[1].synced.set()
        await asyncio.sleep(100)
        assert reconcile.calls == []
        caches[0].synced.set()
        await asyncio.sleep(1)
        assert reconcile.calls == [100]


async def test_stopping_before_the_caches_are_synced_ends_at_once() -> None:
    async with running(Recorder(), caches=[FakeCache()]):
        await asyncio.sleep(1)
    assert now() == 1


async def test_shutdown_drains_running_reconciles_and_starts_no_new_ones() -> None:
    reconcile = Recorder(takes=10.0)
    async with running(reconcile, concurrency=1, grace=30.0) as world:
        world.queue.add(A)
        world.queue.add(B)
        await asyncio.sleep(1)
    assert now() == 10
    assert len(reconcile.calls) == 1
    assert world.count("controller_runtime_reconcile_total", result="success") == 1


async def test_a_reconcile_that_outlasts_the_grace_period_is_cancelled() -> None:
    reconcile = Recorder(takes=100.0)
    async with running(reconcile, grace=30.0) as world:
        world.queue.add(A)
        await asyncio.sleep(1)
    assert now() == 31
    assert reconcile.running == []
    assert world.count("controller_runtime_reconcile_total", result="error") == 0


async def test_cancelling_the_controller_cancels_every_reconcile_at_once() -> None:
    reconcile = Recorder(takes=100.0)
    world = make(reconcile)
    world.queue.add(A)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(world.controller.run(world.stopping), 5)
    assert now() == 5
    assert reconcile.running == []


async def test_a_key_whose_cache_is_behind_our_own_writes_is_not_reconciled() -> None:
    reconcile, behind = Recorder(), {A}
    async with running(reconcile, pending=behind.__contains__) as world:
        world.queue.add(A)
        world.queue.add(B)
        await asyncio.sleep(1)
        assert len(reconcile.calls) == 1
        assert world.count("capi_reconcile_stale_cache_skips_total") == 1
        behind.clear()
        world.queue.add(A)
        await asyncio.sleep(1)
        assert len(reconcile.calls) == 2


async def test_every_reconcile_has_an_id_of_its_own_in_context_and_log() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def reconcile(_: Request) -> Result:
        await asyncio.sleep(1)
        seen.append((reconcile_id.get(), structlog.contextvars.get_contextvars()))
        return Result()

    async with running(reconcile) as world:
        world.queue.add(A)
        world.queue.add(B)
        await asyncio.sleep(2)
    (first, bound), (second, _) = seen
    assert len(first) == len(second) == 16
    assert first != second
    assert bound == {"controller": "test", "namespace": "default", "name": "a", "reconcileID": first}
    assert reconcile_id.get() == ""
    assert structlog.contextvars.get_contextvars() == {}


def test_a_request_reads_as_namespace_and_name() -> None:
    assert str(A) == "default/a"
    assert str(Request("", "node")) == "node"
