"""The bindings that joining machines rely on are created where they are missing, and never touched where they exist."""

from __future__ import annotations

import pytest

from quorate.core.versions import Version
from quorate.kubernetes.errors import ConnectionFailed
from quorate.workload.rbac import ensure_permissions

from .cluster_api import ClusterApi

NAMES = ("kubeadm:cluster-admins", "kubeadm:apiserver-kubelet-client")


@pytest.mark.parametrize(("version", "written"), [("v1.34.4", True), ("v1.37.9", True), ("v1.38.0-alpha.1", False), ("v1.38.0", False)])
async def test_the_bindings_are_created_below_1_38(version: str, written: bool) -> None:
    api = ClusterApi()
    await ensure_permissions(api, Version.parse(version))
    assert api.written == ([f"create clusterrolebindings {name}" for name in NAMES] if written else [])
    await ensure_permissions(api, Version.parse(version))
    assert len(api.writes) == 2 * written


@pytest.mark.parametrize(
    ("name", "role", "kind", "subject"),
    [
        ("kubeadm:cluster-admins", "cluster-admin", "Group", "kubeadm:cluster-admins"),
        ("kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin", "User", "kube-apiserver-kubelet-client"),
    ],
)
async def test_each_binding_gives_its_role_to_whom_kubeadm_gives_it(name: str, role: str, kind: str, subject: str) -> None:
    api = ClusterApi()
    await ensure_permissions(api, Version.parse("v1.35.0"))
    binding = api.objects["clusterrolebindings", name]
    assert binding["roleRef"]["name"] == role
    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [(kind, subject)]


@pytest.mark.parametrize("name", NAMES)
async def test_one_that_exists_is_left_whatever_it_says(name: str) -> None:
    api = ClusterApi()
    api.put("clusterrolebindings", {"metadata": {"name": name}, "roleRef": {"name": "theirs"}})
    await ensure_permissions(api, Version.parse("v1.35.0"))
    assert api.written == [f"create clusterrolebindings {other}" for other in NAMES if other != name]


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_create_whose_answer_was_lost_is_well_on_the_next_try(lost: int) -> None:
    api = ClusterApi(lose_answer_of=lost)
    with pytest.raises(ConnectionFailed):
        await ensure_permissions(api, Version.parse("v1.35.0"))
    await ensure_permissions(api, Version.parse("v1.35.0"))
    assert len(api.writes) == 2
