"""What the admission webhooks answer: patches, refusals with their causes, and what nobody is held up by."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from quorate.clusterapi.api import admission
from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES
from quorate.kubernetes.webhook import Admission

Object = dict[str, Any]

GATES = DEFAULT_FEATURE_GATES
EXTERNAL = {"endpoints": ["https://a:2379"], "caFile": "/a", "certFile": "/b", "keyFile": "/c"}


def control_plane(**spec: Any) -> Object:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "m"}
    whole = {"replicas": 3, "version": "v1.34.4", "machineTemplate": {"spec": {"infrastructureRef": reference}}, **spec}
    return {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def template(**spec: Any) -> Object:
    return {"kind": "KubeadmControlPlaneTemplate", "metadata": {"name": "demo"}, "spec": {"template": {"spec": spec}}}


def patched(obj: Object) -> Object:
    """The object with the patch that comes back for it."""
    result = copy.deepcopy(obj)
    for operation in admission.default({"operation": "CREATE", "object": obj}).patch:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = result
        for part in way:
            target = target[part]
        assert operation["op"] in ("add", "replace")
        target[last] = operation["value"]
    return result


def created(obj: Object, gates: frozenset[str] = GATES) -> Admission:
    return admission.validate({"operation": "CREATE", "object": obj}, gates)


def changed(old: Object, new: Object) -> Admission:
    return admission.validate({"operation": "UPDATE", "oldObject": old, "object": new}, GATES)


def fields(answer: Admission) -> list[str]:
    return [cause["field"] for cause in answer.details["causes"]]


def test_defaults_are_added_where_nothing_is_said() -> None:
    spec = patched(control_plane(replicas=None, version="1.34.4"))["spec"]
    assert (spec["replicas"], spec["version"]) == (1, "v1.34.4")
    assert spec["rollout"] == {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}


def test_an_object_that_has_its_defaults_gets_no_patch() -> None:
    whole = patched(control_plane())
    assert admission.default({"operation": "UPDATE", "object": whole}) == Admission()


def test_nothing_is_lost_that_is_empty_or_unknown() -> None:
    given = control_plane(notInventedYet=1, kubeadmConfigSpec={"format": "", "files": [{"path": "/a", "owner": "", "new": 2}]})
    given["metadata"]["labels"] = {}
    whole = patched(given)
    assert whole["metadata"] == given["metadata"]
    assert whole["spec"]["notInventedYet"] == 1
    assert whole["spec"]["kubeadmConfigSpec"] == given["spec"]["kubeadmConfigSpec"]


@pytest.mark.parametrize("handler", [admission.default, lambda request: admission.validate(request, GATES)])
@pytest.mark.parametrize(("spec", "where"), [({"replicas": "3"}, "spec.replicas"), ({"rollout": []}, "spec.rollout")])
def test_what_cannot_be_read_is_a_bad_request_that_names_the_field(handler: Any, spec: Object, where: str) -> None:
    answer = handler({"operation": "CREATE", "object": control_plane(**spec)})
    assert (answer.allowed, answer.code) == (False, 400)
    assert answer.message.startswith(f"the object cannot be read: {where}")


def test_a_refusal_names_the_object_and_a_cause_for_each_field() -> None:
    answer = created(control_plane(replicas=2, version="v1"))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert {key: answer.details[key] for key in ("name", "group", "kind")} == {
        "name": "demo",
        "group": "controlplane.cluster.x-k8s.io",
        "kind": "KubeadmControlPlane",
    }
    assert fields(answer) == ["spec.replicas", "spec.version"]
    assert [cause["reason"] for cause in answer.details["causes"]] == ["FieldValueForbidden", "FieldValueInvalid"]
    assert answer.message.startswith('KubeadmControlPlane.controlplane.cluster.x-k8s.io "demo" is invalid: [spec.replicas: ')


def test_what_is_right_is_allowed() -> None:
    assert created(control_plane()).allowed
    assert changed(control_plane(), control_plane(replicas=5, version="v1.35.0")).allowed


def test_a_change_is_judged_with_what_was_before() -> None:
    answer = changed(control_plane(), control_plane(version="v1.36.0"))
    assert fields(answer) == ["spec.version"]


def test_whatever_is_wrong_with_a_specification_that_stays_finalizers_and_annotations_may_change() -> None:
    old, new = (control_plane(replicas=2, version="v1") for _ in range(2))
    old["metadata"]["finalizers"] = ["a"]
    new["metadata"] |= {"finalizers": [], "annotations": {"b": "c"}}
    assert changed(old, new).allowed
    new["spec"]["version"] = "v2"
    assert not changed(old, new).allowed


def test_an_empty_field_is_no_change() -> None:
    old, new = control_plane(replicas=2), control_plane(replicas=2, kubeadmConfigSpec={"format": "", "initConfiguration": {}})
    assert changed(old, new).allowed


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_other_operations_are_allowed(operation: str) -> None:
    request = {"operation": operation, "oldObject": control_plane(replicas=2)}
    assert admission.validate(request, GATES).allowed
    assert admission.validate_template({"operation": operation, "oldObject": template(replicas=2)}, GATES).allowed


def test_templates_may_be_made_and_their_specification_never_changes() -> None:
    gates = GATES | {"ClusterTopology"}
    good, bad = template(machineNaming={"template": "a-{{ .random }}"}), template(machineNaming={"template": "a"})
    assert admission.validate_template({"operation": "CREATE", "object": good}, gates).allowed
    refused = admission.validate_template({"operation": "CREATE", "object": bad}, gates)
    assert fields(refused) == ["spec.template.spec.machineNaming.template"]
    update = admission.validate_template({"operation": "UPDATE", "oldObject": good, "object": bad}, gates)
    assert fields(update) == ["spec.template.spec"]
    assert admission.validate_template({"operation": "UPDATE", "oldObject": bad, "object": bad}, frozenset()).allowed


def test_without_their_gate_templates_are_forbidden() -> None:
    answer = admission.validate_template({"operation": "CREATE", "object": template()}, GATES - {"ClusterTopology"})
    assert (answer.allowed, answer.code, answer.reason) == (False, 403, "Forbidden")
    assert "ClusterTopology" in answer.message


@pytest.mark.parametrize(
    ("replicas", "etcd", "allowed"),
    [(3, {}, True), (2, {}, False), (0, {}, False), (-1, {}, False), (None, {}, False), (2, {"external": EXTERNAL}, True)],
)
def test_scaling_obeys_the_number_of_etcds_members(replicas: int | None, etcd: Object, allowed: bool) -> None:
    scale = {"spec": {} if replicas is None else {"replicas": replicas}}
    found = control_plane(kubeadmConfigSpec={"clusterConfiguration": {"etcd": etcd}})
    answer = admission.validate_scaling({"object": scale}, found)
    assert answer.allowed == allowed
    assert allowed or (answer.code, answer.reason) == (403, "Forbidden")


def test_a_scale_that_cannot_be_read_is_a_bad_request() -> None:
    assert admission.validate_scaling({"object": {"spec": {"replicas": "three"}}}, control_plane()).code == 400


def test_the_control_plane_of_a_scale_has_its_name() -> None:
    assert admission.scaled({"object": {"metadata": {"name": "a", "namespace": "b"}}, "name": "c"}) == ("b", "a")
    assert admission.scaled({"object": {}, "name": "c", "namespace": "d"}) == ("d", "c")
