"""Time spent on others is put together from who wrote what, clipped to the step, and counted once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.audit import Agent, Request
from tests.bench.conftest import at
from tests.bench.waiting import Interval, covered, waiting

MakeRequest = Callable[..., Request]


def step(begin: float, end: float) -> Interval:
    return Interval(at(begin), at(end))


def condition(name: str, seconds: float, status: str = "True") -> dict[str, str]:
    return {"type": name, "status": status, "lastTransitionTime": at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")}


def test_time_covered_twice_counts_once_and_time_outside_not_at_all() -> None:
    assert covered([step(-5, 1), step(2, 4), step(3, 5), step(9, 20), step(30, 31)], step(0, 10)) == 1 + 3 + 1


def test_an_interval_that_ends_before_it_begins_covers_nothing() -> None:
    assert covered([step(5, 3)], step(0, 10)) == 0


@given(st.lists(st.tuples(st.integers(-5, 25), st.integers(-5, 25))))
def test_what_is_covered_is_what_a_count_second_by_second_finds(pairs: list[tuple[int, int]]) -> None:
    counted = sum(any(begin <= second < end for begin, end in pairs) for second in range(20))
    assert covered([step(begin, end) for begin, end in pairs], step(0, 20)) == counted


def test_a_create_waits_for_the_infrastructure_then_for_each_machine_s_bootstrap_data_and_its_handing_over(request_at: MakeRequest) -> None:
    requests = [
        request_at(0, "bench", "create", "clusters", code=201),
        request_at(4.99, "core", "patch", "clusters/status"),
        request_at(6, "quorate", "patch", "devmachines", "a", code=201),
        request_at(6.99, "quorate", "patch", "machines", "a", code=201),
        request_at(8, "core", "patch", "machines", "a"),
        request_at(9.99, "bootstrap", "create", "secrets", "a", code=201),
        request_at(10.99, "core", "patch", "machines", "a"),
        request_at(15, "core", "patch", "machines/status", "a"),
    ]
    found = waiting(requests, Agent.QUORATE, step(0, 20), [])
    assert (found.bootstrap, found.core, found.total) == pytest.approx((3, 5 + 1, 9))


def test_bootstrap_data_that_never_comes_is_waited_for_to_the_end_of_the_step(request_at: MakeRequest) -> None:
    requests = [request_at(1.99, "upstream", "create", "machines", "a", code=201)]
    assert waiting(requests, Agent.UPSTREAM, step(0, 10), []).bootstrap == pytest.approx(8)


def test_a_machine_is_waited_for_from_the_provider_s_last_condition_to_core_calling_it_available() -> None:
    conditions = [
        condition("EtcdMemberHealthy", 3),
        condition("APIServerPodHealthy", 2),
        condition("EtcdPodHealthy", 9, "False"),
        condition("Available", 7),
    ]
    assert waiting([], Agent.QUORATE, step(0, 10), [{"status": {"conditions": conditions}}]).core == 4


def test_a_leaving_machine_is_waited_for_except_while_the_provider_holds_it(request_at: MakeRequest) -> None:
    requests = [
        request_at(0.99, "quorate", "delete", "machines", "a"),
        request_at(2.99, "core", "patch", "machines/status", "a"),
        request_at(4.99, "quorate", "patch", "machines", "a"),
        request_at(6, "quorate", "patch", "machines/status", "a"),
        request_at(8.99, "core", "patch", "machines", "a"),
    ]
    assert waiting(requests, Agent.QUORATE, step(0, 10), []).core == pytest.approx(2 + 4)


def test_the_deletion_of_a_cluster_waits_for_core_before_and_after_the_provider_s_part(request_at: MakeRequest) -> None:
    requests = [
        request_at(0, "bench", "delete", "clusters"),
        request_at(1.99, "core", "delete", "kubeadmcontrolplanes"),
        request_at(3, "quorate", "patch", "kubeadmcontrolplanes/status"),
        request_at(5.99, "quorate", "patch", "kubeadmcontrolplanes"),
    ]
    assert waiting(requests, Agent.QUORATE, step(0, 10), []).core == pytest.approx(2 + 4)
