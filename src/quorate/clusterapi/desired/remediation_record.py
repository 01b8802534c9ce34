"""The records of remediations: ours on the KubeadmControlPlane before a Machine is deleted, upstream's there afterwards, and upstream's on the replacement.

All three have upstream's shape, `{"machine", "timestamp", "retryCount"}`, so that either provider can carry on with what the other began. Ours is written,
guarded by resourceVersion, before the delete, upstream's right after it and with ours cleared in the same write: a crash in between loses no count of retries.
Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/remediation.go (RemediationData).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from quorate.clusterapi.types.names import Annotation
from quorate.core.machines.state import Remediation
from quorate.core.text import printable

INTENT = "quorate.dev/remediating"
"""The annotation of ours on the KubeadmControlPlane: the Machine that is about to be deleted."""

_LAST_YEAR = 9000  # a period is added to it, and Python's last year is 9999
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    """The record as JSON. What is not given is Go's zero value."""

    machine: str = ""
    timestamp: _Moment | None = None
    retry_count: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0  # as many as Go reads


class MalformedRecord(ValueError):
    """An annotation that is no record of a remediation. The message names the annotation and the cause."""


def read(annotations: Mapping[str, str], key: str) -> Remediation | None:
    """The record under this key; None where there is none. Raises MalformedRecord."""
    if key not in annotations:
        return None
    try:
        data = msgspec.json.decode(annotations[key], type=_Data)
        at = None if data.timestamp is None or data.timestamp.year == 1 else data.timestamp.astimezone(UTC)  # Go's zero time is either
    except (msgspec.DecodeError, OverflowError, RecursionError) as error:
        raise MalformedRecord(f"annotation {key} is not a record of a remediation: {error}") from error
    if at is not None and at.year > _LAST_YEAR:
        raise MalformedRecord(f"annotation {key} is not a record of a remediation: {at:%Y} is too far ahead")
    return Remediation(printable(data.machine), at, data.retry_count)


def encode(record: Remediation) -> str:
    """The annotation's value, byte for byte as upstream writes it: whole seconds in UTC."""
    at = None if record.at is None else record.at.astimezone(UTC).replace(microsecond=0)
    return msgspec.json.encode(_Data(record.replica, at, record.retries)).decode()


def intended(resource_version: str, record: Remediation) -> dict[str, Any]:
    """The merge patch that records what is about to be done, if the control plane is still as it was read."""
    return {"metadata": {"resourceVersion": resource_version, "annotations": {INTENT: encode(record)}}}


def done(resource_version: str, record: Remediation) -> dict[str, Any]:
    """The merge patch that makes ours upstream's, if the control plane is still as it was read."""
    annotations = {INTENT: None, Annotation.REMEDIATION_IN_PROGRESS: encode(record)}
    return {"metadata": {"resourceVersion": resource_version, "annotations": annotations}}


def forgotten(resource_version: str) -> dict[str, Any]:
    """The merge patch that clears both, if the control plane is still as it was read."""
    return {"metadata": {"resourceVersion": resource_version, "annotations": {INTENT: None, Annotation.REMEDIATION_IN_PROGRESS: None}}}
