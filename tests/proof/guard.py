"""What a guard is: a predicate, what takes its place when it is taken out, and what notices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]
Instead = Callable[[Function], Function]
"""Makes, of a predicate, one that never objects."""


def returns(value: object) -> Instead:
    """One that always answers this."""
    return lambda _predicate: lambda *_, **__: value


@dataclass(frozen=True, slots=True)
class Guard:
    """One predicate, or several that stand behind each other, so that only without all of them anything breaks.

    `places` are `module:function` below `quorate`, each with what takes its place. `breaks` is the invariant of the oracle that falls without them, or, of
    what is no matter of a single decision, the test that fails.
    """

    name: str
    places: Mapping[str, Instead]
    breaks: str

    @property
    def is_of_the_hands(self) -> bool:
        """Whether it stands where a step is carried out, and not where it is decided."""
        return "::" in self.breaks
