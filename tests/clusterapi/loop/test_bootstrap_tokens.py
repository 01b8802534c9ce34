"""The token with which a Machine joins: made once for each, and left to the bootstrap provider where it cannot be made here."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from quorate.clusterapi.act.creation import CreationFailed
from quorate.core.machines.steps import CreateReplica
from quorate.kubernetes.errors import ConnectionFailed, Forbidden
from quorate.workload.connection import Phase

from .management import NAMESPACE

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

FIRST, JOINS = CreateReplica("", initialize=True), CreateReplica("", initialize=False)
KUBE_SYSTEM = "kube-system"


async def made(world: World, step: CreateReplica = JOINS) -> dict[str, Any]:
    """The specification of the KubeadmConfig of a Machine that was just made."""
    await world.actor.perform(step, await world.look())
    (name,) = world.api.names("machines")
    spec: dict[str, Any] = world.api.raw("kubeadmconfigs", name)["spec"]
    return spec


def token(spec: dict[str, Any]) -> str | None:
    discovery = spec["joinConfiguration"].get("discovery") or {}
    found: str | None = (discovery.get("bootstrapToken") or {}).get("token")
    return found


def secrets(world: World) -> list[dict[str, str]]:
    """The data of the Secrets of the workload cluster."""
    api = world.workload.api
    found = [api.objects["secrets", KUBE_SYSTEM, name]["data"] for name in api.names("secrets")]
    return [{key: b64decode(value).decode() for key, value in data.items()} for data in found]


async def test_a_machine_that_joins_has_a_token_that_its_cluster_knows_for_a_quarter_of_an_hour(empty: World) -> None:
    spec = await made(empty)
    (secret,) = secrets(empty)
    assert token(spec) == f"{secret['token-id']}.{secret['token-secret']}"
    assert secret["expiration"] == "2026-01-01T12:15:00Z"
    assert secret["usage-bootstrap-signing"] == "true"
    (name,) = empty.api.names("machines")
    assert secret["description"] == f"made by quorate to join Machine {NAMESPACE}/{name}"


async def test_the_machine_that_founds_the_cluster_has_none(empty: World) -> None:
    assert "joinConfiguration" not in await made(empty, FIRST)
    assert secrets(empty) == []


@pytest.mark.parametrize(
    "discovery", [{"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}, {"file": {"kubeConfigPath": "/etc/join.conf"}}]
)
async def test_where_the_specification_says_how_to_join_it_stays_so(empty: World, discovery: dict[str, Any]) -> None:
    empty.api.change("kubeadmcontrolplanes", "demo", {"spec": {"kubeadmConfigSpec": {"joinConfiguration": {"discovery": discovery}}}})
    assert (await made(empty))["joinConfiguration"]["discovery"] == discovery
    assert secrets(empty) == []


async def test_an_attempt_that_was_cut_short_leaves_the_token_that_the_next_one_uses(empty: World) -> None:
    empty.api.trouble["apply", "kubeadmconfigs"] = ConnectionFailed("refused")
    with pytest.raises((CreationFailed, ExceptionGroup)):
        await made(empty)
    (first,) = secrets(empty)
    del empty.api.trouble["apply", "kubeadmconfigs"]
    empty.now = empty.now.replace(minute=10)
    spec = await made(empty)
    (second,) = secrets(empty)
    assert second == first | {"expiration": "2026-01-01T12:25:00Z"}
    assert token(spec) == f"{first['token-id']}.{first['token-secret']}"


@pytest.mark.parametrize("error", [Forbidden("secrets is forbidden"), ConnectionFailed("refused"), TimeoutError()])
async def test_where_none_can_be_made_the_bootstrap_provider_makes_one(empty: World, error: Exception) -> None:
    empty.workload.api.trouble["create", "secrets"] = error
    assert token(await made(empty)) is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"token-id": b64encode(b"\xff").decode()},
        {"token-id": b64encode(b"x\n  evil: 1").decode(), "token-secret": b64encode(b"y" * 50).decode()},
    ],
)
async def test_a_secret_of_its_name_that_is_no_token_is_left_to_its_owner(empty: World, data: dict[str, str]) -> None:
    spec = await made(empty)
    (name,) = empty.workload.api.names("secrets")
    (machine,) = empty.api.names("machines")
    again = type(empty)()
    await again.set_up()
    again.workload.api.put("secrets", {"metadata": {"name": name, "namespace": KUBE_SYSTEM}, "data": data})
    assert token(await made(again)) is None
    assert again.api.names("machines") == [machine], "the same name, and so the same id"
    assert token(spec) is not None


async def test_without_a_connection_nothing_is_made(empty: World) -> None:
    observation = await empty.look()
    empty.workload.connectivity = replace(empty.workload.connectivity, phase=Phase.LOST)
    await empty.actor.perform(JOINS, observation)
    (name,) = empty.api.names("kubeadmconfigs")
    assert token(empty.api.raw("kubeadmconfigs", name)["spec"]) is None
