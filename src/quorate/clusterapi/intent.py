"""What must survive a crash, kept in an annotation of ours on the KubeadmControlPlane: the name of the Machine that is about to be made.

The name is chosen once and written, guarded by resourceVersion, before anything is made; a repeat after a crash finds it and makes the same objects again
instead of a second set. It is taken away as soon as the Machine exists, so that no later Machine inherits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.clusterapi.types.names import Annotation

ANNOTATION = "quorate.dev/creating"


@dataclass(frozen=True, slots=True)
class Intent:
    """The Machine about to be made."""

    name: str
    initialize: bool = False
    failure_domain: str = ""
    infrastructure: str = (
        ""  # `Kind.group` of what is made with it: the control plane may have another kind of template by the time of a repeat
    )


def read(annotations: dict[str, str]) -> Intent | None:
    """The recorded intent. One that cannot be read is as good as none: whatever it named was made by nobody who could tell."""
    try:
        return msgspec.json.decode(annotations.get(ANNOTATION, ""), type=Intent)
    except msgspec.DecodeError:
        return None


def patch(resource_version: str, intent: Intent | None) -> dict[str, Any]:
    """The merge patch that records the intent, if the control plane is still as it was read, or clears it, whatever has become of the rest."""
    if intent is None:
        return {"metadata": {"annotations": {ANNOTATION: None}}}
    return {"metadata": {"resourceVersion": resource_version, "annotations": {ANNOTATION: msgspec.json.encode(intent).decode()}}}


def fulfilled(resource_version: str, annotations: Mapping[str, str], machine: Mapping[str, str]) -> dict[str, Any]:
    """The merge patch that clears the intent once its Machine exists, and with it upstream's record of the remediation that the Machine was made for.

    `annotations` are the control plane's and `machine` the Machine's. The record is cleared only if the control plane is still as it was read: a newer one,
    of another remediation, must not be lost.
    """
    record = annotations.get(Annotation.REMEDIATION_IN_PROGRESS)
    if record is None or machine.get(Annotation.REMEDIATION_FOR) != record:
        return patch(resource_version, None)
    cleared = {ANNOTATION: None, Annotation.REMEDIATION_IN_PROGRESS: None}
    return {"metadata": {"resourceVersion": resource_version, "annotations": cleared}}
