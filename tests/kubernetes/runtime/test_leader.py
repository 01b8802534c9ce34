"""Leader election on a fake Lease API in virtual time: never two leaders, whatever happens to clocks and networks."""

# ruff: noqa: ARG002 - a fake takes whatever the client is given

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from quorate.kubernetes.errors import AlreadyExists, Conflict, ConnectionFailed, Forbidden, NotFound, ServerError
from quorate.kubernetes.leader import LeaderElector, LeadershipLost, boot_time
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.objects import Lease, LeaseSpec, ObjectMeta
from quorate.kubernetes.resource import Resource

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


class FakeLeases:
    """The Lease API: one Lease, resource versions, conflicts."""

    def __init__(self) -> None:
        self.version = 0
        self.lease: Lease | None = None
        self.history: list[tuple[float, str]] = []

    def read(self) -> Lease:
        if self.lease is None:
            raise NotFound("no lease")
        return self.lease

    def create(self, spec: Mapping[str, Any]) -> Lease:
        if self.lease is not None:
            raise AlreadyExists("there is one")
        return self._store({}, spec)

    def patch(self, version: str, spec: Mapping[str, Any]) -> Lease:
        current = self.read()
        if version != current.metadata.resource_version:
            raise Conflict("changed since")
        known = current.spec
        old = {
            "holderIdentity": known.holder_identity,
            "leaseDurationSeconds": known.lease_duration_seconds,
            "acquireTime": known.acquire_time,
            "renewTime": known.renew_time,
            "leaseTransitions": known.lease_transitions,
        }
        return self._store(old, spec)

    def _store(self, old: Mapping[str, Any], spec: Mapping[str, Any]) -> Lease:
        self.version += 1
        whole = {**old, **spec}
        self.lease = Lease(
            metadata=ObjectMeta(name="lease", resource_version=str(self.version)),
            spec=LeaseSpec(
                holder_identity=whole["holderIdentity"],
                lease_duration_seconds=whole["leaseDurationSeconds"],
                acquire_time=whole["acquireTime"],
                renew_time=whole["renewTime"],
                lease_transitions=whole["leaseTransitions"],
            ),
        )
        self.history.append((now(), whole["holderIdentity"]))
        return self.lease


class FakeNetwork:
    """One candidate's way to the API. `cut` loses requests, `mute` loses answers, `latency` and `answer_latency` (seconds) delay them."""

    def __init__(self, leases: FakeLeases) -> None:
        self.leases = leases
        self.cut = self.mute = False
        self.latency = self.answer_latency = 0.0
        self.requests = 0

    async def get(self, resource: Resource[Lease], name: str, namespace: str = "") -> Lease:
        assert (resource.plural, name, namespace) == ("leases", "lease", "system")
        await self._request()
        return await self._answer(self.leases.read())

    async def create(self, resource: Resource[Lease], body: Mapping[str, Any], namespace: str = "") -> Lease:
        assert (body["apiVersion"], body["kind"]) == ("coordination.k8s.io/v1", "Lease")
        assert body["metadata"] == {"name": "lease", "namespace": namespace}
        await self._request()
        return await self._answer(self.leases.create(body["spec"]))

    async def merge_patch(self, resource: Resource[Lease], name: str, patch: Mapping[str, Any], namespace: str = "") -> Lease:
        await self._request()
        return await self._answer(self.leases.patch(patch["metadata"]["resourceVersion"], patch["spec"]))

    async def _request(self) -> None:
        self.requests += 1
        await asyncio.sleep(self.latency)
        if self.cut:
            await asyncio.sleep(1000)
            raise ConnectionFailed("no route")

    async def _answer(self, lease: Lease) -> Lease:
        await asyncio.sleep(self.answer_latency)
        if self.mute:
            await asyncio.sleep(1000)
        return lease


