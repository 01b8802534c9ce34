"""The binding that joining machines rely on is created where it is missing, and never touched where it exists."""

from __future__ import annotations

import pytest

from quorate.core.versions import Version
from quorate.kubernetes.errors import ConnectionFailed
from quorate.workload.rbac import ensure_permissions

from .cluster_api import ClusterApi

NAME = "kubeadm:apiserver-kubelet-client"


@pytest.mark.parametrize(("version", "written"), [("v1.34.4", True), ("v1.37.9", True), ("v1.38.0-alpha.1", False), ("v1.38.0", False)])
async def test_the_binding_is_created_below_1_38(version: str, written: bool) -> None:
    api = ClusterApi()
    await ensure_permissions(api, Version.parse(version))
    assert api.written == (["create clusterrolebindings kubeadm:apiserver-kubelet-client"] if written else [])
    await ensure_permissions(api, Version.parse(version))
    assert len(api.writes) == int(written)


async def test_the_binding_lets_the_api_servers_client_use_the_kubelets_api() -> None:
    api = ClusterApi()
    await ensure_permissions(api, Version.parse("v1.35.0"))
    binding = api.objects["clusterrolebindings", NAME]
    assert binding["roleRef"]["name"] == "system:kubelet-api-admin"
    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [("User", "kube-apiserver-kubelet-client")]


async def test_one_that_exists_is_left_whatever_it_says() -> None:
    api = ClusterApi()
    api.put("clusterrolebindings", {"metadata": {"name": NAME}, "roleRef": {"name": "theirs"}})
    await ensure_permissions(api, Version.parse("v1.35.0"))
    assert not api.writes


async def test_a_create_whose_answer_was_lost_is_well_on_the_next_try() -> None:
    api = ClusterApi(lose_answer_of=0)
    with pytest.raises(ConnectionFailed):
        await ensure_permissions(api, Version.parse("v1.35.0"))
    await ensure_permissions(api, Version.parse("v1.35.0"))
    assert len(api.writes) == 1
