"""Keys: the formats kubeadm expects, and errors that help without giving anything away."""

from __future__ import annotations

import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from quorate.pki import KeyAlgorithm, KeyPair, PkiError
from quorate.pki.keys import encode_key, generate_key, public_key_der, read_key

FAST = [KeyAlgorithm.RSA_2048, KeyAlgorithm.ECDSA_P256, KeyAlgorithm.ECDSA_P384]


@pytest.mark.parametrize("algorithm", FAST)
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_key_is_read_back_from_every_usual_format(algorithm: KeyAlgorithm, form: PrivateFormat) -> None:
    key = generate_key(algorithm)
    assert public_key_der(read_key(key.private_bytes(Encoding.PEM, form, NoEncryption()))) == public_key_der(key)


@pytest.mark.parametrize(
    ("algorithm", "label"),
    [
        (KeyAlgorithm.RSA_2048, b"RSA PRIVATE KEY"),
        (KeyAlgorithm.ECDSA_P256, b"EC PRIVATE KEY"),
        (KeyAlgorithm.ECDSA_P384, b"EC PRIVATE KEY"),
    ],
)
def test_keys_are_written_with_the_label_kubeadm_writes(algorithm: KeyAlgorithm, label: bytes) -> None:
    assert encode_key(generate_key(algorithm)).startswith(b"-----BEGIN " + label + b"-----\n")


@pytest.mark.parametrize(("algorithm", "bits"), [(KeyAlgorithm.RSA_2048, 2048), (KeyAlgorithm.RSA_3072, 3072)])
def test_an_rsa_key_has_the_size_its_algorithm_names(algorithm: KeyAlgorithm, bits: int) -> None:
    key = generate_key(algorithm)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == bits


def test_no_algorithm_means_rsa_2048_and_an_unknown_one_is_refused_with_those_that_exist() -> None:
    assert KeyAlgorithm.parse("") is KeyAlgorithm.RSA_2048
    assert KeyAlgorithm.parse("ECDSA-P384") is KeyAlgorithm.ECDSA_P384
    with pytest.raises(PkiError, match=r"'RSA-1024' is none of RSA-2048, RSA-3072, RSA-4096, ECDSA-P256, ECDSA-P384"):
        KeyAlgorithm.parse("RSA-1024")


def test_the_repr_of_a_pair_hides_its_key() -> None:
    assert "secret" not in repr(KeyPair(b"public", b"secret"))


def test_a_secret_without_a_certificate_is_refused_and_one_without_a_key_is_not() -> None:
    with pytest.raises(PkiError, match=r"^tls\.crt: missing"):
        KeyPair.from_secret_data({"tls.key": b"key"})
    assert KeyPair.from_secret_data({"tls.crt": b"certificate"}) == KeyPair(b"certificate", b"")


@given(st.binary(min_size=1), st.binary())
def test_a_pair_survives_its_secret(certificate: bytes, key: bytes) -> None:
    pair = KeyPair(certificate, key)
    assert KeyPair.from_secret_data(pair.secret_data()) == pair


def test_an_encrypted_key_is_named_as_such() -> None:
    key = generate_key(KeyAlgorithm.ECDSA_P256)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase"))
    with pytest.raises(PkiError, match=r"^tls\.key: the private key is encrypted"):
        read_key(pem)


def test_a_key_kubeadm_cannot_load_is_refused_by_kind() -> None:
    pem = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(PkiError, match=r"^tls\.key: .*Ed25519.* use an RSA or ECDSA key"):
        read_key(pem)


def test_a_large_key_is_read_without_stopping_the_process() -> None:
    pem = encode_key(generate_key(KeyAlgorithm.RSA_4096))
    started = time.thread_time()
    read_key(pem)
    assert time.thread_time() - started < 0.05  # to look whether its numbers are primes takes 0.6 s, in which no other thread runs


def test_a_key_with_which_one_signature_takes_a_minute_is_refused() -> None:
    half = 1 << 20000 | 1
    numbers = rsa.RSAPrivateNumbers(half, half, half, half, half, half, rsa.RSAPublicNumbers(65537, half * half))
    pem = encode_key(numbers.private_key(unsafe_skip_rsa_key_validation=True))
    with pytest.raises(PkiError, match=r"^tls\.key: an RSA key of 40001 bits; use one of at most 8192"):
        read_key(pem)


@pytest.mark.parametrize("pem", [b"", b"  \n"])
def test_an_empty_key_is_missing(pem: bytes) -> None:
    with pytest.raises(PkiError, match=r"^tls\.key: missing or empty"):
        read_key(pem)


@given(st.binary(min_size=1))
def test_what_is_no_key_is_never_quoted(garbage: bytes) -> None:
    with pytest.raises(PkiError, match=r"^tls\.key: (not a PEM encoded|missing)") as raised:
        read_key(b"-----BEGIN RSA PRIVATE KEY-----\nhunter2" + garbage + b"\n-----END RSA PRIVATE KEY-----\n")
    assert "hunter2" not in str(raised.value)
