"""KubeadmControlPlanes and their templates between v1beta1 and v1beta2, rule by rule, and the annotation that keeps what v1beta1 cannot say."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from quorate.clusterapi.api.conversion.converter import NEW, OLD, converter
from quorate.clusterapi.types.names import Annotation
from tests.clusterapi.conversion.both import (
    CONTROL_PLANE,
    REFERENCE,
    TEMPLATE,
    Object,
    again,
    back,
    convert,
    down,
    in_spec,
    kept_in,
    made,
    of_spec,
    up,
)

KINDS = pytest.mark.parametrize("kind", [CONTROL_PLANE, TEMPLATE])

MACHINES: Object = {"machineTemplate": {"metadata": {}}}
OLD_REFERENCE = {
    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta7",
    "kind": "DevMachineTemplate",
    "name": "machines",
    "namespace": "default",
}

# (what it is about, v1beta1, v1beta2) of what control planes and templates have in common: as it stands here, each is what the other becomes.
BOTH_WAYS: list[tuple[str, Object, Object]] = [
    (
        "Machines",
        {
            "machineTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "nodeDrainTimeout": "1m0s",
                "nodeVolumeDetachTimeout": "0s",
                "nodeDeletionTimeout": "10s",
                "taints": [{"key": "k", "effect": "NoExecute", "propagation": "Always"}],
            }
        },
        {
            "machineTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "deletion": {"nodeDrainTimeoutSeconds": 60, "nodeVolumeDetachTimeoutSeconds": 0, "nodeDeletionTimeoutSeconds": 10},
                    "taints": [{"key": "k", "effect": "NoExecute", "propagation": "Always"}],
                },
            }
        },
    ),
    ("rollout before", {"rolloutBefore": {"certificatesExpiryDays": 21}}, {"rollout": {"before": {"certificatesExpiryDays": 21}}}),
    ("rollout after", {"rolloutAfter": "2026-01-01T00:00:00Z"}, {"rollout": {"after": "2026-01-01T00:00:00Z"}}),
    (
        "rollout strategy",
        {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}},
        {"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}}},
    ),
    (
        "a share as surge",
        {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}},
        {"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}},
    ),
    (
        "remediation",
        {"remediationStrategy": {"maxRetry": 0, "retryPeriod": "1m0s", "minHealthyPeriod": "1h0m0s"}},
        {"remediation": {"maxRetry": 0, "retryPeriodSeconds": 60, "minHealthyPeriodSeconds": 3600}},
    ),
    ("remediation without a period", {"remediationStrategy": {"maxRetry": 3, "retryPeriod": "0s"}}, {"remediation": {"maxRetry": 3}}),
    ("names", {"machineNamingStrategy": {"template": "t"}}, {"machineNaming": {"template": "t"}}),
]

CASES = pytest.mark.parametrize(("old", "new"), [case[1:] for case in BOTH_WAYS], ids=[case[0] for case in BOTH_WAYS])


def required(kind: str) -> Object:
    """What v1beta1 always writes."""
    machines = MACHINES if kind == TEMPLATE else {"machineTemplate": {"metadata": {}, "infrastructureRef": {}}, "version": ""}
    return {"kubeadmConfigSpec": {}, **machines}


def merged(kind: str, old: Object) -> Object:
    base = required(kind)
    return base | old | {"machineTemplate": base["machineTemplate"] | old.get("machineTemplate", {})}


@KINDS
@CASES
def test_up(old: Object, new: Object, kind: str) -> None:
    assert of_spec(up(kind, **in_spec(kind, old))) == new


@KINDS
@CASES
def test_down(old: Object, new: Object, kind: str) -> None:
    assert of_spec(down(kind, **in_spec(kind, new))) == merged(kind, old)


@KINDS
@CASES
def test_down_and_up(old: Object, new: Object, kind: str) -> None:
    assert of_spec(again(kind, **in_spec(kind, new))) == new, old


@KINDS
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"rolloutBefore": {}}, {}),
        ({"rolloutBefore": {"certificatesExpiryDays": 0}}, {}),
        ({"rolloutAfter": "0001-01-01T00:00:00Z"}, {"rollout": {}}),  # there, but nobody writes it
        ({"remediationStrategy": {}}, {}),
        ({"remediationStrategy": {"retryPeriod": "500ms"}}, {"remediation": {"retryPeriodSeconds": 0}}),
        ({"machineNamingStrategy": {}}, {}),
        ({"machineTemplate": {"taints": []}}, {}),
        (
            {"machineTemplate": {"nodeDrainTimeout": "2147483648s"}},
            {"machineTemplate": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 2147483647}}}},
        ),
    ],
)
def test_up_without_a_way_back(old: Object, new: Object, kind: str) -> None:
    assert of_spec(up(kind, **in_spec(kind, old))) == new


@pytest.mark.parametrize(
    ("strategy", "control_plane", "template"),
    [
        ({}, {}, {"rollout": {"strategy": {"type": "RollingUpdate"}}}),
        (
            {"rollingUpdate": {"maxSurge": 1}},
            {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}},
            {"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
        ),
    ],
)
def test_a_strategy_without_a_type_gets_one_in_templates(strategy: Object, control_plane: Object, template: Object) -> None:
    found = [of_spec(up(kind, **in_spec(kind, {"rolloutStrategy": strategy}))) for kind in (CONTROL_PLANE, TEMPLATE)]
    assert found == [control_plane, template]


@KINDS
def test_a_retry_period_of_zero_on_purpose_is_so_again(kind: str) -> None:
    spec = in_spec(kind, {"remediation": {"retryPeriodSeconds": 0}})
    lowered = down(kind, **spec)
    assert of_spec(lowered)["remediationStrategy"] == {"retryPeriod": "0s"}
    assert of_spec(back(lowered)) == {"remediation": {"retryPeriodSeconds": 0}}
    del of_spec(lowered)["remediationStrategy"]
    assert of_spec(back(lowered)) == {}


def test_only_control_planes_say_how_many_of_which_version_and_when_machines_are_ready() -> None:
    old: Object = {
        "replicas": 0,
        "version": "v1.34.0",
        "machineTemplate": {"metadata": {}, "infrastructureRef": {}, "readinessGates": [{"conditionType": "c", "polarity": "Negative"}]},
    }
    new = {
        "replicas": 0,
        "version": "v1.34.0",
        "machineTemplate": {"spec": {"readinessGates": [{"conditionType": "c", "polarity": "Negative"}]}},
    }
    assert up(spec=old)["spec"] == new
    assert down(spec=new)["spec"] == old | {"kubeadmConfigSpec": {}}
    assert of_spec(up(TEMPLATE, **in_spec(TEMPLATE, old))) == {}


def test_a_template_has_labels_of_its_own() -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    new = {"template": {"metadata": metadata, "spec": {"machineNaming": {"template": "t"}}}}
    lowered = down(TEMPLATE, spec=new)
    assert lowered["spec"]["template"]["metadata"] == metadata
    assert back(lowered)["spec"] == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD_REFERENCE, REFERENCE),
        (OLD_REFERENCE | {"uid": "u", "fieldPath": "f", "resourceVersion": "1"}, REFERENCE),
        ({"apiVersion": "v1", "kind": "Pod"}, {"kind": "Pod"}),
        ({"apiVersion": "/", "kind": "Pod"}, {"kind": "Pod"}),
        ({"apiVersion": "group/"}, {"apiGroup": "group"}),
        ({"namespace": "other"}, None),
    ],
)
def test_a_reference_goes_up_without_its_version(old: Object, new: Object | None) -> None:
    spec = up(spec={"machineTemplate": {"infrastructureRef": old}}).get("spec", {})
    assert spec == ({"machineTemplate": {"spec": {"infrastructureRef": new}}} if new else {})


@pytest.mark.parametrize("api_version", ["a/b/c", "//"])
def test_a_reference_whose_version_cannot_be_read_is_refused(api_version: str) -> None:
    with pytest.raises(ValueError, match=f"default/demo .* {api_version}|'{api_version}'"):
        up(spec={"machineTemplate": {"infrastructureRef": {"apiVersion": api_version}}})


def test_a_reference_comes_down_with_the_version_that_is_served_in_the_objects_namespace() -> None:
    lowered = down(spec={"machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}})
    assert lowered["spec"]["machineTemplate"]["infrastructureRef"] == OLD_REFERENCE
    assert back(lowered)["spec"] == {"machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}}


def test_a_reference_to_what_nobody_serves_is_refused() -> None:
    with pytest.raises(ValueError, match=r"KubeadmControlPlane default/demo cannot be converted to .*v1beta1: "):
        down(spec={"machineTemplate": {"spec": {"infrastructureRef": {"kind": "Nothing"}}}})


def test_what_whoever_looks_for_the_version_says_is_passed_on_as_it_is() -> None:
    def nobody(group: str, kind: str) -> str:
        raise KeyError(f"no definition of {kind} in {group}")

    obj = made(NEW, spec={"machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}})
    with pytest.raises(ValueError, match=r"v1beta1: no definition of DevMachineTemplate in infrastructure\.cluster\.x-k8s\.io$"):
        converter(nobody)(obj, OLD)


LEGACY = {
    "type": "Ready",
    "status": "False",
    "severity": "Info",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "reason": "R",
    "message": "m",
}
CONDITION = {"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": ""}
NO_COUNTS = {"updatedReplicas": 0, "readyReplicas": 0, "unavailableReplicas": 0}
EMPTY_STATUS = {"replicas": 0, **NO_COUNTS, "initialized": False, "ready": False}

STATUS: list[tuple[str, Object, Object]] = [
    ("nothing", EMPTY_STATUS, {"replicas": 0, "deprecated": {"v1beta1": NO_COUNTS}}),
    (
        "counts of v1beta1, of which one makes ready",
        EMPTY_STATUS | {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "unavailableReplicas": 2, "ready": True},
        {"replicas": 3, "deprecated": {"v1beta1": {"updatedReplicas": 2, "readyReplicas": 1, "unavailableReplicas": 2}}},
    ),
    (
        "what only v1beta1 tells",
        EMPTY_STATUS | {"conditions": [LEGACY], "failureReason": "F", "failureMessage": ""},
        {"replicas": 0, "deprecated": {"v1beta1": {**NO_COUNTS, "conditions": [LEGACY], "failureReason": "F", "failureMessage": ""}}},
    ),
    (
        "what only v1beta2 tells",
        EMPTY_STATUS | {"v1beta2": {"conditions": [CONDITION], "readyReplicas": 0, "availableReplicas": 1, "upToDateReplicas": 2}},
        {
            "replicas": 0,
            "conditions": [CONDITION],
            "readyReplicas": 0,
            "availableReplicas": 1,
            "upToDateReplicas": 2,
            "deprecated": {"v1beta1": NO_COUNTS},
        },
    ),
    (
        "what is the same",
        EMPTY_STATUS | {"selector": "s", "version": "v1", "versions": [{"version": "v1", "replicas": 1}], "observedGeneration": 4},
        {
            "replicas": 0,
            "selector": "s",
            "version": "v1",
            "versions": [{"version": "v1", "replicas": 1}],
            "observedGeneration": 4,
            "deprecated": {"v1beta1": NO_COUNTS},
        },
    ),
    (
        "initialized",
        EMPTY_STATUS | {"initialized": True},
        {"replicas": 0, "initialization": {"controlPlaneInitialized": True}, "deprecated": {"v1beta1": NO_COUNTS}},
    ),
    (
        "the last remediation",
        EMPTY_STATUS | {"lastRemediation": {"machine": "m", "timestamp": "2026-01-01T00:00:00Z", "retryCount": 0}},
        {
            "replicas": 0,
            "lastRemediation": {"machine": "m", "time": "2026-01-01T00:00:00Z", "retryCount": 0},
            "deprecated": {"v1beta1": NO_COUNTS},
        },
    ),
]
STATUSES = pytest.mark.parametrize(("old", "new"), [case[1:] for case in STATUS], ids=[case[0] for case in STATUS])


@STATUSES
def test_status_up(old: Object, new: Object) -> None:
    assert up(status=old)["status"] == new


@STATUSES
def test_status_down(old: Object, new: Object) -> None:
    assert down(status=new)["status"] == old


@STATUSES
def test_status_down_and_up(old: Object, new: Object) -> None:
    assert again(status=new)["status"] == new, old


def test_a_status_that_is_not_there_is_written_in_either_version() -> None:
    assert up()["status"] == {"replicas": 0, "deprecated": {"v1beta1": NO_COUNTS}}
    assert down()["status"] == EMPTY_STATUS


def test_not_initialized_on_purpose_is_so_again() -> None:
    initialization = {"controlPlaneInitialized": False}
    assert again(status={"initialization": initialization})["status"]["initialization"] == initialization
    assert "initialization" not in up(status={"initialized": False})["status"]


@pytest.mark.parametrize(
    ("status", "lowered"),
    [
        ({"conditions": []}, {"v1beta2": {}}),  # nothing to write, and yet not nothing
        ({"lastRemediation": {"machine": "m"}}, {"lastRemediation": {"machine": "m", "timestamp": None, "retryCount": 0}}),
        ({"version": ""}, {}),
        (
            {"conditions": [{"type": "A", "status": "True"}]},
            {"v1beta2": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": None, "reason": "", "message": ""}]}},
        ),
        (
            {"deprecated": {"v1beta1": {"conditions": [{"type": "A", "status": "True"}]}}},
            {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": None}]},
        ),
    ],
)
def test_status_down_without_a_way_back(status: Object, lowered: Object) -> None:
    assert down(status=status)["status"] == EMPTY_STATUS | lowered


def test_what_v1beta1_always_writes() -> None:
    spec = {"version": "", "machineTemplate": {"metadata": {}, "infrastructureRef": {}}, "kubeadmConfigSpec": {}}
    assert down()["spec"] == spec
    assert down(TEMPLATE)["spec"] == {"template": {"metadata": {}, "spec": {"machineTemplate": {"metadata": {}}, "kubeadmConfigSpec": {}}}}
    old = down(spec={"machineTemplate": {"spec": {"readinessGates": [{}]}}})["spec"]["machineTemplate"]
    assert old["readinessGates"] == [{"conditionType": ""}]
    remediation = down(status={"lastRemediation": {"retryCount": 2}})["status"]["lastRemediation"]
    assert remediation == {"machine": "", "timestamp": None, "retryCount": 2}


@pytest.mark.parametrize("place", [("conditions",), ("deprecated", "v1beta1", "conditions")])
def test_what_is_always_written_of_a_condition(place: tuple[str, ...]) -> None:
    inner: Any = [{}]
    for name in reversed(place):
        inner = {name: inner}
    status = json.loads(kept_in(down(status=inner)))["status"]
    for name in place:
        status = status[name]
    legacy = {"type": "", "status": "", "lastTransitionTime": None}
    assert status == [legacy if len(place) > 1 else legacy | {"reason": "", "message": ""}]


def test_ready_in_v1beta1_is_worked_out_and_not_read() -> None:
    assert up(status={"ready": True})["status"] == {"replicas": 0, "deprecated": {"v1beta1": NO_COUNTS}}


@KINDS
def test_what_comes_down_keeps_all_of_v1beta2_but_its_metadata(kind: str) -> None:
    parts = in_spec(kind, {"kubeadmConfigSpec": {"files": [{"path": "/f", "content": "<ä>"}]}})
    lowered = down(kind, **parts)
    assert json.loads(kept_in(lowered)) == {"apiVersion": NEW, "kind": kind, **parts}
    assert ": " not in kept_in(lowered)
    assert "annotations" not in back(lowered)["metadata"]


@KINDS
def test_what_is_kept_is_written_as_the_version_writes_it(kind: str) -> None:
    lowered = down(kind, **in_spec(kind, {"kubeadmConfigSpec": {"format": "", "clusterConfiguration": {"apiServer": {"certSANs": []}}}}))
    assert of_spec(json.loads(kept_in(lowered))) == {"kubeadmConfigSpec": {"clusterConfiguration": {"apiServer": {}}}}


@KINDS
def test_of_an_object_with_nothing_in_it_an_empty_metadata_is_kept(kind: str) -> None:
    assert json.loads(kept_in(down(kind))) == {"apiVersion": NEW, "kind": kind, "metadata": {}}


@KINDS
def test_metadata_stays(kind: str) -> None:
    metadata = {
        "name": "demo",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}],
        "finalizers": ["f"],
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
    }
    lowered = down(kind, metadata=metadata)
    assert lowered["metadata"] == metadata | {"annotations": {"c": "d", Annotation.CONVERSION_DATA: kept_in(lowered)}}
    assert back(lowered)["metadata"] == metadata


@KINDS
@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', '{"spec": 1}', "[" * 100_000])
def test_what_was_kept_and_cannot_be_read_is_refused(text: str, kind: str) -> None:
    with pytest.raises(ValueError, match=Annotation.CONVERSION_DATA):
        up(kind, metadata={"annotations": {Annotation.CONVERSION_DATA: text}})


def test_fields_of_what_was_kept_are_read_as_they_are_written() -> None:
    text = json.dumps({"Status": {"initialization": {"controlPlaneInitialized": False}}})
    assert "initialization" not in up(metadata={"annotations": {Annotation.CONVERSION_DATA: text}})["status"]


def test_what_was_kept_may_hold_unknown_fields_of_any_depth() -> None:
    text = json.dumps({"status": {"initialization": {"controlPlaneInitialized": False}}, "unknown": []}).replace(
        "[]", "[" * 5000 + "]" * 5000
    )
    assert "initialization" in up(metadata={"annotations": {Annotation.CONVERSION_DATA: text}})["status"]


@pytest.mark.parametrize("text", ["null", "{}", '{"apiVersion": "whatever/v7", "unknown": 1}'])
def test_what_was_kept_may_be_nothing(text: str) -> None:
    assert up(metadata={"annotations": {Annotation.CONVERSION_DATA: text}})["metadata"] == {}


@pytest.mark.parametrize(
    ("obj", "desired"),
    [
        (made(OLD), OLD),
        (made(NEW), NEW),
        (made(OLD), "controlplane.cluster.x-k8s.io/v1alpha4"),
        (made("cluster.x-k8s.io/v1beta1"), NEW),
        (made(OLD, "KubeadmConfig"), NEW),
        ({}, NEW),
    ],
)
def test_other_conversions_are_refused(obj: Object, desired: str) -> None:
    with pytest.raises(ValueError, match="there is no conversion of"):
        convert(obj, desired)


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
@pytest.mark.parametrize("version", [OLD, NEW])
def test_what_is_no_object_is_refused(version: str, part: str) -> None:
    with pytest.raises(ValueError, match=f"{part}: is not an object"):
        convert(made(version) | {part: 5}, NEW if version == OLD else OLD)


@KINDS
@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_argument_stays_as_it_is(version: str, kind: str) -> None:
    parts: dict[str, Any] = in_spec(kind, {"kubeadmConfigSpec": {"files": [{"path": "/f", "append": True}]}})
    annotations = {"a": "b", Annotation.CONVERSION_DATA: json.dumps({"spec": {}})}
    obj = made(version, kind, **parts) | {"metadata": {"annotations": annotations}}
    before = copy.deepcopy(obj)
    result = convert(obj, NEW if version == OLD else OLD)
    of_spec(result)["kubeadmConfigSpec"]["files"][0]["path"] = "changed"
    assert obj == before
