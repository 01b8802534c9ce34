"""Whatever the chunks are, the same values come out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kubernetes.framing import values

_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["}", '"', "\\", '\\"', "{", "\n", "é€😀"])
_JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=8
)
_OBJECTS = st.lists(st.dictionaries(st.text(max_size=4) | st.sampled_from(['"', "\\", "}"]), _JSON, max_size=4), max_size=5)


async def cut(chunks: Iterable[bytes]) -> list[bytes]:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [value async for value in values(stream())]


@st.composite
def _chunked(draw: st.DrawFn, text: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _text(objects: list[dict[str, Any]], *, pretty: bool, ascii_only: bool, separator: str) -> bytes:
    # A pretty value may be followed by anything; a compact one by the end of its line.
    written = [json.dumps(item, indent=2 if pretty else None, ensure_ascii=ascii_only) for item in objects]
    return "".join(text + separator for text in written).encode()


@given(st.data(), _OBJECTS, st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n"]))
async def test_compact_values_come_out_of_any_chunks(
    data: st.DataObject, objects: list[dict[str, Any]], ascii_only: bool, end: str
) -> None:
    chunks = data.draw(_chunked(_text(objects, pretty=False, ascii_only=ascii_only, separator=end)))
    assert [json.loads(value) for value in await cut(chunks)] == objects


@given(st.data(), _OBJECTS, st.booleans(), st.sampled_from(["", "\n", " \r\n\t"]))
async def test_pretty_values_come_out_of_any_chunks(data: st.DataObject, objects: list[dict[str, Any]], ascii_only: bool, gap: str) -> None:
    # json.dumps writes an empty object on one line, as `{}`: it is not mistaken for a compact stream
    chunks = data.draw(_chunked(_text(objects, pretty=True, ascii_only=ascii_only, separator=gap)))
    assert [json.loads(value) for value in await cut(chunks)] == objects


@pytest.mark.parametrize("first", [b'{"a": 1}\n', b'{\n  "a": 1\n}'])
async def test_what_is_incomplete_at_the_end_is_dropped(first: bytes) -> None:
    assert [json.loads(value) for value in await cut([first, first[:5]])] == [{"a": 1}]


async def test_a_value_comes_out_with_the_chunk_that_completes_it() -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b'{"a":1}\n{"b"'
        raise AssertionError("read on although a value was complete")

    found = values(stream())
    assert await anext(found) == b'{"a":1}'
    await found.aclose()


async def test_a_line_of_eight_megabytes_is_joined_once() -> None:
    line = b'{"a":"' + b"x" * (1 << 23) + b'"}'
    assert await cut([line[start : start + 65536] for start in range(0, len(line), 65536)] + [b"\n"]) == [line]
