"""Hazards of tools that work on existing hosts, shown absent where no other test does: docs/hazards.md has the whole list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import quorate
from quorate.core.in_place.steps import UpdateConfiguration
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.hands import Hands
from quorate.hosts.probe.facts import StaticPod
from quorate.kubernetes.errors import Forbidden
from tests.hosts.act.running import manifest, tools
from tests.hosts.act.test_settings import CONFIG_MAPS, configured

PACKAGE = Path(quorate.__file__).parent
DOOR = [
    *sorted((PACKAGE / "hosts").rglob("*.py")),
    *(path for path in sorted((PACKAGE / "cli").glob("*.py")) if path.stem not in ("manager", "local", "run")),
]
"""Everything that the commands for existing hosts run in this process; the other commands of `cli` serve Cluster API or a local cluster."""
SERVERS = {"start_server", "start_unix_server", "create_server", "create_unix_server", "TCPSite", "UnixSite", "listen"}
SERVERS |= {"forward_local_port", "forward_remote_port", "forward_socks", "HTTPServer"}
A_FIXED_SLEEP = re.compile(r"^\s*sleep [0-9]", re.MULTILINE)


def calls(path: Path) -> Iterator[str]:
    """The last names of everything that a module calls."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func
            yield called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def texts(path: Path) -> Iterator[str]:
    """The strings of a module: scripts for hosts are among them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_nothing_listens_on_a_port_while_hosts_are_worked_on() -> None:
    assert not [(path.name, name) for path in DOOR for name in calls(path) if name in SERVERS]
    assert "TCPSite" in calls(PACKAGE / "kubernetes" / "webserver.py"), "what this test looks for is found where it is"


def test_no_script_for_a_host_sleeps_for_a_fixed_time_outside_a_loop_that_looks() -> None:
    scripts = [*(text for path in DOOR for text in texts(path)), *(path.read_text() for path in (PACKAGE / "hosts").rglob("*.sh"))]
    assert not [script for script in scripts if A_FIXED_SLEEP.search(script)]


@pytest.mark.parametrize(
    "image",
    [
        "registry.k8s.io/kube-apiserver:v1.34.4",
        "mirror.example.com:5000/k8s/kube-apiserver:v1.34.4",
        "mirror.example.com:5000/kube-apiserver:v1.34.4@sha256:0123456789abcdef",
    ],
)
def test_the_version_of_a_component_is_its_tag_whatever_port_the_registry_has(image: str) -> None:
    assert StaticPod("", (image,), ()).version == "v1.34.4"


@pytest.mark.parametrize("name", ["kubeadm-config", "kubelet-config", "kube-proxy"])
async def test_a_configuration_that_the_api_does_not_take_fails_the_step_by_name(name: str) -> None:
    world = configured()
    world.manifest = manifest(
        kubeletConfig__maxPods=42,
        controlPlaneComponents__etcd__quotaBackendBytes=4294967296,
        clusterNetwork__kubeProxy={"ipvs": {"scheduler": "rr", "strictARP": True}},
    )
    world.api.failing[f"{CONFIG_MAPS}/{name}"] = Forbidden(f"configmaps {name} is forbidden", code=403)
    with pytest.raises(StepFailed, match=f"{name} is forbidden"):
        await Hands(tools(world)).carry_out(UpdateConfiguration(), world.observed())
