"""The Secret: what each step writes is read back as the State that it is to bring about, and what cannot be used counts as not there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quorate.clusterapi.api.webhooks import SERVICE
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE
from quorate.clusterapi.webhook_certificates import secret
from quorate.clusterapi.webhook_certificates.state import Policy, Step
from quorate.tls import server_context

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = f"{SERVICE}.{DEFAULT_NAMESPACE}.svc"  # 80 characters
NAMES = (HOST, f"{HOST}.cluster.local")
POLICY = Policy()


def stepped(*steps: Step, data: secret.Data | None = None, now: datetime = NOW) -> dict[str, bytes]:
    written = dict(data or {})
    for step in steps:
        written = secret.after(step, written, NAMES, now, POLICY)
    return written


def test_what_is_made_is_read_back() -> None:
    data = stepped(Step.MAKE_AUTHORITY, Step.MAKE_LEAF)
    state = secret.read(data)
    (authority,), leaf = state.authorities, state.leaf
    assert authority.life.made == NOW
    assert authority.life.ends == NOW + POLICY.authority
    assert leaf is not None
    assert (leaf.names, leaf.signer, leaf.life.ends) == (frozenset(NAMES), authority.certificate, NOW + POLICY.leaf)
    server_context(data["tls.crt"], data["tls.key"])


def test_a_new_ca_goes_first_and_the_leaf_goes_back_to_the_old_one_until_it_is_made_anew() -> None:
    first = stepped(Step.MAKE_AUTHORITY, Step.MAKE_LEAF)
    later = NOW + timedelta(days=1)
    both = stepped(Step.MAKE_AUTHORITY, data=first, now=later)
    state = secret.read(both)
    assert [each.life.made for each in state.authorities] == [later, NOW]
    assert state.leaf is not None
    assert state.leaf.signer == state.authorities[1].certificate
    assert first["ca.key"] not in both.values()
    renewed = secret.read(stepped(Step.MAKE_LEAF, data=both, now=later))
    assert renewed.leaf is not None
    assert renewed.leaf.signer == state.authorities[0].certificate
    alone = secret.read(stepped(Step.MAKE_LEAF, Step.FORGET_AUTHORITIES, data=both, now=later))
    assert [each.life.made for each in alone.authorities] == [later]


@pytest.mark.parametrize("broken", [{"ca.key": b""}, {"ca.key": b"nonsense"}, {"ca.crt": b"nonsense"}, {"ca.crt": b""}])
def test_a_ca_that_cannot_sign_is_none(broken: dict[str, bytes]) -> None:
    state = secret.read(stepped(Step.MAKE_AUTHORITY, Step.MAKE_LEAF) | broken)
    assert state.authorities == ()


@pytest.mark.parametrize("broken", [{"tls.key": b""}, {"tls.crt": b"nonsense"}, {"tls.crt": b""}])
def test_a_leaf_that_cannot_be_presented_is_none(broken: dict[str, bytes]) -> None:
    assert secret.read(stepped(Step.MAKE_AUTHORITY, Step.MAKE_LEAF) | broken).leaf is None


def test_a_key_of_another_pair_is_none() -> None:
    one, two = stepped(Step.MAKE_AUTHORITY, Step.MAKE_LEAF), stepped(Step.MAKE_AUTHORITY, Step.MAKE_LEAF)
    mixed = one | {"ca.key": two["ca.key"], "tls.key": two["tls.key"]}
    assert secret.read(mixed) == secret.read({})


def test_a_leaf_of_another_ca_goes_back_to_nobody() -> None:
    one, two = stepped(Step.MAKE_AUTHORITY, Step.MAKE_LEAF), stepped(Step.MAKE_AUTHORITY)
    leaf = secret.read(one | two).leaf
    assert leaf is not None
    assert leaf.signer is None
