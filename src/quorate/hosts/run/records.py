"""Records of runs: JSON lines in a folder beside the manifest, for the operator's eyes only, the last 20 kept."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType
from typing import Self

from quorate.hosts.private_files import create, private_folder
from quorate.hosts.run.events import LINES, Event, Started

KEPT = 20
"""Records of one cluster that stay."""
_SUFFIX = ".jsonl"
_NAME = re.compile(rf"\d{{8}}T\d{{12}}Z(-[a-z-]+)?{re.escape(_SUFFIX)}", re.ASCII)


class RecordError(ValueError):
    """There is no such record, or it cannot be read or written. The message names the file or folder, the cause and the way out."""


def folder_of(manifest: Path, cluster: str) -> Path:
    """Where the records of this cluster are."""
    return manifest.absolute().parent / f"{cluster}-runs"


class Record:
    """One run's record, made at its first event, whose time names the file. Each event is on disk's way before `write` returns, so that a kill loses none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self.path: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def write(self, event: Event) -> None:
        """Add an event. Raises RecordError."""
        try:
            descriptor = self._open(event) if self._descriptor is None else self._descriptor
            os.write(descriptor, f"{LINES.encode(event)}\n".encode())
        except OSError as error:
            raise RecordError(
                f"{self._folder}: the record of this run cannot be written: {error.strerror}; make the folder writable"
            ) from None

    def _open(self, event: Event) -> int:
        private_folder(self._folder)
        stamp = event.at.strftime("%Y%m%dT%H%M%S%fZ")
        command = f"-{event.command.replace(' ', '-')}" if isinstance(event, Started) else ""
        self.path = self._folder / f"{stamp}{command}{_SUFFIX}"
        self._descriptor = create(self.path)
        for old in all_in(self._folder)[:-KEPT]:
            old.unlink(missing_ok=True)
        return self._descriptor


def all_in(folder: Path) -> list[Path]:
    """Every record in the folder, by the names that records have, the oldest first; none where there is no such folder. Other files are their owner's."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def newest(folder: Path) -> Path:
    """The newest record. Raises RecordError where there is none."""
    found = all_in(folder)
    if not found:
        raise RecordError(f"{folder}: there is no record of a run; `quorate apply` writes one beside the manifest")
    return found[-1]


def read(path: Path) -> list[Event]:
    """The events of a record. Raises RecordError where it cannot be read, or is none."""
    try:
        events = LINES.decode(path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RecordError(f"{path}: {error}; give a file that `quorate apply` wrote") from None
    if not events:
        raise RecordError(f"{path}: holds no event; give a file that `quorate apply` wrote")
    return events
