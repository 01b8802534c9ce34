"""Who owns which field of an object, as its managedFields say, put right before something is applied to it by server-side apply.

Two states would make the API server keep labels and annotations for ever that an apply leaves out: managedFields that were lost (kubernetes/kubernetes#136919;
the next apply then credits everything there is to "before-first-apply", a second owner), and those of an object that Cluster API v1.11 or older made, where
one field manager owns what belongs to two today. Source: cluster-api v1.14, internal/util/ssa.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import structlog

from quorate.clusterapi.types.names import FieldManager, Label
from quorate.kubernetes.client import Client
from quorate.kubernetes.objects import Object
from quorate.kubernetes.resource import Resource

Entry = dict[str, Any]

_INVENTED = "before-first-apply"  # how the API server calls the owner of everything that it found without any

_log = structlog.get_logger(__name__)


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
