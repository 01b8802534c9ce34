"""The Pods of CoreDNS on one Node, moved away ahead of its drain, one at a time and never the last that answers."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, TypeVar

from quorate.kubernetes import eviction
from quorate.kubernetes.client import Listing
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.objects import Pod
from quorate.kubernetes.resource import PODS, Resource
from quorate.workload.coredns import DEPLOYMENTS, NAME
from quorate.workload.nodes import condition
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import checked

T = TypeVar("T")

_LABEL = "k8s-app=kube-dns"


class Api(eviction.Api, Protocol):
    """What is needed of a client of the workload cluster. Each call has a deadline of its own."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object as it is now; raises NotFound."""
        ...

    async def list(self, resource: Resource[T], namespace: str = "", *, label_selector: str = "", field_selector: str = "") -> Listing[T]:
        """All objects that match."""
        ...


async def move_away(api: Api, node: str, made_before: datetime) -> str:
    """Evict one Pod of CoreDNS from a Node. What another attempt is left to do, in words; nothing: none is worth it. Raises what the API answers.

    A Pod made later than `made_before` stays: it came back to the Node, again and again or for want of another. So does the only Pod of a Deployment of one:
    nobody would answer meanwhile, and that is for the drain to decide. While a Pod is missing nothing is moved, and another attempt is left: its successor may
    be put here, after 15 s and more where the controller manager or the scheduler that led has just gone with its machine. Pods are counted by themselves, for
    the status of the Deployment is that controller manager's word, and stale meanwhile.
    """
    try:
        deployment = await api.get(DEPLOYMENTS, NAME, NAMESPACE)
    except NotFound:
        return ""
    checked(deployment, f"Deployment {NAMESPACE}/{NAME}")
    wanted: int = deployment["spec"].get("replicas", 1)
    if wanted == 1:
        return ""
    ready = sum(_is_ready(pod) for pod in (await api.list(PODS, NAMESPACE, label_selector=_LABEL)).items)
    if ready < wanted:
        return f"{ready} of {wanted} Pods of Deployment {NAMESPACE}/{NAME} are ready: the others come first"
    here = (await api.list(PODS, NAMESPACE, label_selector=_LABEL, field_selector=f"spec.nodeName={node}")).items
    old = sorted((pod.metadata for pod in here if _is_older(pod, made_before)), key=lambda pod: pod.name)
    if not old:
        return ""
    await eviction.evict(api, old[0].namespace, old[0].name, old[0].uid)
    return f"one of {len(old)} Pods of CoreDNS on Node {node} was evicted: waiting to see where the scheduler puts its successor"


def _is_ready(pod: Pod) -> bool:
    ready = condition(pod.status.conditions, "Ready")
    return pod.metadata.deletion_timestamp is None and ready is not None and ready.status == "True"


def _is_older(pod: Pod, made_before: datetime) -> bool:
    return pod.metadata.deletion_timestamp is None and (pod.metadata.creation_timestamp or made_before) < made_before