class Candidate:
    """A process: it leads from `acquire` until `hold` fails, and then is gone."""

    def __init__(self, name: str, leases: FakeLeases, *, clock_skew: timedelta = timedelta(), seed: int = 1, **options: Any) -> None:
        self.network = FakeNetwork(leases)
        self.registry = CollectorRegistry()
        self.acting = False
        self.asleep = 0.0  # seconds for which its machine was suspended, in which the event loop's time stood still
        self.lost: list[tuple[float, str]] = []
        self.elector = LeaderElector(
            self.network,
            namespace="system",
            name="lease",
            identity=name,
            now=lambda: NOON + clock_skew + timedelta(seconds=now()),
            clock=lambda: now() + self.asleep,
            random=Random(f"{name}{seed}"),
            metrics=Metrics(self.registry),
            **options,
        )

    async def live(self) -> None:
        await self.elector.acquire()
        self.acting = True
        try:
            await self.elector.hold()
        except LeadershipLost as error:
            self.lost.append((now(), str(error)))
        finally:
            self.acting = False

    @property
    def gauge(self) -> float | None:
        return self.registry.get_sample_value("leader_election_master_status", {"name": "lease"})


async def test_the_first_candidate_makes_the_lease_and_leads() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    assert candidate.gauge == 0
    await candidate.elector.acquire()
    assert candidate.elector.leading
    assert candidate.gauge == 1
    assert leases.read().spec == LeaseSpec(
        holder_identity="one",
        lease_duration_seconds=60,
        acquire_time="2026-01-01T12:00:00.000000Z",
        renew_time="2026-01-01T12:00:00.000000Z",
        lease_transitions=0,
    )


async def test_a_leader_renews_every_retry_period_with_one_request_each() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(candidate.live())
        await asyncio.sleep(61)
        task.cancel()
    assert [at for at, _ in leases.history] == pytest.approx([0, *range(0, 61, 5)])
    assert candidate.network.requests == len(leases.history) + 1, "the first read, and no read after it"
    assert leases.read().spec.acquire_time == "2026-01-01T12:00:00.000000Z"


async def test_a_second_candidate_waits_as_long_as_the_first_renews() -> None:
    leases = FakeLeases()
    first, second = Candidate("one", leases), Candidate("two", leases)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(first.live()), group.create_task(second.live())]
        await asyncio.sleep(1000)
        assert (first.acting, second.acting) == (True, False)
        for task in tasks:
            task.cancel()


async def test_after_a_crash_the_second_takes_over_when_the_lease_has_run_out_and_not_before() -> None:
    leases = FakeLeases()
    first, second = Candidate("one", leases), Candidate("two", leases)
    async with asyncio.TaskGroup() as group:
        crashing = group.create_task(first.live())
        await asyncio.sleep(1)
        waiting = group.create_task(second.live())
        await asyncio.sleep(101)
        crashing.cancel()
        last_renewal = leases.history[-1][0]
        await asyncio.sleep(80)
        assert second.acting
        waiting.cancel()
    taken = next(at for at, holder in leases.history if holder == "two")
    assert last_renewal + 60 <= taken <= last_renewal + 60 + 2 * 11
    assert leases.read().spec.lease_transitions == 1
    assert leases.read().spec.acquire_time == (NOON + timedelta(seconds=taken)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.mark.parametrize("skew", [timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1), timedelta(days=400)])
async def test_the_wall_clock_of_a_candidate_is_irrelevant(skew: timedelta) -> None:
    leases = FakeLeases()
    first, second = Candidate("one", leases), Candidate("two", leases, clock_skew=skew)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(first.live())]
        await asyncio.sleep(1)
        tasks.append(group.create_task(second.live()))
        await asyncio.sleep(300)
        assert (first.acting, second.acting) == (True, False)
        tasks[0].cancel()
        await asyncio.sleep(90)
        assert second.acting
        tasks[1].cancel()


async def test_a_leader_that_is_cut_off_stops_at_the_renew_deadline_before_anybody_can_take_over() -> None:
    leases = FakeLeases()
    first, second = Candidate("one", leases), Candidate("two", leases)
    async with asyncio.TaskGroup() as group:
        group.create_task(first.live())
        await asyncio.sleep(1)
        waiting = group.create_task(second.live())
        await asyncio.sleep(51)
        first.network.cut = True
        last_renewal = leases.history[-1][0]
        await asyncio.sleep(100)
        waiting.cancel()
    [(lost_at, reason)] = first.lost
    assert lost_at == pytest.approx(last_renewal + 40)
    assert reason == "lease system/lease could not be renewed within 40 s"
    assert first.gauge == 0
    assert not first.elector.leading
    taken = next(at for at, holder in leases.history if holder == "two")
    assert taken >= last_renewal + 60


