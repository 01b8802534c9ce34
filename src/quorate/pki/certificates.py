"""Certificates read back: what one says of itself, when it ends, and whether a key belongs to it."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from cryptography.x509.oid import NameOID

from quorate.core.text import printable
from quorate.pki.keys import CERTIFICATE_FIELD, KEY_FIELD, KeyPair, PkiError, public_key_der, read_key

ExtensionT = TypeVar("ExtensionT", bound=x509.ExtensionType)

MALFORMED = (ValueError, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm)
"""What the parser raises, at once or when it is asked for a part, of what is no certificate, or no request for one."""
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The facts of one certificate. `der` is exactly what was read; times are aware and in UTC."""

    der: bytes = field(repr=False)
    subject: x509.Name
    not_before: datetime
    not_after: datetime
    is_ca: bool
    public_key: bytes = field(repr=False)  # PKIX DER
    key_identifier: bytes | None = field(repr=False)
    names: frozenset[str] = frozenset()  # that it serves: DNS names and addresses, as `comparable` has them

    @property
    def common_name(self) -> str:
        """The first CN of the subject, or an empty string."""
        return next(iter(self._subject_values(NameOID.COMMON_NAME)), "")

    @property
    def organizations(self) -> tuple[str, ...]:
        """Every O of the subject: a Kubernetes client's groups."""
        return self._subject_values(NameOID.ORGANIZATION_NAME)

    @property
    def pem(self) -> bytes:
        """The certificate as one PEM block in lines of 64 characters."""
        text = base64.b64encode(self.der)
        lines = [text[start : start + 64] for start in range(0, len(text), 64)]
        return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])

    def _subject_values(self, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(printable(str(attribute.value)) for attribute in self.subject.get_attributes_for_oid(oid))


def read_certificates(pem: bytes, *, field_name: str = CERTIFICATE_FIELD) -> tuple[Certificate, ...]:
    """Every certificate in `pem`, in its order, at least one. Other blocks and text between them are passed over.

    Raises PkiError naming `field_name` and the cause.
    """
    blocks = _BLOCK.findall(pem)
    if not blocks:
        raise PkiError(f"{field_name}: no PEM encoded certificate (BEGIN CERTIFICATE) in it")
    return tuple(_read_block(block, f"{field_name}: certificate {number} of {len(blocks)}") for number, block in enumerate(blocks, 1))


def comparable(name: str) -> str:
    """The one form in which a host's name or address is compared, as certificates, kernels and manifests have it: an address in its canonical form, a name in
    small letters.
    """
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()


def not_after(pem: bytes) -> datetime:
    """When the first certificate in `pem` expires, aware and in UTC; raises PkiError if there is none."""
    return read_certificates(pem)[0].not_after


def verify_pair(pair: KeyPair) -> None:
    """Raise PkiError unless the private key belongs to the pair's first certificate or, for service accounts, to its public key."""
    if _public_key_of(pair) != public_key_der(read_key(pair.key)):
        raise PkiError(f"{KEY_FIELD}: not the private key of {CERTIFICATE_FIELD}; store the two that were made together")


def _public_key_of(pair: KeyPair) -> bytes:
    if b"-----BEGIN PUBLIC KEY-----" not in pair.certificate:
        return read_certificates(pair.certificate)[0].public_key
    try:
        key = load_pem_public_key(pair.certificate)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise PkiError(f"{CERTIFICATE_FIELD}: not a public key: {error}") from None
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _read_block(block: bytes, where: str) -> Certificate:
    try:
        der = base64.b64decode(b"".join(block.split()), validate=True)
        return _parse(der)
    except binascii.Error as error:
        raise PkiError(f"{where}: not base64: {error}") from None
    except MALFORMED as error:
        raise PkiError(f"{where}: not an X.509 certificate: {error}") from None


def _parse(der: bytes) -> Certificate:
    parsed = x509.load_der_x509_certificate(_with_positive_serial(der))
    constraints = _extension(parsed, x509.BasicConstraints)
    identifier = _extension(parsed, x509.SubjectKeyIdentifier)
    return Certificate(
        der=der,
        subject=parsed.subject,
        not_before=parsed.not_valid_before_utc,
        not_after=parsed.not_valid_after_utc,
        is_ca=constraints is not None and constraints.ca,
        public_key=parsed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        key_identifier=identifier.digest if identifier else None,
        names=_names(parsed),
    )


def _names(certificate: x509.Certificate) -> frozenset[str]:
    names = _extension(certificate, x509.SubjectAlternativeName)
    if names is None:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset(comparable(printable(name)) for name in (*names.get_values_for_type(x509.DNSName), *addresses))


def _extension(certificate: x509.Certificate, kind: type[ExtensionT]) -> ExtensionT | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _with_positive_serial(der: bytes) -> bytes:
    """The same certificate with serial number 1 where it is 0; raises ValueError where it is negative, as Kubernetes' own programs refuse it.

    Upstream gives its CAs serial 0, which RFC 5280 disallows and the parser warns of today and refuses tomorrow. Nothing here looks at the serial.
    """
    serial = _content(der, _content(der, 0))  # Certificate, then TBSCertificate
    if der[serial : serial + 1] == b"\xa0":  # the explicit version, absent in version 1
        serial = _content(der, serial) + 3  # INTEGER, one byte long
    value = _content(der, serial)
    if der[value : value + 1] >= b"\x80":
        raise ValueError("its serial number is negative")
    if der[serial : value + 1] != b"\x02\x01\x00":
        return der
    return der[:value] + b"\x01" + der[value + 1 :]


def _content(der: bytes, start: int) -> int:
    """Where the content of the DER element at `start` begins: behind its tag, its length byte and, from 128 bytes on, the length's own bytes."""
    length = der[start + 1] if start + 1 < len(der) else 0
    return start + 2 + (length & 0x7F if length & 0x80 else 0)
