"""Bootstrap tokens: how they look, and the Secrets that make them valid."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest

from quorate.kubeadm.bootstrap_token import id_of, new_token, secret_name, secret_object, token_of

TOKEN = "abcdef.0123456789abcdef"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def decoded(expires: datetime = NOON, *, signing: bool = True) -> dict[str, bytes]:
    data = secret_object(TOKEN, expires, "for a test", signing=signing)["data"]
    return {key: b64decode(value) for key, value in data.items()}


def test_tokens_are_as_kubeadm_wants_them() -> None:
    random = Random(1)
    tokens = {new_token(random.randbytes) for _ in range(50)}
    for token in tokens:
        assert len(token) == 23
        assert token[6] == "."
        assert set(token) <= set("0123456789abcdefghijklmnopqrstuvwxyz.")
    assert len(tokens) == 50


def test_every_character_is_as_likely_as_every_other() -> None:
    drawn = iter([bytes(range(250, 256)) + bytes(16), bytes(22), bytes(22)])
    token = new_token(lambda length: next(drawn)[:length])
    assert token[:2] == "yz", "250 and 251 are drawn"
    assert token[2:] == "0000.0000000000000000", "252 and above are not"


def test_a_machine_has_the_same_id_always_and_another_secret_each_time() -> None:
    assert id_of("demo-abcde") == id_of("demo-abcde") != id_of("demo-abcdf")
    random = Random(1)
    tokens = {new_token(random.randbytes, id_of("demo-abcde")) for _ in range(20)}
    assert len(tokens) == 20
    assert {token.partition(".")[0] for token in tokens} == {id_of("demo-abcde")}
    assert len(id_of("demo-abcde")) == 6


def test_the_secret_is_what_api_servers_look_for() -> None:
    body = secret_object(TOKEN, NOON, "for a test", signing=True)
    assert (body["kind"], body["type"]) == ("Secret", "bootstrap.kubernetes.io/token")
    assert body["metadata"] == {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}
    assert decoded() == {
        "description": b"for a test",
        "token-id": b"abcdef",
        "token-secret": b"0123456789abcdef",
        "expiration": b"2026-01-01T12:00:00Z",
        "usage-bootstrap-authentication": b"true",
        "usage-bootstrap-signing": b"true",
        "auth-extra-groups": b"system:bootstrappers:kubeadm:default-node-token",
    }
    assert secret_name(TOKEN) == "bootstrap-token-abcdef"
    assert "usage-bootstrap-signing" not in decoded(signing=False)


def test_when_it_ends_is_told_in_utc() -> None:
    assert decoded(datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))))["expiration"] == b"2026-01-01T12:00:00Z"


def test_the_token_of_a_secret_is_the_one_that_it_was_made_of() -> None:
    assert token_of(decoded()) == TOKEN
    for secret in (b"", b"\xff", b"0123456789abcde", b"0123456789ABCDEF", b"0123456789abcdef\n  evil: 1"):
        with pytest.raises(ValueError, match=r"^its Secret has no bootstrap token$"):
            token_of({"token-id": b"abcdef", "token-secret": secret})
    with pytest.raises(ValueError, match=r"^its Secret has no bootstrap token$"):
        token_of({"token-id": b"abcdef"})
