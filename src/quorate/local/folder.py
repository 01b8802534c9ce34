"""The run folder of one local cluster: where everything lies, and the record of what runs.

    .local/NAME/
      state.json    what was started, by whom (0600, replaced as a whole)
      kubeconfig    the administrator's (0600)
      pki/          certificates and keys (folder 0700)
      etcd/         data
      log/          one file a program, and audit.json

A folder is ours if it holds a state.json. One whose processes have all ended is stale and may be thrown away; any other content is never deleted.
"""

from __future__ import annotations

import os
import shutil
from enum import StrEnum
from pathlib import Path

import msgspec

from quorate.local.errors import FolderUnusable
from quorate.local.processes import Identity

_TAIL = 15  # lines of a log that an error quotes


class ControlPlaneProvider(StrEnum):
    """Who answers for KubeadmControlPlanes in a local cluster."""

    QUORATE = "quorate"
    UPSTREAM = "upstream"
    NONE = "none"  # quorate's kinds are installed, without webhooks, and left to a manager that the caller runs


class Phase(StrEnum):
    """How far a start has come."""

    STARTING = "starting"
    READY = "ready"
    ENDED = "ended"  # stopped by its owner, or never ready


class State(msgspec.Struct, kw_only=True, frozen=True):
    """What the run folder remembers. `processes` is in order of start."""

    version: int = 1
    control_plane: ControlPlaneProvider
    owner: Identity  # the process that started it
    detached: bool  # whether it outlives its owner
    phase: Phase = Phase.STARTING
    processes: dict[str, Identity] = {}

    @property
    def live(self) -> bool:
        """Whether any of it runs, or is being started by an owner that lives."""
        return any(process.alive for process in self.processes.values()) or (self.phase is Phase.STARTING and self.owner.alive)


class RunFolder:
    """The paths of one local cluster, and its record."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Requests to the API server at level Metadata, one JSON object a line."""
        return self.path / "log" / "audit.json"

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def etcd(self) -> Path:
        return self.path / "etcd"

    @property
    def state_file(self) -> Path:
        return self.path / "state.json"

    def log(self, process: str) -> Path:
        """What a program wrote to stdout and stderr, over all its starts."""
        return self.path / "log" / f"{process}.log"

    def log_tail(self, process: str) -> str:
        """The last lines of a program's log, for an error message."""
        try:
            lines = self.log(process).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(f"  {line[:300]}" for line in lines[-_TAIL:])

    def read(self) -> State | None:
        """The record; None where the folder is missing or empty. Raises FolderUnusable for a folder that is not ours or a record of another format."""
        try:
            return msgspec.json.decode(self.state_file.read_bytes(), type=State)
        except FileNotFoundError:
            if self.path.is_dir() and any(self.path.iterdir()):
                raise FolderUnusable(
                    f"{self.path} holds files but no state.json, so it is no run folder of quorate: choose another folder"
                ) from None
            return None
        except msgspec.DecodeError as error:
            raise FolderUnusable(
                f"{self.state_file} cannot be read ({error}): end what still runs from there, then delete {self.path}"
            ) from None

    def write(self, state: State) -> None:
        """Replace the record, so that a reader sees the old or the new one, never a part."""
        partial = self.state_file.with_suffix(".partial")
        write_private(partial, msgspec.json.encode(state))
        partial.replace(self.state_file)

    def reset(self, state: State) -> bool:
        """Throw away what a run that has ended left behind and begin anew with `state`; true where something was thrown away.

        Raises FolderUnusable where the folder is live or not ours.
        """
        before = self.read()
        if before and before.live:
            raise FolderUnusable(
                f"the local cluster in {self.path} runs already: use it, or end it with `quorate local down --folder {self.path}`"
            )
        shutil.rmtree(self.path, ignore_errors=True)
        for folder in (self.path, self.path / "log", self.etcd, self.pki):
            folder.mkdir(mode=0o700, parents=True)
        self.write(state)
        return before is not None

    def remove(self) -> None:
        """Delete the folder with everything in it, if it is ours. Idempotent."""
        if self.read() is not None:
            shutil.rmtree(self.path)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, also before its content is in it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
