"""Conversion of whole objects, as the webhook server asks for it.

What comes down keeps all of v1beta2 in an annotation, so that what v1beta1 cannot say is there again when it goes up.

Source: cluster-api, controlplane/kubeadm/webhooks/conversion and util/conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from quorate.clusterapi.api.conversion.control_plane import KUBEADM_CONTROL_PLANE, KUBEADM_CONTROL_PLANE_TEMPLATE
from quorate.clusterapi.api.conversion.forms import Plain, object_of
from quorate.clusterapi.api.conversion.tables import Surroundings, Table
from quorate.clusterapi.types.names import Annotation
from quorate.clusterapi.types.resources import CONTROL_PLANE_GROUP, OLD_VERSION, VERSION
from quorate.kubernetes.depth import shallow

Converter = Callable[[Mapping[str, Any], str], dict[str, Any]]
"""(object, desired apiVersion) -> a new object; ValueError says why it cannot."""

OLD, NEW = f"{CONTROL_PLANE_GROUP}/{OLD_VERSION}", f"{CONTROL_PLANE_GROUP}/{VERSION}"
_HEADER = ("apiVersion", "kind", "metadata")

TABLES: Mapping[str, Table] = {
    "KubeadmControlPlane": KUBEADM_CONTROL_PLANE,
    "KubeadmControlPlaneTemplate": KUBEADM_CONTROL_PLANE_TEMPLATE,
}


def converter(api_version_of: Callable[[str, str], str]) -> Converter:
    """A function (object, desired apiVersion) -> object for both kinds, which leaves its argument as it is, and raises ValueError for what it cannot convert.

    `api_version_of` says for a group and a kind in which apiVersion it is served, and raises LookupError where it cannot say.
    """

    def convert(obj: Mapping[str, Any], desired: str) -> dict[str, Any]:
        kind, given = obj.get("kind"), obj.get("apiVersion")
        table = TABLES.get(str(kind))
        if table is None or {given, desired} != {OLD, NEW}:
            raise ValueError(f"there is no conversion of {kind} from {given} to {desired}")
        try:
            return _up(table, dict(obj)) if desired == NEW else _down(table, dict(obj), api_version_of)
        except (ValueError, LookupError) as error:
            reason = error.args[0] if error.args else error  # a KeyError would put its words between quotes
            raise ValueError(f"{kind} {_name(obj)} cannot be converted to {desired}: {reason}") from error

    return convert


def _up(table: Table, obj: Plain) -> Plain:
    old = table.old.read(obj)
    annotations: Plain = old.get("metadata", {}).get("annotations", {})
    text = annotations.pop(Annotation.CONVERSION_DATA, None)
    new = table.up(old, None if text is None else _kept(table, text))
    return table.new.write(new | {"apiVersion": NEW})  # type: ignore[no-any-return]


def _kept(table: Table, text: str) -> Plain:
    """What an annotation kept. Raises ValueError where it is not an object of v1beta2."""
    try:
        return table.new.read(object_of(msgspec.json.decode(shallow(text.encode()))) if text != "null" else {})  # type: ignore[no-any-return]
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"the annotation {Annotation.CONVERSION_DATA} cannot be read, remove it to go on without: {error}") from error


def _down(table: Table, obj: Plain, api_version_of: Callable[[str, str], str]) -> Plain:
    new = table.new.read(obj)
    metadata: Plain = new.get("metadata", {})
    old = table.down(new, Surroundings(metadata.get("namespace", ""), api_version_of))
    written = table.new.write(new | {"metadata": {}})
    if len(written) > len(_HEADER):  # upstream takes out an empty metadata with the comma behind it: where nothing follows, it stays
        del written["metadata"]
    annotations = metadata.get("annotations", {}) | {Annotation.CONVERSION_DATA: msgspec.json.encode(written).decode()}
    return table.old.write(old | {"apiVersion": OLD, "metadata": metadata | {"annotations": annotations}})  # type: ignore[no-any-return]


def _name(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    return "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key)) if isinstance(metadata, dict) else ""
