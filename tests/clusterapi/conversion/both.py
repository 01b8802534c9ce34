"""What the tests of conversion ask again and again: one object up, one down, and parts of them."""

from __future__ import annotations

from typing import Any

from quorate.clusterapi.api.conversion.converter import NEW, OLD, converter
from quorate.clusterapi.types.names import Annotation

Object = dict[str, Any]

CONTROL_PLANE, TEMPLATE = "KubeadmControlPlane", "KubeadmControlPlaneTemplate"
SERVED = {("infrastructure.cluster.x-k8s.io", "DevMachineTemplate"): "infrastructure.cluster.x-k8s.io/v1beta7"}
REFERENCE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "machines"}

convert = converter(lambda group, kind: SERVED[group, kind])


def made(version: str, kind: str = CONTROL_PLANE, **parts: Any) -> Object:
    """An object of a kind and version with these parts: spec, status, metadata."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "demo", "namespace": "default"}, **parts}


def up(kind: str = CONTROL_PLANE, **parts: Any) -> Object:
    """An object of v1beta1 with these parts as one of v1beta2."""
    return convert(made(OLD, kind, **parts), NEW)


def down(kind: str = CONTROL_PLANE, **parts: Any) -> Object:
    """An object of v1beta2 with these parts as one of v1beta1."""
    return convert(made(NEW, kind, **parts), OLD)


def back(obj: Object) -> Object:
    """What came down, up again."""
    return convert(obj, NEW)


def again(kind: str = CONTROL_PLANE, **parts: Any) -> Object:
    """An object of v1beta2 down and up."""
    return back(down(kind, **parts))


def of_spec(obj: Object) -> Object:
    """The spec of a control plane, or that of a template's control planes, which is where the two are alike."""
    spec: Object = obj.get("spec", {})
    return spec if obj["kind"] == CONTROL_PLANE else spec.get("template", {}).get("spec", {})


def in_spec(kind: str, spec: Object) -> Object:
    """The opposite: parts of an object from what control planes and templates have in common."""
    return {"spec": spec if kind == CONTROL_PLANE else {"template": {"spec": spec}}}


def config_up(config: Object, kind: str = CONTROL_PLANE) -> Object:
    """A KubeadmConfigSpec of v1beta1 as one of v1beta2."""
    return of_spec(up(kind, **in_spec(kind, {"kubeadmConfigSpec": config}))).get("kubeadmConfigSpec", {})  # type: ignore[no-any-return]


def config_down(config: Object, kind: str = CONTROL_PLANE) -> Object:
    """A KubeadmConfigSpec of v1beta2 as one of v1beta1."""
    return of_spec(down(kind, **in_spec(kind, {"kubeadmConfigSpec": config})))["kubeadmConfigSpec"]  # type: ignore[no-any-return]


def config_again(config: Object, kind: str = CONTROL_PLANE) -> Object:
    """A KubeadmConfigSpec of v1beta2 down and up."""
    return of_spec(again(kind, **in_spec(kind, {"kubeadmConfigSpec": config}))).get("kubeadmConfigSpec", {})  # type: ignore[no-any-return]


def kept_in(obj: Object) -> str:
    """The annotation that keeps v1beta2."""
    text: str = obj["metadata"]["annotations"][Annotation.CONVERSION_DATA]
    return text
