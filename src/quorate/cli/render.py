"""Three renderers over one stream of events: a live table on a terminal, plain lines of what changed, JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from quorate.cli.events import Event, encode
from quorate.cli.view import HEADINGS, View, fold, footer, line, rows, title

if TYPE_CHECKING:
    from rich.console import Group

_COLOURS = {"good": "green", "bad": "red", "unknown": "yellow", "starting": "cyan", "leaving": "cyan"}


class Renderer(Protocol):
    """Shows events as they come. `shown` is entered for as long as it does."""

    def shown(self) -> AbstractContextManager[Any]:
        """For the length of the block the terminal is this renderer's."""
        ...

    def event(self, event: Event) -> None:
        """Something happened."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...

    def say(self, text: str) -> None:
        """A message that belongs to no event."""
        ...


def choose(output: str, *, plain: bool, stream: TextIO, now: Callable[[], datetime]) -> Renderer:
    """The renderer for an output format (`live` or `json`) and where it goes: live on terminals that allow it, plain lines elsewhere."""
    if output == "json":
        return JsonLines(stream, sys.stderr)
    dumb = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return PlainLines(stream) if plain or dumb or not stream.isatty() else LiveTable(stream, now)


class JsonLines:
    """Each event as a line of JSON; messages go to the other stream, so that the lines can be piped."""

    def __init__(self, stream: TextIO, messages: TextIO) -> None:
        self._stream, self._messages = stream, messages

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def event(self, event: Event) -> None:
        print(encode(event), file=self._stream, flush=True)

    def tick(self) -> None:
        """Nothing happens: a line says when it was."""

    def say(self, text: str) -> None:
        print(text, file=self._messages, flush=True)


class PlainLines:
    """Each change as a line of text without escape codes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._view = View()

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def event(self, event: Event) -> None:
        text = line(event, self._view)
        self._view = fold(self._view, event)
        if text:
            self.say(text)

    def tick(self) -> None:
        """Nothing happens: only changes are shown."""

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveTable:
    """A table that changes in place, messages above it."""

    def __init__(self, stream: TextIO, now: Callable[[], datetime]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._now = now
        self._view = View()
        self._live = Live(console=Console(file=stream), auto_refresh=False)

    def shown(self) -> AbstractContextManager[Any]:
        return self._live

    def event(self, event: Event) -> None:
        self._view = fold(self._view, event)
        self.tick()

    def tick(self) -> None:
        if self._view.began:
            self._live.update(picture(self._view, self._now()), refresh=True)

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)


def picture(view: View, now: datetime) -> Group:
    """The view as rich draws it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading == "Elapsed" else "left", no_wrap=heading != "Waits for")
    for row in rows(view, now):
        health, waits = HEADINGS.index("Health"), HEADINGS.index("Waits for")
        styles = {health: _COLOURS.get(row.health, ""), waits: "" if row.waiting else "green"}
        table.add_row(*(Text(cell, styles.get(column, "")) for column, cell in enumerate(row.cells)))
    return Group(Text(title(view), "bold"), table, Text(footer(view), "dim"))
