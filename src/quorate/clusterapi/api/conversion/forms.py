"""How JSON becomes plain values and back, as Go's typed structs do it to whatever passes through upstream's converter.

What Go tells apart is told apart here too, since the converter decides by it: a struct with nothing in it is zero and vanishes, one that holds an empty list is
not zero and stays, though the empty list itself is not written.

An object is a dict that holds only what is not zero. In it:

- a string, a number or a boolean is zero at "", 0 and False, unless the field is a pointer: then those are values like others;
- an object is zero when it holds nothing, unless the field is a pointer;
- a list, a map and an instant are zero when absent, and not when empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

Plain = dict[str, Any]


class Unreadable(ValueError):
    """JSON that a type cannot hold: in which field, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def _never(_: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Form:
    """One type. `read` takes JSON that is not null, and raises ValueError for what the type cannot hold; `write` takes what `read` returns, and `zero`.

    `unwritten` tells of which values that are not zero an optional field is left out all the same.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    zero: Any = None
    unwritten: Callable[[Any], bool] = _never


@dataclass(frozen=True, slots=True)
class Member:
    """A field of an object. One that is `always` written is written as its type's zero where the object does not hold it."""

    name: str
    form: Form
    always: bool = False


def always(name: str, form: Form) -> Member:
    """A field that is written even when it is zero."""
    return Member(name, form, always=True)


def pointer(form: Form) -> Form:
    """A type that is null when absent, and whose zero is a value like others."""
    return Form(form.read, lambda value: None if value is None else form.write(value))


def items(form: Form) -> Form:
    """A list."""

    def read(json: Any) -> list[Any]:
        return [form.zero if item is None else form.read(item) for item in of_type(list, json, "a list")]

    return Form(read, lambda value: None if value is None else [form.write(item) for item in value], unwritten=_is_empty)


def mapping(form: Form) -> Form:
    """A map from strings."""

    def read(json: Any) -> Plain:
        return {key: form.zero if value is None else form.read(value) for key, value in object_of(json).items()}

    return Form(read, lambda value: {key: form.write(inner) for key, inner in value.items()}, unwritten=_is_empty)


def struct(*members: Member) -> Form:
    """An object with these fields. Others are dropped, as the API server drops them."""
    return Form(lambda json: _read(members, object_of(json)), lambda value: _write(members, value), zero={})


def object_of(json: Any) -> Plain:
    """JSON that has to be an object."""
    return of_type(dict, json, "an object")


def of_type(kind: type[T], json: Any, words: str) -> T:
    """JSON that has to be of exactly this type: true is no number. Raises ValueError with these words."""
    if type(json) is not kind:
        raise ValueError(f"is not {words}")
    return json


def _is_empty(value: Any) -> bool:
    return not value


def _read(members: Sequence[Member], json: Plain) -> Plain:
    plain = {}
    for member in members:
        if (field := json.get(member.name)) is None:
            continue
        try:
            value = member.form.read(field)
        except Unreadable as error:
            raise Unreadable(f"{member.name}.{error.path}", error.reason) from None
        except ValueError as error:
            raise Unreadable(member.name, str(error)) from None
        if value != member.form.zero:
            plain[member.name] = value
    return plain


def _write(members: Sequence[Member], plain: Plain) -> Plain:
    json = {}
    for member in members:
        value = plain.get(member.name, member.form.zero)
        if member.always or (value != member.form.zero and not member.form.unwritten(value)):
            json[member.name] = member.form.write(value)
    return json
