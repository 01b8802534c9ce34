"""The clients that observe and act share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quorate.clusterapi.connect.applied import Applied
from quorate.clusterapi.connect.caches import Caches
from quorate.clusterapi.connect.progress import Progress
from quorate.clusterapi.connect.workloads import Workloads
from quorate.kubernetes.client import Client
from quorate.kubernetes.controller import Request
from quorate.kubernetes.expectations import Expectations


@dataclass(frozen=True, slots=True)
class Clients:
    """The management cluster (written through `management`, read from `caches`), and the workload clusters.

    `leads` tells whether no other process can act now; it asks nobody. A process that takes part in no election is alone.
    """

    management: Client
    caches: Caches
    workloads: Workloads
    expectations: Expectations[Request]
    progress: Progress = field(default_factory=Progress)
    leads: Callable[[], bool] = lambda: True

    @property
    def applied(self) -> Applied:
        """What was applied last to what the caches hold."""
        return self.caches.applied
