"""Three renderers over one stream of events: a live table on a terminal, plain lines of what changed, JSON lines.

They know nothing of what is shown: a Display says, in pure functions, what each event makes of a view and how the view looks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TextIO, TypeVar

from quorate.cli.failures import pass_over

if TYPE_CHECKING:
    from rich.console import RenderableType

Event = TypeVar("Event")
Event_contra = TypeVar("Event_contra", contravariant=True)
View = TypeVar("View")


@dataclass(frozen=True)  # without slots: a generic class could not be made then (CPython 46414)
class Display(Generic[Event, View]):
    """How a stream of events is shown. `empty` is the view before the first event; `line` gives "" where a reader would see nothing new."""

    empty: View
    fold: Callable[[View, Event], View]
    line: Callable[[Event, View], str]
    encode: Callable[[Event], str]
    picture: Callable[[View, datetime], RenderableType]


class Renderer(Protocol[Event_contra]):
    """Shows events as they come. `shown` is entered for as long as it does."""

    def shown(self) -> AbstractContextManager[Any]:
        """For the length of the block the terminal is this renderer's."""
        ...

    def event(self, event: Event_contra) -> None:
        """Something happened."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...

    def say(self, text: str) -> None:
        """A message that belongs to no event."""
        ...


def choose(output: str, display: Display[Event, View], *, plain: bool, stream: TextIO, now: Callable[[], datetime]) -> Renderer[Event]:
    """The renderer for an output format (`live` or `json`) and where it goes: live on terminals that allow it, plain lines elsewhere.

    Once nobody reads the stream any more it prints nothing, and the work that it shows goes on.
    """
    if output == "json":
        return WhileRead(JsonLines(display, stream, sys.stderr), stream)
    dumb = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return WhileRead(PlainLines(display, stream) if plain or dumb or not stream.isatty() else LiveTable(display, stream, now), stream)


class WhileRead(Generic[Event_contra]):
    """A renderer that falls silent when its stream is closed at the other end: a step on a host must not be cut short because `head` has seen enough."""

    def __init__(self, renderer: Renderer[Event_contra], stream: TextIO) -> None:
        self.renderer, self._stream = renderer, stream

    def shown(self) -> AbstractContextManager[Any]:
        return self.renderer.shown()

    def event(self, event: Event_contra) -> None:
        with self._read():
            self.renderer.event(event)

    def tick(self) -> None:
        with self._read():
            self.renderer.tick()

    def say(self, text: str) -> None:
        with self._read():
            self.renderer.say(text)

    @contextmanager
    def _read(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            pass_over(self._stream)


class JsonLines(Generic[Event, View]):
    """Each event as a line of JSON; messages go to the other stream, so that the lines can be piped."""

    def __init__(self, display: Display[Event, View], stream: TextIO, messages: TextIO) -> None:
        self._display, self._stream, self._messages = display, stream, messages

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def event(self, event: Event) -> None:
        print(self._display.encode(event), file=self._stream, flush=True)

    def tick(self) -> None:
        """Nothing happens: a line says when it was."""

    def say(self, text: str) -> None:
        print(text, file=self._messages, flush=True)


class PlainLines(Generic[Event, View]):
    """Each change as a line of text without escape codes."""

    def __init__(self, display: Display[Event, View], stream: TextIO) -> None:
        self._display, self._stream = display, stream
        self._view = display.empty

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def event(self, event: Event) -> None:
        text = self._display.line(event, self._view)
        self._view = self._display.fold(self._view, event)
        if text:
            self.say(text)

    def tick(self) -> None:
        """Nothing happens: only changes are shown."""

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveTable(Generic[Event, View]):
    """A table that changes in place, messages above it."""

    def __init__(self, display: Display[Event, View], stream: TextIO, now: Callable[[], datetime]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._display, self._now = display, now
        self._view = display.empty
        self._live = Live(console=Console(file=stream), auto_refresh=False)

    def shown(self) -> AbstractContextManager[Any]:
        return self._live

    def event(self, event: Event) -> None:
        self._view = self._display.fold(self._view, event)
        self.tick()

    def tick(self) -> None:
        if self._view != self._display.empty:
            self._live.update(self._display.picture(self._view, self._now()), refresh=True)

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
