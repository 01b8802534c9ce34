"""Conditions in their two generations, and what both leave in a status.

The present generation is Kubernetes' own `Condition`. The older one, with a severity, lives on under `status.deprecated.v1beta1` for readers that have not
moved yet. Source: cluster-api, api/core/v1beta2/condition_types.go and v1beta1_condition_consts.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import field

from quorate.clusterapi.types.schema import ApiStruct, items, plain, text


class LegacyCondition(ApiStruct):
    """A condition of the v1beta1 generation. A severity (Error, Warning, Info) belongs to status False alone."""

    type: Annotated[str, text("What the condition is about, in CamelCase.", most=256)]
    status: Annotated[str, plain("True, False or Unknown.")]
    severity: Annotated[str, text("How bad it is while False: Error, Warning or Info.", least=None, most=32)] = ""
    reason: Annotated[str, text("Why, in one CamelCase word.", most=256)] = ""
    message: Annotated[str, text("Why, in words for a reader.", most=10240)] = ""
    last_transition_time: Annotated[datetime, plain("When the status last changed.")]


class DeprecatedV1Beta1(ApiStruct):
    """What v1beta1 kept in the status of a Cluster, a Machine or a KubeadmConfig."""

    conditions: Annotated[list[LegacyCondition], items("Conditions of the v1beta1 generation.", list_type=None)] = field(
        default_factory=list
    )


class Deprecated(ApiStruct):
    """What earlier API versions kept in the status."""

    v1beta1: Annotated[DeprecatedV1Beta1, plain("What v1beta1 kept in the status.")] = DeprecatedV1Beta1()
