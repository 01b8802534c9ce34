"""Kubernetes' own types within the API, which are the same in both versions.

Source: k8s.io/apimachinery, pkg/apis/meta/v1; k8s.io/api, core/v1; cluster-api, api/core.
"""

from __future__ import annotations

from quorate.clusterapi.api.conversion.forms import Member, always, items, mapping, pointer, struct
from quorate.clusterapi.api.conversion.quantities import QUANTITY
from quorate.clusterapi.api.conversion.scalars import ANYTHING, BOOLEAN, INSTANT, INSTANT_POINTER, INT32, INT64, TEXT

TEXTS = items(TEXT)
TEXT_MAP = mapping(TEXT)

OBJECT_META = struct(
    Member("name", TEXT),
    Member("generateName", TEXT),
    Member("namespace", TEXT),
    Member("selfLink", TEXT),
    Member("uid", TEXT),
    Member("resourceVersion", TEXT),
    Member("generation", INT64),
    Member("creationTimestamp", INSTANT),
    Member("deletionTimestamp", INSTANT_POINTER),
    Member("deletionGracePeriodSeconds", pointer(INT64)),
    Member("labels", TEXT_MAP),
    Member("annotations", TEXT_MAP),
    Member("ownerReferences", items(ANYTHING)),
    Member("finalizers", TEXTS),
    Member("managedFields", items(ANYTHING)),
)

LABELS_AND_ANNOTATIONS = struct(Member("labels", TEXT_MAP), Member("annotations", TEXT_MAP))

CONDITION = struct(
    always("type", TEXT),
    always("status", TEXT),
    Member("observedGeneration", INT64),
    always("lastTransitionTime", INSTANT),
    always("reason", TEXT),
    always("message", TEXT),
)

LEGACY_CONDITION = struct(
    always("type", TEXT),
    always("status", TEXT),
    Member("severity", TEXT),
    always("lastTransitionTime", INSTANT),
    Member("reason", TEXT),
    Member("message", TEXT),
)

STATUS_VERSION = struct(Member("version", TEXT), Member("replicas", INT32))

MACHINE_TAINT = struct(Member("key", TEXT), Member("value", TEXT), Member("effect", TEXT), Member("propagation", TEXT))

NODE_TAINT = struct(always("key", TEXT), Member("value", TEXT), always("effect", TEXT), Member("timeAdded", INSTANT_POINTER))

OBJECT_REFERENCE = struct(
    Member("kind", TEXT),
    Member("namespace", TEXT),
    Member("name", TEXT),
    Member("uid", TEXT),
    Member("apiVersion", TEXT),
    Member("resourceVersion", TEXT),
    Member("fieldPath", TEXT),
)

CONTRACT_REFERENCE = struct(Member("kind", TEXT), Member("name", TEXT), Member("apiGroup", TEXT))

_KEY_OF_OBJECT = struct(Member("name", TEXT), always("key", TEXT), Member("optional", pointer(BOOLEAN)))
_FIELD = struct(Member("apiVersion", TEXT), always("fieldPath", TEXT))
_RESOURCE_FIELD = struct(Member("containerName", TEXT), always("resource", TEXT), always("divisor", QUANTITY))
_FILE_KEY = struct(always("volumeName", TEXT), always("path", TEXT), always("key", TEXT), Member("optional", pointer(BOOLEAN)))
_SOURCE = struct(
    Member("fieldRef", pointer(_FIELD)),
    Member("resourceFieldRef", pointer(_RESOURCE_FIELD)),
    Member("configMapKeyRef", pointer(_KEY_OF_OBJECT)),
    Member("secretKeyRef", pointer(_KEY_OF_OBJECT)),
    Member("fileKeyRef", pointer(_FILE_KEY)),
)

ENVIRONMENT = items(struct(always("name", TEXT), Member("value", TEXT), Member("valueFrom", pointer(_SOURCE))))
