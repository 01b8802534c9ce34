"""What an extension is shown of a Machine as it is and as it should be, and what of the difference its patches leave over. Pure.

Source: cluster-api v1.14, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/inplace_canupdatemachine.go, and internal/util/inplace for what of a Machine
counts: its version and its failure domain. Everything else of it is changed in place anyway, or never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quorate.clusterapi.extensions.hook import MachineObjects, Patches
from quorate.clusterapi.extensions.patches import PatchFailed, patched, same
from quorate.core.text import printable
from quorate.kubeadm.compare import for_extensions, leftovers
from quorate.kubeadm.known_fields import KnownFields
from quorate.kubernetes.jsonpatch import json_patch

Object = Mapping[str, Any]

_COMPARED = ("version", "failureDomain")
_SHOWN = 10  # fields that are named of what is left over


def shown(current: MachineObjects, desired: MachineObjects, fields: KnownFields) -> tuple[MachineObjects, MachineObjects]:
    """The current and the desired objects as an extension gets them: without status, owners and what no update is about.

    Labels and annotations are those that are desired, since they are written anyway; only the Machine's own, of which others write some, are as they are.
    """
    wanted, found = for_extensions(desired.config["spec"], current.config["spec"], fields)
    return (
        MachineObjects(
            machine=_cleaned(current.machine),
            infrastructure=_cleaned({**current.infrastructure, "metadata": _labelled(current.infrastructure, desired.infrastructure)}),
            config=_cleaned({**current.config, "spec": found, "metadata": _labelled(current.config, desired.config)}),
        ),
        MachineObjects(
            machine=_cleaned(desired.machine),
            infrastructure=_cleaned(desired.infrastructure),
            config=_cleaned({**desired.config, "spec": wanted}),
        ),
    )


def left_over(current: MachineObjects, desired: MachineObjects, patches: Patches) -> tuple[str, ...]:
    """The fields in which the patched current objects still differ from the desired ones; none: the extension can do all of it. Both are as `shown`.

    Values are left out where they might be secrets. Raises PatchFailed.
    """
    machine = patched(current.machine, patches.machine)
    infrastructure = patched(current.infrastructure, patches.infrastructure)
    config = patched(current.config, patches.config)
    found = (
        *_of_machine(machine, desired.machine),
        *_of_config(config, desired.config),
        *_of_infrastructure(infrastructure, desired.infrastructure),
    )
    more = (f"and {len(found) - _SHOWN} more",) if len(found) > _SHOWN else ()
    return tuple(map(printable, found[:_SHOWN])) + more


def _of_machine(found: Object, wanted: Object) -> Iterator[str]:
    for name in _COMPARED:
        now, then = (_text(obj, name) for obj in (found, wanted))
        if now != then:
            yield f"Machine spec.{name}: {now or 'nothing'} instead of {then or 'nothing'}"


def _text(machine: Object, name: str) -> str:
    value = _spec(machine).get(name) or ""
    if not isinstance(value, str):
        raise PatchFailed(f"a patch that makes spec.{name} of the Machine something else than text")
    return value


def _of_config(found: Object, wanted: Object) -> Iterator[str]:
    for difference in leftovers(_spec(wanted), _spec(found)):
        yield f"KubeadmConfig spec.{difference}"


def _of_infrastructure(found: Object, wanted: Object) -> Iterator[str]:
    now, then = found.get("spec"), wanted.get("spec")
    if not isinstance(now, dict) or not isinstance(then, dict):
        if not same(now, then):
            yield f"{wanted['kind']} spec: differs"
        return
    for operation in json_patch(now, then):
        yield f"{wanted['kind']} spec{operation['path'].replace('/', '.')}: differs"


def _spec(obj: Object) -> Mapping[str, Any]:
    spec = obj.get("spec") or {}
    if not isinstance(spec, dict):
        raise PatchFailed(f"a patch that makes the specification of {obj['kind']} something else than an object")
    return spec


def _labelled(obj: Object, like: Object) -> Mapping[str, Any]:
    """The metadata of an object, with the labels and annotations of another."""
    kept = {name: like["metadata"][name] for name in ("labels", "annotations") if name in like["metadata"]}
    return {name: value for name, value in obj["metadata"].items() if name not in ("labels", "annotations")} | kept


def _cleaned(obj: Object) -> dict[str, Any]:
    metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "labels", "annotations") if obj["metadata"].get(name)}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": obj.get("spec") or {}}
