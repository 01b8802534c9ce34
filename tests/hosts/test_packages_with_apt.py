"""The script that installs packages, with the real apt and dpkg: packages made on the spot, installed below a folder of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.core.versions import Version
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.packages import install

_PROGRAMS = ("apt-get", "apt-cache", "apt-mark", "dpkg-deb", "dpkg-scanpackages")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not all(map(shutil.which, _PROGRAMS)) or os.geteuid() != 0, reason="needs Debian's apt, dpkg-dev, and root for dpkg"
    ),
]
_FOLDERS = (
    "etc/apt",
    "var/lib/apt/lists/partial",
    "var/cache/apt/archives/partial",
    "var/lib/dpkg/info",
    "var/lib/dpkg/updates",
    "var/log/apt",
)


@dataclass(frozen=True, slots=True)
class Debian:
    """A root folder with apt and dpkg, and nothing installed."""

    environment: dict[str, str]

    def install(self, **versions: str) -> subprocess.CompletedProcess[str]:
        script = install({name: Version.parse(version) for name, version in versions.items()}, OperatingSystem.DEBIAN)
        return self._run("sh", "-s", standard_input=f"{{\nset -eu\n{script}\n}}")

    @property
    def held(self) -> list[str]:
        return self._run("apt-mark", "showhold").stdout.split()

    def _run(self, *command: str, standard_input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, input=standard_input, env=self.environment, capture_output=True, text=True, timeout=50, check=False)


@pytest.fixture
def debian(tmp_path: Path) -> Debian:
    root, repository, programs = tmp_path / "root", tmp_path / "repository", tmp_path / "programs"
    for folder in (repository, programs, *(root / folder for folder in _FOLDERS)):
        folder.mkdir(parents=True)
    for name in ("kubeadm", "kubelet"):
        for version in ("1.34.4-1.1", "1.34.10-1.1", "1.34.40-1.1"):
            _build(repository, tmp_path / "build" / f"{name}-{version}", name, version)
    index = subprocess.run(["dpkg-scanpackages", "-m", "."], cwd=repository, capture_output=True, check=True, timeout=30).stdout
    (repository / "Packages").write_bytes(index)
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n")
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    configuration = tmp_path / "apt.conf"
    configuration.write_text(
        f'Dir "{root}"; Dir::State::status "{root}/var/lib/dpkg/status"; APT::Sandbox::User "root"; DPkg::Options {{ "--root={root}"; }};\n'
    )
    systemctl = programs / "systemctl"
    systemctl.write_text("#!/bin/sh\nexit 0\n")
    systemctl.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return Debian({"PATH": path, "LC_ALL": "C", "APT_CONFIG": str(configuration), "DPKG_ADMINDIR": str(root / "var/lib/dpkg")})


def _build(repository: Path, folder: Path, name: str, version: str) -> None:
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: a stand-in\n"
    (folder / "DEBIAN").mkdir(parents=True)
    (folder / "DEBIAN" / "control").write_text(control)
    package = repository / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", folder, package], capture_output=True, check=True, timeout=30)


def test_exact_versions_are_installed_held_upgraded_and_taken_back(debian: Debian) -> None:
    both = {"kubeadm": "v1.34.4", "kubelet": "v1.34.4"}
    assert debian.install(**both).stdout.splitlines() == ["changed kubeadm 1.34.4-1.1", "changed kubelet 1.34.4-1.1"]
    assert debian.held == ["kubeadm", "kubelet"]
    again = debian.install(**both)
    assert (again.returncode, again.stdout) == (0, "")
    assert debian.install(kubeadm="v1.34.10").stdout == "changed kubeadm 1.34.10-1.1\n", "a package that is held is upgraded all the same"
    assert debian.install(kubeadm="v1.34.4").stdout == "changed kubeadm 1.34.4-1.1\n"
    assert debian.held == ["kubeadm", "kubelet"]


def test_a_version_that_is_nowhere_changes_nothing(debian: Debian) -> None:
    refused = debian.install(kubeadm="v1.34.1", kubelet="v1.34.4")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no repository of this host has kubeadm 1.34.1" in refused.stderr
    assert debian.held == []
