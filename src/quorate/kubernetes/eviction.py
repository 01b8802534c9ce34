"""The eviction of a Pod, which a PodDisruptionBudget may refuse; a deletion it could not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from quorate.kubernetes.errors import Conflict, NotFound
from quorate.kubernetes.resource import PODS, Resource


class Api(Protocol):
    """What an eviction needs of a client."""

    async def create_subresource(
        self, resource: Resource[Any], name: str, subresource: str, body: Mapping[str, Any], namespace: str = ""
    ) -> None:
        """Create what a subresource stands for."""
        ...


async def evict(api: Api, namespace: str, name: str, uid: str) -> None:
    """Have the Pod of this uid end within its own grace period; one that is gone already, or another of the same name by now, is what was wanted.

    Raises TooManyRequests where a PodDisruptionBudget refuses, and what else the API answers.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    try:
        await api.create_subresource(PODS, name, "eviction", body, namespace)
    except (NotFound, Conflict):
        return
