"""What a display of a run makes of its events: a line for each host, and lines of text."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from functools import reduce

from quorate.cli import render
from quorate.cli.hosts.display import HOSTS
from quorate.cli.hosts.view import View, fold, footer, line, rows, title
from quorate.core.checks import failed
from quorate.hosts.run.events import Ended, Event, Observed, Outcome, Progress, Started, StepBegun, StepBroke, StepDone, Waiting
from tests.core.hosts.conftest import Build

NOON = Build().noon
QUORUM = failed("quorum survives", "1 of 3", "Bring it back.")


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


BEGINNING: list[Event] = [
    Started(at(0), "apply", "demo", "v1.34.4", "jane@desk", ("cp-1", "cp-2")),
    Observed(at(1), "1 of 1 voters healthy", 0, {"cp-1": "well", "cp-2": "packages only"}),
    StepBegun(at(2), 1, "join cp-2 as a control plane", "join control planes", ("cp-2",), ()),
    Progress(at(3), "cp-2", "waiting for the API server: connection refused"),
]


def view(*events: Event) -> View:
    return reduce(fold, events, View())


def text(*events: Event) -> list[str]:
    lines, seen = [], View()
    for event in events:
        lines.append(line(event, seen))
        seen = fold(seen, event)
    return [each for each in lines if each]


def test_a_host_shows_its_step_how_long_and_what_it_waits_for() -> None:
    assert rows(view(*BEGINNING), at(12)) == [
        ("cp-1", "well", "-", "-", "-"),
        ("cp-2", "packages only", "join cp-2 as a control plane", "10s", "waiting for the API server: connection refused"),
    ]
    assert title(view(*BEGINNING)) == "demo at v1.34.4, etcd: 1 of 1 voters healthy"
    assert footer(view(*BEGINNING)) == "step 1: join cp-2 as a control plane"


def test_after_a_step_nobody_works_and_who_is_no_host_is_shown_no_longer() -> None:
    done = view(*BEGINNING, Progress(at(4), "etcd", "taking a snapshot"), StepDone(at(5), 1, "join"))
    assert [row[:3] for row in rows(done, at(6))] == [("cp-1", "well", "-"), ("cp-2", "packages only", "-")]


def test_what_is_waited_for_and_how_it_ended_are_in_the_last_line() -> None:
    waiting = Waiting(at(5), (QUORUM,), at(10))
    assert footer(view(*BEGINNING[:2], waiting)) == "waiting: quorum survives: 1 of 3"
    ended = Ended(at(6), Outcome.STALLED, 0, "nothing more can be done", (QUORUM,))
    assert footer(view(*BEGINNING[:2], waiting, ended)) == "stalled: nothing more can be done"
    assert footer(view()) == "looking"
    assert title(view()) == "looking at the hosts"


def test_plain_lines_say_what_is_new_and_when() -> None:
    broke = StepBroke(at(5), 1, "join cp-2", "cp-2", "port 2380 is taken", "Free it")
    waiting = Waiting(at(6), (QUORUM,), at(10))
    assert text(*BEGINNING, broke, waiting, Waiting(at(8), (QUORUM,), at(12))) == [
        "    0.0s  apply of demo at v1.34.4 by jane@desk",
        "    1.0s  etcd: 1 of 1 voters healthy",
        "    2.0s  step 1: join cp-2 as a control plane",
        "    3.0s    cp-2: waiting for the API server: connection refused",
        "    5.0s  step 1: failed on cp-2: port 2380 is taken -> Free it",
        "    6.0s  waiting, because\n            quorum survives: 1 of 3\n              -> Bring it back.",
    ]


def test_a_step_says_how_long_it_took() -> None:
    assert text(*BEGINNING, StepDone(at(7.5), 1, "join"))[-1] == "    7.5s  step 1: done after 5.5 s"


def test_the_live_table_draws_every_event() -> None:
    stream = io.StringIO()
    shown = render.LiveTable(HOSTS, stream, lambda: at(9))
    with shown.shown():
        for event in BEGINNING:
            shown.event(event)
    assert all(word in stream.getvalue() for word in ("cp-1", "refused", "step 1: join cp-2 as a control plane"))
