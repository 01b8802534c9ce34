"""Metrics are for those to whom the real API server grants them, over TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from quorate.kubernetes.resource import Resource

if TYPE_CHECKING:
    from tests.integration.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

RBAC = "rbac.authorization.k8s.io"
ACCOUNTS: Resource[dict[str, Any]] = Resource("", "v1", "serviceaccounts", "ServiceAccount", dict)
ROLES: Resource[dict[str, Any]] = Resource(RBAC, "v1", "clusterroles", "ClusterRole", dict, namespaced=False)
BINDINGS: Resource[dict[str, Any]] = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", dict, namespaced=False)


async def test_metrics_are_for_those_who_may_read_them(stage: Stage, unused_tcp_port: int) -> None:
    stage.start_manager(f"--diagnostics-address=127.0.0.1:{unused_tcp_port}")
    url = f"https://127.0.0.1:{unused_tcp_port}/metrics"
    reader, stranger = await token(stage, "reader"), await token(stage, "stranger")
    await grant(stage, "reader")
    async with aiohttp.ClientSession() as session:

        async def answers() -> bool:
            try:
                return bool(await answer(session, url, ""))
            except aiohttp.ClientError:
                return False

        await stage.until("metrics are served", answers)
        assert await answer(session, url, "") == (401, "Unauthorized")
        assert await answer(session, url, "made-up") == (401, "Unauthorized")
        refusal = f"Authorization denied for user system:serviceaccount:{stage.namespace}:stranger"
        assert await answer(session, url, stranger) == (403, refusal)
        status, text = await answer(session, url, reader)
        assert status == 200
        assert "controller_runtime_max_concurrent_reconciles" in text


async def answer(session: aiohttp.ClientSession, url: str, bearer: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with session.get(url, headers=headers, ssl=False) as got:
        return got.status, await got.text()


async def token(stage: Stage, name: str) -> str:
    """The token of a new service account."""
    await stage.client.create(ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, stage.namespace)
    request: Resource[dict[str, Any]] = Resource("", "v1", f"serviceaccounts/{name}/token", "TokenRequest", dict)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str((await stage.client.create(request, body, stage.namespace))["status"]["token"])


async def grant(stage: Stage, name: str) -> None:
    """The right to read metrics."""
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": f"{stage.namespace}-{name}"}}
    await stage.client.create(ROLES, {**common, "kind": "ClusterRole", "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": stage.namespace}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{stage.namespace}-{name}"}
    await stage.client.create(BINDINGS, {**common, "kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": role})
