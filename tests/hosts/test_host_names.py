"""What a host may call itself: a name that a Node can have, or none, whatever it answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.hosts.manifest.names import dns_name
from quorate.hosts.render.host_names import own_name


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (b"CP-1.example.com\ncp-1\n", "cp-1.example.com"),
        (b"\ncp-1\n", "cp-1"),
        (b"localhost.localdomain\ncp-1\n", "cp-1"),
        (b"", ""),
        (b"$(canary)\n$(canary)\n", ""),
        (b"cp-1; canary\ncp-1\n", ""),
        (b"../../etc\nx\n", ""),
        (b"cp-1\x1b[2J\nx\n", ""),
        (b"cp 1\nx\n", ""),
        (b"-cp-1\nx\n", ""),
        (b"cp_1\nx\n", ""),
        (b"a" * 300 + b"\nx\n", ""),
        ("cp-1\u200b\nx\n".encode(), ""),
        (b"\xff\xfe\nx\n", ""),
    ],
)
def test_a_name_that_no_node_can_have_is_none(answer: bytes, name: str) -> None:
    assert own_name(answer, fully_qualified=True) == name


@given(st.binary(), st.booleans())
def test_any_answer_is_a_name_or_none(answer: bytes, fully_qualified: bool) -> None:
    name = own_name(answer, fully_qualified=fully_qualified)
    assert not name or not dns_name(name)