async def test_a_leader_is_no_longer_leading_at_the_deadline_even_if_nothing_told_it() -> None:
    candidate = Candidate("one", FakeLeases())
    await candidate.elector.acquire()
    await asyncio.sleep(39.9)
    assert candidate.elector.leading
    await asyncio.sleep(0.2)
    assert not candidate.elector.leading


async def test_a_leader_whose_machine_slept_leads_no_more_from_its_first_instant_awake_and_ends() -> None:
    candidate = Candidate("one", FakeLeases())
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(candidate.live())
        await asyncio.sleep(2)
        candidate.asleep = 41.0
        assert not candidate.elector.leading
    assert [reason for _, reason in candidate.lost] == ["lease system/lease could not be renewed within 40 s"]


def test_the_clock_of_a_leader_counts_while_the_machine_sleeps() -> None:
    assert boot_time() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)


async def test_slow_renewals_count_from_when_they_were_sent() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    async with asyncio.TaskGroup() as group:
        group.create_task(candidate.live())
        await asyncio.sleep(7)
        candidate.network.answer_latency = 15.0  # sent at 10, written at 10, answered at 25
        await asyncio.sleep(19)
        candidate.network.cut = True
    assert [at for at, _ in candidate.lost] == pytest.approx([10 + 40])


async def test_renewals_slower_than_the_request_timeout_lose_the_lease() -> None:
    candidate = Candidate("one", FakeLeases())
    async with asyncio.TaskGroup() as group:
        group.create_task(candidate.live())
        await asyncio.sleep(7)
        candidate.network.latency = 21.0
    assert [at for at, _ in candidate.lost] == pytest.approx([5 + 40])


async def test_a_short_outage_is_survived() -> None:
    candidate = Candidate("one", FakeLeases())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(candidate.live())
        await asyncio.sleep(7)
        candidate.network.cut = True
        await asyncio.sleep(20)
        candidate.network.cut = False
        await asyncio.sleep(200)
        assert candidate.acting
        task.cancel()


async def test_a_renewal_whose_answer_got_lost_is_not_taken_for_another_leader() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(candidate.live())
        await asyncio.sleep(7)
        candidate.network.mute = True
        await asyncio.sleep(5)
        candidate.network.mute = False
        await asyncio.sleep(200)
        assert candidate.acting
        task.cancel()
    assert {holder for _, holder in leases.history} == {"one"}


async def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    async with asyncio.TaskGroup() as group:
        group.create_task(candidate.live())
        await asyncio.sleep(7)
        leases.patch(leases.read().metadata.resource_version, {"holderIdentity": "thief"})
        await asyncio.sleep(4)
    assert candidate.lost == [(10.0, "lease system/lease is held by thief, no longer by one")]
    assert leases.read().spec.holder_identity == "thief"


async def test_a_leader_whose_lease_was_deleted_stops_rather_than_race_for_a_new_one() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    async with asyncio.TaskGroup() as group:
        group.create_task(candidate.live())
        await asyncio.sleep(7)
        leases.lease = None
        await asyncio.sleep(4)
    assert candidate.lost == [(10.0, "lease system/lease is held by nobody, no longer by one")]
    assert leases.lease is None


async def test_two_candidates_that_see_a_free_lease_at_once_do_not_both_get_it() -> None:
    leases = FakeLeases()
    first, second = Candidate("one", leases), Candidate("two", leases)
    first.network.latency = second.network.latency = 0.5
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(first.live()), group.create_task(second.live())]
        await asyncio.sleep(100)
        assert first.acting != second.acting
        for task in tasks:
            task.cancel()


async def test_a_release_lets_the_next_candidate_in_without_waiting_for_the_lease_to_run_out() -> None:
    leases = FakeLeases()
    first, second = Candidate("one", leases), Candidate("two", leases)
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(first.live())
        await asyncio.sleep(1)
        waiting = group.create_task(second.live())
        await asyncio.sleep(50)
        leaving.cancel()
        await first.elector.release()
        assert (first.gauge, first.elector.leading) == (0, False)
        assert (leases.read().spec.holder_identity, leases.read().spec.lease_duration_seconds) == ("", 1)
        await asyncio.sleep(11.5)
        assert second.acting
        waiting.cancel()


