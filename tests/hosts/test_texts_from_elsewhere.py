"""Every error and value that quotes a host, an API server or an etcd member is one printable line from the moment it is made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from quorate.etcd import errors as etcd
from quorate.etcd.client import Member, Status
from quorate.hosts.operator import Holder, decode
from quorate.hosts.ssh import errors as ssh
from quorate.hosts.ssh.scripts import Outcome
from quorate.kubernetes import errors as kubernetes
from quorate.kubernetes import objects
from quorate.kubernetes.config import ConfigError
from tests.core.test_text import INJECTIONS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def held(text: str) -> str:
    holder = decode(Holder(text, text, text, NOON, text).encode())
    assert holder is not None
    return f"{holder}{holder.id}"


def condition(text: str) -> str:
    """Without the line ends of its message: Cluster API writes a list there, one line an item, and the views show each on a line of its own."""
    found = msgspec.json.decode(msgspec.json.encode(dict.fromkeys(("type", "status", "reason", "message"), text)), type=objects.Condition)
    return "".join((found.type, found.status, found.reason, *found.message.split("\n")))


def member(text: str) -> str:
    found = Member(1, text, (text,), (text,))
    return f"{found.name}{''.join((*found.peer_urls, *found.client_urls))}"


SAID: dict[str, Callable[[str], str]] = {
    "an SSH error": lambda text: str(ssh.NoAnswer("host cp-1", text)),
    "its cause": lambda text: ssh.NoAnswer("host cp-1", text).cause,
    "a script's last words": lambda text: Outcome(1, b"", text.encode()).last_words,
    "a script's lines": lambda text: "".join(Outcome(1, text.encode(), b"").lines),
    "an API server's answer": lambda text: str(kubernetes.from_status(objects.Status(message=text), 500, doing="get")),
    "a lost connection": lambda text: str(kubernetes.ConnectionFailed(text)),
    "a kubeconfig from elsewhere": lambda text: str(ConfigError(text)),
    "an etcd error": lambda text: str(etcd.from_status("cp-1", "UNKNOWN", text)),
    "an etcd member": member,
    "an etcd member's status": lambda text: f"{Status(1, 1, version=text).version}{''.join(Status(1, 1, errors=(text,)).errors)}",
    "the holder of a lock": held,
    "a condition": condition,
    "a name": lambda text: msgspec.json.decode(msgspec.json.encode({"name": text}), type=objects.ObjectMeta).name,
}


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_what_is_said_is_one_printable_line(said: Callable[[str], str], text: str) -> None:
    assert said(text).isprintable()


def test_a_lock_in_no_known_encoding_is_nobodys() -> None:
    assert decode(b'{"id": "\xff"}') is None
