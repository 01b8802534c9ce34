"""The record of a creation, in an annotation on the KubeadmControlPlane, that survives a crash: the name of the Machine to be created, and its specification.

The name is chosen once and written, guarded by resourceVersion, before anything is made; a repeat after a crash finds it and makes the same objects again
instead of a second set. Where something else is decided by then, what was made by that name goes, and another name is chosen: a Machine that is to join must
never come out as the one that founds the cluster. The record is taken away as soon as the Machine exists, so that no later Machine inherits it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from quorate.clusterapi.desired.objects import kind_made_by
from quorate.clusterapi.types.names import Annotation

ANNOTATION = "quorate.dev/creating"
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Intent:
    """The Machine about to be made."""

    name: str
    initialize: bool = False
    failure_domain: str = ""
    template: str = ""  # `Kind.group/name` of the template that its infrastructure is made from

    @property
    def infrastructure(self) -> tuple[str, str]:
        """Group and kind of what is made from the template."""
        kind, _, group = self.template.partition("/")[0].partition(".")
        return group, kind_made_by(kind)


def makes_the_same(begun: Intent, planned: Intent) -> bool:
    """Whether both are one and the same Machine but for the name."""
    return replace(begun, name="") == replace(planned, name="")


def read(annotations: dict[str, str]) -> Intent | None:
    """The recorded intent. One that cannot be read, or names what no Machine can be called, is as good as none: nobody made anything by it."""
    try:
        recorded = msgspec.json.decode(annotations.get(ANNOTATION, ""), type=Intent)
    except (msgspec.DecodeError, RecursionError):
        return None
    return recorded if _NAME.fullmatch(recorded.name) else None


def patch(resource_version: str, intent: Intent | None) -> dict[str, Any]:
    """The merge patch that records the intent, or clears it, if the control plane is still as it was read: it may have another one by now."""
    record = None if intent is None else msgspec.json.encode(intent).decode()
    return {"metadata": {"resourceVersion": resource_version, "annotations": {ANNOTATION: record}}}


def fulfilled(resource_version: str, annotations: Mapping[str, str], machine: Mapping[str, str]) -> dict[str, Any]:
    """The merge patch that clears the intent once its Machine exists, and with it upstream's record of the remediation that the Machine was made for.

    `annotations` are the control plane's and `machine` the Machine's. Both are cleared only if the control plane is still as it was read: newer ones, of
    another creation or another remediation, must not be lost.
    """
    cleared = patch(resource_version, None)
    record = annotations.get(Annotation.REMEDIATION_IN_PROGRESS)
    if record is not None and machine.get(Annotation.REMEDIATION_FOR) == record:
        cleared["metadata"]["annotations"][Annotation.REMEDIATION_IN_PROGRESS] = None
    return cleared
