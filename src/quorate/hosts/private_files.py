"""quorate's folders and files on the operator's machine, beside a manifest that is usually in a git repository: readable by their owner only, and never
committed."""

from __future__ import annotations

import os
from pathlib import Path

IGNORE = ".gitignore"


def private_folder(folder: Path) -> None:
    """Make the folder where it is missing, with mode 0700. One in which nothing is yet gets a .gitignore that leaves all of it out of commits: records name
    hosts, and a snapshot of etcd holds every Secret. One that has files already is the user's, and gets none. Idempotent; raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        descriptor = create(folder / IGNORE)
        try:
            os.write(descriptor, b"# Written by quorate: this folder is for no repository.\n*\n")
        finally:
            os.close(descriptor)


def create(path: Path) -> int:
    """The descriptor of a new file that is written to, with mode 0600. Raises FileExistsError where there is one, or a link: nothing is written through it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND, 0o600)
