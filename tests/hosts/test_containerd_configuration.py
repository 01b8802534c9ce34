"""containerd's configuration is TOML of the version that it reads, with the registries that the manifest names and no password for others to see."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from quorate.hosts.render.containerd_configuration import (
    CONFIGURATION,
    REGISTRIES,
    containerd_files,
    removing_stale_registries,
    sandbox_image,
)
from tests.hosts.manifests import document, load
from tests.hosts.scripts import FakeHost

REGISTRY: dict[str, Any] = {
    "docker.io": {"mirrors": ["http://mirror.example.com:5000"], "auth": {"username": "a", "password": 'p"\\w'}},
    "quay.io": {"tlsConfig": {"insecureSkipVerify": True}},
    "*": {"mirrors": ["https://all.example.com"], "overridePath": True},
}


def written(major: int = 2, **changes: Any) -> dict[str, dict[str, Any]]:
    return {file.path: tomllib.loads(file.content.decode()) for file in containerd_files(load(document(**changes)), major)}


@pytest.mark.parametrize(
    ("major", "runtime", "images"),
    [(1, "io.containerd.grpc.v1.cri", "io.containerd.grpc.v1.cri"), (2, "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images")],
)
def test_each_containerd_gets_its_own_version_with_the_cgroup_driver_of_systemd(major: int, runtime: str, images: str) -> None:
    made = written(major)[CONFIGURATION]
    assert made["version"] == major + 1
    assert made["plugins"][runtime]["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert made["plugins"][images]["registry"]["config_path"] == REGISTRIES


def test_the_pause_image_comes_from_where_all_images_come() -> None:
    assert sandbox_image(load(document())) == "registry.k8s.io/pause:3.10.1"
    assert sandbox_image(load(document(versions__kubernetes="1.36.0"))) == "registry.k8s.io/pause:3.10.2"
    own = load(document(registryConfiguration={"overwriteRegistry": "mirror:5000/k8s"}))
    assert sandbox_image(own) == "mirror:5000/k8s/pause:3.10.1"


def test_mirrors_come_before_the_registry_itself() -> None:
    made = written(containerRuntime={"containerd": {"registries": REGISTRY}})
    hub = made[f"{REGISTRIES}/docker.io/hosts.toml"]
    assert hub["server"] == "https://registry-1.docker.io"
    assert list(hub["host"]) == ["http://mirror.example.com:5000"]
    others = made[f"{REGISTRIES}/_default/hosts.toml"]
    assert "server" not in others
    assert others["host"]["https://all.example.com"]["override_path"] is True
    assert made[f"{REGISTRIES}/quay.io/hosts.toml"]["host"]["https://quay.io"]["skip_verify"] is True


def test_passwords_are_in_one_file_that_only_root_reads_and_in_no_repr() -> None:
    files = containerd_files(load(document(containerRuntime={"containerd": {"registries": REGISTRY}})), 2)
    holding = [file for file in files if b'p\\"' in file.content]
    assert [(file.path, file.mode) for file in holding] == [(CONFIGURATION, 0o600)]
    assert "p\\" not in repr(files)
    login = tomllib.loads(holding[0].content.decode())["plugins"]["io.containerd.cri.v1.images"]["registry"]["configs"]
    assert login == {"registry-1.docker.io": {"auth": {"username": "a", "password": 'p"\\w'}}}


def test_an_insecure_registry_is_tried_with_tls_first() -> None:
    made = written(registryConfiguration={"overwriteRegistry": "mirror:5000/k8s", "insecureRegistry": True})
    assert list(made[f"{REGISTRIES}/mirror:5000/hosts.toml"]["host"]) == ["https://mirror:5000", "http://mirror:5000"]


def test_registries_that_left_the_manifest_are_removed_and_those_of_others_stay(tmp_path: Any) -> None:
    host = FakeHost(tmp_path / "root", tmp_path / "programs")
    host.root.mkdir()
    before = containerd_files(load(document(containerRuntime={"containerd": {"registries": REGISTRY}})), 2)
    now = containerd_files(load(document(containerRuntime={"containerd": {"registries": {"quay.io": REGISTRY["quay.io"]}}})), 2)
    for file in before:
        host.place(file)
    foreign = host.file(f"{REGISTRIES}/example.com/hosts.toml", 'server = "https://example.com"\n')
    assert len(host.changes(removing_stale_registries(now))) == 2
    assert foreign.exists()
    assert (host.root / f"{REGISTRIES}/quay.io/hosts.toml".lstrip("/")).exists()
    assert host.changes(removing_stale_registries(now)) == []
