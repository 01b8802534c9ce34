"""The metric names are part of the interface: dashboards of controller-runtime read them."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from quorate.kubernetes.metrics import Metrics

NAMES = {
    "capi_reconcile_stale_cache_skips_total",
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_reconcile_time_seconds_bucket",
    "controller_runtime_reconcile_total",
    "controller_runtime_terminal_reconcile_errors_total",
    "leader_election_master_status",
    "rest_client_requests_total",
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds_bucket",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_work_duration_seconds_bucket",
}


def test_the_names_are_those_of_controller_runtime_and_client_go() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.controller("test", 1)
    metrics.queue("test", depth=lambda: 1, running_for=list)
    metrics.leader("lease").set(1)
    metrics.request("GET", "host", "200")
    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert names >= NAMES


def test_every_result_is_there_before_it_first_happens() -> None:
    registry = CollectorRegistry()
    Metrics(registry).controller("test", 1)
    for result in ("success", "error", "requeue_after"):
        assert registry.get_sample_value("controller_runtime_reconcile_total", {"controller": "test", "result": result}) == 0


def test_two_processes_in_one_do_not_share_a_registry() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Metrics(registry)
