"""What operators install: the wheel, in an environment with nothing else in it than what the lock names for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from quorate.local.programs import PROJECT
from tools.release import wheels

_LEFT_OUT = ("quorate/simulation/", "quorate/local/", "quorate/cli/development/")
_MANIFEST = """\
apiVersion: kubeone.k8c.io/v1beta2
kind: KubeOneCluster
name: demo
versions: {kubernetes: v1.34.4}
cloudProvider: {none: {}}
apiEndpoint: {host: 127.0.0.1}
controlPlane:
  hosts: [{publicAddress: 127.0.0.1, privateAddress: 127.0.0.1, sshPort: 1, sshUsername: root}]
"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build(tmp_path_factory.mktemp("dist"), 1_700_000_000)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in a clean environment."""
    if not (os.environ.get("UV") or shutil.which("uv") or (PROJECT / ".cache/uv/bin/uv").exists()):
        pytest.skip("uv is not on the PATH; `make test` installs it")
    environment = tmp_path_factory.mktemp("clean") / "venv"
    wheels.environment(wheel, environment)
    return environment / "bin/quorate"


def run(command: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *arguments], capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})


def test_neither_simulation_nor_local_cluster_is_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "quorate/clusterapi/manager.py" in names
    assert [name for name in names if name.startswith(_LEFT_OUT) or not name.startswith("quorate")] == []


def test_the_sdist_is_the_whole_source(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    listed = subprocess.run(["tar", "-tzf", sdist], capture_output=True, text=True, check=True).stdout
    assert all(
        f"/{name}" in listed
        for name in ("src/quorate/simulation/", "src/quorate/local/", "tests/core/", "tools/cluster-api/go.mod", "Makefile")
    )


def test_the_same_source_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    assert wheels.build(tmp_path, 1_700_000_000).read_bytes() == wheel.read_bytes()


def test_the_command_says_its_version_and_offers_what_it_has(installed: Path) -> None:
    assert run(installed, "--version").stdout == "quorate 0.1.0\n"
    offered = run(installed, "--help").stdout
    assert "Run the Cluster API control-plane provider." in offered
    assert "simulate" not in offered


@pytest.mark.parametrize("name", ["simulate", "run", "local"])
def test_what_only_the_source_has_is_named_as_such(installed: Path, name: str) -> None:
    done = run(installed, name)
    assert done.returncode == 64
    assert f"quorate {name} is not in this installation" in done.stderr


def test_the_manager_starts_up_to_where_it_wants_a_cluster(installed: Path, tmp_path: Path) -> None:
    assert "--leader-elect" in run(installed, "manager", "--help").stdout
    done = run(installed, "manager", f"--kubeconfig={tmp_path / 'none'}")
    assert done.returncode == 10, done.stderr


def test_a_plan_for_hosts_is_made_up_to_where_it_wants_the_hosts(installed: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "kubeone.yaml"
    manifest.write_text(_MANIFEST)
    done = run(installed, "plan", "-m", str(manifest))
    assert done.returncode == 14, done.stdout + done.stderr
