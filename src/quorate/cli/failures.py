"""How a command ends when it cannot do what was asked: one line on stderr and an exit code from one table.

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed in a way that no other code names |
| 2 | the command line is wrong; of `quorate plan`: there are changes |
| 3 | something to build or run with is missing: no Go, no network, no program in `.bin` |
| 4 | a port that a program fixes is held by another process |
| 5 | a program ended, or was not ready in time, while the local cluster started |
| 6 | another local cluster did not give way in time |
| 7 | the run folder cannot be used: held by another start, not ours, or in another format |
| 8 | building a program failed |
| 10 | the kubeconfig, the manifest or Terraform's output is missing, malformed, or names something that is not there |
| 11 | the management cluster refuses (401, 403) or does not answer |
| 12 | there is no such control plane |
| 13 | the control plane is stalled, or a quorum would be lost: it waits for something that does not come by itself |
| 14 | no host, or not the one that is needed, can be reached over SSH, or no API server or etcd member answers there |
| 15 | a step on a host failed, or a file of records, plans or snapshots cannot be used; the same command goes on from there |
| 16 | somebody else works on these hosts, or has since the run began, or a host cannot be locked |
| 17 | the world has moved since the plan was made or approved |
| 64 | the command line of `quorate plan` is wrong, or the edit would be refused; nobody can be asked, and there is no -y; an argument is empty |
| 130 | interrupted by a signal; the same command goes on from there |
| 141 | whoever read the output has closed it, as `head` does; work on hosts goes on to its end, unseen, and ends with its own code |

Codes 3 to 8 are those of `quorate.local`. 64 is the number of sysexits.h for a wrong command line.
"""

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
    WORLD_MOVED = 17
    INTERRUPTED = 130  # as shells say of SIGINT
    UNREAD = 141  # as shells say of SIGPIPE
    WRONG_COMMAND_LINE = 64  # where 2 has another meaning


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


class Failure(click.ClickException):
    """The reason, as printable lines for stderr whatever files it quotes, and the code to end with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(printable_lines(message))
        self.exit_code = code  # type: ignore[misc]  # click declares it for the class, and reads it from the instance


def failure_of(error: Exception) -> Failure:
    """What a person is told of an error, and the exit code for it."""
    cause = first(error)
    ours = type(cause).__module__.startswith("quorate.hosts.")  # whose modules, SSH among them, are not loaded to find out
    return (_of_hosts(cause) if ours else None) or _of_clusters(cause)


def _of_hosts(cause: Exception) -> Failure | None:
    from quorate.hosts.access import AccessFailed
    from quorate.hosts.act.failures import StepFailed
    from quorate.hosts.lock import LockRefused
    from quorate.hosts.manifest import ManifestError
    from quorate.hosts.plan_file import PlanError, WorldMoved
    from quorate.hosts.records import RecordError
    from quorate.hosts.ssh.errors import SshError
    from quorate.hosts.terraform import TerraformError

    match cause:
        case ManifestError() | TerraformError():
            return Failure(str(cause), ExitCode.CONFIGURATION)
        case SshError() | AccessFailed():
            return Failure(str(cause), ExitCode.HOSTS)
        case StepFailed() | RecordError() | PlanError():
            return Failure(str(cause), ExitCode.STEP_FAILED)
        case LockRefused():
            return Failure(str(cause), ExitCode.LOCKED)
        case WorldMoved():
            return Failure(str(cause), ExitCode.WORLD_MOVED)
    return None


def _of_clusters(cause: Exception) -> Failure:
    from quorate.clusterapi.inspection import NotAnswering
    from quorate.kubernetes.config import ConfigError
    from quorate.kubernetes.errors import ApiError, ConnectionFailed
    from quorate.local.errors import LocalError

    match cause:
        case Failure():
            return cause
        case ConfigError():
            return Failure(str(cause), ExitCode.CONFIGURATION)
        case ConnectionFailed():
            return Failure(f"the management cluster does not answer: {cause}", ExitCode.MANAGEMENT_CLUSTER)
        case ApiError() | NotAnswering():
            return Failure(_explained(cause), ExitCode.MANAGEMENT_CLUSTER)
        case LocalError():
            return Failure(str(cause), cause.exit_code)
        case OSError(errno=errno.EADDRINUSE):
            return Failure(f"{cause.strerror}; stop who listens there, or choose another address", ExitCode.PORT_TAKEN)
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
            return f"the management cluster forbids it: {error}; have the verb on this resource granted to your user"
        case NotFound():
            return f"the management cluster does not serve this kind: {error}; install Cluster API and quorate's CustomResourceDefinitions"
    return str(error)
