"""Scripts that read and write one file on a host. A file is replaced as a whole or not at all."""

from __future__ import annotations

import re
import shlex

MISSING = 44
"""The status with which the reading script says that there is no such file."""
_OWNER = re.compile(r"[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?")


def reading(path: str) -> str:
    """A script that writes the content of the file to stdout. Raises ValueError for a path that is not absolute."""
    quoted = _quoted(path)
    return f"[ -e {quoted} ] || exit {MISSING}\nexec cat -- {quoted}"


def writing(path: str, size: int, owner: str, mode: int) -> str:
    """A script that takes `size` bytes from stdin into the file: through a temporary file in the same folder, which only its owner can read until it has
    its owner and mode, is on disk and takes the file's place. Folders that are missing are made with mode 0755. A link is replaced, not followed.

    A name with a dot in front is one that the kubelet overlooks in its manifest folder. Raises ValueError for a malformed path, owner or mode.
    """
    quoted = _quoted(path)
    if not _OWNER.fullmatch(owner):
        raise ValueError(f"{owner!r} is not an owner such as root or root:root")
    if not 0 <= mode <= 0o7777:
        raise ValueError(f"{mode:o} is not a file mode")
    folder, _, name = path.rpartition("/")
    return _WRITE.format(
        path=quoted,
        folder=shlex.quote(folder or "/"),
        template=shlex.quote(f"{folder}/.{name}.XXXXXXXX"),
        size=size,
        owner=owner,
        mode=f"{mode:04o}",
    )


_WRITE = """\
umask 022
mkdir -p -- {folder}
temporary=$(mktemp -- {template})
trap 'rm -f -- "$temporary"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$temporary"
if [ "$(wc -c <"$temporary")" -ne {size} ]; then
    echo 'the content did not arrive as a whole' >&2
    exit 1
fi
chown -- {owner} "$temporary"
chmod -- {mode} "$temporary"
sync -- "$temporary"
mv -f -T -- "$temporary" {path}
trap - EXIT
"""


def _quoted(path: str) -> str:
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError(f"{path!r} is not the absolute path of a file")
    return shlex.quote(path)
