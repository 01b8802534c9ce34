"""Events as JSON lines: how a run is streamed, kept and read again, in both ways of working."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import msgspec

from quorate.core.text import printable_lines

Event = TypeVar("Event")


class EventLines(Generic[Event]):
    """Writes and reads events of these kinds. `source` completes the sentence "line 3 is no event of ..."."""

    def __init__(self, *kinds: type[Event], source: str) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._source = source

    def encode(self, event: Event) -> str:
        """One line, the kind of event under `event`."""
        return msgspec.json.encode({"event": type(event).__name__, **msgspec.to_builtins(event)}).decode()

    def decode(self, lines: Iterable[str]) -> list[Event]:
        """The events of lines, each text of them printable. Raises ValueError for a line that is none, naming its number; a last line that was cut short is
        left out.
        """
        written = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
        events: list[Event] = []
        for number, line in written:
            try:
                data: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
                kind = self._kinds[data.pop("event")]
                events.append(msgspec.convert(_shown(data), kind))
            except (msgspec.MsgspecError, KeyError) as error:
                if number == written[-1][0] and not line.rstrip().endswith("}"):
                    break  # whoever wrote it was ended while writing
                raise ValueError(f"line {number} is no event of {self._source}: {error}") from error
        return events


def _shown(value: Any) -> Any:
    """With every text in it printable, line by line: a record that came from elsewhere may hold anything."""
    match value:
        case str():
            return printable_lines(value)
        case list():
            return [_shown(each) for each in value]
        case dict():
            return {_shown(key): _shown(each) for key, each in value.items()}
    return value
