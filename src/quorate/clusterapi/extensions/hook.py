"""The hook CanUpdateMachine on the wire: the question as it is sent, and what an answer says. Pure.

Source: cluster-api, api/runtime/hooks/v1alpha1/inplaceupdate_types.go. Fields of an answer that are not known here are passed over: later releases add some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.clusterapi.extensions.patches import Patch
from quorate.clusterapi.extensions.registry import HOOKS_VERSION
from quorate.core.text import printable
from quorate.kubernetes.objects import Object

SUCCESS, FAILURE = "Success", "Failure"


@dataclass(frozen=True, slots=True)
class MachineObjects:
    """A Machine with what belongs to it, each as `apiVersion`, `kind`, names, labels, annotations and `spec`. No repr: files may hold secrets."""

    machine: Mapping[str, Any]
    infrastructure: Mapping[str, Any]
    config: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.machine['metadata']['name']})"

    def as_sent(self) -> dict[str, Any]:
        """The three under their names in the hook."""
        return {"machine": self.machine, "infrastructureMachine": self.infrastructure, "bootstrapConfig": self.config}


@dataclass(frozen=True, slots=True)
class Patches:
    """What an extension can do to a Machine, its infrastructure and its configuration, as patches of what is there now."""

    machine: Patch
    infrastructure: Patch
    config: Patch


NO_PATCHES = Patches(Patch(), Patch(), Patch())
"""It can do nothing."""


class NotAnAnswer(Exception):
    """What came back is no answer to the hook."""


class Failed(Exception):
    """The extension itself says that it failed; the message is its own."""


class _Patch(Object):
    patch_type: str = ""
    patch: bytes | None = None

    def plain(self) -> Patch:
        return Patch(self.patch_type, self.patch or b"")


class _Answer(Object):
    status: str = ""
    message: str = ""
    machine_patch: _Patch | None = None
    infrastructure_machine_patch: _Patch | None = None
    bootstrap_config_patch: _Patch | None = None


def question(current: MachineObjects, desired: MachineObjects, settings: Mapping[str, str]) -> bytes:
    """Whether the extension can make the desired of the current objects. `settings` are those of its ExtensionConfig."""
    body = {"apiVersion": HOOKS_VERSION, "kind": "CanUpdateMachineRequest"}
    extra = {"settings": dict(settings)} if settings else {}
    return msgspec.json.encode({**body, **extra, "current": current.as_sent(), "desired": desired.as_sent()})


def answer(data: bytes) -> Patches:
    """The patches of an answer. Raises Failed where the extension says so, and NotAnAnswer for what is none."""
    try:
        read = msgspec.json.decode(data, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnAnswer(f"its answer cannot be read: {error}") from error
    if read.status == FAILURE:
        raise Failed(printable(read.message) or "it gave no reason")
    if read.status != SUCCESS:
        raise Failed(printable(f"it answered with the status {read.status!r}, which is neither {SUCCESS} nor {FAILURE}"))
    empty = _Patch()
    patches = (read.machine_patch, read.infrastructure_machine_patch, read.bootstrap_config_patch)
    return Patches(*((patch or empty).plain() for patch in patches))
