"""What can go wrong with the local management cluster, each with the exit code a command line ends with.

| code | meaning |
|---|---|
| 1 | anything else |
| 3 | something to build or install with is missing: no Go, no network, no uv, no program in `.bin` |
| 4 | a port that a program fixes is held by another process |
| 5 | a program ended, or was not ready in time, while the cluster started |
| 6 | another local cluster did not give way in time |
| 7 | the run folder cannot be used: held by another start, not ours, or in another format |
| 8 | a build failed |

Code 2 is a wrong command line, as everywhere. Starting what runs already, and stopping what does not run, are no errors.
"""

from __future__ import annotations


class LocalError(Exception):
    """The local cluster cannot do what was asked; the message names the object, the cause and the way out."""

    exit_code = 1


class MissingTool(LocalError):
    """A toolchain, a program or the network to fetch it is missing."""

    exit_code = 3


class PortTaken(LocalError):
    """Another process listens on a port that cannot be chosen freely."""

    exit_code = 4


class StartFailed(LocalError):
    """A program ended, or was not ready in time, while the cluster started."""

    exit_code = 5


class TurnTimeout(LocalError):
    """Another local cluster still holds the ports that CAPD fixes."""

    exit_code = 6


class FolderUnusable(LocalError):
    """The run folder is in use by another start, or is not one of ours."""

    exit_code = 7


class BuildFailed(LocalError):
    """The Go compiler or the manifest renderer refused."""

    exit_code = 8
