"""From gRPC's status to the error a caller acts on."""

from __future__ import annotations

import pytest

from quorate.etcd.errors import DeadlineExceeded, EtcdError, MemberNotFound, NoLeader, NotLeader, Refused, Unreachable, from_status


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("UNAVAILABLE", "etcdserver: no leader", NoLeader),
        ("UNAVAILABLE", "etcdserver: leader changed", NoLeader),
        ("UNAVAILABLE", "etcdserver: request timed out", NoLeader),
        ("UNAVAILABLE", "etcdserver: request timed out, possibly due to previous leader failure", NoLeader),
        ("UNAVAILABLE", "etcdserver: server stopped", Unreachable),
        ("UNAVAILABLE", "", Unreachable),
        ("UNAVAILABLE", "etcdserver: unhealthy cluster", Refused),
        ("DEADLINE_EXCEEDED", "context deadline exceeded", DeadlineExceeded),
        ("NOT_FOUND", "etcdserver: member not found", MemberNotFound),
        ("NOT_FOUND", "etcdserver: requested lease not found", Refused),
        ("FAILED_PRECONDITION", "etcdserver: not leader", NotLeader),
        ("FAILED_PRECONDITION", "etcdserver: re-configuration failed due to not enough started members", Refused),
        ("UNKNOWN", "no etcd member with id 7 found", Refused),
        ("PERMISSION_DENIED", "etcdserver: permission denied", Refused),
    ],
)
def test_each_status_has_one_error(code: str, message: str, expected: type[EtcdError]) -> None:
    error = from_status("cp-a", code, message)
    assert type(error) is expected
    assert error.node == "cp-a"
    assert "etcd on node cp-a: " in str(error)


def test_a_refusal_carries_code_and_message_without_the_prefix() -> None:
    error = from_status("cp-a", "FAILED_PRECONDITION", "etcdserver: bad leader transferee")
    assert isinstance(error, Refused)
    assert error.code == "FAILED_PRECONDITION"
    assert str(error) == "etcd on node cp-a: bad leader transferee (FAILED_PRECONDITION)"
