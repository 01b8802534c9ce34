"""Readings of etcd, used again for a moment: many events come together, and each reading is a call to every member, or to the API server of an external etcd.

Good enough to decide by. What removes a member never sees one of these: it reads the ring for itself, right before the step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quorate.core.health import Finding, Health, Unknown
from quorate.kubernetes.client import Client
from quorate.kubernetes.objects import Pod
from quorate.workload.connection import Workload
from quorate.workload.external_etcd import INSPECTION_FAILED, external_etcd_health
from quorate.workload.membership import RingReading
from quorate.workload.static_pods import Component

FRESH = 1.0
"""Seconds for which a reading is used again, as long as Nodes and etcd's Pods stay what they were."""
LIMIT = 20.0
"""Seconds that a whole reading may take."""


@dataclass(frozen=True, slots=True)
class _Kept:
    workload: Workload[Client]  # another one, as soon as a Cluster is made anew under the same name
    reading: RingReading
    circumstances: tuple[tuple[str, str], ...]
    read_at: float


class Rings:
    """Reads rings, at most once in a moment for the same circumstances. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._external: dict[str, tuple[Workload[Client], Finding, float]] = {}

    async def read(self, workload: Workload[Client], nodes: Sequence[str]) -> RingReading | Unknown:
        """The ring as the members on these Nodes tell it, now or less than a moment ago."""
        circumstances = tuple((node, _version(workload, node)) for node in nodes)
        kept = self._kept.get(workload.cluster)
        if kept is not None and kept.workload is workload and kept.circumstances == circumstances and self._clock() - kept.read_at < FRESH:
            return kept.reading
        started = self._clock()
        try:
            async with asyncio.timeout(LIMIT):
                reading = await workload.read_ring(nodes)
        except TimeoutError:
            reading = Unknown(f"the ring could not be read within {LIMIT:g} s")
        if isinstance(reading, Unknown):
            self.forget(workload.cluster)
        else:
            self._kept[workload.cluster] = _Kept(workload, reading, circumstances, started)
        return reading

    async def external(self, workload: Workload[Client]) -> Finding:
        """How the API servers find an etcd that is not ours, now or less than a moment ago."""
        if isinstance(workload.client, Unknown):
            return Finding(Health.UNKNOWN, INSPECTION_FAILED, workload.client.reason)
        kept = self._external.get(workload.cluster)
        if kept is not None and kept[0] is workload and self._clock() - kept[2] < FRESH:
            return kept[1]
        asked_at = self._clock()
        found = await external_etcd_health(workload.client)
        self._external[workload.cluster] = workload, found, asked_at
        return found

    def forget(self, cluster: str) -> None:
        """The ring has been changed, or the cluster (`namespace/name`) is gone."""
        self._kept.pop(cluster, None)
        self._external.pop(cluster, None)


def _version(workload: Workload[Client], node: str) -> str:
    pod = workload.pod(Component.ETCD, node)
    return pod.metadata.resource_version if isinstance(pod, Pod) else ""
