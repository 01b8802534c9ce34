"""What this process has brought up to date, mostly in workload clusters, and for which specification; and what failed, with the time of the next attempt.

Kept in memory alone: after a start everything is looked at once more, which costs a read each and no write.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from quorate.core.maintenance import Maintenance
from quorate.kubernetes.controller import Request

FIRST_RETRY, LONGEST_RETRY = timedelta(seconds=5), timedelta(minutes=5)


class Task(Enum):
    """What is kept up to date."""

    PREPARATION = "preparation"
    ADDONS = "addons"
    COREDNS = "CoreDNS on the node that goes next"
    EXPIRIES = "expiries"
    KUBECONFIG = "kubeconfig"


@dataclass(frozen=True, slots=True)
class _Failure:
    wanted: bytes
    problem: str
    attempts: int
    retry_at: datetime


class Progress:
    """What this process has brought up to date, or failed to, by control plane and task. `wanted` is the fingerprint of what is to be so."""

    def __init__(self) -> None:
        self._done: dict[tuple[Request, Task], bytes] = {}
        self._failures: dict[tuple[Request, Task], _Failure] = {}
        self._joiner_left: dict[Request, str] = {}

    def of(self, request: Request, task: Task, wanted: bytes) -> Maintenance:
        """Whether there is anything to do. What failed for something else that was wanted says nothing about this."""
        failure = self._failures.get((request, task))
        if failure is not None and failure.wanted == wanted:
            return Maintenance(pending=True, problem=failure.problem, retry_at=failure.retry_at)
        return Maintenance(pending=self._done.get((request, task)) != wanted)

    def succeeded(self, request: Request, task: Task, wanted: bytes) -> None:
        """All is as it is wanted."""
        self._failures.pop((request, task), None)
        self._done[request, task] = wanted

    def failed(
        self, request: Request, task: Task, wanted: bytes, problem: str, now: datetime, *, longest: timedelta = LONGEST_RETRY
    ) -> None:
        """It is not; another attempt is due after a pause that doubles, up to the longest, as long as the same is wanted."""
        before = self._failures.get((request, task))
        attempts = before.attempts + 1 if before is not None and before.wanted == wanted else 1
        pause = min(FIRST_RETRY * 2 ** min(attempts - 1, 10), longest)
        self._done.pop((request, task), None)
        self._failures[request, task] = _Failure(wanted, problem, attempts, now + pause)

    def joiner_left(self, request: Request, machine: str) -> None:
        """The member of this Machine, which had yet to vote, was removed: kubeadm adds no other one on its host."""
        self._joiner_left[request] = machine

    def last_joiner_left(self, request: Request) -> str:
        """Of which Machine that was done last, as far as this process did it; empty: of none."""
        return self._joiner_left.get(request, "")

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._joiner_left.pop(request, None)
        for task in Task:
            self._done.pop((request, task), None)
            self._failures.pop((request, task), None)
