"""Objects with moments that an API server stores and Python cannot hold: they, and all others of their kind, are read all the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import ServerError

NEVER = datetime(1, 1, 1, tzinfo=UTC)


def control_plane(name: str, **parts: Any) -> dict[str, Any]:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "small"}
    spec = {"version": "v1.34.4", "machineTemplate": {"spec": {"infrastructureRef": reference}}}
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": "7"}, **parts, "spec": spec | parts.get("spec", {})}


@pytest.mark.parametrize("moment", ["0000-01-01T00:00:00Z", "2024-01-01T00:00:00+99:99", "2024-01-01T00:00:00,5Z"])
async def test_one_object_with_a_moment_that_is_none_hides_no_other(client: Client, api: Any, fakes: Any, moment: str) -> None:
    """All three are stored by a real API server for the format date-time."""
    odd = control_plane("odd", spec={"rollout": {"after": moment}})
    api.replies = [fakes.reply({"metadata": {"resourceVersion": "9"}, "items": [odd, control_plane("plain")]})]
    found = {each.metadata.name: each.spec.rollout.after for each in (await client.list(KUBEADM_CONTROL_PLANES)).items}
    assert found == {"odd": NEVER, "plain": None}


async def test_each_moment_of_a_status_is_found(client: Client, api: Any, fakes: Any) -> None:
    moments = ("0000-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "0000-06-01T00:00:00Z")
    conditions = [{"type": f"C{number}", "status": "True", "lastTransitionTime": moment} for number, moment in enumerate(moments)]
    remediation = {"machine": "m", "retryCount": 0, "time": moments[0]}
    api.replies = [fakes.reply(control_plane("odd", status={"conditions": conditions, "lastRemediation": remediation}))]
    status = (await client.get(KUBEADM_CONTROL_PLANES, "odd", "default")).status
    assert [condition.last_transition_time for condition in status.conditions] == [NEVER, datetime(2026, 1, 1, tzinfo=UTC), NEVER]
    assert status.last_remediation is not None
    assert status.last_remediation.time == NEVER


async def test_of_an_object_of_one_tenant_only_a_few_are_mended(connected: Any, api: Any, fakes: Any) -> None:
    """It is decoded anew for each, which for a Node of 3 MiB with a hundred takes 0.8 s."""
    conditions = [{"type": f"C{number}", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"} for number in range(5)]
    client = connected(api, most_values=1000)
    api.replies = [fakes.reply(control_plane("odd", status={"conditions": conditions}))]
    assert len((await client.get(KUBEADM_CONTROL_PLANES, "odd", "default")).status.conditions) == 5
    api.replies = [fakes.reply(control_plane("odd", status={"conditions": conditions * 2}))]
    with pytest.raises(ServerError, match="the answer cannot be read"):
        await client.get(KUBEADM_CONTROL_PLANES, "odd", "default")


@pytest.mark.parametrize(
    "parts", [{"spec": {"rollout": {"after": 5}}}, {"spec": {"version": 7, "rollout": {"after": "0000-01-01T00:00:00Z"}}}]
)
async def test_what_else_is_wrong_stays_an_error(client: Client, api: Any, fakes: Any, parts: dict[str, Any]) -> None:
    api.replies = [fakes.reply(control_plane("odd", **parts))]
    with pytest.raises(ServerError, match="the answer cannot be read: Expected"):
        await client.get(KUBEADM_CONTROL_PLANES, "odd", "default")
