"""Errors that end a run because it has no lock, or lost it: what is locked, why, and the way out."""

from __future__ import annotations

from quorate.hosts.run.lock_file import LASTS
from quorate.hosts.run.operator import Holder

_WAY_OUT = f"The lock of a run that was killed expires after {LASTS} s, and at once for a new run on the same machine"
MEND = "correct that there, then run the same command again"
GONE = (
    "bring them back, then run the same command again; or give `--without HOST` to `quorate apply` or `quorate reset` for each that is gone, to vouch"
    " that nobody works on it"
)


class LockRefused(Exception):
    """This run may not change anything, or not any more. `where` is the host or the Lease."""

    def __init__(self, where: str, cause: str, remedy: str) -> None:
        super().__init__(f"{where} {cause}; {remedy}")
        self.where = where
        self.cause = cause
        self.remedy = remedy


class Locked(LockRefused):
    """Somebody else works on these hosts."""

    def __init__(self, where: str, holder: Holder | None) -> None:
        by = str(holder) if holder else "an operator who left no name"
        super().__init__(where, f"is locked by {by}", f"wait until that run has ended. {_WAY_OUT}")
        self.holder = holder


class LockLost(LockRefused):
    """The lock was this run's, and somebody else may have had it since: what this run knows of the hosts may be untrue."""

    def __init__(self, where: str) -> None:
        cause = f"is no longer locked by this run, which was stopped or cut off for more than {LASTS} s"
        super().__init__(where, cause, "run the same command again: it looks at everything anew")


class NotLockable(LockRefused):
    """A lock cannot be had, though nobody else holds it."""
