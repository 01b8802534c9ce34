"""Tables of what differs between two versions of one object: each row leads up, from v1beta1 to v1beta2, and down again.

A table knows both shapes, so it also says how objects of either version are read and written. A row is made by one of the functions below, which name the kinds
of difference there are: `same`, `pointer_to_value`, `intent`, `seconds`, `part` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quorate.clusterapi.api.conversion.forms import Form, Member, Plain, items, mapping, pointer, struct
from quorate.clusterapi.api.conversion.scalars import BOOLEAN, DURATION, INT32, LARGEST_INT32, SECOND, TEXT

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the way down needs and the object does not tell: its namespace, and the apiVersion of a kind (LookupError where nobody knows it)."""

    namespace: str
    api_version_of: Callable[[str, str], str]


Up = Callable[[Any, Any], Any]
"""(value of v1beta1, the value of v1beta2 that was kept when the object last came down) -> value of v1beta2. None is nothing, on either side."""
Down = Callable[[Any, Surroundings], Any]
"""(value of v1beta2, what the object does not tell) -> value of v1beta1."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where a value is in one version, and how it is written there."""

    path: Path
    form: Form
    always: bool = False

    @property
    def member(self) -> Member:
        return Member(self.path[-1], self.form, self.always)


@dataclass(frozen=True, slots=True)
class Row:
    """One difference. A row without a field in one of the versions leads nowhere: the value is dropped."""

    old: Field | None
    new: Field | None
    up: Up = lambda value, _: value
    down: Down = lambda value, _: value


@dataclass(frozen=True, slots=True)
class Table:
    """One type in both versions. `new_pointers` are those objects on the way to a field of v1beta2 that are pointers; in v1beta1 all of them are.

    `finish_up` and `finish_down` change what the rows made where a rule concerns more than one of them.
    """

    rows: Sequence[Row]
    new_pointers: frozenset[Path] = frozenset()
    finish_up: Callable[[Plain, Plain, Plain], None] = lambda *_: None
    """(v1beta1, v1beta2 so far, v1beta2 that was kept)"""
    finish_down: Callable[[Plain, Plain], None] = lambda *_: None
    """(v1beta2, v1beta1 so far)"""
    old: Form = field(init=False)
    new: Form = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "old", _shape([row.old for row in self.rows if row.old], lambda _: True))
        object.__setattr__(self, "new", _shape([row.new for row in self.rows if row.new], self.new_pointers.__contains__))

    def up(self, old: Plain, kept: Plain | None = None) -> Plain:
        """The object of v1beta1 as one of v1beta2. Raises ValueError for what has no counterpart."""
        new: Plain = {}
        for row in self.rows:
            if row.old and row.new:
                put(new, row.new.path, row.up(get(old, row.old.path), get(kept or {}, row.new.path)))
        self.finish_up(old, new, kept or {})
        return new

    def down(self, new: Plain, around: Surroundings) -> Plain:
        """The object of v1beta2 as one of v1beta1. Raises LookupError where the surroundings do."""
        old: Plain = {}
        for row in self.rows:
            if row.old and row.new:
                put(old, row.old.path, row.down(get(new, row.new.path), around))
        self.finish_down(new, old)
        return old


def _shape(fields: Sequence[Field], is_pointer: Callable[[Path], bool], path: Path = ()) -> Form:
    """The object that has these fields, with the objects that lead to them."""
    depth = len(path)
    members = [each.member for each in fields if len(each.path) == depth + 1]
    for name in dict.fromkeys(each.path[depth] for each in fields if len(each.path) > depth + 1):
        below = (*path, name)
        inner = _shape([each for each in fields if each.path[: depth + 1] == below], is_pointer, below)
        members.append(Member(name, pointer(inner) if is_pointer(below) else inner))
    return struct(*members)


def get(value: Plain, path: Path) -> Any:
    """The value at a path; None where there is none."""
    inner: Any = value
    for name in path:
        inner = inner.get(name) if inner else None
    return inner


def put(value: Plain, path: Path, inner: Any) -> None:
    """Set a value at a path, and make the objects that lead there. None is not set, and neither are they."""
    if inner is not None:
        for name in path[:-1]:
            value = value.setdefault(name, {})
        value[path[-1]] = inner


def same(name: str, form: Form, *, always_old: bool = False, always_both: bool = False) -> Row:
    """A field that stays as it is, and is written even when it is zero: in neither version, in v1beta1, or in both."""
    return Row(Field((name,), form, always_old or always_both), Field((name,), form, always_both))


def moved(old: Path, new: Path, form: Form, *, always_old: bool = False, always_both: bool = False) -> Row:
    """A field that has another name or place."""
    return Row(Field(old, form, always_old or always_both), Field(new, form, always_both))


def all_same(form: Form, *names: str) -> Iterable[Row]:
    """Several fields of one type that stay as they are."""
    return tuple(same(name, form) for name in names)


def dropped(name: str, form: Form, *, always_old: bool = False) -> Row:
    """A field that v1beta2 does not have, and that is lost on the way up."""
    return Row(Field((name,), form, always_old), None)


def added(name: str, form: Form) -> Row:
    """A field that v1beta1 does not have."""
    return Row(None, Field((name,), form))


