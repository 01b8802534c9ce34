"""Reading certificates: bundles, clock, pairs, and the serial number that upstream should not have used."""

from __future__ import annotations

import base64
import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.pki import KeyAlgorithm, KeyPair, PkiError, generate_service_account, not_after, read_certificates, verify_pair

BLOCK = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


def test_a_bundle_is_read_in_its_order(ca: KeyPair, other_ca: KeyPair) -> None:
    bundle = b"# two of them\n" + ca.certificate + b"between\n" + other_ca.certificate
    assert [certificate.common_name for certificate in read_certificates(bundle)] == ["kubernetes", "another"]


def test_what_was_read_is_written_as_it_was(ca: KeyPair) -> None:
    assert read_certificates(ca.certificate)[0].pem == ca.certificate


def test_times_are_whole_seconds_in_utc(ca: KeyPair, noon: datetime) -> None:
    assert not_after(ca.certificate) == noon.replace(microsecond=0) + timedelta(days=3650)
    assert not_after(ca.certificate).tzinfo is UTC


def test_no_certificate_names_the_field() -> None:
    with pytest.raises(PkiError, match=r"^tls\.crt: no PEM encoded certificate"):
        read_certificates(b"hello")
    with pytest.raises(PkiError, match=r"^ca\.crt: no PEM"):
        read_certificates(b"", field_name="ca.crt")


def test_a_broken_certificate_of_a_bundle_is_counted(ca: KeyPair) -> None:
    with pytest.raises(PkiError, match=r"^tls\.crt: certificate 2 of 2: not an X\.509 certificate"):
        read_certificates(ca.certificate + BLOCK.format("MAA=").encode())
    with pytest.raises(PkiError, match=r"^tls\.crt: certificate 1 of 1: not base64"):
        read_certificates(BLOCK.format("%%%%").encode())


def test_a_negative_serial_number_is_refused_as_go_refuses_it(ca: KeyPair) -> None:
    der = bytearray(read_certificates(ca.certificate)[0].der)
    length = der.index(b"\x02", 13) + 1  # behind both sequences' headers and the version
    der[length + 1] |= 0x80
    with pytest.raises(PkiError, match=r"^tls\.crt: certificate 1 of 1: not an X\.509 certificate: its serial number is negative"):
        read_certificates(BLOCK.format(base64.b64encode(der).decode()).encode())


@given(st.binary(max_size=60))
def test_no_bytes_make_the_reader_stumble(garbage: bytes) -> None:
    with pytest.raises(PkiError):
        read_certificates(b"-----BEGIN CERTIFICATE-----" + garbage + b"-----END CERTIFICATE-----")


@given(st.data())
def test_a_damaged_certificate_is_read_or_refused_and_nothing_else(ca: KeyPair, data: st.DataObject) -> None:
    der = bytearray(read_certificates(ca.certificate)[0].der)
    der[data.draw(st.integers(0, 40))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PkiError):
        assert len(read_certificates(BLOCK.format(base64.b64encode(der).decode()).encode())) == 1


def test_a_pair_that_belongs_together_is_accepted(ca: KeyPair) -> None:
    verify_pair(ca)
    verify_pair(generate_service_account(KeyAlgorithm.ECDSA_P256))


def test_a_key_of_another_certificate_is_refused(ca: KeyPair, other_ca: KeyPair) -> None:
    with pytest.raises(PkiError, match=r"^tls\.key: not the private key of tls\.crt"):
        verify_pair(KeyPair(ca.certificate, other_ca.key))
    with pytest.raises(PkiError, match=r"^tls\.key: not the private key of tls\.crt"):
        verify_pair(KeyPair(generate_service_account(KeyAlgorithm.ECDSA_P256).certificate, ca.key))


def test_a_broken_public_key_names_the_field(ca: KeyPair) -> None:
    with pytest.raises(PkiError, match=r"^tls\.crt: not a public key"):
        verify_pair(KeyPair(b"-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n", ca.key))
