"""How a command ends when it cannot do what was asked: one line on stderr and an exit code of the table in `quorate.cli.exit_codes`."""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress
from enum import IntEnum
from typing import TextIO

import click

from quorate.core.text import printable_lines


class ExitCode(IntEnum):
    """The codes that commands give by themselves; those of `quorate.local` come with its errors."""

    OK = 0
    FAILED = 1
    CHANGES = 2
    PORT_TAKEN = 4
    CONFIGURATION = 10
    MANAGEMENT_CLUSTER = 11
    NOT_FOUND = 12
    STALLED = 13
    HOSTS = 14
    STEP_FAILED = 15
    LOCKED = 16
    PLAN_IS_STALE = 17
    INTERRUPTED = 130  # as shells say of SIGINT
    UNREAD = 141  # as shells say of SIGPIPE
    WRONG_COMMAND_LINE = 64  # where 2 has another meaning


class FindingCommand(click.Command):
    """A command whose exit code 2 says what it found: a wrong command line ends with 64."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.exit_code = ExitCode.WRONG_COMMAND_LINE  # type: ignore[misc]  # click declares it for the class
            raise


def is_closed(stream: TextIO) -> bool:
    """Whether the stream is a pipe that nobody reads any more."""
    watched = select.poll()
    try:
        watched.register(stream.fileno(), 0)
    except (OSError, ValueError):  # a stream of a test, or closed, has no descriptor
        return False
    return any(event & select.POLLERR for _, event in watched.poll(0))


def pass_over(stream: TextIO) -> None:
    """Let what is still written to the stream go nowhere: nobody reads it any more."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def wrong(message: str) -> click.UsageError:
    """A wrong command line, of a command whose exit code 2 says something else."""
    error = click.UsageError(message)
    error.exit_code = ExitCode.WRONG_COMMAND_LINE  # type: ignore[misc]  # click declares it for the class, and reads it from the instance
    return error


class Failure(click.ClickException):
    """The reason, as printable lines for stderr whatever files it quotes, and the code to end with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(printable_lines(message))
        self.exit_code = code  # type: ignore[misc]  # click declares it for the class, and reads it from the instance


def failure_of(error: Exception) -> Failure:
    """What a person is told of an error, and the exit code for it."""
    cause = first(error)
    module = type(cause).__module__  # nothing is loaded to find out: neither SSH, nor what an installation does not have
    if module.startswith("quorate.local."):
        return _of_the_local_cluster(cause) or _of_clusters(cause)
    return (_of_hosts(cause) if module.startswith("quorate.hosts.") else None) or _of_clusters(cause)


def _of_the_local_cluster(cause: Exception) -> Failure | None:
    from quorate.local.errors import LocalError

    return Failure(str(cause), cause.exit_code) if isinstance(cause, LocalError) else None


def _of_hosts(cause: Exception) -> Failure | None:
    from quorate.hosts.act.failures import StepFailed
    from quorate.hosts.connect.access import AccessFailed
    from quorate.hosts.connect.ssh.errors import SshError
    from quorate.hosts.manifest import ManifestError
    from quorate.hosts.manifest.terraform import TerraformError
    from quorate.hosts.run.lock_refused import LockRefused
    from quorate.hosts.run.plan_file import PlanError, StalePlan
    from quorate.hosts.run.records import RecordError

    match cause:
        case ManifestError() | TerraformError():
            return Failure(str(cause), ExitCode.CONFIGURATION)
        case SshError() | AccessFailed():
            return Failure(str(cause), ExitCode.HOSTS)
        case StepFailed() | RecordError() | PlanError():
            return Failure(str(cause), ExitCode.STEP_FAILED)
        case LockRefused():
            return Failure(str(cause), ExitCode.LOCKED)
        case StalePlan():
            return Failure(str(cause), ExitCode.PLAN_IS_STALE)
    return None


def _of_clusters(cause: Exception) -> Failure:
    from quorate.clusterapi.inspection import NotAnswering
    from quorate.clusterapi.takeover.lock import AlreadyRunning
    from quorate.kubernetes.config import ConfigError
    from quorate.kubernetes.errors import ApiError, ConnectionFailed
    from quorate.kubernetes.leader import LeadershipLost

    match cause:
        case Failure():
            return cause
        case ConfigError():
            return Failure(str(cause), ExitCode.CONFIGURATION)
        case ConnectionFailed():
            return Failure(f"the management cluster does not answer: {cause}", ExitCode.MANAGEMENT_CLUSTER)
        case ApiError() | NotAnswering():
            return Failure(_explained(cause), ExitCode.MANAGEMENT_CLUSTER)
        case AlreadyRunning() | LeadershipLost():
            return Failure(str(cause), ExitCode.LOCKED)
        case OSError(errno=errno.EADDRINUSE):
            return Failure(f"{cause.strerror}; stop the process that listens there, or choose another address", ExitCode.PORT_TAKEN)
    return Failure(f"{str(cause) or 'no message'} ({type(cause).__name__}; `quorate --debug` shows where)", ExitCode.FAILED)


def first(error: Exception) -> Exception:
    """The first error in a group, through groups in it: what fails together mostly fails for one reason."""
    return first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


def _explained(error: Exception) -> str:
    """The server's answer with the way out that follows from its kind."""
    from quorate.kubernetes.errors import Forbidden, NotFound, Unauthorized

    match error:
        case Unauthorized():
            return f"the management cluster does not accept these credentials: {error}; renew the kubeconfig's user, or choose another with --context"
        case Forbidden():
            return f"the management cluster forbids it: {error}; grant your user the verb on this resource"
        case NotFound():
            return f"the management cluster does not serve this kind: {error}; install Cluster API and quorate's CustomResourceDefinitions"
    return str(error)
