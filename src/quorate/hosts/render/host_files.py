"""A file that a host is to have: where, with which content, owner and mode; and the script that finds out which of several a host does not have so yet."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from quorate.core import documents
from quorate.hosts.manifest.names import line
from quorate.hosts.render.shell import quoted


@dataclass(frozen=True, slots=True)
class HostFile:
    """One file. The content may hold secrets: it is not in the repr."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o600
    owner: str = "root:root"

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or posixpath.normpath(self.path) != self.path or line(self.path):
            raise ValueError(f"{self.path!r} is not the absolute path of a file, without '..' and in one line")


def yaml_documents(*contents: dict[str, Any]) -> bytes:
    """The documents as YAML, in their own order of keys. The same documents give the same bytes, so that a difference in content is a difference in meaning."""
    return documents.dump_all(contents, sort_keys=False, width=160).encode()


def differing(files: Iterable[HostFile]) -> str:
    """A script that prints the path of each file that is missing on the host or has another content, owner or mode, one a line. Changes nothing.

    Owners are compared by name, as `stat` prints them.
    """
    checks = (
        f"differs {quoted(file.path)} {hashlib.sha256(file.content).hexdigest()} {quoted(f'{file.owner} {file.mode:o}')}" for file in files
    )
    return "\n".join((_DIFFERS, *checks, ""))


_DIFFERS = """\
differs() {
    if [ "$(stat -c '%U:%G %a' -- "$1" 2>/dev/null)" = "$3" ]; then
        found=$(sha256sum <"$1")
        [ "${found%% *}" != "$2" ] || return 0
    fi
    printf '%s\\n' "$1"
}"""
