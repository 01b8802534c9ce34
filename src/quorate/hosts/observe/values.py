"""When two values say the same, and how a value looks in a sentence. Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_UNITS = {"h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1), "ms": timedelta(milliseconds=1)}


def duration(text: str) -> timedelta | None:
    """The span that Go would read in the text; None where it is no duration, or one of more than a million years."""
    if not _DURATION.fullmatch(text):
        return None
    try:
        return sum((float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        return None


def is_zero(value: Any) -> bool:
    """Whether a field of Go's with this value and one that is left out are the same."""
    return value in (None, "", 0, False) or value == [] or value == {} or (isinstance(value, str) and duration(value) == timedelta())


def normalized(value: Any) -> Any:
    """Something that is equal for values that say the same: a list of texts in any order, a duration however it is written, an object without zero fields."""
    if isinstance(value, dict):
        return {key: normalized(member) for key, member in value.items() if not is_zero(member)}
    if isinstance(value, list):
        return frozenset(value) if all(isinstance(item, str) for item in value) else [normalized(item) for item in value]
    if isinstance(value, str) and (span := duration(value)) is not None:
        return span
    return None if is_zero(value) else value


def differ(found: Any, wanted: Any) -> bool:
    """Whether two fields say different things. One that is left out says the same as one with Go's zero value."""
    return normalized(found) != normalized(wanted) and not (is_zero(found) and is_zero(wanted))


def words(value: Any) -> str:
    """The value in a sentence."""
    if isinstance(value, frozenset | list):
        return ",".join(sorted(map(str, value)))
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    return "nothing" if value is None else repr(value)


def difference(found: Any, wanted: Any) -> str:
    """What differs, as the end of a sentence whose subject is the field; both values are in it. None is a field that is left out."""
    found, wanted = _shown(found), _shown(wanted)
    if wanted is None:
        return f"is {words(found)}, and the manifest leaves it out"
    if found is None:
        return f"is not set instead of {words(wanted)}"
    if isinstance(found, frozenset) and isinstance(wanted, frozenset):
        lacks, extra = sorted(wanted - found), sorted(found - wanted)
        return " and ".join((*((f"lacks {', '.join(lacks)}",) if lacks else ()), *((f"has {', '.join(extra)} too many",) if extra else ())))
    return f"is {words(found)} instead of {words(wanted)}"


def _shown(value: Any) -> Any:
    """In the form in which values are compared, but for a zero, which is a value where somebody has written it."""
    plain = normalized(value)
    return value if plain is None else plain
