"""Lengths of time as Go and kubectl write them."""

from __future__ import annotations

import re

import click

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as `1m30s` or `1.5h`; raises ValueError naming the text. Negative ones are refused: no flag here has a use for them."""
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 40s, 1m30s or 1h")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def format_age(seconds: float) -> str:
    """An age in at most two units, as kubectl shows it: `42s`, `3m12s`, `17m`, `5h8m`, `3d`."""
    whole = max(int(seconds), 0)
    if whole < 120:
        return f"{whole}s"
    minutes, second = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{second}s" if second else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, minute = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{minute}m" if minute else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


class Duration(click.ParamType[float]):
    """A flag's Go duration, in seconds."""

    name = "duration"

    def convert(self, value: float | str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a default may be given as a number of them."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
