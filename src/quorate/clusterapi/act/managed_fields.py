"""Who owns which field of an object, as its managedFields say, put right before something is applied to it by server-side apply.

Two states would make the API server keep labels and annotations for ever that an apply leaves out: managedFields that were lost (kubernetes/kubernetes#136919;
the next apply then credits everything there is to "before-first-apply", a second owner), and those of an object that Cluster API v1.11 or older made, where
one field manager owns what belongs to two today. Source: cluster-api v1.14, internal/util/ssa.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import msgspec
import structlog

from quorate.clusterapi.types.names import FieldManager, Label
from quorate.kubernetes.client import Client
from quorate.kubernetes.objects import Object, OwnedMeta
from quorate.kubernetes.resource import Resource

Entry = dict[str, Any]

_INVENTED = "before-first-apply"  # how the API server calls the owner of everything that it found without any
_IDENTITY = frozenset({"name", "namespace", "uid"})  # which nobody owns

_log = structlog.get_logger(__name__)


class Owned(Protocol):
    """An object that says who applied what to it."""

    @property
    def metadata(self) -> OwnedMeta:
        """Its metadata."""

    @property
    def spec(self) -> Any:
        """Its specification."""


class _Metadata(Object):
    resource_version: str
    managed_fields: list[Entry] = msgspec.field(default_factory=list)


class _Owned(Object):
    metadata: _Metadata


async def put_right(client: Client, resource: Resource[Any], name: str, namespace: str, *, manager: str) -> None:
    """Read the object's managedFields live and, only where they are damaged or old, write them as they should be before `manager` applies anything.

    One read; the write is guarded by resourceVersion (Conflict: somebody changed the object meanwhile, look again). Raises NotFound where there is no object.
    """
    found = (await client.get(replace(resource, type=_Owned), name, namespace)).metadata
    wanted = corrected(found.managed_fields, manager=manager, api_version=resource.api_version)
    if wanted is None:
        return
    _log.info("managedFields corrected", kind=resource.kind, namespace=namespace, name=name)
    patch = [
        {"op": "add", "path": "/metadata/managedFields", "value": wanted},  # which replaces those that are there
        {"op": "replace", "path": "/metadata/resourceVersion", "value": found.resource_version},
    ]
    await client.json_patch(resource, name, patch, namespace, field_manager=FieldManager.DEFAULT)


def is_applied(found: Owned, body: Entry, *, manager: str) -> bool:
    """Whether applying `body` would change nothing: the object shows all of it, and `manager` has applied this and nothing else. Pure.

    Asked of the caches, for each object once after a start. In doubt the answer is no, and it costs an apply.
    """
    mine = [owner for owner in found.metadata.managed_fields if owner.manager == manager]
    if len(mine) != 1 or mine[0].api_version != body["apiVersion"]:
        return False  # by an older version of the API it may have applied what is wanted no more
    claims = {"metadata": {key: value for key, value in body["metadata"].items() if key not in _IDENTITY}}
    shown = {"metadata": msgspec.to_builtins(msgspec.structs.replace(found.metadata, managed_fields=[]))}
    if "spec" in body:
        claims["spec"], shown["spec"] = body["spec"], msgspec.to_builtins(found.spec)
    return _claims_just(msgspec.json.decode(mine[0].fields_v1), claims) and _shows(shown, claims)


def _claims_just(fields: Any, value: Any) -> bool:
    """Whether an entry's fields are those of this value. Lists are as the entry has them: items by their keys, or a whole."""
    if not isinstance(fields, dict):
        return False
    inner = {key: fields[key] for key in fields if key != "."}
    if isinstance(value, dict):
        return inner.keys() == {f"f:{key}" for key in value} and all(_claims_just(inner[f"f:{key}"], value[key]) for key in value)
    if not isinstance(value, list) or not inner:
        return not inner
    return len(inner) == len(value) and all(_claims_item(key, inner[key], value) for key in inner)


def _claims_item(key: str, fields: Entry, items: list[Any]) -> bool:
    """Whether a field such as `k:{"uid":"1"}` is of one of these items; of one that belongs to its owner as a whole it says no more."""
    if not key.startswith("k:"):
        return False
    try:
        wanted = msgspec.json.decode(key[2:], type=dict[str, Any])
    except msgspec.MsgspecError:
        return False
    item = next((each for each in items if isinstance(each, dict) and wanted.items() <= each.items()), None)
    return item is not None and (not fields or _claims_just(fields, item))


def _shows(shown: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; beside it there may be more."""
    if isinstance(wanted, dict):
        return isinstance(shown, dict) and all(key in shown and _shows(shown[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(shown, list) and all(any(_shows(each, item) for each in shown) for item in wanted)
    return bool(shown == wanted)


def corrected(entries: list[Entry], *, manager: str, api_version: str) -> list[Entry] | None:
    """The entries as they should be before `manager` applies its part; None where they are so already. Pure, and idempotent on its own answer.

    Lost ones get an entry for `manager`, invented ones are dropped. Where `manager` owns labels and annotations alone, an entry of the other manager that
    owns the cluster-name label is from before the two were parted: it goes, together with that of plain patches, which owned the same fields once more.
    """
    kept = [entry for entry in entries if entry.get("manager") != _INVENTED]
    if manager == FieldManager.METADATA and any(_is_old(entry) for entry in kept):
        kept = [entry for entry in kept if not _is_applied_by(entry, FieldManager.KUBEADM_CONTROL_PLANE) and not _is_plain_update(entry)]
    elif entries and len(kept) == len(entries):
        return None
    if not any(_is_applied_by(entry, manager) for entry in kept):
        kept.append(_seed(manager, api_version))
    return kept


def _is_old(entry: Entry) -> bool:
    """Whether this is the one owner of everything, labels included, of an object made by Cluster API v1.11 or older."""
    metadata = entry.get("fieldsV1", {}).get("f:metadata", {})
    return _is_applied_by(entry, FieldManager.KUBEADM_CONTROL_PLANE) and f"f:{Label.CLUSTER_NAME}" in metadata.get("f:labels", {})


def _is_applied_by(entry: Entry, manager: str) -> bool:
    return _is_about_the_object(entry, manager, "Apply")


def _is_plain_update(entry: Entry) -> bool:
    return _is_about_the_object(entry, FieldManager.DEFAULT, "Update")


def _is_about_the_object(entry: Entry, manager: str, operation: str) -> bool:
    """An entry with a subresource is about the status."""
    return entry.get("manager") == manager and entry.get("operation") == operation and not entry.get("subresource")


def _seed(manager: str, api_version: str) -> Entry:
    """The least entry there can be. The next apply of the manager replaces it; without any entry the API server would invent one that stays."""
    fields: Entry = {"f:metadata": {"f:name": {}}}
    return {"manager": manager, "operation": "Apply", "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": fields}
