"""The work queue's rules, each by name, and a state machine that compares it with a model."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from quorate.cli.event_loop import run
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.queue import LOW_PRIORITY, Backoff, QueueShutDown, TokenBucket, WorkQueue


def make_queue(**options: Any) -> WorkQueue[str]:
    return WorkQueue("test", Random(1), **{"jitter": 0.0, "rate": 1000.0, "burst": 1000, **options})


async def take(queue: WorkQueue[str]) -> str:
    """Take a key and be done with it."""
    key = await queue.get()
    queue.done(key)
    return key


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_key_added_many_times_before_it_is_taken_is_handed_out_once() -> None:
    queue = make_queue()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert [await take(queue), await take(queue)] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_busy_runs_once_more_not_twice() -> None:
    queue = make_queue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "a busy key is not handed out a second time"
    queue.done(key)
    assert len(queue) == 1
    assert await take(queue) == "a"
    assert len(queue) == 0


async def test_of_several_delays_the_earliest_wins() -> None:
    queue = make_queue()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    await take(queue)
    assert now() == pytest.approx(10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 100)


async def test_a_later_add_does_not_lose_an_earlier_add_after() -> None:
    queue = make_queue()
    queue.add_after("a", 10)
    queue.add("a")
    await take(queue)
    assert now() == 0
    await take(queue)
    assert now() == pytest.approx(10)


async def test_a_delay_that_ends_while_the_key_is_busy_makes_it_run_once_more() -> None:
    queue = make_queue()
    queue.add_after("a", 5)
    queue.add("a")
    key = await queue.get()
    await asyncio.sleep(6)
    assert len(queue) == 0
    queue.done(key)
    assert await take(queue) == "a"


async def test_a_delay_of_nothing_is_an_add() -> None:
    queue = make_queue()
    queue.add_after("a", 0)
    assert len(queue) == 1


def test_a_delay_below_a_millisecond_may_be_followed_by_another() -> None:
    """uvloop makes no timer of it, and what it makes does not tell its time."""

    async def one_after_the_other() -> str:
        queue = make_queue()
        queue.add_after("a", 0.0003)
        queue.add_after("a", 0.0002)
        async with asyncio.timeout(5):
            return await queue.get()

    assert run(one_after_the_other()) == "a"


async def test_failures_back_off_exponentially_up_to_the_cap_and_forget_starts_over() -> None:
    queue = make_queue(base_delay=1.0, max_delay=10.0)
    assert [queue.add_rate_limited("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert queue.failures("a") == 6
    assert queue.add_rate_limited("b") == 1, "each key has a backoff of its own"
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.add_rate_limited("a") == 1


async def test_all_retries_together_are_limited_by_the_token_bucket() -> None:
    queue = make_queue(base_delay=0.0, rate=2.0, burst=3)
    delays = [queue.add_rate_limited(f"key-{number}") for number in range(7)]
    assert delays == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5, 2.0])


def test_the_token_bucket_fills_up_again_and_never_beyond_its_burst() -> None:
    bucket = TokenBucket(rate=1.0, burst=2)
    assert [bucket.reserve(0), bucket.reserve(0), bucket.reserve(0)] == [0, 0, 1]
    assert [bucket.reserve(1000), bucket.reserve(1000), bucket.reserve(1000)] == [0, 0, 1]


async def test_tokens_are_handed_out_in_order_at_the_rate_after_the_burst() -> None:
    bucket, loop = TokenBucket(rate=2.0, burst=2), asyncio.get_running_loop()
    taken: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        await bucket.take()
        taken.append((number, loop.time()))

    async with asyncio.TaskGroup() as tasks:
        for number in range(5):
            tasks.create_task(ask(number))
    assert taken == [(0, 0), (1, 0), (2, 0.5), (3, 1.0), (4, 1.5)]


async def test_who_gives_up_while_waiting_for_a_token_keeps_nobody_else_waiting() -> None:
    bucket, loop = TokenBucket(rate=1.0, burst=1), asyncio.get_running_loop()
    await bucket.take()
    async with asyncio.TaskGroup() as tasks:
        impatient = [tasks.create_task(bucket.take()) for _ in range(100)]
        await asyncio.sleep(0.5)
        for task in impatient:
            task.cancel()
    await bucket.take()
    assert loop.time() == 1.0


@given(st.integers(0, 10_000), st.floats(0, 1), st.integers())
def test_jitter_never_exceeds_the_cap_and_never_takes_more_than_its_share(failures: int, jitter: float, seed: int) -> None:
    delay = Backoff(0.005, 1000.0, Random(seed), jitter=jitter).delay(failures)
    whole = min(1000.0, 0.005 * 2 ** min(failures, 64))
    assert whole * (1 - jitter) - 1e-9 <= delay <= whole


async def test_higher_priority_goes_first_and_equal_priority_in_order_of_arrival() -> None:
    queue = make_queue()
    queue.add("old-1", priority=LOW_PRIORITY)
    queue.add("old-2", priority=LOW_PRIORITY)
    queue.add("changed")
    queue.add("urgent", priority=5)
    assert [await take(queue) for _ in range(4)] == ["urgent", "changed", "old-1", "old-2"]


async def test_a_repeat_raises_the_priority_of_a_waiting_key_and_never_lowers_it() -> None:
    queue = make_queue()
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("b", priority=LOW_PRIORITY)
    queue.add("b")
    queue.add("b", priority=LOW_PRIORITY)
    assert [await take(queue), await take(queue)] == ["b", "a"]
    assert len(queue) == 0


async def test_a_delayed_key_keeps_the_highest_priority_it_was_given() -> None:
    queue = make_queue()
    queue.add_after("a", 2, priority=1)
    queue.add_after("a", 1, priority=LOW_PRIORITY)
    await asyncio.sleep(1)
    queue.add("b")
    assert await take(queue) == "a"


async def test_after_shut_down_nothing_is_handed_out_and_nothing_is_taken() -> None:
    queue = make_queue()
    queue.add("ready")
    queue.add("busy")
    busy = await queue.get()
    queue.add_after("late", 1)
    queue.shut_down()
    queue.shut_down()
    queue.add("more")
    queue.add_after("more", 1)
    queue.done(busy)
    with pytest.raises(QueueShutDown):
        await queue.get()
    assert len(queue) == 0


async def test_shut_down_wakes_every_waiting_worker() -> None:
    queue = make_queue()
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(expect_shut_down(queue)) for _ in range(3)]
        await asyncio.sleep(1)
        queue.shut_down()
    assert all(worker.result() for worker in workers)


async def expect_shut_down(queue: WorkQueue[str]) -> bool:
    with pytest.raises(QueueShutDown):
        await queue.get()
    return True


async def test_a_key_meant_for_a_worker_that_is_cancelled_goes_to_another() -> None:
    queue = make_queue()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(take(queue))
        second = group.create_task(take(queue))
        await asyncio.sleep(1)
        queue.add("a")  # wakes the first
        first.cancel()
    assert first.cancelled()
    assert second.result() == "a"


async def test_a_worker_cancelled_while_it_waits_is_forgotten() -> None:
    queue = make_queue()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 1)
    async with asyncio.TaskGroup() as group:
        second = group.create_task(take(queue))
        await asyncio.sleep(1)
        queue.add("a")
    assert second.result() == "a"


async def test_metrics_tell_depth_waits_work_and_retries() -> None:
    registry = CollectorRegistry()
    queue = make_queue(metrics=Metrics(registry), base_delay=1.0)
    labels = {"name": "test", "controller": "test"}

    def sample(name: str) -> float | None:
        return registry.get_sample_value(name, labels)

    queue.add("a")
    queue.add("b")
    assert sample("workqueue_depth") == 2
    await asyncio.sleep(2)
    key = await queue.get()
    await asyncio.sleep(3)
    assert sample("workqueue_depth") == 1
    assert sample("workqueue_unfinished_work_seconds") == pytest.approx(3)
    assert sample("workqueue_longest_running_processor_seconds") == pytest.approx(3)
    queue.done(key)
    queue.add_rate_limited("c")
    assert sample("workqueue_adds_total") == 2
    assert sample("workqueue_retries_total") == 1
    assert sample("workqueue_queue_duration_seconds_sum") == pytest.approx(2)
    assert sample("workqueue_work_duration_seconds_sum") == pytest.approx(3)


_KEYS = st.sampled_from("abc")
_ACTIONS = st.one_of(
    st.tuples(st.just("add"), _KEYS, st.integers(-2, 2)),
    st.tuples(st.just("after"), _KEYS, st.integers(1, 5)),
    st.tuples(st.just("get"), st.just(""), st.just(0)),
    st.tuples(st.just("done"), _KEYS, st.just(0)),
    st.tuples(st.just("sleep"), st.just(""), st.integers(1, 5)),
)


class Model:
    """The same queue, written for clarity: sets and a scan."""

    def __init__(self) -> None:
        self.dirty: dict[str, int] = {}
        self.busy: set[str] = set()
        self.delays: dict[str, float] = {}

    def ready(self) -> set[str]:
        return self.dirty.keys() - self.busy

    def candidates(self) -> set[str]:
        best = max((self.dirty[key] for key in self.ready()), default=0)
        return {key for key in self.ready() if self.dirty[key] == best}

    def add(self, key: str, priority: int) -> None:
        self.dirty[key] = max(priority, self.dirty.get(key, priority))

    def pass_time(self, moment: float) -> None:
        for key in [key for key, when in self.delays.items() if when <= moment]:
            del self.delays[key]
            self.add(key, 0)


@settings(max_examples=300)
@given(st.lists(_ACTIONS, max_size=40))
async def test_the_queue_does_what_a_simple_model_does(actions: list[tuple[str, str, int]]) -> None:
    queue, model = make_queue(), Model()
    for action, key, number in actions:
        await act(queue, model, action, key, number)
        assert len(queue) == len(model.ready())
    while model.busy:
        await act(queue, model, "done", min(model.busy), 0)
    await asyncio.sleep(10)
    model.pass_time(now())
    assert len(queue) == len(model.ready()), "nothing that was asked for is lost"


async def act(queue: WorkQueue[str], model: Model, action: str, key: str, number: int) -> None:
    if action == "add":
        queue.add(key, priority=number)
        model.add(key, number)
    elif action == "after":
        queue.add_after(key, number)
        model.delays[key] = min(model.delays.get(key, now() + number), now() + number)
    elif action == "get" and model.ready():
        got = await queue.get()
        assert got in model.candidates()
        del model.dirty[got]
        model.busy.add(got)
    elif action == "done" and key in model.busy:
        queue.done(key)
        model.busy.remove(key)
    elif action == "sleep":
        await asyncio.sleep(number + 0.5)  # halves, so that no delay ends exactly now
        model.pass_time(now())
