"""The script that reads one file on a host. What writes files is a part of the scripts that work with them: `quorate.hosts.act.placing`."""

from __future__ import annotations

from quorate.hosts.render.shell import quoted

MISSING = 44
"""The status with which the reading script says that there is no such file."""


def reading(path: str) -> str:
    """A script that writes the content of the file to stdout. Raises ValueError for a path that is not absolute."""
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError(f"{path!r} is not the absolute path of a file")
    file = quoted(path)
    return f"[ -e {file} ] || exit {MISSING}\nexec cat -- {file}"
