"""What runs of a provider: its Deployment as it is, and its Pods with why they do not come up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from quorate.clusterapi.takeover.kinds import Object
from quorate.core.takeover.state import Provider
from quorate.core.text import printable

_REPLICA_SETS = "ReplicaSet"


def running(provider: Provider, deployment: Object | None, pods: Iterable[Object]) -> Provider:
    """The provider with what is seen of its processes; `pods` are all of the namespace."""
    if deployment is None:
        return replace(provider, exists=False, pods=tuple(_name(pod) for pod in pods if _made_by(pod, provider.deployment.name)))
    mine = [pod for pod in pods if _selected(pod, deployment)]
    status, desired = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    current = min(status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0) if seen else 0
    return replace(
        provider,
        exists=True,
        desired=desired,
        pods=tuple(map(_name, mine)),
        running=sum(_runs(pod) for pod in mine),
        available=current,
        problem="; ".join(dict.fromkeys(filter(None, map(_problem, mine)))) or _cannot_make(status),
    )


def _selected(pod: Object, deployment: Object) -> bool:
    selector = (deployment["spec"].get("selector") or {}).get("matchLabels") or {}
    labels = pod["metadata"].get("labels") or {}
    return bool(selector) and all(labels.get(name) == value for name, value in selector.items())


def _made_by(pod: Object, deployment: str) -> bool:
    """Whether a ReplicaSet of a Deployment that is gone made the Pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == _REPLICA_SETS and owner["name"].rpartition("-")[0] == deployment for owner in owners)


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def _runs(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    deleting = "deletionTimestamp" in pod["metadata"]
    return not deleting and bool(statuses) and all("running" in (each.get("state") or {}) for each in statuses)


def _problem(pod: Object) -> str:
    """Why a Pod does not come up; "" where it does, or nothing says."""
    status = pod.get("status") or {}
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return printable(f"{_name(pod)}: {waiting['reason']} {waiting.get('message', '')}".strip())
    unscheduled = next(
        (each for each in status.get("conditions") or () if each["type"] == "PodScheduled" and each["status"] == "False"), None
    )
    return printable(f"{_name(pod)}: {unscheduled.get('message', '')}") if unscheduled else ""


def _cannot_make(status: Object) -> str:
    """Why no Pods are made, such as for a policy of the namespace that refuses them."""
    failure = next((each for each in status.get("conditions") or () if each["type"] == "ReplicaFailure" and each["status"] == "True"), None)
    return printable(failure.get("message", "")) if failure else ""
