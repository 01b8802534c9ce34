"""The ways out of the process that observing and acting share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from quorate.clusterapi.caches import Caches
from quorate.clusterapi.workloads import Workloads
from quorate.kubernetes.client import Client
from quorate.kubernetes.controller import Request
from quorate.kubernetes.expectations import Expectations


class Applied:
    """What was applied last to each object, by uid, so that it is applied again only when it changes, and once after a start.

    A label that is wanted no more has to be given up by applying the rest; the object alone would not tell that it once was ours.
    """

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def remember(self, uid: str, body: dict[str, Any]) -> None:
        """`body` was applied to the object."""
        self._bodies[uid] = _essence(body)

    def is_current(self, uid: str, body: dict[str, Any]) -> bool:
        """Whether `body` is what was applied last."""
        return self._bodies.get(uid) == _essence(body)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._bodies.pop(uid, None)


def _essence(body: dict[str, Any]) -> bytes:
    metadata = {key: value for key, value in body["metadata"].items() if key != "uid"}
    return msgspec.json.encode({**body, "metadata": metadata}, order="sorted")


@dataclass(frozen=True, slots=True)
class Clients:
    """The management cluster (written through `management`, read from `caches`), and the workload clusters."""

    management: Client
    caches: Caches
    workloads: Workloads
    expectations: Expectations[Request]
    applied: Applied = field(default_factory=Applied)
