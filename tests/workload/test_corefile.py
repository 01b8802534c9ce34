"""Corefiles: what is read is written again with the same meaning, comments and quotes included, and what CoreDNS could not read is refused by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.workload.corefile import DEEPEST, LARGEST, CorefileError, Line, parse, render, value

KUBEADM = """.:53 {
    errors
    health {
        lameduck 5s
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
    cache 30
}
"""

_WORDS = st.one_of(
    st.from_regex(r"[a-z0-9./:*-]{1,8}", fullmatch=True),
    st.from_regex(r'"(?:[a-z \n{}#]|\\[a-z"]){0,5}"', fullmatch=True),
)
_COMMENTS = st.one_of(st.just(""), st.from_regex(r"#[a-z {}\"]{0,5}[a-z]", fullmatch=True))


def _lines(depth: int) -> st.SearchStrategy[Line]:
    blocks = st.none() if depth == 0 else st.one_of(st.none(), st.lists(_lines(depth - 1), max_size=3).map(tuple))
    plain = st.builds(Line, words=st.lists(_WORDS, min_size=1, max_size=3).map(tuple), block=blocks, comment=_COMMENTS)
    return st.one_of(plain, _COMMENTS.filter(bool).map(lambda comment: Line((), comment=comment)))


_SERVERS = st.lists(
    st.builds(
        Line,
        words=st.lists(st.from_regex(r"[a-z.]{1,5}:53", fullmatch=True), min_size=1, max_size=2).map(tuple),
        block=st.lists(_lines(2), max_size=4).map(tuple),
        comment=_COMMENTS,
    ),
    max_size=3,
).map(tuple)


@given(_SERVERS)
def test_a_tree_that_is_written_and_read_is_the_same_tree(tree: tuple[Line, ...]) -> None:
    assert parse(render(tree)) == tree


def test_kubeadms_own_corefile_is_written_as_it_was_read() -> None:
    assert render(parse(KUBEADM)) == KUBEADM


def test_comments_quotes_and_nested_blocks_survive() -> None:
    text = """# ours
.:53 { # main
    template ANY A example.org { # answers
        answer "{{ .Name }} 60 IN A 10.0.0.1"
        deeper {
            still
        }
    }
    # the end
}
"""
    assert render(parse(text)) == text


def test_quotes_are_escaped_in_quotes_and_nothing_else_is() -> None:
    assert value(r'"a \"b\" \n"') == r'a "b" \n'


def test_a_header_goes_on_after_a_comma_and_a_brace_may_stand_alone() -> None:
    (server,) = parse("a.org,\nb.org\n{\n errors\n}\n")
    assert server.words == ("a.org,", "b.org")
    assert [line.name for line in server.block or ()] == ["errors"]


def test_the_only_server_block_may_go_without_braces() -> None:
    (server,) = parse(".:53\nerrors\nkubernetes cluster.local {\n upstream\n}\n")
    assert server.words == (".:53",)
    assert [line.name for line in server.block or ()] == ["errors", "kubernetes"]


def test_a_block_may_be_on_one_line() -> None:
    (server,) = parse(". { forward . 1.1.1.1 { except a.b } }")
    assert server.block == (Line(("forward", ".", "1.1.1.1"), block=(Line(("except", "a.b")),)),)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (". {\n errors\n", "line 1: the block"),
        ("}\n", "line 1: this brace"),
        ('. {\n log "x\n}\n', "line 2: the quote"),
        ("\n{\n}\n", "line 2"),
    ],
)
def test_what_coredns_could_not_read_is_refused_with_its_line(text: str, line: str) -> None:
    with pytest.raises(CorefileError, match=line):
        parse(text)


def test_one_that_is_larger_than_any_is_not_read() -> None:
    assert parse("#" * LARGEST)
    with pytest.raises(CorefileError, match="more than 128 KiB"):
        parse("#" * (LARGEST + 1))


def test_one_whose_blocks_are_deeper_than_any_is_refused_with_the_line() -> None:
    nested = "a {\n" * DEEPEST + "}\n" * DEEPEST
    assert render(parse(nested * 2)).count("{") == 2 * DEEPEST
    with pytest.raises(CorefileError, match=f"line {DEEPEST + 1}: more than {DEEPEST} blocks are in each other"):
        parse("a {\n" * 5000 + "}\n" * 5000)
