"""Writes files on a host from inside a script, so that one round trip writes and uses them.

Secrets travel as the script does: on stdin, never in argv.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable

from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.shell import quoted

_OWNER = re.compile(r"[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?")


def placing(files: Iterable[HostFile]) -> str:
    """The part of a script that gives the host these files, and prints `changed file PATH` for each that was missing or another. Idempotent.

    Each is replaced as a whole, after its new content is on disk with its owner and mode. `printf` is part of sh, so that no list of processes shows what it
    is given. Folders that are missing are made with mode 0755. Raises ValueError for a malformed owner.
    """
    return "\n".join((_PLACE, *(_one(file) for file in files), ""))


def _one(file: HostFile) -> str:
    if not _OWNER.fullmatch(file.owner):
        raise ValueError(f"{file.owner!r} is not an owner such as root or root:root")
    content = base64.b64encode(file.content).decode("ascii")
    folder, _, name = file.path.rpartition("/")
    template = quoted(f"{folder}/.{name}.XXXXXXXX")
    digest = hashlib.sha256(file.content).hexdigest()
    return f"printf %s '{content}' | place {quoted(file.path)} {template} {digest} {file.owner} {file.mode:o}"


# A name with a dot in front is one that the kubelet overlooks in its manifest folder. The pipe makes `place` a subshell: its `exit` and its trap are its own,
# and with `set -e` the script ends where it fails.
_PLACE = """\
place() {
    if [ "$(stat -c '%U:%G %a' -- "$1" 2>/dev/null)" = "$4 $5" ]; then
        found=$(sha256sum <"$1")
        if [ "${found%% *}" = "$3" ]; then
            cat >/dev/null
            return 0
        fi
    fi
    umask 022
    mkdir -p -- "$(dirname -- "$1")"
    temporary=$(mktemp -- "$2")
    trap 'rm -f -- "$temporary"' EXIT
    base64 -d >"$temporary"
    arrived=$(sha256sum <"$temporary")
    if [ "${arrived%% *}" != "$3" ]; then
        echo "the content of $1 did not arrive as a whole" >&2
        exit 1
    fi
    chown -- "$4" "$temporary"
    chmod -- "$5" "$temporary"
    sync -- "$temporary"
    mv -f -T -- "$temporary" "$1"
    trap - EXIT
    echo "changed file $1"
}"""
