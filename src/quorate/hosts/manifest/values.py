"""Values that YAML has no kind of its own for: secrets, texts that only others understand, and Go's durations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NewType

_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART = re.compile(r"([0-9.]+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


Text = NewType("Text", str)
"""The content of a file, which may have several lines."""
NO_TEXT = Text("")


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that is never shown: ask for it with `reveal`, at the place that writes it where it belongs."""

    text: str = field(repr=False)

    def reveal(self) -> str:
        """The text itself."""
        return self.text

    def __str__(self) -> str:
        return "Secret()"

    def __bool__(self) -> bool:
        return bool(self.text)


NO_SECRET = Secret("")


@dataclass(frozen=True, slots=True)
class Opaque:
    """Plain JSON that quorate hands on without reading, such as a cloud provider's part of a MachineDeployment. It may hold secrets: never shown."""

    value: Any = field(repr=False)

    def __str__(self) -> str:
        return "Opaque()"


def duration(text: str) -> timedelta:
    """The span that Go's `time.ParseDuration` reads: `8760h`, `1h30m`, `1.5h`, `0`. Raises ValueError, without the text, for anything else."""
    if not _DURATION.fullmatch(text):
        raise ValueError("must be a duration such as 8760h or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    try:
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError:
        raise ValueError("is too long a duration") from None