def pointer_to_value(name: str, form: Form, *, always_old: bool = False) -> Row:
    """A pointer that becomes a value, so that one to zero is none in v1beta2; on the way down zero is none, too."""
    return Row(Field((name,), pointer(form), always_old), Field((name,), form), up=lambda value, _: _unless_zero(value, form))


def value_to_pointer(name: str, form: Form) -> Row:
    """A value, always written, that becomes a pointer, which after the way up is never none; on the way down none is zero."""
    return Row(
        Field((name,), form, always=True),
        Field((name,), pointer(form)),
        up=lambda value, _: form.zero if value is None else value,
        down=lambda value, _: _unless_zero(value, form),
    )


def _unless_zero(value: Any, form: Form) -> Any:
    return None if value == form.zero else value


def intent(name: str, new: Path = (), *, always_old: bool = False) -> Row:
    """A boolean that becomes a pointer. False in v1beta1 says nothing, unless it was false, and not absent, when the object last came down."""
    return Row(
        Field((name,), BOOLEAN, always_old),
        Field(new or (name,), pointer(BOOLEAN)),
        up=lambda value, kept: True if value else (False if kept is False else None),
        down=lambda value, _: value or None,
    )


def seconds(old: str, *new: str) -> Row:
    """A duration that becomes a number of seconds."""
    return Row(
        Field((old,), pointer(DURATION)),
        Field(new, pointer(INT32)),
        up=lambda value, _: to_seconds(value),
        down=lambda value, _: from_seconds(value),
    )


def to_seconds(nanoseconds: int | None) -> int | None:
    """Whole seconds, cut off toward zero, and bounded by what a number of seconds can hold. Reckoned in floating point, as upstream does it."""
    if nanoseconds is None:
        return None
    whole, rest = divmod(abs(nanoseconds), SECOND)
    rounded = int(float(whole) + rest / SECOND)
    return min(rounded, LARGEST_INT32) if nanoseconds >= 0 else max(-rounded, -LARGEST_INT32 - 1)


def from_seconds(value: int | None) -> int | None:
    """Nanoseconds of a number of seconds."""
    return None if value is None else value * SECOND


_ARGUMENT = struct(Member("name", TEXT), Member("value", pointer(TEXT)))


def arguments(name: str) -> Row:
    """A map that becomes a list of names and values: by name on the way up; on the way down the last of several values for a name."""
    return Row(
        Field((name,), mapping(TEXT)),
        Field((name,), items(_ARGUMENT)),
        up=lambda value, _: None if value is None else [{"name": key, "value": value[key]} for key in sorted(value)],
        down=lambda value, _: None if value is None else {each.get("name", ""): each.get("value", "") for each in value},
    )


def nonempty(name: str, form: Form, *new: str) -> Row:
    """A list with another place, of which an empty one is none, both ways."""
    return Row(Field((name,), form), Field(new, form), up=lambda value, _: value or None, down=lambda value, _: value or None)


def part(name: str, table: Table, *new: str) -> Row:
    """An object that is a pointer in v1beta1 and a value in v1beta2: one with nothing in it is something there, and nothing here."""
    return Row(
        Field((name,), pointer(table.old)),
        Field(new or (name,), table.new),
        up=lambda value, kept: None if value is None else table.up(value, kept) or None,
        down=lambda value, around: table.down(value, around) if value else None,
    )


def value_part(name: str, table: Table) -> Row:
    """An object that is a value in both versions, and written in v1beta1 even when nothing is in it."""
    return Row(
        Field((name,), table.old, always=True),
        Field((name,), table.new),
        up=lambda value, kept: table.up(value or {}, kept) or None,
        down=lambda value, around: table.down(value or {}, around) or None,
    )


def pointer_part(name: str, table: Table) -> Row:
    """An object that is a pointer in both versions: one with nothing in it stays."""
    return Row(
        Field((name,), pointer(table.old)),
        Field((name,), pointer(table.new)),
        up=lambda value, kept: None if value is None else table.up(value, kept),
        down=lambda value, around: None if value is None else table.down(value, around),
    )


def list_of(name: str, table: Table, *new: str) -> Row:
    """A list of objects, none of which keeps anything from when it last came down."""
    return Row(
        Field((name,), items(table.old)),
        Field(new or (name,), items(table.new)),
        up=lambda value, _: None if value is None else [table.up(item) for item in value],
        down=lambda value, around: None if value is None else [table.down(item, around) for item in value],
    )


def keyed(name: str, table: Table, key: str, flag: str) -> Row:
    """A list of objects with an `intent` in them, `flag`, which is looked up by `key`, both in v1beta1 and in what was kept.

    The first with a key counts: where two have the same, the second gets the flag of the first.
    """

    def up(value: list[Plain] | None, kept: list[Plain] | None) -> list[Plain] | None:
        if value is None:
            return None
        return [table.up(item | {flag: _first(value, key, item).get(flag)}, _first(kept or [], key, item)) for item in value]

    return replace(list_of(name, table), up=up)


def keyed_nonempty(name: str, table: Table, key: str, flag: str) -> Row:
    """The same, but an empty list is none, both ways."""
    row = keyed(name, table, key, flag)
    return replace(row, up=lambda value, kept: row.up(value or None, kept), down=lambda value, around: row.down(value or None, around))


def _first(objects: list[Plain], key: str, like: Plain) -> Plain:
    return next((item for item in objects if item.get(key) == like.get(key)), {})
