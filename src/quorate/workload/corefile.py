"""CoreDNS' configuration, the Corefile, as a tree: read, and written again with its comments and quotes. Pure.

A Corefile is lines of words. A word is what stands between white space, or what stands between double quotes; `{` at the end of a line opens a block that
belongs to the line. Server blocks are on top, plugins in them, options in these; some plugins nest deeper. Source: the Caddyfile lexer of
github.com/coredns/caddy, and the Corefile's manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

LARGEST = 128 << 10
"""Characters of a Corefile, of which kubeadm's has 400: what is larger takes seconds to carry over all versions, in which nobody else is worked for."""
DEEPEST = 20
"""Blocks in each other; plugins nest to three or four."""

_INDENT = " " * 4
_TOKEN = re.compile(r'\s+|(?P<comment>#[^\n]*)|(?P<word>"(?:\\.|[^"\\])*"|[^\s#"][^\s#]*)|(?P<open_quote>")', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class CorefileError(ValueError):
    """A Corefile that CoreDNS itself could not read, and the message names the line; or one that is larger or deeper than any has to be."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its words as they are written (quotes included), the block it opens, and the comment behind it. One without words is a comment alone."""

    words: tuple[str, ...]
    block: tuple[Line, ...] | None = None
    comment: str = ""

    @property
    def name(self) -> str:
        """The first word: of a plugin or an option its name; empty for a comment."""
        return value(self.words[0]) if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the first, without quotes."""
        return tuple(map(value, self.words[1:]))

    def options(self, name: str) -> tuple[Line, ...]:
        """The lines of its block that begin with this word."""
        return tuple(line for line in self.block or () if line.name == name)


Corefile = tuple[Line, ...]
"""All lines on top: server blocks, snippets, imports and comments."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    first_line: int
    last_line: int

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#")


def value(word: str) -> str:
    """What a word says: without its quotes, and with the quotes that were escaped in it. Nothing else can be escaped."""
    if not word.startswith('"'):
        return word
    return _ESCAPE.sub(lambda match: match[1] if match[1] == '"' else match[0], word[1:-1])


def parse(text: str) -> Corefile:
    """The tree of a Corefile. Raises CorefileError.

    Of a Corefile with a single server block, which may go without its braces, the block is made of all that follows its first line.
    """
    if len(text) > LARGEST:
        raise CorefileError(f"it has more than {LARGEST >> 10} KiB")
    reader = _Reader(tuple(_tokens(text.removeprefix("\ufeff").replace("\r", ""))))
    lines = reader.lines(opened_at=0)
    head = next((index for index, line in enumerate(lines) if line.words), None)
    if head is None or lines[head].block is not None or lines[head].name == "import":
        return lines
    return (*lines[:head], replace(lines[head], block=lines[head + 1 :]))


def render(corefile: Corefile) -> str:
    """The text of a Corefile: four spaces a level, an empty line between server blocks. Equal trees have equal texts."""
    written: list[str] = []
    for index, line in enumerate(corefile):
        if index and corefile[index - 1].block is not None:
            written.append("")
        written += _written(line, "")
    return "".join(f"{line}\n" for line in written)


def _written(line: Line, indent: str) -> Iterator[str]:
    head = [*line.words, "{"] if line.block is not None else [*line.words]
    yield indent + " ".join([*head, line.comment] if line.comment else head)
    if line.block is not None:
        for inner in line.block:
            yield from _written(inner, indent + _INDENT)
        yield indent + "}"


def _tokens(text: str) -> Iterator[_Token]:
    number, position = 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match["open_quote"]:
            raise CorefileError(f"line {number}: the quote is never closed")
        last = number + match[0].count("\n")
        if match["comment"] or match["word"]:
            yield _Token(match[0].rstrip() if match["comment"] else match[0], number, last)
        number, position = last, match.end()


class _Reader:
    """Reads lines off a sequence of tokens."""

    def __init__(self, tokens: tuple[_Token, ...]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def lines(self, opened_at: int) -> tuple[Line, ...]:
        """The lines up to the end of a block that was opened on line `opened_at`; up to the end of the text for 0."""
        found: list[Line] = []
        while (token := self._peek()) is not None:
            if token.text == "}":
                if not opened_at:
                    raise CorefileError(f"line {token.first_line}: this brace closes nothing")
                self._next += 1
                return tuple(found)
            if token.text == "{":  # on a line of its own: it belongs to the line above
                if not found or found[-1].block is not None or not found[-1].words:
                    raise CorefileError(f"line {token.first_line}: this brace opens the block of nothing")
                found[-1] = self._with_block(found[-1], token)
            else:
                found.append(self._line(header=not opened_at))
        if opened_at:
            raise CorefileError(f"line {opened_at}: the block that begins here is never closed")
        return tuple(found)

    def _line(self, *, header: bool) -> Line:
        """One line. A server block's may go on behind a comma on the next."""
        first = self._take()
        if first.is_comment:
            return Line((), comment=first.text)
        words, last = [first.text], first
        while (token := self._peek()) is not None and token.text != "}":
            continues = header and last.text.endswith(",") and not token.is_comment
            if token.first_line != last.last_line and not continues:
                break
            if token.text == "{":
                return self._with_block(Line(tuple(words)), token)
            self._next += 1
            if token.is_comment:
                return Line(tuple(words), comment=token.text)
            words.append(token.text)
            last = token
        return Line(tuple(words))

    def _with_block(self, line: Line, brace: _Token) -> Line:
        self._next += 1
        comment = line.comment
        token = self._peek()
        if token is not None and token.is_comment and token.first_line == brace.last_line and not comment:
            comment = self._take().text
        self._depth += 1
        if self._depth > DEEPEST:
            raise CorefileError(f"line {brace.first_line}: more than {DEEPEST} blocks are in each other")
        block = self.lines(opened_at=brace.first_line)
        self._depth -= 1
        return replace(line, block=block, comment=comment)

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]
