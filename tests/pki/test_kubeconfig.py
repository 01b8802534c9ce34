"""The administrator's kubeconfig: upstream's names, half-life renewal, and errors that say what is malformed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.pki import KeyAlgorithm, KeyPair, PkiError, admin_kubeconfig, read_certificates, rotate, rotates_at, verify_pair

OpenSSL = Callable[..., str]
P256 = KeyAlgorithm.ECDSA_P256
SERVER = "https://10.0.0.1:6443"


@pytest.fixture(scope="module")
def stored(ca: KeyPair, noon: datetime) -> bytes:
    return admin_kubeconfig("prod", SERVER, ca, P256, now=noon)


def decoded(user: dict[str, str], key: str) -> bytes:
    return base64.b64decode(user[key], validate=True)


def edited(stored: bytes, section: str, item: str, **changes: object) -> bytes:
    document: dict[str, Any] = yaml.safe_load(stored)
    document[section][0][item].update(changes)
    return yaml.safe_dump(document).encode()


def test_the_names_are_upstreams(stored: bytes) -> None:
    document = yaml.safe_load(stored)
    assert document["current-context"] == "prod-admin@prod"
    assert document["contexts"] == [{"name": "prod-admin@prod", "context": {"cluster": "prod", "user": "prod-admin"}}]
    assert [entry["name"] for entry in document["clusters"]] == ["prod"]
    assert document["clusters"][0]["cluster"]["server"] == SERVER
    assert [entry["name"] for entry in document["users"]] == ["prod-admin"]


def test_the_client_is_an_administrator_from_the_cas_start_for_a_year(stored: bytes, ca: KeyPair, noon: datetime) -> None:
    user = yaml.safe_load(stored)["users"][0]["user"]
    pair = KeyPair(decoded(user, "client-certificate-data"), decoded(user, "client-key-data"))
    verify_pair(pair)
    certificate, issuer = read_certificates(pair.certificate)[0], read_certificates(ca.certificate)[0]
    assert (certificate.common_name, certificate.organizations) == ("kubernetes-admin", ("system:masters",))
    assert certificate.not_before == issuer.not_before
    assert certificate.not_after == noon.replace(microsecond=0) + timedelta(days=365)


def test_keys_are_in_a_fixed_order(stored: bytes) -> None:
    def sorted_throughout(value: object) -> bool:
        if isinstance(value, dict):
            return list(value) == sorted(value) and all(map(sorted_throughout, value.values()))
        return all(map(sorted_throughout, value)) if isinstance(value, list) else True

    assert sorted_throughout(yaml.safe_load(stored))


def test_only_the_first_certificate_of_a_bundle_is_handed_out(ca: KeyPair, other_ca: KeyPair, noon: datetime) -> None:
    bundle = KeyPair(ca.certificate + other_ca.certificate, ca.key)
    cluster = yaml.safe_load(admin_kubeconfig("prod", SERVER, bundle, P256, now=noon))["clusters"][0]["cluster"]
    assert decoded(cluster, "certificate-authority-data") == ca.certificate


def test_renewal_is_due_half_a_year_before_the_end(stored: bytes, noon: datetime) -> None:
    assert rotates_at(stored) == noon.replace(microsecond=0) + timedelta(days=182.5)


def test_the_user_who_expires_first_decides(stored: bytes, ca: KeyPair, noon: datetime) -> None:
    document, older = yaml.safe_load(stored), yaml.safe_load(admin_kubeconfig("old", SERVER, ca, P256, now=noon - timedelta(days=9)))
    document["users"] += older["users"]
    assert rotates_at(yaml.safe_dump(document).encode()) == noon.replace(microsecond=0) + timedelta(days=173.5)


def test_renewal_keeps_name_and_server_and_changes_the_key(stored: bytes, ca: KeyPair, noon: datetime) -> None:
    moved = edited(stored, "clusters", "cluster", server="https://elsewhere:443")
    renewed = rotate(moved, ca, P256, now=noon + timedelta(days=200))
    before, after = yaml.safe_load(stored), yaml.safe_load(renewed)
    assert after["clusters"][0] == {"name": "prod", "cluster": {**before["clusters"][0]["cluster"], "server": "https://elsewhere:443"}}
    assert after["contexts"] == before["contexts"]
    assert after["users"][0]["user"]["client-key-data"] != before["users"][0]["user"]["client-key-data"]
    assert rotates_at(renewed) == rotates_at(stored) + timedelta(days=200)


@pytest.mark.parametrize(
    ("kubeconfig", "complaint"),
    [
        (b"{", "it is not YAML"),
        (b"\xff\xfe\xfd", "it is not YAML"),
        (b"- 1", "not a mapping"),
        (b"users: 7", "users is not a list"),
        (b"users: [7]", r"users\[0\] has no name or no user"),
        (b"users: [{name: a}]", r"users\[0\] has no name or no user"),
        (b"users: []", "users is empty"),
        (b"{}", "users is empty"),
        (b"users: [{name: a, user: {token: hunter2}}]", "client-certificate-data of user 'a': missing"),
        (b"users: [{name: a, user: {client-certificate-data: '%'}}]", "client-certificate-data of user 'a': not base64"),
        (
            b"users: [{name: a, user: {client-certificate-data: aHVudGVyMg==}}]",
            "client-certificate-data of user 'a': no PEM encoded certificate",
        ),
    ],
)
def test_what_is_malformed_is_named_and_not_quoted(kubeconfig: bytes, complaint: str) -> None:
    with pytest.raises(PkiError, match=f"^kubeconfig: {complaint}") as raised:
        rotates_at(kubeconfig)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("section", "item", "changes", "complaint"),
    [
        ("clusters", "cluster", {"server": ""}, "cluster 'prod' has no server URL"),
        ("contexts", "context", {"cluster": "gone"}, "the current context names cluster 'gone', which is not in it"),
    ],
)
def test_a_kubeconfig_without_its_server_is_not_renewed(
    stored: bytes, ca: KeyPair, noon: datetime, section: str, item: str, changes: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PkiError, match=f"^kubeconfig: {complaint}"):
        rotate(edited(stored, section, item, **changes), ca, P256, now=noon)


def test_a_kubeconfig_without_a_current_context_is_not_renewed(stored: bytes, ca: KeyPair, noon: datetime) -> None:
    document = yaml.safe_load(stored) | {"current-context": ""}
    with pytest.raises(PkiError, match=r"^kubeconfig: current-context names context '', which is not in it"):
        rotate(yaml.safe_dump(document).encode(), ca, P256, now=noon)


@given(name=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True), port=st.integers(1, 65535))
def test_any_cluster_name_survives_a_renewal(ca: KeyPair, noon: datetime, name: str, port: int) -> None:
    server = f"https://[fd00::1]:{port}"
    renewed = yaml.safe_load(rotate(admin_kubeconfig(name, server, ca, P256, now=noon), ca, P256, now=noon))
    assert (renewed["clusters"][0]["name"], renewed["clusters"][0]["cluster"]["server"]) == (name, server)


def test_openssl_accepts_the_embedded_certificate(openssl: OpenSSL, stored: bytes, ca: KeyPair, noon: datetime) -> None:
    embedded = decoded(yaml.safe_load(stored)["users"][0]["user"], "client-certificate-data")
    verify = ("verify", "-attime", str(int(noon.timestamp())), "-purpose", "sslclient", "-CAfile", "ca.pem")
    assert openssl(*verify, "c.pem", ca_pem=ca.certificate, c_pem=embedded) == "c.pem: OK\n"


def test_one_of_more_values_than_any_is_refused_before_it_is_read() -> None:
    with pytest.raises(PkiError, match=r"^kubeconfig: it has more than 2000 values"):
        rotates_at(b"users: [" + b"1," * 2000 + b"]")
