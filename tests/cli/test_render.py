"""Three renderers over one stream of events."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from datetime import datetime

import pytest

from quorate.cli import render
from quorate.cli.development import picture
from quorate.cli.machines.display import MACHINES
from quorate.cli.machines.events import LINES, ControlPlaneSeen, Event, MachineSeen

MakeMachine = Callable[..., MachineSeen]
MakeControlPlane = Callable[..., ControlPlaneSeen]


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def chosen(stream: io.StringIO, noon: datetime, *, plain: bool = False) -> object:
    shown = render.choose("live", MACHINES, plain=plain, stream=stream, now=lambda: noon)
    assert isinstance(shown, render.WhileRead)
    return shown.renderer


def test_a_terminal_gets_the_live_table_and_everything_else_plain_lines(noon: datetime) -> None:
    assert isinstance(chosen(Terminal(), noon), render.LiveTable)
    assert isinstance(chosen(io.StringIO(), noon), render.PlainLines)
    assert isinstance(chosen(Terminal(), noon, plain=True), render.PlainLines)


def test_no_color_means_plain_lines(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert isinstance(chosen(Terminal(), noon), render.PlainLines)


def test_what_nobody_reads_any_more_is_not_printed_and_work_goes_on(seen: MakeMachine, noon: datetime) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        shown = render.choose("json", MACHINES, plain=True, stream=stream, now=lambda: noon)
        shown.event(seen())
        os.close(reading)
        for _ in range(3):
            shown.event(seen(after=3))


def test_plain_lines_have_no_escape_codes(seen: MakeMachine, summary: MakeControlPlane) -> None:
    stream = io.StringIO()
    shown = render.PlainLines(MACHINES, stream)
    with shown.shown():
        for event in (summary(ready=0), seen(waits_for="infrastructure", health="bad"), seen(after=3), summary(after=4)):
            shown.event(event)
            shown.tick()
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 4


def test_json_lines_go_to_stdout_and_messages_do_not(seen: MakeMachine, summary: MakeControlPlane) -> None:
    stream, messages = io.StringIO(), io.StringIO()
    shown = render.JsonLines(MACHINES, stream, messages)
    shown.event(summary())
    shown.say("waiting for another local stack")
    shown.event(seen())
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["ControlPlaneSeen", "MachineSeen"]
    assert messages.getvalue() == "waiting for another local stack\n"


def test_the_live_table_shows_machines_and_messages(seen: MakeMachine, summary: MakeControlPlane, noon: datetime) -> None:
    stream = Terminal()
    shown = render.LiveTable(MACHINES, stream, lambda: noon)
    with shown.shown():
        shown.tick()
        shown.event(summary(next="create a machine"))
        shown.event(seen(role="leader"))
        shown.say("a message [not markup]")
    assert all(text in stream.getvalue() for text in ("cp-1", "leader", "next: create a machine", "a message [not markup]"))


def test_a_picture_shows_one_moment_of_a_recording(seen: MakeMachine, summary: MakeControlPlane) -> None:
    events: list[Event] = [summary(ready=0), seen("early", waits_for="infrastructure"), seen("joined-later", after=30)]
    early, whole = picture.svg(events, 10), picture.svg(events, None)
    assert "early" in early
    assert "joined-later" not in early
    assert "joined-later" in whole
    assert early.startswith("<svg")


def test_a_picture_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no event"):
        picture.svg([], None)


def test_a_recording_keeps_what_a_picture_needs(seen: MakeMachine) -> None:
    assert json.loads(LINES.encode(seen(role="learner")))["role"] == "learner"
