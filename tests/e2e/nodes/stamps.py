"""Knowing what is made already: a folder and what it was made from, as a hash beside it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def fingerprint(*ingredients: Path | str) -> str:
    """A hash of texts, files, and all files of folders, with the names and modes of the latter. Programs of .cache count by size and time: they are large."""
    digest = hashlib.sha256()
    for ingredient in ingredients:
        for name, path in _files(ingredient):
            digest.update(f"{name}\0".encode())
            if path is not None:
                found = path.stat()
                large = ".cache" in path.parts
                digest.update(
                    f"{found.st_size} {found.st_mtime_ns}".encode() if large else path.read_bytes() + f" {found.st_mode}".encode()
                )
    return digest.hexdigest()[:16]


@contextmanager
def making(folder: Path, *ingredients: Path | str) -> Iterator[Path | None]:
    """A new empty folder that replaces `folder` when the block ends well; None where `folder` was made from the same ingredients before."""
    stamp, wanted = folder.with_name(f".{folder.name}.stamp"), fingerprint(*ingredients)
    if folder.is_dir() and stamp.is_file() and stamp.read_text() == wanted:
        yield None
        return
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    stamp.write_text(wanted)


def _files(ingredient: Path | str) -> Iterable[tuple[str, Path | None]]:
    if isinstance(ingredient, str):
        return [(ingredient, None)]
    if ingredient.is_file():
        return [(ingredient.name, ingredient)]
    return [(str(path.relative_to(ingredient)), path) for path in sorted(ingredient.rglob("*")) if path.is_file()]
