"""Errors of a connection to a host. Each message names the host, user and port, the cause, and the way out.

SshError
  ConnectFailed           there is no connection: the host's state, never the end of a run
    NoAnswer              nothing answers there, not in time, or not as an SSH server
    HostKeyUnknown        nobody has said which key the host has
    HostKeyChanged        it shows another key than the one that is known
    HostKeyRefused        its key or certificate is revoked, expired or signed by a stranger
    KnownHostsUnusable    the known_hosts file cannot be read or written
    IdentityUnusable      a key, a certificate or the agent on our side cannot be used
    AuthenticationFailed  the host does not accept any of our keys
    BastionRefused        the bastion does not forward to the host
  ConnectionCut           the connection ended before the script did; whether the script runs on is not known
  DeadlineExceeded        the script did not end in time; `ended` says whether it is known to be over
  OutputTooLong           the script wrote more than it may, and was ended
  SessionRefused          the host is connected but starts no shell
  SudoRefused             the user cannot become root without a password or a terminal
  ScriptFailed            the script ended with another status than zero
    NoSuchFile            the file to be read is not there
  TunnelRefused           the host does not forward to the address, or nothing listens there
"""

from __future__ import annotations

from quorate.core.text import printable


class SshError(Exception):
    """Any failure with a host. `where` is the host (or its bastion) with user and port, `remedy` is empty where time alone may help.

    The cause may quote the host: it is made printable here, for everybody who tells it on.
    """

    def __init__(self, where: str, cause: str, remedy: str = "") -> None:
        cause = printable(cause)
        super().__init__(f"{where}: {cause}{'. ' if remedy else ''}{remedy}")
        self.where = where
        self.cause = cause
        self.remedy = remedy


class ConnectFailed(SshError):
    """There is no connection."""


class NoAnswer(ConnectFailed):
    """Nothing answers, not in time, or not as an SSH server."""


class HostKeyUnknown(ConnectFailed):
    """Neither the manifest nor known_hosts says which key the host has."""


class HostKeyChanged(ConnectFailed):
    """The host shows another key than the one that is known: a host that was built anew, or somebody in between."""


class HostKeyRefused(ConnectFailed):
    """The host's key or certificate is revoked, expired, or signed by a CA that is not known."""


class KnownHostsUnusable(ConnectFailed):
    """The known_hosts file cannot be read or written."""


class IdentityUnusable(ConnectFailed):
    """A key, a certificate or the agent on our side cannot be used."""


class AuthenticationFailed(ConnectFailed):
    """The host accepts none of our keys for this user."""


class BastionRefused(ConnectFailed):
    """The bastion is connected but does not forward to the host."""


class ConnectionCut(SshError):
    """The connection ended before the script did. What the script did is not known; it is ended at its deadline at the latest."""


class DeadlineExceeded(SshError):
    """The script did not end in time."""

    def __init__(self, where: str, cause: str, remedy: str = "", *, ended: bool) -> None:
        super().__init__(where, cause, remedy)
        self.ended = ended  # the host itself said that it ended the script


class OutputTooLong(SshError):
    """The script wrote more than it may; it was ended."""


class SessionRefused(SshError):
    """The host is connected but starts no shell for this user."""


class SudoRefused(SshError):
    """The user cannot become root without a password or a terminal."""


class ScriptFailed(SshError):
    """The script ended with another status than zero."""

    def __init__(self, where: str, cause: str, remedy: str = "", *, exit_status: int) -> None:
        super().__init__(where, cause, remedy)
        self.exit_status = exit_status


class NoSuchFile(ScriptFailed):
    """The file to be read is not there."""


class TunnelRefused(SshError):
    """The host does not forward to the address, or nothing listens there."""
