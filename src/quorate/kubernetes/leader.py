"""Leader election: one of several processes acts, the one that holds a Lease.

The rules are client-go's (tools/leaderelection), and the two understand each other's Leases. Each write is guarded by the resourceVersion that was read, so
of two candidates one wins. Nobody compares clocks: a candidate counts `leaseDurationSeconds` on its own monotonic clock, from the moment it saw the record
change, and a leader that could not renew within `renew_deadline`, counted from before its last successful request was sent, has stopped before that is over.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random
from typing import Any, Protocol

import structlog
from prometheus_client import CollectorRegistry

from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import AlreadyExists, ApiError, Conflict, ConnectionFailed, NotFound
from quorate.kubernetes.metrics import Metrics
from quorate.kubernetes.objects import Lease
from quorate.kubernetes.resource import LEASES, Resource

_TROUBLE = (ApiError, ConfigError, ConnectionFailed, OSError, TimeoutError)
_JITTER = 1.2  # client-go's JitterFactor: candidates wait one to 2.2 retry periods, so that they do not ask in step

_log = structlog.get_logger(__name__)


class LeadershipLost(Exception):
    """The Lease may be somebody else's now. Whatever is running must stop at once: end the process."""


class LeaseClient(Protocol):
    """What leader election needs of a client."""

    async def get(self, resource: Resource[Lease], name: str, namespace: str = "") -> Lease:
        """Read one."""

    async def create(self, resource: Resource[Lease], body: Mapping[str, Any], namespace: str = "") -> Lease:
        """Create one."""

    async def merge_patch(self, resource: Resource[Lease], name: str, patch: Mapping[str, Any], namespace: str = "") -> Lease:
        """Change one; a resourceVersion in the patch must be the current one, or Conflict is raised."""


