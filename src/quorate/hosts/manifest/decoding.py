"""Trees decoded into frozen dataclasses, strictly: each mistake is noted with its place, and the reading goes on to find the next.

A dataclass's fields name their own keys: `ssh_port` is `sshPort` unless the field says otherwise with `named`, or the class with `KEYS_AS_NAMED = True`. A
value of null counts as not written, and so do an empty text and the number 0, unless the field's metadata is ZERO_COUNTS: that is how Go reads them. A field
that is wrong counts as not written too. Every text is one line of printable characters, but for those that are a file's content (`Text`, `Secret`).
"""

from __future__ import annotations

import base64
import binascii
import difflib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from quorate.core.text import printable
from quorate.hosts.manifest.findings import Findings, child, item
from quorate.hosts.manifest.names import line
from quorate.hosts.manifest.tree import Node, plain
from quorate.hosts.manifest.values import Opaque, Secret, Text, duration

T = TypeVar("T")

_KEY = "key"
_WRONG = object()  # what a value that cannot be read decodes to


def named(key: str) -> dict[str, str]:
    """The metadata of a dataclass field whose key is not its name in camel case."""
    return {_KEY: key}


NOT_A_KEY = named("")
"""The metadata of a dataclass field that no document can set."""

_ZERO = "zero counts"
ZERO_COUNTS = {_ZERO: True}
"""The metadata of a dataclass field in which 0 is a value of its own; where None is one, 0 is as well."""


def places_of(kind: Any) -> Mapping[str, tuple[str, ...]]:
    """Each key of this dataclass and of those in it, with the paths under which it is known; items of lists count as `[]`."""
    places: dict[str, list[str]] = {}
    _collect(kind, "", places)
    return {name: tuple(paths) for name, paths in places.items()}


def _collect(kind: Any, path: str, places: dict[str, list[str]]) -> None:
    for name, (_, hint) in keys_of(kind).items():
        places.setdefault(name, []).append(path or "the manifest itself")
        below, suffix = hint, ""
        while arguments := [argument for argument in get_args(below) if argument not in (NoneType, Ellipsis)]:
            suffix += "[]" if get_origin(below) is tuple else ""
            below = arguments[-1]
        if is_dataclass(below) and below not in (Secret, Opaque):
            _collect(below, child(path, name) + suffix, places)


def empty_mapping() -> Mapping[str, Any]:
    """The default of a field that holds a mapping."""
    return MappingProxyType({})


@cache
def keys_of(kind: Any) -> Mapping[str, tuple[Field[Any], Any]]:
    """Each key that a document may have for this dataclass: the field it sets, and that field's type."""
    hints, as_named = get_type_hints(kind), getattr(kind, "KEYS_AS_NAMED", False)
    keys = {each.name if as_named else key_of(each): (each, hints[each.name]) for each in fields(kind)}
    return MappingProxyType({name: value for name, value in keys.items() if name})


def key_of(each: Field[Any]) -> str:
    """The key that sets this field; empty where none does."""
    if _KEY in each.metadata:
        return str(each.metadata[_KEY])
    first, *rest = each.name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True)
