"""Who asked the API server for what, and when: its audit log, read as counts of requests and as the time a provider takes to answer a change.

One line of the log is one stage of one request, with microseconds; a watch leaves a line when it begins and another when it ends. Level Metadata tells the
object and the verb, not the content, so that a patch which changed nothing looks like any other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path

import msgspec

WRITES = frozenset({"create", "update", "patch", "delete"})
_API_GROUPS = "cluster.x-k8s.io"  # and all that end like it
WATCHED = frozenset({"clusters", "kubeadmcontrolplanes", "machines", "kubeadmconfigs", "devclusters", "devmachines"})
"""What a control-plane provider watches, or reads before it acts, in the management cluster: a write to one of these may be the input of a decision."""


class Agent(Enum):
    """A program, by what its user agent begins with or, for upstream's managers, which put the name of the binary first, holds as its second word."""

    QUORATE = "quorate/"
    UPSTREAM = "cluster-api-kubeadm-control-plane-manager"
    CORE = "cluster-api-controller-manager"
    BOOTSTRAP = "cluster-api-kubeadm-bootstrap-manager"

    def sent(self, request: Request) -> bool:
        """Whether the request came from this program."""
        return any(word.startswith(self.value) for word in request.user_agent.split(" ")[:2])


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The object of a request."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    subresource: str = ""


class _ResponseStatus(msgspec.Struct, frozen=True, gc=False):
    code: int = 0


class Request(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One request, as the audit log has it. `stage_timestamp` is when it was answered."""

    audit_id: str = msgspec.field(name="auditID")
    verb: str
    request_received_timestamp: datetime
    stage_timestamp: datetime
    user_agent: str = ""
    object_ref: ObjectReference = ObjectReference()
    response_status: _ResponseStatus = _ResponseStatus()

    @property
    def is_write(self) -> bool:
        """Whether it asked for a change, granted or not."""
        return self.verb in WRITES

    @property
    def code(self) -> int:
        """The HTTP status of the answer."""
        return self.response_status.code

    @property
    def changed(self) -> bool:
        """Whether it asked for a change and was granted it."""
        return self.is_write and 200 <= self.code < 300

    @property
    def created(self) -> bool:
        """Whether it made the object, by a create or by the first server-side apply."""
        return self.is_write and self.code == 201 and not self.object_ref.subresource

    @property
    def is_lease(self) -> bool:
        """Whether it is about a Lease, which leader election renews all the time."""
        return self.object_ref.resource == "leases"


_REQUESTS = msgspec.json.Decoder(Request)


def read(path: Path) -> list[Request]:
    """The requests of an audit log in the order they were received, each once; a last line that is still being written is left out."""
    found: dict[str, Request] = {}
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                request = _REQUESTS.decode(line)
                found.setdefault(request.audit_id, request)
    return sorted(found.values(), key=lambda request: request.request_received_timestamp)


def between(requests: Iterable[Request], begin: datetime, end: datetime) -> list[Request]:
    """Those received from `begin` on and before `end`."""
    return [request for request in requests if begin <= request.request_received_timestamp < end]


def count(requests: Iterable[Request], agent: Agent) -> dict[str, int]:
    """How many requests a program sent, by verb, Leases apart; refused ones count too, for the API server had the work."""
    return dict(sorted(Counter(request.verb for request in requests if agent.sent(request) and not request.is_lease).items()))


def lease_writes(requests: Iterable[Request], agent: Agent) -> int:
    """How often a program wrote a Lease."""
    return sum(agent.sent(request) and request.is_lease and request.is_write for request in requests)


def writes(counts: dict[str, int]) -> int:
    """The writes among requests counted by verb."""
    return sum(number for verb, number in counts.items() if verb in WRITES)


def reactions(requests: Sequence[Request], agent: Agent) -> list[float]:
    """For each write of a provider to a Cluster API object: the seconds since somebody else last changed an object it watches in that namespace.

    Counted from the answer to the other's write to the arrival of the provider's. A provider that was never given an input has no reaction. The log does not
    tell which input a write answers. A write that answers a change in the workload cluster, or a timer, counts as late by as much as the management cluster
    was silent; one that answers an old input counts as quick if a stranger happened to write just before. Both providers are measured alike.
    """
    inputs: dict[str, list[datetime]] = {}
    for request in requests:
        if _is_input(request, agent):
            inputs.setdefault(request.object_ref.namespace, []).append(request.stage_timestamp)
    for moments in inputs.values():
        moments.sort()
    answers = (_since(inputs.get(request.object_ref.namespace, []), request) for request in requests if _is_answer(request, agent))
    return [seconds for seconds in answers if seconds is not None]


def _is_input(request: Request, agent: Agent) -> bool:
    return request.changed and _is_cluster_api(request) and request.object_ref.resource in WATCHED and not agent.sent(request)


def _is_answer(request: Request, agent: Agent) -> bool:
    return request.is_write and _is_cluster_api(request) and agent.sent(request)


def _is_cluster_api(request: Request) -> bool:
    return request.object_ref.api_group.endswith(_API_GROUPS)


def _since(moments: list[datetime], request: Request) -> float | None:
    index = bisect_right(moments, request.request_received_timestamp)
    return (request.request_received_timestamp - moments[index - 1]).total_seconds() if index else None
