"""The words in which the types say what their published schema demands.

Every limit goes into `Meta(extra_json_schema=...)`: it is published in the CustomResourceDefinition, where the API server enforces it, and not enforced again
when an object is decoded. An object that was stored before a limit existed must still be readable, or one bad object would blind a whole watch. Enumerations
are strings with an `enum` for the same reason.

Decoded objects are read-only. A part that an object leaves out is one default, shared with its lists and maps by all that leave it out: cheap, and left out
again when it is encoded, as the API wants it (a group must not be empty).
"""

from __future__ import annotations

from typing import Any

from msgspec import Meta

from quorate.kubernetes.objects import Object as ApiStruct

__all__ = ["ApiStruct"]

PUBLISHED_AS = "published as"
"""Key in `Meta.extra`: the type whose schema is published instead of that of the field's own type."""

DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
KIND = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"
CONDITION_TYPE = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
LABEL_VALUE = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"


def plain(description: str = "", **schema: Any) -> Meta:
    """A description and, where needed, schema keywords as they are; underscores in a keyword stand for dashes."""
    keywords = {keyword.replace("_", "-"): value for keyword, value in schema.items() if value is not None}
    return Meta(extra_json_schema={"description": description, **keywords} if description else keywords)


def text(description: str = "", *, most: int, least: int | None = 1, pattern: str | None = None) -> Meta:
    """A string of `least` to `most` characters."""
    return plain(description, minLength=least, maxLength=most, pattern=pattern)


def one_of(description: str, *choices: str) -> Meta:
    """A string out of a closed set."""
    return plain(description, enum=list(choices))


def int32(description: str = "", *, least: int | None = None, most: int | None = None) -> Meta:
    """A 32-bit integer with its bounds, both included."""
    return plain(description, format="int32", minimum=least, maximum=most)


def int64(description: str = "", *, least: int | None = None) -> Meta:
    """A 64-bit integer with its lower bound."""
    return plain(description, format="int64", minimum=least)


def group(description: str = "") -> Meta:
    """An object that is left out rather than empty."""
    return plain(description, minProperties=1)


def atomic(description: str = "") -> Meta:
    """An object that has one owner as a whole under server-side apply."""
    return plain(description, x_kubernetes_map_type="atomic")


def items(description: str = "", *, most: int | None = None, least: int | None = None, list_type: str | None = "atomic") -> Meta:
    """A list of `least` to `most` items, with one owner as a whole under server-side apply unless `list_type` is None."""
    return plain(description, minItems=least, maxItems=most, x_kubernetes_list_type=list_type)


def keyed(description: str, *keys: str, most: int, least: int | None = 1, rules: tuple[dict[str, str], ...] = ()) -> Meta:
    """A list whose items are told apart by `keys`, so that server-side apply merges it item by item; `rules` are CEL."""
    schema = plain(description, minItems=least, maxItems=most, x_kubernetes_list_type="map", x_kubernetes_list_map_keys=list(keys))
    if rules:
        (schema.extra_json_schema or {})["x-kubernetes-validations"] = list(rules)
    return schema


def rule(expression: str, message: str) -> dict[str, str]:
    """One CEL validation rule."""
    return {"rule": expression, "message": message}


def published_as(type_: type[ApiStruct], description: str = "", *, empty: bool = True) -> Meta:
    """A field kept as it came (a dict, so that no field is lost) whose schema is that of `type_`; `empty`: may it have no field at all."""
    meta = plain(description, minProperties=None if empty else 1)
    return Meta(extra_json_schema=meta.extra_json_schema, extra={PUBLISHED_AS: type_})
