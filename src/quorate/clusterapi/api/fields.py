"""Reading plain JSON without trusting its shape, and saying which field is wrong.

Validation may see objects that no schema has (the controller checks what it reads with the same functions), so every accessor answers with something empty
where the JSON is of another type. What is wrong with a type is the API server's to say; what matters here is never to fail on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Object = dict[str, Any]


class Kind(StrEnum):
    """What kind of error it is, as a Kubernetes Status cause names it."""

    REQUIRED = "Required"
    INVALID = "Invalid"
    FORBIDDEN = "Forbidden"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field. The message never holds a value that could be a secret."""

    path: str
    kind: Kind
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


Errors = Iterator[FieldError]


def at(value: Any, *keys: str) -> Any:
    """The value at a path of keys; None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def object_at(value: Any, *keys: str) -> Object:
    """The object at a path; empty where there is none."""
    found = at(value, *keys)
    return found if isinstance(found, dict) else {}


def list_at(value: Any, *keys: str) -> list[Any]:
    """The list at a path; empty where there is none."""
    found = at(value, *keys)
    return found if isinstance(found, list) else []


def text_at(value: Any, *keys: str) -> str:
    """The string at a path; empty where there is none."""
    found = at(value, *keys)
    return found if isinstance(found, str) else ""


def integer_at(value: Any, *keys: str) -> int | None:
    """The integer at a path; None where there is none. JSON's true and false are no integers."""
    found = at(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def defined(value: Any) -> bool:
    """Whether anything is set: an object or list with nothing in it, an empty string and null count as not set."""
    return value not in (None, "", {}, [])
