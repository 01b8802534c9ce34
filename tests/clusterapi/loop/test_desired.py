"""The bodies of a Machine and its companions, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Annotation, Hook, Label
from quorate.clusterapi.types.references import ObjectReference

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

CONFIG = ObjectReference(api_group="bootstrap.cluster.x-k8s.io", kind="KubeadmConfig", name="cp-1")
INFRASTRUCTURE = ObjectReference(api_group="infrastructure.cluster.x-k8s.io", kind="DevMachine", name="cp-1")
LABELS = {
    "team": "a",
    "cluster.x-k8s.io/cluster-name": "demo",
    "cluster.x-k8s.io/control-plane": "",
    "cluster.x-k8s.io/control-plane-name": "demo",
}
OWNER = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "demo", "uid": "kcp-uid"}
CONTROLLER = {**OWNER, "controller": True, "blockOwnerDeletion": True}
GATES = [
    "NodeKubeadmLabelsAndTaintsSet",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
]


def changed(world: World, **patch: Any) -> KubeadmControlPlane:
    world.api.change("kubeadmcontrolplanes", "demo", patch)
    return world.kcp


def new_machine(kcp: KubeadmControlPlane, failure_domain: str = "") -> dict[str, Any]:
    return desired.new_machine(kcp, "demo", "cp-1", failure_domain=failure_domain, config=CONFIG, infrastructure=INFRASTRUCTURE)


async def test_a_new_machine(empty: World) -> None:
    assert new_machine(empty.kcp, "east") == {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": "cp-1",
            "namespace": "default",
            "labels": LABELS,
            "annotations": {"cost": "b", Hook.PRE_TERMINATE: ""},
            "ownerReferences": [CONTROLLER],
        },
        "spec": {
            "clusterName": "demo",
            "version": "v1.34.4",
            "failureDomain": "east",
            "bootstrap": {"configRef": {"apiGroup": CONFIG.api_group, "kind": "KubeadmConfig", "name": "cp-1"}},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE.api_group, "kind": "DevMachine", "name": "cp-1"},
            "readinessGates": [{"conditionType": gate} for gate in GATES],
        },
    }


async def test_a_new_machine_takes_deletion_timeouts_and_taints_and_the_remediation_that_it_answers(empty: World) -> None:
    taint = {"key": "k", "effect": "NoSchedule", "propagation": "Always"}
    template = {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 0}, "taints": [taint]}}
    under_way = {"annotations": {Annotation.REMEDIATION_IN_PROGRESS: '{"machine":"cp-0"}'}}
    body = new_machine(changed(empty, spec={"machineTemplate": template}, metadata=under_way))
    assert body["spec"]["deletion"] == {"nodeDrainTimeoutSeconds": 0}
    assert body["spec"]["taints"] == [taint]
    assert body["metadata"]["annotations"][Annotation.REMEDIATION_FOR] == '{"machine":"cp-0"}'


async def test_labels_and_the_hook_of_ours_win_over_the_templates(empty: World) -> None:
    mine = {"labels": {"cluster.x-k8s.io/cluster-name": "x"}, "annotations": {Hook.PRE_TERMINATE: "x"}}
    body = new_machine(changed(empty, spec={"machineTemplate": {"metadata": mine}}))
    assert body["metadata"]["labels"] == LABELS
    assert body["metadata"]["annotations"][Hook.PRE_TERMINATE] == ""


async def test_readiness_gates_are_ours_first_then_the_users_each_once(empty: World) -> None:
    users = [{"conditionType": "Mine", "polarity": "Negative"}, {"conditionType": "APIServerPodHealthy", "polarity": "Negative"}]
    kcp = changed(empty, spec={"machineTemplate": {"spec": {"readinessGates": users}}})
    assert new_machine(kcp)["spec"]["readinessGates"] == [*({"conditionType": gate} for gate in GATES), users[0]]
    external = {"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"]}}}}
    kcp = changed(empty, spec={"kubeadmConfigSpec": external})
    assert [gate["conditionType"] for gate in new_machine(kcp)["spec"]["readinessGates"]] == [*GATES[:4], "Mine"]


async def test_an_updated_machine_keeps_version_failure_domain_and_the_remediation_it_answers(empty: World) -> None:
    before = new_machine(empty.kcp, "east")
    before["metadata"] |= {"uid": "u", "annotations": {Annotation.REMEDIATION_FOR: "{}", "others": "stay out of it"}}
    kcp = changed(empty, spec={"version": "v1.35.0", "machineTemplate": {"metadata": {"labels": {"team": "b"}}}})
    body = desired.updated_machine(kcp, "demo", msgspec.convert(before, Machine))
    assert (body["spec"]["version"], body["spec"]["failureDomain"]) == ("v1.34.4", "east")
    assert body["metadata"]["uid"] == "u"
    assert body["metadata"]["labels"]["team"] == "b"
    assert body["metadata"]["annotations"] == {"cost": "b", Annotation.REMEDIATION_FOR: "{}", Hook.PRE_TERMINATE: ""}


async def test_an_updated_machine_that_nothing_changes_is_the_new_one_with_its_uid(empty: World) -> None:
    body = new_machine(empty.kcp, "east")
    stored = msgspec.convert({**body, "metadata": {**body["metadata"], "uid": "u"}}, Machine)
    updated = desired.updated_machine(empty.kcp, "demo", stored)
    assert updated["metadata"].pop("uid") == "u"
    assert updated == body


async def test_an_updated_machine_says_nothing_of_references_that_it_does_not_have(empty: World) -> None:
    bare = msgspec.convert({"metadata": {"name": "x", "namespace": "default"}}, Machine)
    updated = desired.updated_machine(empty.kcp, "demo", bare)
    assert {"bootstrap", "infrastructureRef"}.isdisjoint(updated["spec"])
    assert Hook.PRE_TERMINATE in updated["metadata"]["annotations"]


async def test_a_new_config_initializes_or_joins_and_carries_one_label_yet(empty: World) -> None:
    first, joining = (desired.config(empty.kcp, "cp-1", initialize=initialize) for initialize in (True, False))
    assert (
        first["metadata"]
        == joining["metadata"]
        == {
            "name": "cp-1",
            "namespace": "default",
            "labels": {Label.CONTROL_PLANE: ""},
            "ownerReferences": [OWNER],
        }
    )
    assert (first["apiVersion"], first["kind"]) == ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig")
    assert "joinConfiguration" not in first["spec"]
    assert joining["spec"]["joinConfiguration"]["controlPlane"] == {}


async def test_infrastructure_is_a_clone_of_the_template_that_says_of_what(empty: World) -> None:
    template = msgspec.convert(empty.api.raw("devmachinetemplates", "small"), ForeignObject)
    body = desired.infrastructure(empty.kcp, template, "cp-1")
    assert body == {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "DevMachine",
        "metadata": {
            "name": "cp-1",
            "namespace": "default",
            "labels": {"from": "template", Label.CONTROL_PLANE: ""},
            "annotations": {
                "note": "x",
                Annotation.CLONED_FROM_NAME: "small",
                Annotation.CLONED_FROM_GROUP_KIND: "DevMachineTemplate.infrastructure.cluster.x-k8s.io",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {"size": 4},
    }
    body["spec"]["size"] = 5
    assert template.spec["template"]["spec"] == {"size": 4}


async def test_a_template_without_metadata_or_content_makes_an_object_all_the_same(empty: World) -> None:
    template = msgspec.convert({"kind": "DevMachineTemplate", "apiVersion": "x/v1", "metadata": {"name": "small"}}, ForeignObject)
    body = desired.infrastructure(empty.kcp, template, "cp-1")
    assert (body["kind"], body["metadata"]["labels"], "spec" in body) == ("DevMachine", {Label.CONTROL_PLANE: ""}, False)


async def test_the_second_part_of_a_companion_is_labels_and_annotations_for_one_uid(empty: World) -> None:
    companion = {"apiVersion": "g/v1", "kind": "DevMachine", "metadata": {"name": "cp-1"}}
    identity = {"name": "cp-1", "namespace": "default", "uid": "u"}
    body = desired.companion_metadata(empty.kcp, "demo", companion, "u")
    assert body == {"apiVersion": "g/v1", "kind": "DevMachine", "metadata": {**identity, "labels": LABELS, "annotations": {"cost": "b"}}}
    plain = changed(empty, spec={"machineTemplate": {"metadata": {"annotations": None}}})
    assert "annotations" not in desired.companion_metadata(plain, "demo", companion, "u")["metadata"]
