"""References between objects of one namespace, and the metadata that a template passes on.

Source: cluster-api, api/core/v1beta2/common_types.go.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from quorate.clusterapi.types.schema import DNS_SUBDOMAIN, KIND, ApiStruct, plain, text


class ObjectReference(ApiStruct):
    """An object in the same namespace. The version to read it at comes from its CRD's contract labels."""

    api_group: Annotated[str, text("The object's API group, without a version.", most=253, pattern=DNS_SUBDOMAIN)]
    kind: Annotated[str, text("The object's kind.", most=63, pattern=KIND)]
    name: Annotated[str, text("The object's name.", most=253, pattern=DNS_SUBDOMAIN)]

    @property
    def group_kind(self) -> str:
        """`Kind.group`, as the cloned-from annotation spells it."""
        return f"{self.kind}.{self.api_group}"


class TemplateMetadata(ApiStruct):
    """Labels and annotations for the objects made from a template."""

    labels: Annotated[dict[str, str], plain("Labels of the objects made from this template.")] = field(default_factory=dict)
    annotations: Annotated[dict[str, str], plain("Annotations of the objects made from this template.")] = field(default_factory=dict)
