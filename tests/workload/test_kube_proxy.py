"""kube-proxy's image follows version and repository, and is written only when it differs."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.kubernetes.errors import Conflict
from quorate.workload.images import Image, tag_of
from quorate.workload.kube_proxy import update_kube_proxy
from quorate.workload.updates import CannotUpdate

from .cluster_api import ClusterApi, workload_of


def _api(image: str) -> ClusterApi:
    api = ClusterApi()
    api.put("daemonsets", workload_of("kube-proxy", image))
    return api


def _containers(api: ClusterApi) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = api.objects["daemonsets", "kube-proxy"]["spec"]["template"]["spec"]["containers"]
    return containers


@pytest.mark.parametrize(
    ("image", "version", "repository", "wanted"),
    [
        ("registry.k8s.io/kube-proxy:v1.34.4", "v1.35.4", "", "registry.k8s.io/kube-proxy:v1.35.4"),
        ("registry.k8s.io/kube-proxy:v1.34.4", "v1.35.4", "example.org:5000/a/b/", "example.org:5000/a/b/kube-proxy:v1.35.4"),
        ("registry.k8s.io/kube-proxy:v1.34.4", "v1.34.4", "example.org", "example.org/kube-proxy:v1.34.4"),
        ("registry.k8s.io/kube-proxy:v1.34.4", "v1.35.4+build.1", "", "registry.k8s.io/kube-proxy:v1.35.4_build.1"),
        ("kube-proxy:v1.34.4", "v1.35.4", "", "docker.io/library/kube-proxy:v1.35.4"),
        ("own/kube-proxy", "v1.35.4", "", "docker.io/own/kube-proxy:v1.35.4"),
    ],
)
async def test_the_image_follows_the_version_and_the_repository(image: str, version: str, repository: str, wanted: str) -> None:
    api = _api(image)
    await update_kube_proxy(api, version=version, image_repository=repository)
    assert [container["image"] for container in _containers(api)] == ["example.org/sidecar:1", wanted]
    assert _containers(api)[1]["args"] == ["-x"]
    await update_kube_proxy(api, version=version, image_repository=repository)
    assert api.written == ["patch daemonsets kube-proxy"]


@pytest.mark.parametrize("image", ["registry.k8s.io/kube-proxy:v1.35.4", "kube-proxy:v1.35.4"])
async def test_an_image_that_is_right_is_not_written_however_it_is_spelled(image: str) -> None:
    api = _api(image)
    await update_kube_proxy(api, version="v1.35.4", image_repository="")
    assert not api.writes


async def test_a_cluster_without_kube_proxy_or_with_another_one_is_left_alone() -> None:
    theirs = ClusterApi()
    theirs.objects["daemonsets", "kube-proxy"] = workload_of("other", "x")
    for api in (ClusterApi(), theirs):
        await update_kube_proxy(api, version="v1.35.4", image_repository="")
        assert not api.writes


@pytest.mark.parametrize("image", [f"registry.k8s.io/kube-proxy@sha256:{'a' * 64}", "not an image"])
async def test_an_image_that_has_no_version_to_change_is_an_error_with_a_way_out(image: str) -> None:
    with pytest.raises(CannotUpdate, match=r"kube-proxy.*(use|skip-kube-proxy)|use one such as"):
        await update_kube_proxy(_api(image), version="v1.35.4", image_repository="")


async def test_what_changes_between_read_and_write_is_a_conflict_and_not_overwritten() -> None:
    api = _api("registry.k8s.io/kube-proxy:v1.34.4")
    api.before_patch.append(lambda: api.put("daemonsets", workload_of("kube-proxy", "example.org/theirs:1")))
    with pytest.raises(Conflict):
        await update_kube_proxy(api, version="v1.35.4", image_repository="")
    assert _containers(api)[1]["image"] == "example.org/theirs:1"


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("coredns", Image("docker.io/library", "coredns")),
        ("a/b/coredns:v1", Image("docker.io/a/b", "coredns", "v1")),
        ("localhost/x:1", Image("localhost", "x", "1")),
        ("host:5000/x", Image("host:5000", "x")),
        (f"registry.k8s.io/x:v1@sha256:{'0' * 64}", Image("registry.k8s.io", "x", "v1", f"sha256:{'0' * 64}")),
    ],
)
def test_references_are_read_in_full(text: str, image: Image) -> None:
    assert Image.parse(text) == image
    assert Image.parse(str(image)) == image


@pytest.mark.parametrize("text", ["", "UPPER", "a//b", "x:", "x:ta g", "x@sha256:short", "https://registry.k8s.io/x:1"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(CannotUpdate, match="not a reference"):
        Image.parse(text)


def test_a_tag_has_no_plus_sign() -> None:
    assert tag_of("v1.35.0-rc.1+k.1") == "v1.35.0-rc.1_k.1"
