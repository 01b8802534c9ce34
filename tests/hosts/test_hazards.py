"""Hazards of tools that work on existing hosts, shown absent where no other test does: docs/hazards.md has the whole list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import quorate
from quorate.core.hosts.steps import UpdateConfiguration
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.failures import StepFailed
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
A_LOOP, ITS_END = re.compile(r"\s*(while|until|for)\b"), re.compile(r"\s*done\b")
A_SLEEP = re.compile(r"(?:^|[;&|(]|\bdo\b|\bthen\b)\s*sleep [0-9]")


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


def fixed_sleeps(script: str) -> list[str]:
    """The lines of a script for sh that sleep, and are in no loop that also does something else: that looks whether it still has to wait."""
    found: list[str] = []
    loops: list[list[str]] = []
    for line in script.splitlines():
        begins = A_LOOP.match(line)
        if begins is not None and not line.rstrip().endswith("done"):
            loops.append([line] if begins[1] != "for" else [])
        elif ITS_END.match(line) and loops:
            body = loops.pop()
            found += [each for each in body if A_SLEEP.search(each)] if all(A_SLEEP.search(each) for each in body) else []
        elif loops:
            loops[-1].append(line)
        elif A_SLEEP.search(line):
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("script", "fixed"),
    [
        ("systemctl restart kubelet\nsleep 30", True),
        ("systemctl restart kubelet; sleep 30", True),
        ("for turn in 1 2 3; do\n    sleep 10\ndone", True),
        ("for turn in 1 2 3; do sleep 10; done", True),
        ("for file in *; do\n    cat $file\ndone\nsleep 10", True),
        ("until curl -s localhost; do\n    sleep 1\ndone", False),
        ("for turn in 1 2 3; do\n    sleep 1\n    ! curl -s localhost || break\ndone", False),
        ("# to sleep 10 s would not help", False),
    ],
)
def test_a_fixed_sleep_is_found_and_a_loop_that_looks_is_none(script: str, fixed: bool) -> None:
    assert bool(fixed_sleeps(script)) == fixed


def test_no_script_for_a_host_sleeps_for_a_fixed_time_outside_a_loop_that_looks() -> None:
    scripts = [*(text for path in DOOR for text in texts(path)), *(path.read_text() for path in (PACKAGE / "hosts").rglob("*.sh"))]
    assert not [line for script in scripts for line in fixed_sleeps(script)]
    assert any(A_SLEEP.search(line) for script in scripts for line in script.splitlines()), "those that look are seen"


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
        await Executor(tools(world)).carry_out(UpdateConfiguration(), world.observed())
