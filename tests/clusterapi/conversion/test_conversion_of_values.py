"""Scalars as Go reads and writes them: durations, instants, quantities, bytes, tokens, numbers; and when an object is zero."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.api.conversion import scalars
from quorate.clusterapi.api.conversion.forms import Form, Member, always, items, mapping, pointer, struct
from quorate.clusterapi.api.conversion.quantities import QUANTITY, canonical
from quorate.clusterapi.api.conversion.tables import from_seconds, to_seconds

SECOND = scalars.SECOND


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("90s", 90 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1h0m0.5s", 3600 * SECOND + SECOND // 2),
        (".5s", SECOND // 2),
        ("3.s", 3 * SECOND),
        ("1.1h", 3960 * SECOND),
        ("0.12345678901234567890123s", 123_456_789),
        ("-1.5h", -5400 * SECOND),
        ("+2m", 120 * SECOND),
        ("5µs", 5000),
        ("5μs", 5000),
        ("5us", 5000),
        ("7ms3ns", 7_000_003),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_a_duration_is_read_as_go_writes_it(text: str, nanoseconds: int) -> None:
    assert scalars.DURATION.read(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "-", "1", "h", "1d", "1 s", ".s", "1h-1m", "--1s", "9223372036854775808ns", "2562048h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        scalars.DURATION.read(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1, "1s"),
        (60, "1m0s"),
        (61, "1m1s"),
        (3600, "1h0m0s"),
        (3661, "1h1m1s"),
        (-90, "-1m30s"),
        (2**31 - 1, "596523h14m7s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(seconds: int, text: str) -> None:
    assert scalars.DURATION.write(seconds * SECOND) == text


@given(st.integers(-(2**31), 2**31 - 1))
def test_seconds_survive_as_a_duration(seconds: int) -> None:
    assert to_seconds(scalars.DURATION.read(scalars.DURATION.write(from_seconds(seconds)))) == seconds


@pytest.mark.parametrize(
    ("nanoseconds", "seconds"),
    [
        (None, None),
        (0, 0),
        (SECOND - 1, 0),
        (-SECOND + 1, 0),
        (-1_500_000_000, -1),
        (2**31 * SECOND, 2**31 - 1),
        (-(2**32) * SECOND, -(2**31)),
        (2_147_483_646 * SECOND + 999_999_999, 2**31 - 1),  # too fine for a floating-point number
    ],
)
def test_seconds_are_cut_off_and_bounded(nanoseconds: int | None, seconds: int | None) -> None:
    assert to_seconds(nanoseconds) == seconds


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.999Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+05:30", "2026-01-01T21:34:05Z"),
        ("1999-12-31T23:59:59-11:00", "2000-01-01T10:59:59Z"),
        ("0987-06-05T04:03:02Z", "0987-06-05T04:03:02Z"),
        (scalars.ZERO_INSTANT, None),
    ],
)
def test_an_instant_is_written_in_utc_to_the_second_and_the_zero_one_as_null(text: str, written: str | None) -> None:
    assert scalars.INSTANT.write(scalars.INSTANT.read(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02",
        "2026-01-02T03:04:05z",
        "2026-02-30T03:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:04:05+25:00",
        "0001-01-01T00:00:00+01:00",
        5,
    ],
)
def test_what_is_no_instant_or_outside_the_years_that_have_four_digits_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"instant|range|day|first year|string"):
        scalars.INSTANT.read(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0", "0"),
        ("0.0Ki", "0"),
        ("500m", "500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.", "1."),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1001Ki", "1001Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1.0001Ki", "1024102400u"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("12e-2", "120e-3"),
        ("0.1n", "1n"),
        ("1e-12", "1e-9"),
        ("-1.5Gi", "-1536Mi"),
        ("+3", "+3"),
        ("010", "010"),
        ("1.500", "1.500"),
        ("20E", "20E"),
        ("1000E", "1"),
        ("999999999999Ei", "9223372036854775807"),
        ("1e999999999", "1e999999999"),
        (5, "5"),
    ],
)
def test_a_quantity_is_written_as_kubernetes_writes_it(text: Any, written: str) -> None:
    assert QUANTITY.read(text) == written


@pytest.mark.parametrize("text", ["", ".", "+", "a", "1e1.5", "1 Gi", "Ki"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        canonical(text)


def test_bytes_are_written_as_go_writes_them() -> None:
    assert scalars.BYTES.read("aGk=") == "aGk="
    assert scalars.BYTES.read("aG\r\nk=") == "aGk="
    with pytest.raises(ValueError, match="base64"):
        scalars.BYTES.read("a")


@pytest.mark.parametrize(
    ("form", "json"),
    [
        (scalars.TEXT, 1),
        (scalars.BOOLEAN, "true"),
        (scalars.BOOLEAN, 1),
        (scalars.INT32, True),
        (scalars.INT32, 2**31),
        (scalars.INT32, 1.5),
        (scalars.INT64, -(2**63) - 1),
        (scalars.INTEGER_OR_TEXT, []),
        (scalars.TOKEN, "abcdef"),
        (items(scalars.TEXT), {}),
        (mapping(scalars.TEXT), []),
        (struct(), "x"),
    ],
)
def test_what_a_type_cannot_hold_is_refused(form: Form, json: Any) -> None:
    with pytest.raises(ValueError, match="is not"):
        form.read(json)


def test_null_within_a_list_or_a_map_is_zero() -> None:
    assert items(scalars.TEXT).read([None, "a"]) == ["", "a"]
    assert mapping(scalars.TEXT).read({"a": None, "b": "c"}) == {"a": "", "b": "c"}


def test_an_error_names_the_field() -> None:
    form = struct(Member("a", struct(Member("b", items(scalars.TEXT)))))
    with pytest.raises(ValueError, match=r"^a\.b: is not a string$"):
        form.read({"a": {"b": ["x", 1]}})


INNER = struct(Member("list", items(scalars.TEXT)), Member("text", scalars.TEXT))
OUTER = struct(
    Member("value", INNER),
    Member("pointer", pointer(INNER)),
    Member("flag", pointer(scalars.BOOLEAN)),
    Member("number", scalars.INT32),
    Member("when", scalars.INSTANT),
    always("name", scalars.TEXT),
    always("names", items(scalars.TEXT)),
    always("wait", scalars.DURATION),
)
EMPTY = {"name": "", "names": None, "wait": "0s"}


@pytest.mark.parametrize(
    ("json", "plain", "written"),
    [
        ({}, {}, EMPTY),
        ({"unknown": 1, "number": None}, {}, EMPTY),
        ({"value": {}, "pointer": None, "number": 0, "name": ""}, {}, EMPTY),
        ({"value": {"text": ""}}, {}, EMPTY),
        ({"value": {"list": []}}, {"value": {"list": []}}, {"value": {}, **EMPTY}),  # not zero, and yet there is nothing to write
        ({"pointer": {}, "flag": False}, {"pointer": {}, "flag": False}, {"pointer": {}, "flag": False, **EMPTY}),
        ({"when": scalars.ZERO_INSTANT}, {"when": scalars.ZERO_INSTANT}, EMPTY),
        ({"names": []}, {"names": []}, EMPTY | {"names": []}),
        ({"names": [None, "a"]}, {"names": ["", "a"]}, EMPTY | {"names": ["", "a"]}),
    ],
)
def test_what_is_zero_is_left_out_and_what_is_empty_is_not_zero(json: Any, plain: Any, written: Any) -> None:
    assert OUTER.read(json) == plain
    assert OUTER.write(plain) == written
