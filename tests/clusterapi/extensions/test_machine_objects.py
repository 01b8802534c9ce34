"""What an extension is shown, and what its patches leave over. The cases are those of upstream's own tables (inplace_canupdatemachine_test.go)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quorate.clusterapi.api.bootstrap_schema import PUBLISHED
from quorate.clusterapi.extensions.hook import NO_PATCHES, MachineObjects, Patches
from quorate.clusterapi.extensions.machine_objects import left_over, shown
from quorate.clusterapi.extensions.patches import JSON_MERGE_PATCH, JSON_PATCH, Patch, PatchFailed

NONE = Patch()


def objects(*, version: str = "v1.34.4", config: Any = None, infrastructure: Any = None, **machine: Any) -> MachineObjects:
    """A Machine that has joined, with this configuration and infrastructure."""

    def of(kind: str, spec: Any) -> dict[str, Any]:
        metadata = {"name": "cp-1", "namespace": "default", "uid": "1", "resourceVersion": "2", "managedFields": [], "ownerReferences": []}
        return {"apiVersion": "x/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

    joined: dict[str, Any] = {"joinConfiguration": {"controlPlane": {}}}
    return MachineObjects(
        of("Machine", {"version": version, **machine}),
        of("DevMachine", infrastructure or {}),
        of("KubeadmConfig", {**joined, **(config or {})}),
    )


def left(current: MachineObjects, desired: MachineObjects, patches: Patches = NO_PATCHES) -> tuple[str, ...]:
    return left_over(*shown(current, desired, PUBLISHED), patches)


def merge(**spec: Any) -> Patch:
    return Patch(JSON_MERGE_PATCH, msgspec.json.encode({"spec": spec}))


def operations(*given: dict[str, Any]) -> Patch:
    return Patch(JSON_PATCH, msgspec.json.encode(given))


def test_only_names_labels_annotations_and_specifications_are_shown() -> None:
    current, desired = shown(objects(), objects(), PUBLISHED)
    for each in (current, desired):
        for obj in (each.machine, each.infrastructure, each.config):
            assert obj.keys() == {"apiVersion", "kind", "metadata", "spec"}
            assert obj["metadata"] == {"name": "cp-1", "namespace": "default"}
    assert "v1.34" not in repr(current)


@pytest.mark.parametrize(
    "ignored",
    [
        {"clusterName": "a"},
        {"providerID": "a"},
        {"minReadySeconds": 5},
        {"bootstrap": {"dataSecretName": "a"}},
        {"infrastructureRef": {"name": "a"}},
        {"readinessGates": [{"conditionType": "A"}]},
        {"deletion": {"nodeDrainTimeoutSeconds": 5}},
        {"taints": [{"key": "a"}]},
    ],
)
def test_what_is_followed_anyway_or_never_changes_is_no_difference(ignored: dict[str, Any]) -> None:
    assert left(objects(), objects(**ignored)) == ()


def test_version_and_failure_domain_count() -> None:
    assert left(objects(failureDomain="a"), objects(version="v1.35.0", failureDomain="b")) == (
        "Machine spec.version: v1.34.4 instead of v1.35.0",
        "Machine spec.failureDomain: a instead of b",
    )


@pytest.mark.parametrize("patch", [merge(version="v1.35.0"), operations({"op": "replace", "path": "/spec/version", "value": "v1.35.0"})])
def test_a_patch_covers_what_it_makes_of_the_current_object(patch: Patch) -> None:
    assert left(objects(), objects(version="v1.35.0"), Patches(patch, NONE, NONE)) == ()
    assert left(objects(), objects(version="v1.36.0"), Patches(patch, NONE, NONE)) == ("Machine spec.version: v1.35.0 instead of v1.36.0",)


def test_patches_of_metadata_and_status_count_for_nothing() -> None:
    patch = operations({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}, {"op": "add", "path": "/status", "value": {}})
    assert left(objects(), objects(), Patches(patch, patch, patch)) == ()


def test_a_patch_of_everything_covers_everything() -> None:
    desired = objects(version="v1.35.0", config={"files": [{"path": "/a", "content": "b"}]}, infrastructure={"size": 8})
    _, wanted = shown(objects(), desired, PUBLISHED)
    whole = [
        operations({"op": "replace", "path": "/spec", "value": obj["spec"]})
        for obj in (wanted.machine, wanted.infrastructure, wanted.config)
    ]
    assert left(objects(infrastructure={"size": 4}), desired, Patches(*whole)) == ()


def test_what_is_left_of_a_configuration_is_named_without_secrets() -> None:
    current = objects(config={"files": [{"path": "/a", "content": "old secret"}], "format": "ignition"})
    found = left(current, objects(config={"files": [{"path": "/a", "content": "new secret"}]}))
    assert found == ("KubeadmConfig spec.files[0].content: differs", "KubeadmConfig spec.format: 'ignition' instead of 'cloud-config'")


def test_infrastructure_is_compared_to_the_letter_and_its_values_are_not_told() -> None:
    found = left(
        objects(infrastructure={"size": 1, "tags": ["a"], "old": 1}),
        objects(infrastructure={"size": True, "tags": ["b"], "deep": {"new": 1}}),
    )
    assert found == (
        "DevMachine spec.old: differs",
        "DevMachine spec.size: differs",
        "DevMachine spec.tags: differs",
        "DevMachine spec.deep: differs",
    )
    assert left(objects(infrastructure={"a": {}}), objects(infrastructure={})) == ("DevMachine spec.a: differs",)


def test_of_many_fields_the_first_are_named() -> None:
    found = left(objects(), objects(infrastructure={f"field{number:02}": 1 for number in range(15)}))
    assert len(found) == 11
    assert found[-1] == "and 5 more"


JOIN_DISCOVERY = {"joinConfiguration": {"controlPlane": {}, "discovery": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}}}


@pytest.mark.parametrize(
    "config",
    [
        JOIN_DISCOVERY,
        {"clusterConfiguration": {"controlPlaneEndpoint": "10.0.0.1:6443"}},
        {"clusterConfiguration": {"dns": {"imageTag": "v1"}}},
        {"joinConfiguration": {"controlPlane": {}, "timeouts": {"controlPlaneComponentHealthCheckSeconds": 5}}},
        {"format": "cloud-config"},
        {"joinConfiguration": {"controlPlane": {}, "nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}},
        {"files": [], "users": [], "ntp": {}},
    ],
)
def test_what_never_replaces_a_machine_is_no_difference_here_either(config: dict[str, Any]) -> None:
    assert left(objects(config=config), objects()) == ()
    current, desired = shown(objects(config=config), objects(), PUBLISHED)
    assert current.config["spec"] == desired.config["spec"]
    assert "abcdef" not in str(current.config)


def test_a_machine_that_initialized_the_cluster_is_shown_as_if_it_had_joined() -> None:
    registration = {"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": "2"}]}}
    init = objects()
    config = {**init.config, "spec": {"initConfiguration": {**registration, "localAPIEndpoint": {"bindPort": 6443}}}}
    init = MachineObjects(init.machine, init.infrastructure, config)
    desired = objects(config={"joinConfiguration": {**registration, "controlPlane": {"localAPIEndpoint": {"bindPort": 6443}}}})
    assert left(init, desired) == ()
    assert "localAPIEndpoint" not in shown(init, desired, PUBLISHED)[0].config["spec"].get("initConfiguration", {})


def test_a_field_that_somebody_does_not_know_is_not_shown() -> None:
    current = objects(config={"fromTheFuture": 1})
    assert left(current, objects()) == ()
    assert "fromTheFuture" not in shown(current, objects(), PUBLISHED)[0].config["spec"]


@pytest.mark.parametrize(
    "patches",
    [
        Patches(merge(version=5), NONE, NONE),
        Patches(operations({"op": "replace", "path": "/spec", "value": 5}), NONE, NONE),
        Patches(NONE, NONE, operations({"op": "replace", "path": "/spec", "value": "x"})),
        Patches(Patch("", b"[]"), NONE, NONE),
    ],
)
def test_a_patch_that_makes_something_else_of_a_specification_fails(patches: Patches) -> None:
    with pytest.raises(PatchFailed):
        left(objects(), objects(), patches)
