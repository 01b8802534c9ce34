"""Settings of a host that has joined, brought by this machine's sh: what differs is written, what is left out goes, and restarts are not forgotten."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from quorate.core.versions import Version
from quorate.hosts.act.placing import placing
from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.host_settings import RESTARTS_DUE, bringing, looking_for_stale, settings_files
from quorate.hosts.render.prerequisites import sysctls
from tests.hosts.manifests import document, load
from tests.hosts.probe.machine import ca
from tests.hosts.scripts import FakeHost, parses

DEBIAN = OperatingSystem.DEBIAN
MIRROR = {"registry.example.com": {"mirrors": ["https://mirror.example.com"]}}
LOGIN = {"registry.example.com": {"auth": {"username": "u", "password": "hunter2"}}}
HOSTS = "/etc/containerd/certs.d/registry.example.com/hosts.toml"
RESTARTS = ["systemctl restart containerd", "systemctl restart kubelet"]


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    made = FakeHost(tmp_path / "root", tmp_path / "programs")
    made.root.mkdir()
    made.program("systemctl")
    made.program("update-ca-certificates")
    made.program("chown")
    made.program("modprobe")
    made.file("/proc/filesystems", "nodev\toverlay\n")
    for name, value in sysctls(load(document())).items():
        made.file(f"/proc/sys/{name.replace('.', '/')}", f"{value}\n")
    made.changes(script(load(document())))
    made.changes(f"rm -f -- {RESTARTS_DUE} {made.root}/calls")
    return made


def script(manifest: Manifest) -> str:
    files = settings_files(manifest, DEBIAN, Version.parse("v2.1.4"))
    return bringing(manifest, DEBIAN, files, placing(files)).replace("root:root", f"{getpass.getuser()}:{getpass.getuser()}")


def restarts(host: FakeHost) -> list[str]:
    return [call for call in host.calls if call.startswith("systemctl restart")]


def stale(host: FakeHost, **changes: Any) -> list[str]:
    manifest = load(document(**changes))
    found = host.changes(looking_for_stale(manifest, DEBIAN, settings_files(manifest, DEBIAN, Version.parse("v2.1.4"))))
    return [path.removeprefix(str(host.root)) for path in found]


def test_sh_can_read_it_for_every_system() -> None:
    manifest = load(document(proxy={"http": "http://u:a'b$c@proxy.example.com"}))
    for system in (DEBIAN, OperatingSystem.ROCKY_LINUX, OperatingSystem.FLATCAR):
        files = settings_files(manifest, system, Version.parse("v2.1.4"))
        parses(bringing(manifest, system, files, placing(files)))
        parses(looking_for_stale(manifest, system, files))


def test_nothing_is_written_or_restarted_where_nothing_differs(host: FakeHost) -> None:
    assert host.changes(script(load(document()))) == []
    assert restarts(host) == []
    assert stale(host) == []


@pytest.mark.parametrize(
    "changes",
    [{"containerRuntime__containerd__sandboxImage": "a.example.com/pause:3"}, {"proxy__http": "http://proxy.example.com:3128"}],
)
def test_a_restart_that_is_due_is_not_forgotten_until_the_host_is_well_again(host: FakeHost, changes: dict[str, Any]) -> None:
    assert host.changes(script(load(document(**changes))))[-1] == "due containerd"
    assert stale(host, **changes) == [RESTARTS_DUE]
    assert host.changes(script(load(document(**changes)))) == ["due containerd"]
    assert restarts(host) == RESTARTS * 2
    host.changes(f"rm -f -- {RESTARTS_DUE}")
    assert host.changes(script(load(document(**changes)))) == []
    assert restarts(host) == RESTARTS * 2


def test_the_restart_is_noted_before_the_file_is_written(host: FakeHost) -> None:
    cut = script(load(document(containerRuntime__containerd__sandboxImage="a.example.com/pause:3"))).replace(
        "place() {", "exit 9\nplace() {"
    )
    assert host.run(cut).returncode == 9
    assert stale(host) == [RESTARTS_DUE]


def test_a_mirror_needs_no_restart_and_goes_with_the_manifests(host: FakeHost) -> None:
    with_mirror = {"containerRuntime__containerd__registries": MIRROR}
    assert any(line.endswith(HOSTS) for line in host.changes(script(load(document(**with_mirror)))))
    assert stale(host) == [HOSTS]
    assert any(line.startswith("removed ") and line.endswith(HOSTS) for line in host.changes(script(load(document()))))
    assert (stale(host), restarts(host)) == ([], [])


def test_proxies_that_are_asked_for_no_longer_go_with_what_reads_them(host: FakeHost) -> None:
    host.changes(script(load(document(proxy__http="http://proxy.example.com:3128"))))
    host.changes(f"rm -f -- {RESTARTS_DUE}")
    assert len(stale(host)) == 3
    removed = host.changes(script(load(document())))
    assert (len([line for line in removed if line.startswith("removed ")]), removed[-1]) == (3, "due containerd")
    assert stale(host) == [RESTARTS_DUE]


def test_another_ca_is_made_known_and_so_is_one_that_went(host: FakeHost) -> None:
    bundle = ca().certificate.decode()
    assert host.changes(script(load(document(caBundle=bundle))))[-2:] == ["due containerd", "due trust"]
    host.changes(f"rm -f -- {RESTARTS_DUE}")
    assert host.changes(script(load(document())))[-2:] == ["due containerd", "due trust"]
    assert [call for call in host.calls if call.startswith("update-ca")] == ["update-ca-certificates "] * 2


def test_a_password_is_in_nothing_that_the_script_says(host: FakeHost) -> None:
    said = host.run(script(load(document(containerRuntime__containerd__registries=LOGIN))))
    assert "hunter2" in (host.root / "etc/containerd/config.toml").read_text()
    assert "hunter2" not in said.stdout + said.stderr
