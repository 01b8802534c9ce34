"""Edits of a control plane that `quorate plan` tries: fields that are set, or a file in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from quorate.cli.failures import ExitCode, Failure, wrong

if TYPE_CHECKING:
    from quorate.clusterapi.observe.observer import Edit
    from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def edit(name: str, file: TextIO | None, settings: tuple[str, ...]) -> Edit | None:
    """The edit that the command line asks for; None where it asks for none. Of a file its specification and its annotations count."""
    if file is None and not settings:
        return None
    document = _document(file, name) if file else None
    assignments = [_assignment(setting) for setting in settings]

    def edited_as_asked(kcp: KubeadmControlPlane) -> KubeadmControlPlane:
        import msgspec

        stored: dict[str, Any] = msgspec.to_builtins(kcp)
        edited = _as_in(document, stored) if document else msgspec.to_builtins(kcp)
        for path, value in assignments:
            _assign(edited["spec"], path, value)
        return _accepted(stored, edited, type(kcp))

    return edited_as_asked


def _as_in(document: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored object as it would be with this document in its place."""
    metadata = {**stored["metadata"], "annotations": _annotations(document["metadata"], stored["metadata"])}
    return {**stored, "metadata": metadata, "spec": document["spec"]}


def _annotations(said: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations that an edited file leaves an object with.

    A copy of the object, which has its uid, says all of them (`kubectl replace`): but for the provider's own records, where it is the copy of an earlier
    version. A manifest adds its own, and takes away those that an earlier one had added (`kubectl apply`).
    """
    from quorate.clusterapi.desired import intent, remediation_record
    from quorate.clusterapi.types.names import Annotation

    wanted, found = said.get("annotations") or {}, stored.get("annotations") or {}
    if said.get("resourceVersion") and said["resourceVersion"] == stored.get("resourceVersion"):
        return dict(wanted)
    if said.get("uid"):
        records = {intent.ANNOTATION, remediation_record.INTENT, Annotation.REMEDIATION_IN_PROGRESS}
        kept = {key: value for key, value in found.items() if key in records}
        return {key: value for key, value in wanted.items() if key not in records} | kept
    withdrawn = _applied(found) - wanted.keys()
    return {key: value for key, value in found.items() if key not in withdrawn} | wanted


def _applied(annotations: Mapping[str, str]) -> set[str]:
    """The annotations of the manifest that `kubectl apply` applied last, as it records it; none where it has not."""
    import json

    try:
        return set(json.loads(annotations[_LAST_APPLIED])["metadata"]["annotations"])
    except (KeyError, TypeError, ValueError):
        return set()


def _accepted(stored: Mapping[str, Any], edited: dict[str, Any], kind: type[KubeadmControlPlane]) -> KubeadmControlPlane:
    """The edited object, if admission would let it in. Raises Failure with everything that is wrong."""
    import msgspec

    from quorate.clusterapi.api.defaults import default_kubeadm_control_plane
    from quorate.clusterapi.api.validation import validate_update
    from quorate.clusterapi.types.names import FeatureGate

    edited = default_kubeadm_control_plane(edited)
    edited["metadata"]["resourceVersion"] = "edited"
    wrong = validate_update(default_kubeadm_control_plane(dict(stored)), edited, frozenset(FeatureGate))
    if wrong:
        raise _refused("; ".join(f"{error.path}: {error.message}" for error in wrong))
    try:
        return msgspec.convert(edited, kind)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from None


def _refused(reasons: str) -> Failure:
    return Failure(f"the edited control plane would be refused: {reasons}", ExitCode.WRONG_COMMAND_LINE)


def _document(file: TextIO, name: str) -> dict[str, Any]:
    import yaml

    from quorate.clusterapi.types.names import KUBEADM_CONTROL_PLANE_KIND
    from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES

    try:
        document = yaml.safe_load(file)
    except yaml.YAMLError as error:
        raise wrong(f"{file.name} is not YAML: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != KUBEADM_CONTROL_PLANE_KIND or not isinstance(document.get("spec"), dict):
        raise wrong(f"{file.name} does not hold one {KUBEADM_CONTROL_PLANE_KIND} with a spec")
    if document.get("apiVersion") != KUBEADM_CONTROL_PLANES.api_version:
        raise wrong(f"{file.name} is of {document.get('apiVersion')}: write it as {KUBEADM_CONTROL_PLANES.api_version}")
    named = document.get("metadata", {}).get("name") if isinstance(document.get("metadata"), dict) else None
    if named != name:
        raise wrong(f"{file.name} holds {named or 'one without a name'}, not {name}")
    if not isinstance(document["metadata"].get("annotations") or {}, dict):
        raise wrong(f"{file.name}: metadata.annotations must hold keys and values")
    return document


def _assignment(setting: str) -> tuple[list[str], Any]:
    import yaml

    path, equals, value = setting.partition("=")
    if not equals or not all(path.split(".")):
        raise wrong(f"--set {setting}: write FIELD=VALUE, for example version=v1.35.4 or rollout.strategy.rollingUpdate.maxSurge=0")
    try:
        return path.removeprefix("spec.").split("."), yaml.safe_load(value)
    except yaml.YAMLError:
        raise wrong(f"--set {setting}: the value is not YAML; put quotes around it") from None


def _assign(spec: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        inner = spec.setdefault(key, {})
        if not isinstance(inner, dict):
            raise wrong(f"--set {'.'.join(path)}: {key} holds no fields; edit a file and use --filename")
        spec = inner
    spec[path[-1]] = value
