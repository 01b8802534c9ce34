"""The scalar types of the API as Go reads and writes them: numbers within their bounds, instants to the second in UTC, durations, bytes, tokens.

Source: k8s.io/apimachinery, pkg/apis/meta/v1 (time.go, duration.go) and pkg/util/intstr; Go's time.ParseDuration.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from quorate.clusterapi.api.conversion.forms import Form, of_type

LARGEST_INT32 = 2**31 - 1
SECOND = 10**9  # nanoseconds
ZERO_INSTANT = "0001-01-01T00:00:00Z"
"""Go's zero time. One that somebody wrote is not the same as none: what holds it is not empty, and yet it is written as null, or not at all."""

_LARGEST_INT64 = 2**63 - 1
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:[.,][0-9]+)?(Z|[+-](?:[01][0-9]|2[0-4]):(?:[0-5][0-9]|60))"
)
_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_MOST_DIGITS = 18
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")


def _text(json: Any) -> str:
    return of_type(str, json, "a string")


def _boolean(json: Any) -> bool:
    return of_type(bool, json, "true or false")


def _integer(largest: int) -> Callable[[Any], int]:
    def read(json: Any) -> int:
        number = of_type(int, json, "a whole number")
        if not -largest - 1 <= number <= largest:
            raise ValueError(f"is not a number from {-largest - 1} to {largest}")
        return number

    return read


def _integer_or_text(json: Any) -> int | str:
    return json if isinstance(json, str) else _integer(LARGEST_INT32)(json)


def _instant(json: Any) -> str:
    found = _INSTANT.fullmatch(_text(json))
    if found is None:
        raise ValueError("is not an instant as RFC 3339 writes it")
    try:
        instant = datetime.fromisoformat(found[1]).replace(tzinfo=UTC) - _offset(found[2])
    except OverflowError as error:
        raise ValueError("is before the first year or after the last") from error
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}".zfill(len(ZERO_INSTANT))  # %Y has no leading zeros on Linux


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    distance = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
    return -distance if zone[0] == "-" else distance


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration as Go writes it, such as 1h30m or -1.5s."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    total, end = 0, 0
    while end < len(unsigned) or not unsigned:
        part = _PART.match(unsigned, end)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f"{text!r} is not a duration such as 1h30m")
        total += int(part[1] or 0) * _UNITS[part[3]] + _share(part[2] or "", _UNITS[part[3]])
        end = part.end()
    if total > _LARGEST_INT64 + (text[0] == "-"):
        raise ValueError(f"{text!r} is longer than a duration can be")
    return -total if text[0] == "-" else total


def _share(digits: str, unit: int) -> int:
    """Nanoseconds of the digits behind a point, reckoned in floating point, as Go does it, and of no more digits than it reads."""
    read = digits[:_MOST_DIGITS]
    return int(int(read or 0) * (unit / 10 ** len(read)))


def format_duration(nanoseconds: int) -> str:
    """A duration of whole seconds as Go writes it: 1h0m0s, 1m30s, 0s."""
    seconds = abs(nanoseconds) // SECOND
    minutes, hours = seconds // 60, seconds // 3600
    parts = (f"{hours}h" if hours else "", f"{minutes % 60}m" if minutes else "", f"{seconds % 60}s")
    return ("-" if nanoseconds < 0 else "") + "".join(parts)


def _bytes(json: Any) -> str:
    """Base64 as Go writes it; line ends within it are passed over."""
    try:
        return base64.b64encode(base64.b64decode(re.sub(r"[\r\n]", "", _text(json)), validate=True)).decode()
    except binascii.Error as error:
        raise ValueError("is not base64") from error


def _token(json: Any) -> str:
    if not _TOKEN.fullmatch(_text(json)):
        raise ValueError("is not a bootstrap token: six characters, a dot, sixteen characters")
    return str(json)


def _as_it_is(value: Any) -> Any:
    return value


TEXT = Form(_text, _as_it_is, zero="")
BOOLEAN = Form(_boolean, _as_it_is, zero=False)
INT32 = Form(_integer(LARGEST_INT32), _as_it_is, zero=0)
INT64 = Form(_integer(_LARGEST_INT64), _as_it_is, zero=0)
DURATION = Form(lambda json: parse_duration(_text(json)), format_duration, zero=0)
INTEGER_OR_TEXT = Form(_integer_or_text, _as_it_is)  # always a pointer: 0 is a value like others
TOKEN = Form(_token, _as_it_is, zero="")
BYTES = Form(_bytes, _as_it_is, unwritten=lambda value: value == "")
ANYTHING = Form(_as_it_is, _as_it_is)
INSTANT_POINTER = Form(_instant, lambda value: None if value == ZERO_INSTANT else value)
INSTANT = Form(_instant, INSTANT_POINTER.write, unwritten=lambda value: value == ZERO_INSTANT)
