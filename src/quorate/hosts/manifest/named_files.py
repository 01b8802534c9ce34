"""Files that a manifest names, with keys or with what hosts are given, read from the operator's disk: a manifest may come from anybody, and name anything."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST = 1 << 20
"""Bytes of such a file, which is a key, a policy, a configuration or a list of certificates."""


def content_of(path: Path) -> bytes:
    """What a regular file of a usual size holds. Raises OSError, whose `strerror` says why it is not read: no FIFO is waited for, and no device read."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, f"it has more than {MOST >> 20} MiB")
    return content
