"""Every error and value that quotes a host, an API server or an etcd member is one printable line from the moment it is made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from quorate.etcd import errors as etcd
from quorate.etcd.client import Member, Status
from quorate.hosts.connect.ssh import errors as ssh
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import ManifestError, parse
from quorate.hosts.manifest.terraform import Outputs
from quorate.hosts.run.events import LINES, Progress
from quorate.hosts.run.operator import Holder, decode
from quorate.hosts.run.plan_file import StalePlan
from quorate.kubernetes import errors as kubernetes
from quorate.kubernetes import objects
from quorate.kubernetes.config import ConfigError
from tests.core.test_text import INJECTIONS
from tests.hosts.manifests import SMALLEST

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


def mistake(text: str, **changes: Any) -> str:
    with pytest.raises(ManifestError) as raised:
        parse(
            yaml.safe_dump(SMALLEST | changes),
            terraform=Outputs("tf.json", {"kubeone_static_workers": {"value": {text: {"sshuser": "x"}}}}),
        )
    return "".join(str(raised.value).split("\n"))


def recorded(text: str) -> str:
    """Without the line ends of what a step's failure says."""
    (event,) = LINES.decode([LINES.encode(Progress(NOON, text, text))])
    assert isinstance(event, Progress)
    return "".join(f"{event.host}{event.what}".split("\n"))


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
    "a manifest's key": lambda text: mistake("x", **{text: 1}),
    "a manifest's kind": lambda text: mistake("x", kind=text),
    "a manifest's version": lambda text: mistake("x", apiVersion=text),
    "a key of Terraform's": mistake,
    "a saved plan's fact": lambda text: str(StalePlan((text,))).split("\n", 1)[1],
    "a record's event": recorded,
    "a name": lambda text: msgspec.json.decode(msgspec.json.encode({"name": text}), type=objects.ObjectMeta).name,
}


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_what_is_said_is_one_printable_line(said: Callable[[str], str], text: str) -> None:
    assert said(text).isprintable()


def test_a_lock_in_no_known_encoding_is_nobodys() -> None:
    assert decode(b'{"id": "\xff"}') is None
