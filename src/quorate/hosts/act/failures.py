"""The error of a failed step, and the errors of connections that become it."""

from __future__ import annotations

from collections.abc import Mapping

from quorate.etcd.errors import EtcdError
from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.errors import SshError
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ApiError, ConnectionFailed


class StepFailed(Exception):
    """A step did not get to its end. `where` is the host or hosts, `cause` what happened, `remedy` the way out; empty where trying again may help.

    What the step has done until then stays: observed again, it is where the next attempt goes on.
    """

    def __init__(self, where: str, cause: str, remedy: str = "") -> None:
        super().__init__(f"{where}: {cause}{'. ' if remedy else ''}{remedy}")
        self.where = where
        self.cause = cause
        self.remedy = remedy


EXPECTED = (SshError, AccessFailed, ApiError, ConnectionFailed, ConfigError, EtcdError)
"""What hosts, API servers and etcd members answer with, or that they do not answer: the world's failures, not our own."""


def failure_of(where: str, error: Exception) -> StepFailed:
    """The failure that one of EXPECTED is for a step on `where`."""
    if isinstance(error, SshError | AccessFailed):
        return StepFailed(where, error.cause, error.remedy)
    return StepFailed(where, str(error))


def joined(failures: Mapping[str, StepFailed]) -> StepFailed:
    """One failure for several hosts, each with its own cause; there is at least one. What caused it is a way to a host that was lost, if any was."""
    if len(failures) == 1:
        return next(iter(failures.values()))
    causes = "; ".join(f"{host}: {failure.cause}" for host, failure in failures.items())
    remedies = dict.fromkeys(failure.remedy for failure in failures.values() if failure.remedy)
    made = StepFailed(", ".join(failures), causes, ". ".join(remedies))
    made.__cause__ = next((failure.__cause__ for failure in failures.values() if isinstance(failure.__cause__, SshError)), None)
    return made
