"""Metrics under the names that controller-runtime and client-go give them, so that existing dashboards and alerts keep working.

Everything lives in the CollectorRegistry that the caller passes in; there is no global registry. What runs per reconcile gets its labelled children once,
because looking a child up costs more than counting on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# controller-runtime's buckets (pkg/internal/controller/metrics), 5 ms to 60 s.
_RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75),
    *(2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
_QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))  # pkg/metrics/workqueue.go: 10 ns times ten, twelve times


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """What one controller counts."""

    success: Counter
    error: Counter
    requeue_after: Counter
    errors: Counter
    terminal_errors: Counter
    stale_cache_skips: Counter
    seconds: Histogram
    active_workers: Gauge


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """What one work queue counts; depth and the ages of running work are computed when somebody asks."""

    adds: Counter
    retries: Counter
    queue_duration: Histogram
    work_duration: Histogram


class Metrics:
    """All metric families of one process, registered in `registry`. A registry takes one Metrics: a second raises ValueError."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._define_controller_families(registry)
        self._define_queue_families(registry)
        self._leader = Gauge(
            "leader_election_master_status", "Whether this process leads (1) or waits (0), by Lease name.", ("name",), registry=registry
        )
        self._requests = Counter(
            "rest_client_requests",
            "HTTP requests to API servers by status code, method and host.",
            ("code", "method", "host"),
            registry=registry,
        )

    def controller(self, name: str, concurrency: int) -> ControllerMetrics:
        """The children for the controller `name`, which has `concurrency` workers."""
        self._max_concurrent.labels(name).set(concurrency)
        return ControllerMetrics(
            success=self._reconciles.labels(name, "success"),
            error=self._reconciles.labels(name, "error"),
            requeue_after=self._reconciles.labels(name, "requeue_after"),
            errors=self._errors.labels(name),
            terminal_errors=self._terminal_errors.labels(name),
            stale_cache_skips=self._stale_cache_skips.labels(name),
            seconds=self._seconds.labels(name),
            active_workers=self._active_workers.labels(name),
        )

    def queue(self, name: str, *, depth: Callable[[], int], running_for: Callable[[], list[float]]) -> QueueMetrics:
        """The children for the queue `name`; `depth` and `running_for` (seconds of each busy key) are called at every scrape, in the event loop."""
        self._depth.labels(name, name).set_function(depth)
        self._unfinished.labels(name, name).set_function(lambda: sum(running_for()))
        self._longest.labels(name, name).set_function(lambda: max(running_for(), default=0.0))
        return QueueMetrics(
            adds=self._adds.labels(name, name),
            retries=self._retries.labels(name, name),
            queue_duration=self._queue_duration.labels(name, name),
            work_duration=self._work_duration.labels(name, name),
        )

    def leader(self, name: str) -> Gauge:
        """The gauge that is 1 while this process holds the Lease `name`."""
        return self._leader.labels(name)

    def request(self, method: str, host: str, code: str) -> None:
        """Count one request; `code` is the HTTP status, or `<error>` where none came back. Fits the client's `on_request`."""
        self._requests.labels(code, method, host).inc()

    def _define_controller_families(self, registry: CollectorRegistry) -> None:
        by_controller = ("controller",)
        self._reconciles = Counter("controller_runtime_reconcile", "Reconciles by result.", ("controller", "result"), registry=registry)
        self._errors = Counter("controller_runtime_reconcile_errors", "Reconciles that failed.", by_controller, registry=registry)
        self._terminal_errors = Counter(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that failed in a way that no retry fixes.",
            by_controller,
            registry=registry,
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile took.",
            by_controller,
            buckets=_RECONCILE_BUCKETS,
            registry=registry,
        )
        self._active_workers = Gauge("controller_runtime_active_workers", "Workers with a reconcile.", by_controller, registry=registry)
        self._max_concurrent = Gauge("controller_runtime_max_concurrent_reconciles", "Workers there are.", by_controller, registry=registry)
        self._stale_cache_skips = Counter(
            "capi_reconcile_stale_cache_skips",
            "Reconciles held back until the cache has seen our own writes.",
            by_controller,
            registry=registry,
        )

    def _define_queue_families(self, registry: CollectorRegistry) -> None:
        labels = ("name", "controller")
        self._depth = Gauge("workqueue_depth", "Keys that are ready and wait.", labels, registry=registry)
        self._adds = Counter("workqueue_adds", "Keys added.", labels, registry=registry)
        self._retries = Counter("workqueue_retries", "Keys added again after a failure.", labels, registry=registry)
        self._queue_duration = Histogram(
            "workqueue_queue_duration_seconds", "How long a key waited.", labels, buckets=_QUEUE_BUCKETS, registry=registry
        )
        self._work_duration = Histogram(
            "workqueue_work_duration_seconds", "How long a key was worked on.", labels, buckets=_QUEUE_BUCKETS, registry=registry
        )
        self._unfinished = Gauge("workqueue_unfinished_work_seconds", "Sum of the ages of running work.", labels, registry=registry)
        self._longest = Gauge("workqueue_longest_running_processor_seconds", "Age of the oldest running work.", labels, registry=registry)
