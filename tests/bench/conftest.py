"""A log of requests to be written by tests, line by line, as kube-apiserver writes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeAlias

import msgspec
import pytest

from tests.bench.audit import Request

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AGENTS = {
    "quorate": "quorate/0.1.0",
    "bench": "quorate-bench/0.1.0",
    "upstream": "capi-kcp/unknown cluster-api-kubeadm-control-plane-manager (linux/amd64) cluster.x-k8s.io/unknown",
    "core": "capi-core/unknown cluster-api-controller-manager (linux/amd64) cluster.x-k8s.io/unknown",
    "bootstrap": "capi-cabpk/unknown cluster-api-kubeadm-bootstrap-manager (linux/amd64) cluster.x-k8s.io/unknown",
    "capd": "capi-capd/unknown cluster-api-docker-controller-manager (linux/amd64) cluster.x-k8s.io/unknown",
}
GROUPS = {
    "machines": "cluster.x-k8s.io",
    "clusters": "cluster.x-k8s.io",
    "kubeadmcontrolplanes": "controlplane.cluster.x-k8s.io",
    "kubeadmconfigs": "bootstrap.cluster.x-k8s.io",
    "devmachines": "infrastructure.cluster.x-k8s.io",
    "leases": "coordination.k8s.io",
}

MakeRequest: TypeAlias = Callable[..., Request]


def at(seconds: float) -> datetime:
    """The moment so many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


@pytest.fixture(name="at")
def _at() -> Callable[[float], datetime]:
    return at


@pytest.fixture
def line() -> Callable[..., bytes]:
    """Makes a line of the log: who asked for which verb on which `resource[/subresource]`, so many seconds after noon; answered 10 ms later."""
    numbers = count()

    def make(
        seconds: float,
        who: str,
        verb: str,
        what: str,
        name: str = "demo",
        *,
        code: int = 200,
        audit_id: str = "",
        namespace: str = "default",
    ) -> bytes:
        resource, _, subresource = what.partition("/")
        reference: dict[str, Any] = {"resource": resource, "namespace": namespace, "name": name, "apiVersion": "v1"}
        reference |= {"apiGroup": GROUPS[resource]} if resource in GROUPS else {}
        reference |= {"subresource": subresource} if subresource else {}
        event = {
            "kind": "Event",
            "level": "Metadata",
            "auditID": audit_id or f"id-{next(numbers)}",
            "stage": "ResponseComplete",
            "verb": verb,
            "user": {"username": "admin"},
            "userAgent": AGENTS[who],
            "objectRef": reference,
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": at(seconds),
            "stageTimestamp": at(seconds + 0.01),
        }
        return msgspec.json.encode(event) + b"\n"

    return make


@pytest.fixture
def request_at(line: Callable[..., bytes]) -> MakeRequest:
    """Makes a request from the arguments of `line`."""
    return lambda *given, **more: msgspec.json.decode(line(*given, **more), type=Request)
