"""Moments that an API server stores and Python's datetime cannot hold: of the year 0, with a comma before the fraction, with an offset of 99 hours.

Whoever may write one object of a kind could otherwise blind everybody to all objects of it: a list with one that cannot be read cannot be read.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_NEVER = "0001-01-01T00:00:00Z"  # Go's zero time: whatever is compared with it was long before
_PLACE = re.compile(r"Invalid RFC3339 encoded datetime - at `\$(.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
MOST = 100
"""Of one object, which is decoded anew for each."""
_LARGEST = 4 << 20  # bytes of an object; etcd takes 1.5 MiB


def readable(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T], most: int = MOST) -> T:
    """The object, with Go's zero time for each such moment, of which there may be `most`. Raises what the decoder raises for anything else that is wrong."""
    content: Any = None
    for _ in range(most):
        try:
            return decoder.decode(data)
        except msgspec.ValidationError as error:
            place = _PLACE.search(str(error))
            if place is None or len(bytes(data)) > _LARGEST:
                raise
        content = msgspec.json.decode(data) if content is None else content
        _set(content, place[1])
        data = msgspec.json.encode(content)
    return decoder.decode(data)


def _set(content: Any, place: str) -> None:
    *way, last = (int(step[2]) if step[2] else step[1] for step in _STEP.finditer(place))
    for step in way:
        content = content[step]
    content[last] = _NEVER
