"""Who we are toward etcd, and the way there."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.x509 import load_pem_x509_certificate

from quorate.etcd import dialers
from quorate.etcd.dialers import UpgradeRefused, WayEnds
from quorate.etcd.errors import NoWay
from quorate.etcd.grpc_client import GrpcClient
from quorate.kubernetes.errors import ConnectionFailed, Forbidden, NotFound, ServerError
from quorate.pki import KeyAlgorithm, generate_ca, verify_pair
from quorate.pki.keys import KeyPair
from quorate.workload.access import AccessUnavailable, EtcdClientKey, EtcdIdentity, EtcdSecrets, port_forward_dialer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINTED = KeyPair(b"minted", b"minted key")


async def test_a_certificate_is_minted_once_for_a_ca() -> None:
    cas: list[KeyPair] = []

    async def mint(ca: KeyPair) -> KeyPair:
        cas.append(ca)
        return MINTED

    identity = EtcdIdentity(mint)
    first, second = KeyPair(b"ca", b"key"), KeyPair(b"other ca", b"other key")
    results = await asyncio.gather(*(identity.credentials(EtcdSecrets(first)) for _ in range(5)))
    assert {(result.ca, result.certificate, result.key) for result in results} == {(b"ca", b"minted", b"minted key")}
    assert (await identity.credentials(EtcdSecrets(second))).ca == b"other ca"
    assert cas == [first, second]


async def test_without_the_cas_key_the_users_pair_is_shown() -> None:
    credentials = await EtcdIdentity(_never).credentials(EtcdSecrets(KeyPair(b"ca", b""), KeyPair(b"theirs", b"their key")))
    assert (credentials.ca, credentials.certificate, credentials.key) == (b"ca", b"theirs", b"their key")


async def _never(_: KeyPair) -> KeyPair:
    raise AssertionError("nothing can be minted without a key")


@pytest.mark.parametrize("pair", [None, KeyPair(b"theirs", b"")])
async def test_without_either_the_missing_secret_is_named(pair: KeyPair | None) -> None:
    with pytest.raises(AccessUnavailable, match="apiserver-etcd-client"):
        await EtcdIdentity(_never).credentials(EtcdSecrets(KeyPair(b"ca", b""), pair))


async def test_every_cluster_is_shown_the_same_key_with_a_certificate_of_its_own_ca() -> None:
    key = EtcdClientKey(lambda: NOON)
    cas = [generate_ca(algorithm, now=NOON) for algorithm in (KeyAlgorithm.ECDSA_P256, KeyAlgorithm.ECDSA_P384, KeyAlgorithm.RSA_2048)]
    pairs = await asyncio.gather(*map(key.mint, cas))
    for ca, pair in zip(cas, pairs, strict=True):
        verify_pair(pair)
        load_pem_x509_certificate(pair.certificate).verify_directly_issued_by(load_pem_x509_certificate(ca.certificate))
    assert len({pair.key for pair in pairs}) == 1
    assert len(pairs[0].key) < 400, "an RSA key takes a hundred times as long to make, and ten times to show"


async def test_a_ca_that_cannot_sign_is_said_to_be_one() -> None:
    ca = generate_ca(KeyAlgorithm.ECDSA_P256, now=NOON)
    with pytest.raises(AccessUnavailable, match=r"tls\.key: not a PEM encoded private key"):
        await EtcdIdentity(EtcdClientKey(lambda: NOON).mint).credentials(EtcdSecrets(KeyPair(ca.certificate, b"nonsense")))


class _Refusing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def connect_websocket(self, path: str, protocols: tuple[str, ...]) -> Any:
        assert path.startswith("/api/v1/namespaces/kube-system/pods/etcd-cp-a/portforward")
        assert protocols == ("v4.channel.k8s.io",)
        raise self._error


class _Hanging:
    async def connect_websocket(self, path: str, protocols: tuple[str, ...]) -> Any:  # noqa: ARG002
        await asyncio.get_running_loop().create_future()


async def test_an_answer_of_the_api_ends_the_dial_with_its_words() -> None:
    with pytest.raises(ConnectionRefusedError, match="HTTP 403: pods are forbidden") as caught:
        await port_forward_dialer(_Refusing(Forbidden("pods are forbidden", code=403))).dial("cp-a")
    assert isinstance(caught.value.__cause__, UpgradeRefused)


async def test_a_pod_that_the_api_does_not_have_is_named() -> None:
    with pytest.raises(WayEnds, match="there is no Pod kube-system/etcd-cp-a"):
        await port_forward_dialer(_Refusing(NotFound("pods not found", code=404))).dial("cp-a")


async def test_no_answer_of_the_api_ends_the_dial_too() -> None:
    with pytest.raises(ConnectionError, match="refused"):
        await port_forward_dialer(_Refusing(ConnectionFailed("refused"))).dial("cp-a")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailed("refused"),
        Forbidden("pods are forbidden", code=403),
        ServerError("error dialing backend: dial tcp 10.0.0.4:10250: connect: connection refused", code=500),
        TimeoutError(),
    ],
    ids=["no API server", "no permission", "no kubelet", "nothing is heard of the kubelet"],
)
async def test_what_ends_before_the_member_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(dialers, "_RETRY_SERVER_ERRORS_FOR", 0.0)
    monkeypatch.setattr(dialers, "_OPENED_WITHIN", 0.01)
    way = _Refusing(error) if not isinstance(error, TimeoutError) else _Hanging()
    client = GrpcClient("cp-a", port_forward_dialer(way), ssl.create_default_context())
    with pytest.raises(NoWay):
        await client.status()
    await client.close()
