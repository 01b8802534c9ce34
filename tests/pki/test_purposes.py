"""What each kind of etcd asks for, and who may make it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quorate.pki import KeyAlgorithm, Purpose, generate, is_generated, not_after, purposes, verify_pair


def test_managed_etcd_needs_four_pairs_and_all_are_generated() -> None:
    needed = purposes(external_etcd=False)
    assert [str(purpose) for purpose in needed] == ["ca", "sa", "proxy", "etcd"]
    assert all(is_generated(purpose, external_etcd=False) for purpose in needed)


def test_external_etcd_needs_five_of_which_its_owner_supplies_two() -> None:
    needed = purposes(external_etcd=True)
    supplied = [str(purpose) for purpose in needed if not is_generated(purpose, external_etcd=True)]
    assert len(needed) == 5
    assert supplied == ["etcd", "apiserver-etcd-client"]


def test_a_secret_is_named_after_cluster_and_purpose() -> None:
    assert Purpose.API_SERVER_ETCD_CLIENT.secret_name("prod") == "prod-apiserver-etcd-client"


@pytest.mark.parametrize("purpose", purposes(external_etcd=False))
def test_every_generated_pair_belongs_together(purpose: Purpose, noon: datetime) -> None:
    verify_pair(generate(purpose, KeyAlgorithm.ECDSA_P256, now=noon))


def test_cas_live_as_long_as_asked(noon: datetime) -> None:
    pair = generate(Purpose.ETCD_CA, KeyAlgorithm.ECDSA_P256, now=noon, days=7)
    assert not_after(pair.certificate) == noon.replace(microsecond=0) + timedelta(days=7)


def test_the_service_account_pair_is_a_bare_public_key(noon: datetime) -> None:
    assert generate(Purpose.SERVICE_ACCOUNT, KeyAlgorithm.ECDSA_P256, now=noon).certificate.startswith(b"-----BEGIN PUBLIC KEY-----\n")


def test_nobody_makes_a_client_certificate_for_an_external_etcd(noon: datetime) -> None:
    with pytest.raises(ValueError, match="apiserver-etcd-client is not generated: the owner of the external etcd supplies it"):
        generate(Purpose.API_SERVER_ETCD_CLIENT, KeyAlgorithm.ECDSA_P256, now=noon)
