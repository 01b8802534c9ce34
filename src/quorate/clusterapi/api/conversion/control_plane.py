"""KubeadmControlPlane and KubeadmControlPlaneTemplate in both versions.

Source: cluster-api, api/controlplane/kubeadm/v1beta1 and v1beta2; controlplane/kubeadm/webhooks/conversion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from quorate.clusterapi.api.conversion.forms import Plain, items, pointer
from quorate.clusterapi.api.conversion.kubeadm_config import KUBEADM_CONFIG_SPEC
from quorate.clusterapi.api.conversion.kubernetes_forms import (
    CONDITION,
    CONTRACT_REFERENCE,
    LABELS_AND_ANNOTATIONS,
    LEGACY_CONDITION,
    MACHINE_TAINT,
    OBJECT_META,
    OBJECT_REFERENCE,
    STATUS_VERSION,
)
from quorate.clusterapi.api.conversion.scalars import (
    BOOLEAN,
    DURATION,
    INSTANT,
    INSTANT_POINTER,
    INT32,
    INT64,
    INTEGER_OR_TEXT,
    TEXT,
)
from quorate.clusterapi.api.conversion.tables import (
    Field,
    Row,
    Surroundings,
    Table,
    all_same,
    dropped,
    from_seconds,
    intent,
    list_of,
    moved,
    nonempty,
    part,
    pointer_to_value,
    same,
    seconds,
    to_seconds,
    value_part,
    value_to_pointer,
)

_DEFAULT_STRATEGY = "RollingUpdate"  # the only one there is


def _reference_up(value: Plain | None, _: object) -> Plain | None:
    """A reference without the version, which is looked up wherever it is needed, and without the namespace, which is the object's own."""
    reference = value or {}
    group = _group_of(reference.get("apiVersion", ""))
    found = {"kind": reference.get("kind"), "name": reference.get("name"), "apiGroup": group}
    return {name: text for name, text in found.items() if text} or None


def _group_of(api_version: str) -> str:
    parts = api_version.split("/")
    if len(parts) > 2 and api_version != "/":
        raise ValueError(
            f"infrastructureRef has the apiVersion {api_version!r}, which is not a group and a version: write one such as example.com/v1"
        )
    return parts[0] if len(parts) == 2 else ""


def _reference_down(value: Plain | None, around: Surroundings) -> Plain | None:
    """A reference with the version that the kind is served in now, and the object's own namespace."""
    if not value:
        return None
    kind = value.get("kind", "")
    found = {
        "apiVersion": around.api_version_of(value.get("apiGroup", ""), kind),
        "kind": kind,
        "namespace": around.namespace,
        "name": value.get("name"),
    }
    return {name: text for name, text in found.items() if text}


def _machine_template(*rows: Row) -> Table:
    """What Machines get, without and with what only a control plane itself says: where they come from, and when they are ready."""
    return Table(
        [
            same("metadata", LABELS_AND_ANNOTATIONS, always_old=True),
            *rows,
            seconds("nodeDrainTimeout", "spec", "deletion", "nodeDrainTimeoutSeconds"),
            seconds("nodeVolumeDetachTimeout", "spec", "deletion", "nodeVolumeDetachTimeoutSeconds"),
            seconds("nodeDeletionTimeout", "spec", "deletion", "nodeDeletionTimeoutSeconds"),
            nonempty("taints", items(MACHINE_TAINT), "spec", "taints"),
        ]
    )


_MACHINE_TEMPLATE = _machine_template(
    Row(
        Field(("infrastructureRef",), OBJECT_REFERENCE, always=True),
        Field(("spec", "infrastructureRef"), CONTRACT_REFERENCE),
        up=_reference_up,
        down=_reference_down,
    ),
    list_of("readinessGates", Table([same("conditionType", TEXT, always_old=True), same("polarity", TEXT)]), "spec", "readinessGates"),
)

_TEMPLATE_MACHINE_TEMPLATE = _machine_template()

_RETRY_PERIOD = Row(
    Field(("retryPeriod",), DURATION, always=True),
    Field(("retryPeriodSeconds",), pointer(INT32)),
    up=lambda value, kept: (
        to_seconds(value) if value else (0 if kept == 0 else None)
    ),  # 0s says nothing, unless it was 0 when the object last came down
    down=lambda value, _: from_seconds(value) or None,
)

_REMEDIATION = Table([same("maxRetry", pointer(INT32)), _RETRY_PERIOD, seconds("minHealthyPeriod", "minHealthyPeriodSeconds")])