class Decoder:
    """Reads trees into values. Of an unknown key it says what `hints` has, or the nearest key that is known there, or, by `elsewhere`, where it would be known.

    `lenient` lists unknown keys as ignored, and goes on.
    """

    findings: Findings
    hints: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lenient: bool = False

    def decode(self, node: Node, kind: type[T], path: str) -> T:
        """The value of this dataclass. What is wrong is in the findings, and its field has its default."""
        if not isinstance(node.value, dict):
            if node.value is not None:
                self._expected(path, node, "a mapping")
            return kind()
        known = keys_of(cast("Hashable", kind))
        values: dict[str, Any] = {}
        for name, below in node.mapping.items():
            where = child(path, name)
            self.findings.marks[where] = below.mark
            if name not in known:
                self._unknown(path, name, known)
            elif below.value is not None:
                target, hint = known[name]
                value = self._value(below, hint, where)
                if value is not _WRONG and not (hint in (str, int) and not value and _ZERO not in target.metadata):
                    values[target.name] = value
        return kind(**values)

    def _unknown(self, path: str, name: str, known: Iterable[str]) -> None:
        where = child(path, name)
        if self.lenient:
            self.findings.ignore(where, "it is not known here", "nothing is read from it")
            return
        self.findings.wrong(where, f"is not a known key; {self._advice(name, known)}")

    def _advice(self, name: str, known: Iterable[str]) -> str:
        if name in self.hints:
            return self.hints[name]
        if near := nearest(name, known):
            return f"did you mean {near}?"
        if name in self.elsewhere:
            return f"it belongs in {' or '.join(self.elsewhere[name])}; is it indented right?"
        return f"known here: {', '.join(sorted(known)) or 'none'}"

    def _value(self, node: Node, hint: Any, path: str) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is UnionType or NoneType in arguments:
            if node.value is None:
                return None
            return self._value(node, next(argument for argument in arguments if argument is not NoneType), path)
        if origin is tuple:
            return self._list(node, arguments[0], path)
        if origin is not None:  # Mapping[str, ...], the only other generic type in a manifest
            return self._mapping(node, arguments[1], path)
        if is_dataclass(hint) and hint not in (Secret, Opaque):
            return self._object(node, cast("type[Any]", hint), path)
        return self._scalar(node, hint, path)

    def _object(self, node: Node, kind: type[Any], path: str) -> Any:
        if not isinstance(node.value, dict):
            return self._expected(path, node, "a mapping")
        return self.decode(node, kind, path)

    def _list(self, node: Node, hint: Any, path: str) -> Any:
        if not isinstance(node.value, list):
            return self._expected(path, node, "a list")
        for index, below in enumerate(node.items):
            self.findings.marks[item(path, index)] = below.mark
        values = [self._value(below, hint, item(path, index)) for index, below in enumerate(node.items)]
        return tuple(value for value in values if value is not _WRONG)

    def _mapping(self, node: Node, hint: Any, path: str) -> Any:
        if not isinstance(node.value, dict):
            return self._expected(path, node, "a mapping")
        for name, below in node.mapping.items():
            self.findings.marks[child(path, name)] = below.mark
            if problem := line(name):
                self.findings.wrong(child(path, printable(name)), f"is a key that {problem}")
        values = {name: self._value(below, hint, child(path, name)) for name, below in node.mapping.items()}
        return MappingProxyType({name: value for name, value in values.items() if value is not _WRONG})

    def _scalar(self, node: Node, hint: Any, path: str) -> Any:
        if hint is Opaque:
            return Opaque(plain(node))
        if hint in (bool, int):
            right = isinstance(node.value, hint) and (hint is bool or not isinstance(node.value, bool))
            return node.value if right else self._expected(path, node, "true or false" if hint is bool else "a whole number")
        if not isinstance(node.value, str):
            return self._expected(path, node, "a text" if isinstance(node.value, (dict, list, NoneType)) else "a text; put it in quotes")
        if hint is Text:
            return node.value
        if not node.value and issubclass(hint, (StrEnum, timedelta)):
            return _WRONG  # nothing chosen, as Go reads it
        if hint is str and (problem := line(node.value)):
            self.findings.wrong(path, problem)
            return _WRONG
        try:
            return _from_text(node.value, hint)
        except ValueError as error:
            self.findings.wrong(path, str(error))
            return _WRONG

    def _expected(self, path: str, node: Node, what: str) -> Any:
        self.findings.wrong(path, f"is {_kind_of(node)}, and must be {what}")
        return _WRONG


def _from_text(text: str, hint: Any) -> Any:
    if hint is str:
        return text
    if hint is Secret:
        return Secret(text)
    if hint is timedelta:
        return duration(text)
    if hint is bytes:
        return _base64(text)
    return _choice(text, hint)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split("\n")), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64") from None


def _choice(text: str, hint: type[StrEnum]) -> StrEnum:
    try:
        return hint(text)
    except ValueError:
        choices = [member.value for member in hint if member.value]
        near = nearest(text, choices)
        raise ValueError(f"is none of {', '.join(choices)}{f'; did you mean {near}?' if near else ''}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that this one looks most like, case aside; empty where none is near."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else ""


def _kind_of(node: Node) -> str:
    match node.value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case None:
            return "empty"
        case _:
            return "a text"
