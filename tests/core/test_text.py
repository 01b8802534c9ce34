"""Text from elsewhere is one printable line, whatever it was; YAML from elsewhere is read or refused, and never grows."""

from __future__ import annotations

import json
import unicodedata
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.documents import NotADocument, load, load_all
from quorate.core.text import MOST, MOST_LINES, lines, printable, printable_lines, without_passwords

INJECTIONS = {
    "repaint": "\x1b[2J\x1b[H1  initialize cp-1",
    "clipboard": "\x1b]52;c;Y3VybCBldmlsfHNo\x07",
    "one byte CSI": "\x9b2J",
    "override": "cp-1\u202e3-pc",
    "isolates": "\u2066a\u2069b\u200fc",
    "zero width": "cp\u200b-\u200d1\ufeff",
    "new line": "well\nStep 1: nothing",
    "new lines of others": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "overwritten": "reset cp-1\rnothing   ",
    "deleted": "reset\x08\x08\x7f",
    "tags": "a\U000e0041\U000e007f",
}


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
def test_what_a_terminal_would_obey_is_shown_and_not_sent(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Zl", "Zp", "Cs"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            '[WARNING HTTPProxy]: Connection to "https://10.0.0.1" uses proxy "http://jane:p%40ss@proxy:3128". If that is not intended',
            '[WARNING HTTPProxy]: Connection to "https://10.0.0.1" uses proxy "http://proxy:3128". If that is not intended',
        ),
        ("https://token@registry/v2/: 401", "https://registry/v2/: 401"),
        ("https://a:p@ss@b/ and ssh://c@d", "https://b/ and ssh://d"),
        ("https://registry/v2/a@sha256:0 as jane@desk", "https://registry/v2/a@sha256:0 as jane@desk"),
    ],
)
def test_a_url_is_shown_without_who_uses_it(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


def test_escapes_stay_to_be_seen_and_white_space_is_one_space() -> None:
    assert printable("a\x1b[31m\u202eb") == r"a\x1b[31m\u202eb"
    assert printable("a\r\n\tb\u00a0 c") == "a b c"


def test_a_list_keeps_its_lines_and_their_order_and_nothing_else_of_what_a_terminal_obeys() -> None:
    assert printable_lines("* A:\n  * B: x\x1b[2J\n* C\r\n\u2028D") == "* A:\n  * B: x\\x1b[2J\n* C\nD"
    assert printable_lines("\n" * 5 * MOST_LINES).count("\n") == MOST_LINES


@given(st.text())
def test_any_text_is_one_printable_line_of_bounded_length(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= MOST + len("...")


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=100))
def test_what_is_printable_stays_as_it_is(text: str) -> None:
    assert printable(text) is text


def test_a_text_without_end_is_cut_and_says_so() -> None:
    assert printable("x" * (1 << 20)) == "x" * MOST + "..."
    assert printable("\x1b" * MOST).endswith("...")


@given(st.binary())
def test_lines_of_any_bytes_are_printable_and_say_something(data: bytes) -> None:
    assert all(line.isprintable() and line for line in lines(data))


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (BOMB, "more than 100000 values, its aliases written out"),
        ("a: &a [*a]", "it has an alias of what it is part of"),
        ("[" * 100_000, "nested more than 100 deep"),
        ("a" * (5 << 20), "larger than 4 MiB"),
        ("secret: [", "it is not YAML: line 2, column 1"),
        ("a: b\n---\nc: d", "it holds 2 documents"),
        ("secret: " + "9" * 5000, "a value in it is none that YAML has"),
        ("secret: !!int word", "a value in it is none that YAML has"),
        ("secret: !!python/object/apply:os.system [true]", "it is not YAML"),
    ],
)
def test_a_document_that_would_harm_its_reader_is_refused_without_a_word_of_it(text: str, cause: str) -> None:
    with pytest.raises(NotADocument, match=cause) as refused:
        load(text)
    assert "secret" not in str(refused.value)


@given(st.one_of(st.text(), st.binary()))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    with suppress(NotADocument):
        assert isinstance(load_all(text), list)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii")),
        lambda below: st.lists(below) | st.dictionaries(st.text("abc"), below),
    )
)
def test_json_is_read_as_it_is(value: Any) -> None:
    assert load(json.dumps(value)) == value


def test_an_alias_stands_for_what_it_names() -> None:
    assert load("a: &a {b: c}\nd: [*a, *a]") == {"a": {"b": "c"}, "d": [{"b": "c"}, {"b": "c"}]}
    assert load_all("a: &a b\n---\n- c") == [{"a": "b"}, ["c"]]


def test_what_looks_like_a_date_is_a_text() -> None:
    assert load("a: 2001-99-99\nb: 2001-01-01") == {"a": "2001-99-99", "b": "2001-01-01"}