def _strategy(type_row: Row) -> Table:
    surge = ("rollingUpdate", "maxSurge")
    return Table([type_row, moved(surge, surge, INTEGER_OR_TEXT)])


_STRATEGY_TYPE = same("type", TEXT)
_TEMPLATE_STRATEGY_TYPE = replace(_STRATEGY_TYPE, up=lambda value, _: value or _DEFAULT_STRATEGY)


def _shared(strategy: Table) -> Iterable[Row]:
    """What control planes and their templates have in common."""
    return (
        value_part("kubeadmConfigSpec", KUBEADM_CONFIG_SPEC),
        part("rolloutBefore", Table([pointer_to_value("certificatesExpiryDays", INT32)]), "rollout", "before"),
        Row(Field(("rolloutAfter",), INSTANT_POINTER), Field(("rollout", "after"), INSTANT)),
        part("rolloutStrategy", strategy, "rollout", "strategy"),
        part("remediationStrategy", _REMEDIATION, "remediation"),
        part("machineNamingStrategy", Table([same("template", TEXT)]), "machineNaming"),
    )


_SPEC = Table(
    [
        same("replicas", pointer(INT32)),
        same("version", TEXT, always_old=True),
        value_part("machineTemplate", _MACHINE_TEMPLATE),
        *_shared(_strategy(_STRATEGY_TYPE)),
    ]
)

_LAST_REMEDIATION = Table(
    [
        same("machine", TEXT, always_old=True),
        moved(("timestamp",), ("time",), INSTANT, always_old=True),
        value_to_pointer("retryCount", INT32),
    ]
)

_OLD_STATUS = ("deprecated", "v1beta1")
_CONDITIONS, _LEGACY_CONDITIONS = items(CONDITION), items(LEGACY_CONDITION)


def _status_up(_: Plain, new: Plain, __: Plain) -> None:
    """What only readers of v1beta1 look at is always there."""
    new.setdefault("deprecated", {}).setdefault("v1beta1", {})


def _status_down(_: Plain, old: Plain) -> None:
    """Who counts as ready in v1beta1 has at least one ready Node."""
    if old.get("readyReplicas", 0) > 0:
        old["ready"] = True


_STATUS = Table(
    [
        same("selector", TEXT),
        value_to_pointer("replicas", INT32),
        pointer_to_value("version", TEXT),
        *(
            moved((name,), (*_OLD_STATUS, name), INT32, always_both=True)
            for name in ("updatedReplicas", "readyReplicas", "unavailableReplicas")
        ),
        intent("initialized", ("initialization", "controlPlaneInitialized"), always_old=True),
        dropped("ready", BOOLEAN, always_old=True),  # the way down works it out
        moved(("failureReason",), (*_OLD_STATUS, "failureReason"), TEXT),
        moved(("failureMessage",), (*_OLD_STATUS, "failureMessage"), pointer(TEXT)),
        same("observedGeneration", INT64),
        moved(("conditions",), (*_OLD_STATUS, "conditions"), _LEGACY_CONDITIONS),
        part("lastRemediation", _LAST_REMEDIATION),
        same("versions", items(STATUS_VERSION)),
        moved(("v1beta2", "conditions"), ("conditions",), _CONDITIONS),
        *(moved(("v1beta2", name), (name,), pointer(INT32)) for name in ("readyReplicas", "availableReplicas", "upToDateReplicas")),
    ],
    new_pointers=frozenset({("deprecated",), _OLD_STATUS}),
    finish_up=_status_up,
    finish_down=_status_down,
)

_HEADER = (*all_same(TEXT, "apiVersion", "kind"), same("metadata", OBJECT_META, always_both=True))

KUBEADM_CONTROL_PLANE = Table([*_HEADER, value_part("spec", _SPEC), value_part("status", _STATUS)])

_TEMPLATE_MACHINES = replace(
    part("machineTemplate", _TEMPLATE_MACHINE_TEMPLATE),
    down=lambda value, around: _TEMPLATE_MACHINE_TEMPLATE.down(value or {}, around),  # in v1beta1 it is always there
)

_TEMPLATE_SPEC = Table([_TEMPLATE_MACHINES, *_shared(_strategy(_TEMPLATE_STRATEGY_TYPE))])

_TEMPLATE = Table([same("metadata", LABELS_AND_ANNOTATIONS, always_old=True), value_part("spec", _TEMPLATE_SPEC)])

KUBEADM_CONTROL_PLANE_TEMPLATE = Table([*_HEADER, value_part("spec", Table([value_part("template", _TEMPLATE)]))])
