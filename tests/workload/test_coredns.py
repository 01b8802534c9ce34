"""CoreDNS is updated so that its Pods always read a Corefile of their own version, whatever is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorate.core.versions import Version
from quorate.kubeadm.cluster_configuration import decode
from quorate.kubernetes.errors import ConnectionFailed
from quorate.workload.coredns import update_coredns, wanted_image
from quorate.workload.corefile_migration import migrate
from quorate.workload.images import Image
from quorate.workload.updates import CannotUpdate

from .cluster_api import ClusterApi, config_map, workload_of

VERSION = Version.parse("v1.34.4")
KUBEADM = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\n"
OLD = ".:53 {\n    health\n    kubernetes cluster.local {\n        upstream\n    }\n}\n"
TO_1_7 = {"dns": {"imageTag": "1.7.0"}}
NEW = migrate(OLD, "1.6.2", "1.7.0")


def _volumes(key: str = "Corefile") -> list[dict[str, Any]]:
    return [
        {"name": "config-volume", "configMap": {"name": "coredns", "items": [{"key": key, "path": "Corefile"}]}},
        {"name": "other", "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "x"}]}},
    ]


def _api(image: str = "registry.k8s.io/coredns:1.6.2", corefile: str = OLD, **data: str) -> ClusterApi:
    api = ClusterApi()
    api.put("configmaps", config_map("kubeadm-config", {"ClusterConfiguration": KUBEADM}))
    api.put("configmaps", config_map("coredns", {"Corefile": corefile, "hosts": "kept", **data}))
    api.put("deployments", workload_of("coredns", image, volumes=_volumes()))
    return api


def _image(api: ClusterApi) -> str:
    image: str = api.objects["deployments", "coredns"]["spec"]["template"]["spec"]["containers"][1]["image"]
    return image


def _key(api: ClusterApi) -> str:
    key: str = api.objects["deployments", "coredns"]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"][0]["key"]
    return key


def _data(api: ClusterApi) -> dict[str, str]:
    data: dict[str, str] = api.objects["configmaps", "coredns"]["data"]
    return data


def _read_by_the_pods(api: ClusterApi) -> str:
    return _data(api)[_key(api)]


async def test_an_upgrade_backs_up_points_away_migrates_and_points_back_with_the_image() -> None:
    api = _api()
    await update_coredns(api, TO_1_7, VERSION)
    assert api.written == [
        "patch configmaps kubeadm-config",
        "patch configmaps coredns",
        "patch deployments coredns",
        "patch configmaps coredns",
        "patch deployments coredns",
    ]
    assert _image(api) == "registry.k8s.io/coredns:1.7.0"
    assert _key(api) == "Corefile"
    assert _data(api) == {"Corefile": NEW, "Corefile-backup": OLD, "hosts": "kept"}
    assert decode(api.objects["configmaps", "kubeadm-config"]["data"]["ClusterConfiguration"])["dns"] == {"imageTag": "1.7.0"}
    await update_coredns(api, TO_1_7, VERSION)
    assert len(api.writes) == 5


@pytest.mark.parametrize("lost", range(5))
async def test_interrupted_at_any_write_the_pods_read_their_version_and_a_repeat_ends_the_same(lost: int) -> None:
    api = _api()
    api.lose_answer_of = lost
    with pytest.raises(ConnectionFailed):
        await update_coredns(api, TO_1_7, VERSION)
    assert _read_by_the_pods(api) == (OLD if _image(api).endswith(":1.6.2") else NEW)
    await update_coredns(api, TO_1_7, VERSION)
    assert (_image(api), _key(api)) == ("registry.k8s.io/coredns:1.7.0", "Corefile")
    assert _data(api) == {"Corefile": NEW, "Corefile-backup": OLD, "hosts": "kept"}


@pytest.mark.parametrize("lost", range(4))
async def test_an_upgrade_that_was_interrupted_and_is_no_longer_wanted_is_taken_back(lost: int) -> None:
    api = _api()
    api.lose_answer_of = lost
    with pytest.raises(ConnectionFailed):
        await update_coredns(api, TO_1_7, VERSION)
    await update_coredns(api, {"dns": {"imageTag": "1.6.2"}}, VERSION)
    assert (_image(api), _key(api), _data(api)["Corefile"]) == ("registry.k8s.io/coredns:1.6.2", "Corefile", OLD)


async def test_a_corefile_edited_while_an_update_is_interrupted_is_the_one_that_is_migrated() -> None:
    api = _api()
    api.lose_answer_of = 3
    with pytest.raises(ConnectionFailed):
        await update_coredns(api, TO_1_7, VERSION)
    edited = OLD.replace("health", "errors\n    health")
    api.put("configmaps", config_map("coredns", {**_data(api), "Corefile": edited}))
    await update_coredns(api, TO_1_7, VERSION)
    assert _data(api)["Corefile"] == migrate(edited, "1.6.2", "1.7.0")


async def test_where_the_corefile_stays_the_image_alone_is_written() -> None:
    corefile = ". { # as the user likes it\n errors\n}\n"
    api = _api("registry.k8s.io/coredns/coredns:v1.12.1", corefile)
    await update_coredns(api, {"dns": {"imageTag": "v1.13.1"}}, VERSION)
    assert api.written == ["patch configmaps kubeadm-config", "patch deployments coredns"]
    assert _data(api)["Corefile"] == corefile
    assert _image(api) == "registry.k8s.io/coredns/coredns:v1.13.1"


async def test_a_new_kubernetes_version_without_a_new_tag_changes_nothing() -> None:
    api = _api("registry.k8s.io/coredns/coredns:v1.12.1")
    await update_coredns(api, {"imageRepository": "registry.k8s.io"}, Version.parse("v1.35.4"))
    assert not api.writes


@pytest.mark.parametrize(
    ("current", "cluster", "wanted"),
    [
        ("registry.k8s.io/coredns/coredns:v1.11.3", {"dns": {"imageTag": "v1.12.1"}}, "registry.k8s.io/coredns/coredns:v1.12.1"),
        (
            "registry.k8s.io/coredns:1.7.0",
            {"imageRepository": "registry.k8s.io", "dns": {"imageTag": "v1.8.0"}},
            "registry.k8s.io/coredns/coredns:v1.8.0",
        ),
        (
            "registry.k8s.io/coredns:1.7.0",
            {"imageRepository": "registry.k8s.io", "dns": {"imageTag": "1.7.1"}},
            "registry.k8s.io/coredns:1.7.1",
        ),
        ("registry.k8s.io/coredns:1.7.0", {"imageRepository": "example.org/k8s/"}, "example.org/k8s/coredns:1.7.0"),
        ("a.org/coredns:1.7.0", {"imageRepository": "b.org", "dns": {"imageRepository": "c.org/d"}}, "c.org/d/coredns:1.7.0"),
    ],
)
def test_repository_name_and_tag_come_from_dns_then_the_cluster_then_what_runs(current: str, cluster: dict[str, Any], wanted: str) -> None:
    assert str(wanted_image(Image.parse(current), cluster)) == wanted


async def test_a_cluster_without_coredns_is_left_alone() -> None:
    for missing in (("configmaps", "coredns"), ("deployments", "coredns")):
        api = _api()
        del api.objects[missing]
        await update_coredns(api, TO_1_7, VERSION)
        assert not api.writes


def _without_key(api: ClusterApi) -> None:
    del api.objects["configmaps", "coredns"]["data"]["Corefile"]


def _without_container(api: ClusterApi) -> None:
    del api.objects["deployments", "coredns"]["spec"]["template"]["spec"]["containers"][1]


def _broken(api: ClusterApi) -> None:
    api.objects["configmaps", "coredns"]["data"]["Corefile"] = ". {"


def _digest(api: ClusterApi) -> None:
    api.objects["deployments", "coredns"]["spec"]["template"]["spec"]["containers"][1]["image"] = f"a.org/coredns@sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("spoil", "tag", "said"),
    [
        (_without_key, "1.7.0", "has no key Corefile"),
        (_without_container, "1.7.0", "has no container coredns"),
        (_broken, "1.7.0", "line 1"),
        (_digest, "1.7.0", "version cannot be told"),
        (lambda _: None, "1.6.1", "cannot go back from 1.6.2 to 1.6.1"),
        (lambda _: None, "v1.99.1", r"v1\.99\.1 is not a version"),
        (lambda _: None, "newest", "'newest' is no version"),
    ],
)
async def test_what_cannot_be_updated_is_an_error_before_anything_is_written(
    spoil: Callable[[ClusterApi], None], tag: str, said: str
) -> None:
    api = _api()
    spoil(api)
    with pytest.raises(CannotUpdate, match=said):
        await update_coredns(api, {"dns": {"imageTag": tag}}, VERSION)
    assert not api.writes
