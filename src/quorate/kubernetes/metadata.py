"""Metadata of any object: of the Structs this package decodes, and of the plain dicts that foreign kinds are kept as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from quorate.kubernetes.objects import ObjectMeta


def metadata_of(item: Any) -> ObjectMeta:
    """The metadata of a Struct with a `metadata` field, or of a dict as JSON gives it. Raises msgspec.ValidationError for a dict without a name."""
    if isinstance(item, Mapping):
        return msgspec.convert(item["metadata"], ObjectMeta)
    metadata: ObjectMeta = item.metadata
    return metadata
