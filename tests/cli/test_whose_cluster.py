"""Commands that take something out of a cluster take it out of the one that most control-plane hosts belong to, and tell where none is that."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from quorate.cli.hosts import access as hosts_access
from tests.hosts.manifests import SMALLEST
from tests.hosts.observe.world import NAMES, World, bare, stand
from tests.hosts.probe.machine import ca, joined

Cli = Callable[..., Result]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The manifest of three named hosts."""
    hosts = [{**host, "hostname": name} for name, host in zip(NAMES, SMALLEST["controlPlane"]["hosts"], strict=True)]
    path = tmp_path / "kubeone.yaml"
    path.write_text(yaml.safe_dump(SMALLEST | {"controlPlane": {"hosts": hosts}}))
    return path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three hosts, of which the first belongs to another cluster."""
    world = stand(tmp_path / "hosts")
    joined(world.machines["cp-1"].folder, "prod")
    for name, machine in world.machines.items():
        machine.folder.file("etc/kubernetes/admin.conf", admin("prod" if name == "cp-1" else "kubernetes"))

    @asynccontextmanager
    async def entered(_loaded: Any) -> AsyncIterator[World]:
        yield world

    monkeypatch.setattr(hosts_access, "entered", entered)
    return world


def admin(issuer: str) -> str:
    """An administrator's kubeconfig of the cluster of this CA."""
    data = base64.b64encode(ca(issuer).certificate).decode()
    document = {
        "current-context": "admin",
        "contexts": [{"name": "admin", "context": {"cluster": issuer, "user": "admin"}}],
        "clusters": [{"name": issuer, "cluster": {"server": f"https://{issuer}:6443", "certificate-authority-data": data}}],
        "users": [{"name": "admin", "user": {"token": "t"}}],
    }
    return yaml.safe_dump(document)


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch, world: World) -> list[frozenset[str]]:
    """For each snapshot that was begun: the hosts that it is not taken from."""
    begun: list[frozenset[str]] = []

    async def take(_tools: Any) -> Path:
        begun.append(world.avoided)
        return Path("taken.db")

    monkeypatch.setattr("quorate.hosts.act.snapshot.take_snapshot", take)
    return begun


def test_the_kubeconfig_of_another_cluster_is_not_handed_out(cli: Cli, world: World, manifest: Path) -> None:
    assert world.machines
    result = cli("kubeconfig", "-m", str(manifest))
    assert result.exit_code == 0, result.output
    assert yaml.safe_load(result.stdout)["clusters"][0]["cluster"]["server"] == "https://kubernetes:6443"


def test_no_snapshot_is_taken_of_another_cluster(cli: Cli, saved: list[frozenset[str]], manifest: Path) -> None:
    result = cli("etcd", "snapshot", "-m", str(manifest))
    assert (result.exit_code, saved) == (0, [frozenset({"cp-1"})]), result.output


@pytest.mark.parametrize("command", [("kubeconfig",), ("etcd", "snapshot")])
def test_where_hosts_disagree_which_cluster_it_is_nothing_is_taken_out_of_either(
    cli: Cli, world: World, saved: list[frozenset[str]], manifest: Path, command: tuple[str, ...]
) -> None:
    bare(world, "cp-3")
    result = cli(*command, "-m", str(manifest))
    assert (result.exit_code, result.stdout, saved) == (14, "", []), result.output
    assert "the hosts belong to different clusters" in result.stderr
