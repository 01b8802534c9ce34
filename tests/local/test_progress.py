"""A line for each step, with its time."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import count

import pytest

from quorate.local import progress
from quorate.local.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def clock() -> Callable[[], float]:
    ticks = count(10, 2.5)
    return lambda: next(ticks)


def test_off_a_terminal_there_are_no_control_characters() -> None:
    stream = io.StringIO()
    with Progress(stream, clock()).step("etcd"):
        assert stream.getvalue() == "etcd ..."  # whoever waits sees for what
    assert stream.getvalue() == "etcd ... 2.5 s\n"


def test_a_failed_step_says_so_and_the_error_goes_on() -> None:
    stream = io.StringIO()
    with pytest.raises(RuntimeError), Progress(stream, clock()).step("etcd"):
        raise RuntimeError
    assert stream.getvalue() == "etcd ... failed after 2.5 s\n"


def test_on_a_terminal_the_line_counts_while_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_TICK", 0.001)
    stream = Terminal()
    with Progress(stream, clock()).step("etcd"):
        while stream.getvalue().count("\r") < 3:
            pass
    last = stream.getvalue().split("\r")[-1]
    assert last.startswith("etcd ... ")
    assert last.endswith(" s\n")
