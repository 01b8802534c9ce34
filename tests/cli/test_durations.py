"""Go's durations and kubectl's ages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.durations import format_age, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("40s", 40), ("1h2m3s", 3723), ("1.5h", 5400), ("300ms", 0.3), ("0", 0), ("1m0.5s", 60.5)]
)
def test_a_go_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "5m!", "1d", "five"])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(hours=st.integers(0, 99), minutes=st.integers(0, 999), seconds=st.integers(0, 999))
def test_the_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == pytest.approx(hours * 3600 + minutes * 60 + seconds)


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-1, "0s"), (0.9, "0s"), (119, "119s"), (120, "2m"), (192, "3m12s"), (1020, "17m"), (18480, "5h8m"), (86400, "24h"), (259200, "3d")],
)
def test_an_age_has_at_most_two_units(seconds: float, age: str) -> None:
    assert format_age(seconds) == age
