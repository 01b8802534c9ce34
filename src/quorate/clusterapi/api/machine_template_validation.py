"""What is wrong with the machine template of a control plane: its labels, annotations, taints and naming. Pure functions on plain JSON.

Source: cluster-api, internal/util/taints/validation.go, api/core/v1beta2 ObjectMeta.Validate, and validateNaming of the control plane's webhook; apimachinery
for what a label and an annotation may be.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from quorate.clusterapi.api.fields import Errors, FieldError, Kind, Object, list_at, object_at, text_at
from quorate.clusterapi.types.names import FeatureGate
from quorate.kubeadm.names import template_problems

MAX_ANNOTATIONS_BYTES = 256 * 1024  # of all keys and values together, apimachinery's limit

_NAME_PART = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_RESERVED_KEYS = {
    "node.cluster.x-k8s.io/uninitialized": "is Cluster API's own",
    "node.cluster.x-k8s.io/outdated-revision": "is Cluster API's own",
    "node-role.kubernetes.io/master": "has been replaced by node-role.kubernetes.io/control-plane since Kubernetes v1.24",
}
_RESERVED_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"  # the one among them that people set


def is_qualified_name(key: str) -> bool:
    """Whether this may be the key of a label: a name of up to 63 characters, after a DNS prefix of up to 253 and a slash if there is one."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None


def is_label_value(value: object) -> bool:
    """Whether this may be the value of a label: empty, or a name of up to 63 characters."""
    return isinstance(value, str) and len(value) <= 63 and (not value or _NAME_PART.fullmatch(value) is not None)


def validate_metadata(metadata: Object, path: str) -> Errors:
    """What is wrong with the labels and annotations of a template."""
    for key, value in object_at(metadata, "labels").items():
        if not is_qualified_name(key):
            yield FieldError(f"{path}.labels", Kind.INVALID, f"{key!r} cannot be the key of a label")
        if not is_label_value(value):
            yield FieldError(f"{path}.labels", Kind.INVALID, f"the value of {key!r} cannot be the value of a label")
    annotations = object_at(metadata, "annotations")
    for key in annotations:
        if not is_qualified_name(key.lower()):
            yield FieldError(f"{path}.annotations", Kind.INVALID, f"{key!r} cannot be the key of an annotation")
    if _size(annotations) > MAX_ANNOTATIONS_BYTES:
        yield FieldError(f"{path}.annotations", Kind.INVALID, f"keys and values together must not exceed {MAX_ANNOTATIONS_BYTES} bytes")


def _size(annotations: Mapping[str, object]) -> int:
    texts = (part for item in annotations.items() for part in item if isinstance(part, str))
    return sum(len(part.encode("utf-8", "surrogatepass")) for part in texts)


def validate_taints(template: Object, path: str, gates: Collection[str]) -> Errors:
    """What is wrong with the taints of a machine template's spec found at `path`."""
    taints = list_at(template, "taints")
    if taints and FeatureGate.MACHINE_TAINT_PROPAGATION not in gates:
        message = f"needs the feature gate {FeatureGate.MACHINE_TAINT_PROPAGATION}: turn it on, or remove the taints"
        yield FieldError(f"{path}.taints", Kind.FORBIDDEN, message)
    for index, taint in enumerate(taints):
        key = text_at(taint, "key")
        for message in _taint_key_problems(key):
            yield FieldError(f"{path}.taints[{index}].key", Kind.INVALID, message)


def _taint_key_problems(key: str) -> list[str]:
    problems = [f"{key} {_RESERVED_KEYS[key]}"] if key in _RESERVED_KEYS else []
    if key.startswith(_RESERVED_PREFIXES) and key != _OUT_OF_SERVICE:
        problems.append(f"must not start with {key.partition('/')[0]}/: such taints belong to Kubernetes ({_OUT_OF_SERVICE} apart)")
    if not is_qualified_name(key):
        problems.append("cannot be the key of a taint: it must be like the key of a label")
    return problems


def validate_naming(spec: Object, path: str) -> Errors:
    """What is wrong with `machineNaming.template` of the spec found at `path`."""
    for problem in template_problems(text_at(spec, "machineNaming", "template")):
        yield FieldError(f"{path}.machineNaming.template", Kind.INVALID, problem)
