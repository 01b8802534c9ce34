"""Text that comes from hosts, API servers and etcd members, made fit for a line that a person reads: cleaned once, where it enters.

A terminal obeys what it is sent: an escape code in a host's error moves the cursor and paints over the plan that is being approved, OSC 52 writes to the
clipboard, a direction override turns a name around, and a line break begins a line that looks like ours. So nothing that is not printable, by Unicode's
categories, gets further than the place where it arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST = 2000
"""Characters of a text that are kept: a message of kubeadm or of an API server is shorter, and what is longer hides what stands after it."""
MOST_LINES = 200
_USER_OF_URL = re.compile(r"""://[^/\s"']*@""")
_SPACES = re.compile(r"\s{2,}")


def printable(text: str, *, most: int = MOST) -> str:
    """The text as one line: white space of any kind as a space, several as one, every other character that is not printable as its escape such as `\\x1b`,
    and no more than `most` characters. What is printable already stays as it is.

    Of characters that look like others, and of accents upon accents, nothing is changed: they may mislead a reader and not a terminal.
    """
    if text.isprintable() and len(text) <= most and "  " not in text:
        return text
    shown = "".join(each if each.isprintable() else " " if each.isspace() else _escaped(each) for each in text[: most + 1])
    line = _SPACES.sub(" ", shown).strip()
    return line if len(line) <= most and len(text) <= most else f"{line[:most]}..."


def printable_lines(text: str) -> str:
    """The text with its line breaks and indentation, each line of it `printable`: for lists such as the messages of conditions. At most MOST_LINES."""
    kept = [f"{line[: len(line) - len(line.lstrip(' '))]}{printable(line.strip())}" for line in text.split("\n")]
    return "\n".join(kept[:MOST_LINES] + (["..."] if len(kept) > MOST_LINES else []))


def without_passwords(text: str) -> str:
    """The text with nobody named in its URLs: programs quote that of a proxy or of a registry with the password in it."""
    return _USER_OF_URL.sub("://", text)


def lines(data: bytes) -> tuple[str, ...]:
    """The lines of an answer that say something, each `printable`."""
    return tuple(line for each in data.decode(errors="replace").split("\n") if (line := printable(each).strip()))


def together(said: Iterable[tuple[str, str]]) -> list[str]:
    """What is said of somebody, once for all of whom it is true, in a line that begins with them."""
    found: dict[str, list[str]] = {}
    for what, whom in said:
        found.setdefault(what, []).append(whom)
    return [f"{', '.join(names)}: {what}" for what, names in found.items()]


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", errors="replace").decode("ascii")
