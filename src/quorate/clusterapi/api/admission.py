"""What the admission webhooks answer: defaults filled in, and whether an object may be as it is to become. Pure functions of the review's request.

Objects are read as upstream's programs read them, into typed values, so that what those cannot tell apart (an empty string and none, say) is not told apart
here, and what they refuse to read is refused. Beside what upstream permits, every update is that leaves the specification as it is: whatever is wrong with it,
finalizers, annotations and the way to deletion do not wait for that.

Source: cluster-api, controlplane/kubeadm/webhooks/admission; controller-runtime, pkg/webhook/admission, for what it makes of their answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from quorate.clusterapi.api.conversion.converter import TABLES
from quorate.clusterapi.api.conversion.forms import Unreadable
from quorate.clusterapi.api.defaults import default_kubeadm_control_plane
from quorate.clusterapi.api.fields import FieldError, Object, at
from quorate.clusterapi.api.validation import (
    validate_create,
    validate_scale,
    validate_template_create,
    validate_template_update,
    validate_update,
)
from quorate.clusterapi.types.names import FeatureGate
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP, KUBEADM_CONTROL_PLANE_TEMPLATES, KUBEADM_CONTROL_PLANES
from quorate.kubernetes.jsonpatch import json_patch
from quorate.kubernetes.webhook import Admission

Request = Mapping[str, Any]

_ALLOWED = Admission()
_KIND, _TEMPLATE = KUBEADM_CONTROL_PLANES.kind, KUBEADM_CONTROL_PLANE_TEMPLATES.kind


def default(request: Request) -> Admission:
    """Fill in a KubeadmControlPlane's defaults."""
    given = request.get("object")
    form = TABLES[_KIND].new
    try:
        read = form.read(given)
    except ValueError as error:
        return _unreadable(error)
    defaulted = default_kubeadm_control_plane(read)
    if not isinstance(given, dict) or defaulted == read:
        return _ALLOWED
    return Admission(patch=json_patch(given, _laid_over(given, form.write(defaulted))))


def _laid_over(given: Any, written: Any) -> Any:
    """What was given with all that was written of it, where nothing is lost that merely is not written: an empty field, or one that nobody knows here."""
    if isinstance(given, dict) and isinstance(written, dict):
        return given | {key: _laid_over(given[key], value) if key in given else value for key, value in written.items()}
    if isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        return [_laid_over(before, after) for before, after in zip(given, written, strict=True)]
    return written


def validate(request: Request, gates: Collection[str]) -> Admission:
    """Whether a KubeadmControlPlane may be created, or changed, as is asked for; `gates` are the feature gates that are on."""
    try:
        new, old = _read(_KIND, request, "object"), _read(_KIND, request, "oldObject")
    except ValueError as error:
        return _unreadable(error)
    match request.get("operation"):
        case "CREATE":
            return _answer(_KIND, new, validate_create(new, gates))
        case "UPDATE" if new.get("spec") != old.get("spec"):
            return _answer(_KIND, new, validate_update(old, new, gates))
    return _ALLOWED


def validate_template(request: Request, gates: Collection[str]) -> Admission:
    """Whether a KubeadmControlPlaneTemplate may be created, or changed, as is asked for."""
    try:
        new, old = _read(_TEMPLATE, request, "object"), _read(_TEMPLATE, request, "oldObject")
    except ValueError as error:
        return _unreadable(error)
    match request.get("operation"):
        case "CREATE" if FeatureGate.CLUSTER_TOPOLOGY not in gates:
            return Admission(allowed=False, message="; ".join(map(str, validate_template_create(new, gates))))
        case "CREATE":
            return _answer(_TEMPLATE, new, validate_template_create(new, gates))
        case "UPDATE":
            return _answer(_TEMPLATE, new, validate_template_update(old, new))
    return _ALLOWED


def scaled(request: Request) -> tuple[str, str]:
    """Namespace and name of the KubeadmControlPlane that a Scale is of."""
    metadata = at(request.get("object"), "metadata")
    return str(at(metadata, "namespace") or request.get("namespace", "")), str(at(metadata, "name") or request.get("name", ""))


def validate_scaling(request: Request, control_plane: Object) -> Admission:
    """Whether this KubeadmControlPlane may be scaled as a Scale asks for."""
    replicas = at(request.get("object"), "spec", "replicas")
    if replicas is not None and (not isinstance(replicas, int) or isinstance(replicas, bool)):
        return _unreadable(ValueError("spec.replicas: is not an integer"))
    errors = validate_scale(control_plane, replicas or 0)
    return Admission(allowed=False, message="; ".join(error.message for error in errors)) if errors else _ALLOWED


def _read(kind: str, request: Request, which: str) -> Object:
    """An object of the request as its version writes it; empty where the request has none, as a creation has no old one. Raises ValueError."""
    if (given := request.get(which)) is None:
        return {}
    form = TABLES[kind].new
    written: Object = form.write(form.read(given))
    return written


def _unreadable(error: ValueError) -> Admission:
    reason = f"{error.path}: {error.reason}" if isinstance(error, Unreadable) else str(error)
    return Admission(allowed=False, message=f"the object cannot be read: {reason}", code=400, reason="BadRequest")


def _answer(kind: str, obj: Object, errors: Iterable[FieldError]) -> Admission:
    """What the API server itself says of an object that breaks its schema, with a cause for each field."""
    found = tuple(errors)
    if not found:
        return _ALLOWED
    name = str(at(obj, "metadata", "name") or "")
    causes = [{"field": error.path, "reason": f"FieldValue{error.kind}", "message": error.message} for error in found]
    told = ", ".join(map(str, found))
    return Admission(
        allowed=False,
        message=f'{kind}.{CONTROL_PLANE_GROUP} "{name}" is invalid: {told if len(found) == 1 else f"[{told}]"}',
        code=422,
        reason="Invalid",
        details={"name": name, "group": CONTROL_PLANE_GROUP, "kind": kind, "causes": causes},
    )
