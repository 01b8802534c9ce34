"""Installing kinds, namespaces and webhooks in a fresh API server, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import ApiError, ConnectionFailed
from quorate.kubernetes.resource import CRDS, Resource
from quorate.local.errors import StartFailed
from quorate.local.manifests import ManifestSet, Object

_MANAGER = "quorate-local"
_LOOK_AGAIN = 0.05  # seconds between looks at discovery; kinds are served 50 to 300 ms after they are written
_NAMESPACES: Resource[dict[str, Any]] = Resource("", "v1", "namespaces", "Namespace", dict, namespaced=False)
_WEBHOOKS: dict[str, Resource[dict[str, Any]]] = {
    kind: Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, dict, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


async def install(client: Client, manifest_set: ManifestSet, *, timeout: float) -> None:
    """Create everything and wait until the kinds are served; raises StartFailed after `timeout` seconds, naming the kinds that are not."""
    async with asyncio.TaskGroup() as group:
        for item in manifest_set.kinds:
            group.create_task(client.create(CRDS, item, field_manager=_MANAGER))
        for item in manifest_set.namespaces:
            group.create_task(client.create(_NAMESPACES, item, field_manager=_MANAGER))
        for item in manifest_set.webhooks:
            group.create_task(client.create(_WEBHOOKS[item["kind"]], item, field_manager=_MANAGER))
    await _until_served(client, manifest_set.kinds, timeout)


async def unready(client: Client) -> str:
    """Why the API server is not ready; empty where it is."""
    try:
        async with asyncio.timeout(2):
            await client.get_raw("/readyz")
    except (ApiError, ConnectionFailed, TimeoutError) as error:
        return str(error) or "no answer within 2 s"
    return ""


async def _until_served(client: Client, kinds: Iterable[Object], timeout: float) -> None:
    missing = {
        (f"/apis/{kind['spec']['group']}/{version['name']}", kind["spec"]["names"]["plural"])
        for kind in kinds
        for version in kind["spec"]["versions"]
        if version["served"]
    }
    try:
        async with asyncio.timeout(timeout):
            while missing:
                served = [await _served(client, path) for path in {path for path, _ in missing}]
                missing -= set().union(*served)
                if missing:
                    await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        names = ", ".join(sorted(plural for _, plural in missing))
        raise StartFailed(f"kinds not served {timeout:.0f} s after they were created: {names}; see the log of kube-apiserver") from None


async def _served(client: Client, path: str) -> set[tuple[str, str]]:
    try:
        answer = msgspec.json.decode(await client.get_raw(path))
    except ApiError:  # not found, until the group's first kind is served
        return set()
    return {(path, resource["name"]) for resource in answer["resources"]}
