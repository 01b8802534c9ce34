"""Errors of an etcd member, as callers handle them. Mapped once, here, from gRPC's status and etcd's own messages."""

from __future__ import annotations

from quorate.core.text import printable


class EtcdError(Exception):
    """Any failure of a question to, or a change in, etcd. `node` names the node whose member was asked.

    The message may quote the member, and is made printable here, for everybody who tells it on.
    """

    def __init__(self, node: str, message: str) -> None:
        message = printable(message)
        super().__init__(f"etcd on node {node}: {message}")
        self.node = node
        self.message = message


class Unreachable(EtcdError):
    """No connection, or it broke before the answer came. Whether a change was made is then not known: read the members again."""


class ConnectionLost(Unreachable):
    """A connection that had been made broke before the answer came: worth one more try at once, which dials again."""


class NoWay(Unreachable):
    """What the way to the member leads through is not there, or does not answer: an API server, a kubelet, its Pod. That says nothing of the member itself."""


class DeadlineExceeded(EtcdError):
    """The member was connected but did not answer in time. Whether a change was made is then not known: read the members again."""


class NoLeader(EtcdError):
    """The member answered, but could not get a majority to confirm: no leader, a leader just lost, or etcd's own 7 s limit for it ran out."""


class MemberNotFound(EtcdError):
    """The member that was to be changed is not in the ring: for a removal, as good as done."""


class NotLeader(EtcdError):
    """Only the leader can hand leadership over, and the member asked is not the leader."""


class Refused(EtcdError):
    """Any other answer that is an error: `code` is gRPC's status by name, `message` etcd's own words."""

    def __init__(self, node: str, code: str, message: str) -> None:
        super().__init__(node, f"{message or 'no message'} ({code})")
        self.code = code


# Texts of etcd's api/v3rpc/rpctypes/error.go, without their prefix. These are UNAVAILABLE there, as are the server's own troubles ("server stopped").
_STRICT_CHECK = "unhealthy cluster"  # etcd refuses to change a ring in which not every peer has been connected for 5 s
_NO_MAJORITY = ("no leader", "leader changed", "request timed out")


def from_status(node: str, code: str, message: str) -> EtcdError:
    """The error for a gRPC status other than OK; `code` is its name, such as UNAVAILABLE."""
    text = message.removeprefix("etcdserver: ")
    if code == "DEADLINE_EXCEEDED":
        return DeadlineExceeded(node, text or "the deadline passed inside etcd")
    if code == "UNAVAILABLE" and text.startswith(_NO_MAJORITY):
        return NoLeader(node, text)
    if code == "UNAVAILABLE" and text != _STRICT_CHECK:
        return Unreachable(node, text or "unavailable")
    if code == "NOT_FOUND" and text == "member not found":
        return MemberNotFound(node, text)
    if code == "FAILED_PRECONDITION" and text == "not leader":
        return NotLeader(node, text)
    return Refused(node, code, text)
