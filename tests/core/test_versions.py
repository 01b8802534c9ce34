"""Versions: what is one, how they are ordered, how far apart their minors are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.versions import Version, minor_distance, parse_or_none, within_one_minor

PRECEDENCE = (  # semantic versioning 2.0.0, item 11
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.1.0",
    "2.0.0",
)
IDENTIFIERS = st.one_of(st.integers(0, 30).map(str), st.from_regex(r"[a-z-][0-9a-z-]{0,3}", fullmatch=True))
TEXTS = st.builds(
    lambda numbers, parts: f"v{numbers[0]}.{numbers[1]}.{numbers[2]}" + (f"-{'.'.join(parts)}" if parts else ""),
    st.tuples(*[st.integers(0, 3)] * 3),
    st.lists(IDENTIFIERS, max_size=3),
)


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(PRECEDENCE)))
def test_precedence_is_semantic_versionings(lower: str, higher: str) -> None:
    assert Version.parse(lower) < Version.parse(higher)
    assert not Version.parse(higher) <= Version.parse(lower)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1.34",
        "1",
        "v1.34.x",
        "vv1.34.4",
        "v01.34.4",
        "v1.34.4-",
        "v1.34.4-a..b",
        "v1.34.4-01",
        "v1.34.4+",
        " v1.34.4",
        "v1.34.4\n",
        "v1.3٤.0",
    ],
)
def test_what_is_not_a_version_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version") as caught:
        Version.parse(text)
    assert repr(text) in str(caught.value)
    assert parse_or_none(text) is None


def test_a_version_is_written_as_it_was_read() -> None:
    assert [str(Version.parse(text)) for text in ("v1.34.4", "1.34.4-rc.0+abc")] == ["v1.34.4", "1.34.4-rc.0+abc"]
    assert parse_or_none("v1.34.4") == Version.parse("1.34.4")


def test_build_metadata_is_carried_and_ignored_in_order_and_hash() -> None:
    one, other = Version.parse("v1.34.4+one"), Version.parse("v1.34.4+other.2")
    assert (one.build, other.build) == ("one", "other.2")
    assert one == other
    assert hash(one) == hash(other)
    assert not one < other


def test_the_release_leaves_the_pre_release_out() -> None:
    assert Version.parse("v1.31.0-alpha.1").release == (1, 31, 0)


def test_a_version_is_no_text() -> None:
    assert Version.parse("v1.34.4") != "v1.34.4"


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("v1.33.9", "v1.34.0", 1),
        ("v1.34.0", "v1.34.9", 0),
        ("v1.34.0", "v1.31.0", -3),
        ("v1.34.0", "v1.36.0-rc.0", 2),
        ("v1.34.0", "v2.0.0", None),
    ],
)
def test_minors_apart(first: str, second: str, distance: int | None) -> None:
    assert minor_distance(Version.parse(first), Version.parse(second)) == distance


@pytest.mark.parametrize(
    ("other", "within"),
    [("v1.33.0", True), ("v1.34.9", True), ("v1.35.0-rc.0", True), ("v1.36.0", False), ("v1.32.9", False), ("v2.34.0", False)],
)
def test_one_minor_up_or_down_runs_beside_it_and_another_major_does_not(other: str, within: bool) -> None:
    assert within_one_minor(Version.parse("v1.34.4"), Version.parse(other)) is within


@given(TEXTS, TEXTS, TEXTS)
def test_the_order_is_total_and_agrees_with_equality_and_hash(first: str, second: str, third: str) -> None:
    a, b, c = (Version.parse(text) for text in (first, second, third))
    assert [a < b, a == b, a > b].count(True) == 1
    assert a != b or hash(a) == hash(b)
    assert (a == b) == (first == second)
    assert not (a <= b <= c) or a <= c
