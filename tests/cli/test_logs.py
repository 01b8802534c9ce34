"""Logs on a terminal: what libraries quote of a server does not reach it as it is."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from quorate.cli import logs
from tests.core.test_text import INJECTIONS


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    handlers, level = logging.root.handlers[:], logging.root.level
    written = io.StringIO()
    yield written
    logging.basicConfig(handlers=handlers, level=level, force=True)


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
@pytest.mark.parametrize("json", [True, False])
def test_a_message_and_an_error_of_a_library_are_a_line_of_printable_text(stream: io.StringIO, text: str, json: bool) -> None:
    logs.configure(level=logging.INFO, json=json, stream=stream)
    logging.getLogger("asyncssh").info("the server's version is %s", text)
    line = stream.getvalue()
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("asyncssh").exception("it failed")
    assert all(line.isprintable() for line in stream.getvalue().split("\n"))
