"""What is issued is what kubeadm, etcd and the API server accept; openssl confirms it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from quorate.pki import (
    KeyAlgorithm,
    KeyPair,
    PkiError,
    generate_ca,
    generate_service_account,
    issue_client,
    issue_etcd_client,
    issue_server,
    read_certificates,
    verify_pair,
)
from quorate.pki.keys import encode_key, generate_key, read_key

OpenSSL = Callable[..., str]
P256 = KeyAlgorithm.ECDSA_P256


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def client(ca: KeyPair, now: datetime, algorithm: KeyAlgorithm = P256) -> KeyPair:
    return issue_client(
        ca, common_name="jane", organizations=("devs", "ops"), algorithm=algorithm, not_before=now, not_after=now + timedelta(days=1)
    )


def server(ca: KeyPair, now: datetime, dns_names: Sequence[str] = (), ip_addresses: Sequence[str] = (), *, client: bool = False) -> KeyPair:
    end = now + timedelta(days=1)
    return issue_server(
        ca,
        common_name="etcd",
        dns_names=dns_names,
        ip_addresses=ip_addresses,
        algorithm=P256,
        not_before=now,
        not_after=end,
        client=client,
    )


def test_a_ca_has_the_fields_upstream_gives_it(noon: datetime) -> None:
    certificate = parsed(generate_ca(P256, now=noon, days=10))
    second = noon.replace(microsecond=0)
    assert certificate.subject == certificate.issuer
    assert certificate.subject.rfc4514_string() == "CN=kubernetes"
    assert certificate.not_valid_before_utc == second - timedelta(minutes=5)
    assert certificate.not_valid_after_utc == second + timedelta(days=10)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign, usage.crl_sign) == (True, True, True, False)
    assert certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    assert certificate.serial_number > 0


@pytest.mark.parametrize(
    ("algorithm", "kind"), [(KeyAlgorithm.RSA_2048, hashes.SHA256), (P256, hashes.SHA256), (KeyAlgorithm.ECDSA_P384, hashes.SHA384)]
)
def test_the_signature_is_as_strong_as_the_key(noon: datetime, algorithm: KeyAlgorithm, kind: type[hashes.HashAlgorithm]) -> None:
    assert isinstance(parsed(generate_ca(algorithm, now=noon)).signature_hash_algorithm, kind)


@pytest.mark.parametrize("algorithm", [KeyAlgorithm.RSA_2048, P256, KeyAlgorithm.ECDSA_P384])
def test_openssl_accepts_the_chain_strictly_for_client_and_server(openssl: OpenSSL, algorithm: KeyAlgorithm) -> None:
    now = datetime.now(UTC)
    ca = generate_ca(algorithm, now=now)
    ours = client(ca, now - timedelta(minutes=1), algorithm)
    strict = ("verify", "-x509_strict", "-CAfile", "ca.pem")
    assert openssl(*strict, "-purpose", "sslclient", "c.pem", ca_pem=ca.certificate, c_pem=ours.certificate) == "c.pem: OK\n"
    theirs = server(ca, now - timedelta(minutes=1), dns_names=["localhost"], ip_addresses=["127.0.0.1", "::1"])
    for check in (("-verify_hostname", "localhost"), ("-verify_ip", "127.0.0.1"), ("-verify_ip", "::1")):
        assert openssl(*strict, "-purpose", "sslserver", *check, "s.pem", s_pem=theirs.certificate) == "s.pem: OK\n"


@pytest.mark.parametrize("algorithm", [KeyAlgorithm.RSA_2048, P256])
def test_openssl_reads_the_keys_and_finds_them_to_match(openssl: OpenSSL, ca: KeyPair, noon: datetime, algorithm: KeyAlgorithm) -> None:
    pair = client(ca, noon, algorithm)
    of_certificate = openssl("x509", "-in", "c.pem", "-noout", "-pubkey", c_pem=pair.certificate)
    assert openssl("pkey", "-in", "k.pem", "-pubout", k_pem=pair.key) == of_certificate
    account = generate_service_account(algorithm)
    assert openssl("pkey", "-in", "k.pem", "-pubout", k_pem=account.key).encode() == account.certificate


def test_a_client_certificate_names_its_user_and_groups(ca: KeyPair, noon: datetime) -> None:
    certificate = read_certificates(client(ca, noon).certificate)[0]
    assert certificate.common_name == "jane"
    assert certificate.organizations == ("devs", "ops")
    assert not certificate.is_ca


def test_each_kind_is_good_for_its_own_end_only(ca: KeyPair, noon: datetime) -> None:
    def usages(pair: KeyPair) -> list[x509.ObjectIdentifier]:
        return list(parsed(pair).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)

    assert usages(client(ca, noon)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert usages(server(ca, noon, dns_names=["a"])) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert usages(server(ca, noon, dns_names=["a"], client=True)) == [
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    ]


def test_a_server_without_a_name_is_refused(ca: KeyPair, noon: datetime) -> None:
    with pytest.raises(PkiError, match="certificate of etcd: no DNS name and no IP address"):
        server(ca, noon)


def test_the_etcd_client_has_ten_years_no_groups_and_signs_only(ca: KeyPair, noon: datetime) -> None:
    pair = issue_etcd_client(ca, generate_key(P256), now=noon)
    certificate = parsed(pair)
    assert certificate.subject.rfc4514_string() == "CN=cluster-api.x-k8s.io"
    assert certificate.not_valid_before_utc == noon.replace(microsecond=0) - timedelta(minutes=5)
    assert certificate.not_valid_after_utc == noon.replace(microsecond=0) + timedelta(days=3650)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not usage.key_encipherment


def test_a_leaf_cannot_sign(ca: KeyPair, noon: datetime) -> None:
    with pytest.raises(PkiError, match=r"^tls\.crt: .*CN=jane.* is not a CA"):
        client(client(ca, noon), noon)


def test_a_ca_with_a_foreign_or_missing_key_cannot_sign(ca: KeyPair, other_ca: KeyPair, noon: datetime) -> None:
    with pytest.raises(PkiError, match=r"^tls\.key: not the private key of tls\.crt"):
        client(KeyPair(ca.certificate, other_ca.key), noon)
    with pytest.raises(PkiError, match=r"^tls\.key: missing"):
        client(KeyPair(ca.certificate, b""), noon)


def test_a_ca_whose_key_is_damaged_issues_nothing(noon: datetime) -> None:
    ca = generate_ca(KeyAlgorithm.RSA_2048, now=noon)
    key = read_key(ca.key)
    assert isinstance(key, rsa.RSAPrivateKey)
    numbers = key.private_numbers()
    damaged = rsa.RSAPrivateNumbers(
        numbers.p, numbers.q, numbers.d + 2, numbers.dmp1 + 2, numbers.dmq1 + 2, numbers.iqmp, numbers.public_numbers
    )
    pem = encode_key(damaged.private_key(unsafe_skip_rsa_key_validation=True))
    with pytest.raises(PkiError, match=r"^tls\.key: what it signs cannot be verified"):
        client(KeyPair(ca.certificate, pem), noon)


@pytest.mark.parametrize("extra", [(), ("-addext", "subjectKeyIdentifier=none")], ids=["with key identifier", "without key identifier"])
def test_a_ca_with_serial_zero_as_upstream_makes_it_issues_like_any_other(openssl: OpenSSL, extra: tuple[str, ...]) -> None:
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k.pem", "-out", "ca.pem", "-set_serial", "0")
    openssl(*request, "-subj", "/CN=kubernetes", "-days", "10", *extra)
    ca = KeyPair(openssl("x509", "-in", "ca.pem").encode(), openssl("pkey", "-in", "k.pem").encode())
    assert "Serial Number: 0 (0x0)" in openssl("x509", "-in", "ca.pem", "-noout", "-text")
    verify_pair(ca)
    assert read_certificates(ca.certificate)[0].pem == ca.certificate
    leaf = client(ca, datetime.now(UTC))
    assert openssl("verify", "-CAfile", "ca.pem", "c.pem", c_pem=leaf.certificate) == "c.pem: OK\n"


@given(
    name=st.text("abcdefghijklmnopqrstuvwxyz-:.", min_size=1, max_size=64),
    groups=st.lists(st.text("abcdefghijklmnopqrstuvwxyz-:", min_size=1, max_size=64), max_size=3),
    start=st.integers(10**9, 2 * 10**9).map(lambda second: datetime.fromtimestamp(second, UTC)),
    seconds=st.integers(1, 10**9),
)
def test_what_is_asked_for_is_what_is_issued(ca: KeyPair, name: str, groups: list[str], start: datetime, seconds: int) -> None:
    end = start + timedelta(seconds=seconds)
    pair = issue_client(ca, common_name=name, organizations=groups, algorithm=P256, not_before=start, not_after=end)
    verify_pair(pair)
    certificate = read_certificates(pair.certificate)[0]
    assert (certificate.common_name, certificate.organizations) == (name, tuple(groups))
    assert (certificate.not_before, certificate.not_after) == (start, end)