async def test_a_release_never_takes_the_lease_from_another_and_twice_is_once() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    await candidate.elector.acquire()
    leases.patch(leases.read().metadata.resource_version, {"holderIdentity": "two"})
    await candidate.elector.release()
    await candidate.elector.release()
    assert leases.read().spec.holder_identity == "two"


async def test_a_release_knows_of_a_renewal_that_was_cancelled_half_way() -> None:
    leases = FakeLeases()
    candidate = Candidate("one", leases)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(candidate.live())
        await asyncio.sleep(7)
        candidate.network.answer_latency = 2.0
        await asyncio.sleep(4)
        task.cancel()  # the renewal sent at 10 is written, and not yet answered
    await candidate.elector.release()
    assert leases.read().spec.holder_identity == ""


async def test_a_release_that_fails_ends_within_a_retry_period() -> None:
    candidate = Candidate("one", FakeLeases())
    await candidate.elector.acquire()
    candidate.network.cut = True
    await candidate.elector.release()
    assert now() == pytest.approx(5)


async def test_holding_what_was_never_acquired_is_lost_at_once() -> None:
    with pytest.raises(LeadershipLost):
        await Candidate("one", FakeLeases()).elector.hold()


async def test_errors_of_the_server_are_waited_out() -> None:
    candidate = Candidate("one", FakeLeases())
    failing = candidate.network.leases.read
    candidate.network.leases.read = lambda: (_ for _ in ()).throw(ServerError("etcd leader changed"))  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(candidate.live())
        await asyncio.sleep(20)
        assert not candidate.acting
        candidate.network.leases.read = failing  # type: ignore[method-assign]
        await asyncio.sleep(12)
        assert candidate.acting
        task.cancel()


async def test_what_keeps_a_process_from_leading_is_told_once() -> None:
    candidate = Candidate("one", FakeLeases())
    candidate.network.leases.read = lambda: (_ for _ in ()).throw(Forbidden("may not read leases"))  # type: ignore[method-assign]
    with structlog.testing.capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(candidate.live())
            await asyncio.sleep(20)
            task.cancel()
    told = [(line["log_level"], line["error"]) for line in logs if line["event"] == "leader election failed this time"]
    assert told[0] == ("warning", "may not read leases")
    assert {level for level, _ in told[1:]} == {"debug"}


@pytest.mark.parametrize("durations", [(40.0, 40.0, 5.0), (60.0, 10.0, 5.0)])
def test_durations_that_allow_two_leaders_are_refused(durations: tuple[float, float, float]) -> None:
    lease, renew, retry = durations
    with pytest.raises(ValueError, match="leader election needs"):
        Candidate("one", FakeLeases(), lease_duration=lease, renew_deadline=renew, retry_period=retry)


_FAULTS = st.tuples(
    st.integers(1, 120),  # seconds until it happens
    st.integers(0, 2),  # whose network
    st.sampled_from(["cut", "mute", "slow", "slow answers", "well"]),
)


@settings(max_examples=100)
@given(st.lists(_FAULTS, max_size=30), st.integers(0, 1000))
async def test_whatever_happens_to_the_networks_there_are_never_two_leaders(faults: list[tuple[int, int, str]], seed: int) -> None:
    leases = FakeLeases()
    candidates = [Candidate(f"candidate-{number}", leases, seed=seed) for number in range(3)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(restarting(candidate)) for candidate in candidates]
        for delay, number, fault in [*faults, (200, 0, "well"), (1, 1, "well"), (1, 2, "well")]:
            for _ in range(delay):
                await asyncio.sleep(1)
                assert sum(candidate.acting for candidate in candidates) <= 1
            network = candidates[number].network
            network.cut, network.mute = fault == "cut", fault == "mute"
            network.latency = 12.0 if fault == "slow" else 0.0
            network.answer_latency = 12.0 if fault == "slow answers" else 0.0
        await asyncio.sleep(120)
        assert sum(candidate.acting for candidate in candidates) == 1, "when the networks are well somebody leads"
        for task in tasks:
            task.cancel()


async def restarting(candidate: Candidate) -> None:
    """A process that is started again, ten seconds after each loss."""
    while True:
        await candidate.live()
        await asyncio.sleep(10)