class LeaderElector:
    """A candidate for the Lease `namespace`/`name`, under the name `identity`, which no other process may use.

    Durations are in seconds and must satisfy retry_period * 2.2 < renew_deadline < lease_duration, else ValueError. `now` is only ever written into the
    Lease, for people to read. `clock` counts the seconds that a Lease goes without renewal: `boot_time`, or what stands for it.
    """

    def __init__(
        self,
        client: LeaseClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        random: Random,
        lease_duration: float = 60.0,
        renew_deadline: float = 40.0,
        retry_period: float = 5.0,
        metrics: Metrics | None = None,
    ) -> None:
        if not retry_period * (1 + _JITTER) < renew_deadline < lease_duration:
            raise ValueError(
                f"leader election needs retry period * 2.2 < renew deadline < lease duration, not {retry_period}, {renew_deadline}, {lease_duration} seconds"
            )
        self.name = name
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._now = now
        self._clock = clock
        self._random = random
        self._lease_duration, self._renew_deadline, self._retry_period = lease_duration, renew_deadline, retry_period
        self._observed: Lease | None = None
        self._observed_at = 0.0  # by the clock: when _observed was first seen
        self._told = ""  # the problem that was logged last
        self._renewed_at: float | None = None  # by the clock: just before the request that last succeeded was sent; None while not leading
        self._gauge = (metrics or Metrics(CollectorRegistry())).leader(name)
        self._gauge.set(0)

    @property
    def leading(self) -> bool:
        """Whether this process may act: it holds the Lease, and nobody can have taken it yet."""
        return self._renewed_at is not None and self._clock() < self._renewed_at + self._renew_deadline

    async def acquire(self) -> None:
        """Return once this process leads. Follow with `hold` at once. Cancelling gives up, and leaves at most a Lease that runs out."""
        leads = await self._attempt(self._renew_deadline / 2)
        while not leads:
            await asyncio.sleep(self._retry_period * (1 + _JITTER * self._random.random()))
            leads = await self._attempt(self._renew_deadline / 2)
        self._gauge.set(1)
        _log.info("leading", lease=self.name, identity=self.identity)

    async def hold(self) -> None:
        """Renew the Lease until cancelled. Raises LeadershipLost when another holds it, or when it could not be renewed within the deadline."""
        try:
            while True:
                await self._renew(self._renewed_at)
                await asyncio.sleep(self._retry_period)
        except LeadershipLost:
            self._gauge.set(0)
            self._renewed_at = None
            raise

    async def release(self) -> None:
        """Give the Lease up so that another need not wait for it to run out. Call it when nothing acts any more and `hold` is cancelled.

        Best effort within a retry period: whoever cannot be told waits for the lease duration. Idempotent.
        """
        held, self._renewed_at = self._renewed_at is not None, None
        self._gauge.set(0)
        if not held:
            return
        try:
            async with asyncio.timeout(self._retry_period):
                await self._read()  # the last renewal may have been cancelled half-way
                if self._observed is not None and self._holder() == self.identity:
                    await self._write(self._observed, {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()})
        except _TROUBLE as error:
            _log.warning("could not release the lease", lease=self.name, error=str(error))

    async def _renew(self, renewed_at: float | None) -> None:
        """Renew once, trying until the deadline has passed."""
        deadline = -math.inf if renewed_at is None else renewed_at + self._renew_deadline
        while (left := deadline - self._clock()) > 0:
            if await self._attempt(min(left, self._renew_deadline / 2)):
                return
            self._lost_to_another()
            await asyncio.sleep(min(self._retry_period, max(0.0, deadline - self._clock())))
        raise LeadershipLost(f"lease {self._namespace}/{self.name} could not be renewed within {self._renew_deadline:.0f} s")

    def _lost_to_another(self) -> None:
        holder = self._holder()
        if holder != self.identity:
            raise LeadershipLost(f"lease {self._namespace}/{self.name} is held by {holder or 'nobody'}, no longer by {self.identity}")

    async def _attempt(self, timeout: float) -> bool:
        """Take or renew the Lease if that is allowed, within `timeout` seconds. False when it is not, or did not work out this time."""
        started = self._clock()
        try:
            async with asyncio.timeout(timeout):
                if not await self._take_or_renew():
                    return False
        except _TROUBLE as error:
            self._tell(str(error) or type(error).__name__)
            return False
        self._told = ""
        self._renewed_at = started
        return True

    def _tell(self, problem: str) -> None:
        """Once for each problem in a row: a name or a permission that is wrong keeps this process from leading for ever."""
        told, self._told = self._told, problem
        (_log.debug if problem == told else _log.warning)("leader election failed this time", lease=self.name, error=problem)

    async def _take_or_renew(self) -> bool:
        if self._renewed_at is None:
            await self._read()
        if self._observed is None:
            return await self._create()
        try:
            return await self._update(self._observed)
        except Conflict:  # it changed since it was read: by another, or by a request of ours whose answer got lost
            await self._read()
        except NotFound:  # somebody deleted it, and whoever is first may make it anew
            self._observed = None
        return False

    async def _update(self, observed: Lease) -> bool:
        if self._holder() == self.identity:
            await self._write(observed, self._claim())
            return True
        if not self._run_out(observed):
            return False
        transitions = (observed.spec.lease_transitions or 0) + 1
        await self._write(observed, {**self._claim(), "acquireTime": self._stamp(), "leaseTransitions": transitions})
        return True

    def _run_out(self, observed: Lease) -> bool:
        if not observed.spec.holder_identity:
            return True
        lasts = observed.spec.lease_duration_seconds or self._lease_duration
        return self._clock() >= self._observed_at + lasts

    async def _read(self) -> None:
        try:
            self._observe(await self._client.get(LEASES, self.name, self._namespace))
        except NotFound:
            self._observed = None

    async def _create(self) -> bool:
        spec = {**self._claim(), "acquireTime": self._stamp(), "leaseTransitions": 0}
        metadata = {"name": self.name, "namespace": self._namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        try:
            self._observe(await self._client.create(LEASES, body, self._namespace))
        except AlreadyExists:
            return False
        return True

    async def _write(self, observed: Lease, spec: Mapping[str, Any]) -> None:
        patch = {"metadata": {"resourceVersion": observed.metadata.resource_version}, "spec": spec}
        self._observe(await self._client.merge_patch(LEASES, self.name, patch, self._namespace))

    def _observe(self, lease: Lease) -> None:
        if self._observed is None or self._observed.metadata.resource_version != lease.metadata.resource_version:
            self._observed_at = self._clock()
        self._observed = lease

    def _holder(self) -> str:
        return (self._observed.spec.holder_identity or "") if self._observed else ""

    def _claim(self) -> dict[str, Any]:
        return {"holderIdentity": self.identity, "leaseDurationSeconds": round(self._lease_duration), "renewTime": self._stamp()}

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # metav1.MicroTime, which is UTC with six digits


def boot_time() -> float:
    """Seconds that the system has been up, those in which it was suspended included, which the clock of an event loop leaves out.

    A process that was stopped, or whose machine slept, sees at once how long its Lease went without renewal. (A virtual machine that was paused from outside
    sees nothing: its kernel did not run.)
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
