"""What must survive a crash, kept in an annotation of ours on the KubeadmControlPlane: the name of the Machine that is about to be made.

The name is chosen once and written, guarded by resourceVersion, before anything is made; a repeat after a crash finds it and makes the same objects again
instead of a second set. It is taken away as soon as the Machine exists, so that no later Machine inherits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

ANNOTATION = "quorate.dev/creating"


@dataclass(frozen=True, slots=True)
class Intent:
    """The Machine about to be made."""

    name: str
    initialize: bool = False
    failure_domain: str = ""


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
