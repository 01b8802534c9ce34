"""Making CAs and the certificates they issue.

Source: Cluster API's util/secret/certificates.go (CAs), util/certs/types.go (the administrator's certificate) and its etcd client's, for the fields;
RFC 5280 for the rest. Serial numbers are random and positive; times are cut to whole seconds, as X.509 keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quorate.pki.certificates import Certificate, read_certificates
from quorate.pki.keys import (
    CERTIFICATE_FIELD,
    KEY_FIELD,
    KeyAlgorithm,
    KeyPair,
    PkiError,
    PrivateKey,
    encode_key,
    encode_public_key,
    generate_key,
    public_key_der,
    read_key,
)

CLOCK_SKEW = timedelta(minutes=5)  # how far back validity starts, for machines whose clock is behind ours
CA_DAYS = 3650
ETCD_CLIENT_NAME = "cluster-api.x-k8s.io"
ETCD_CLIENT_VALIDITY = timedelta(days=3650)


def generate_ca(algorithm: KeyAlgorithm, *, now: datetime, days: int = CA_DAYS, common_name: str = "kubernetes") -> KeyPair:
    """A self-signed CA, valid from five minutes before `now` until `days` after it, that may issue leaf certificates only (path length 0)."""
    key = generate_key(algorithm)
    name = _name(common_name)
    builder = _builder(name, key, now - CLOCK_SKEW, now + timedelta(days=days)).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(key_encipherment=True, certificate_sign=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _signed(builder, key, key)


def generate_service_account(algorithm: KeyAlgorithm) -> KeyPair:
    """The pair that signs service account tokens: no certificate, the public key itself stands in its place."""
    key = generate_key(algorithm)
    return KeyPair(encode_public_key(key), encode_key(key))


def issue_client(
    ca: KeyPair,
    *,
    common_name: str,
    organizations: Sequence[str] = (),
    algorithm: KeyAlgorithm,
    not_before: datetime,
    not_after: datetime,
) -> KeyPair:
    """A client certificate (clientAuth) signed by `ca`. To Kubernetes the common name is the user, the organizations are its groups.

    Raises PkiError if the CA is not one: a certificate that may not sign, a missing key, or a key of another certificate.
    """
    builder = _builder(_name(common_name, organizations), key := generate_key(algorithm), not_before, not_after)
    return _issue(ca, builder, key, [ExtendedKeyUsageOID.CLIENT_AUTH], key_encipherment=True)


def issue_server(
    ca: KeyPair,
    *,
    common_name: str,
    dns_names: Iterable[str] = (),
    ip_addresses: Iterable[str] = (),
    organizations: Sequence[str] = (),
    algorithm: KeyAlgorithm,
    not_before: datetime,
    not_after: datetime,
    client: bool = False,
) -> KeyPair:
    """A serving certificate (serverAuth) for the given names and addresses, of which there must be at least one, signed by `ca`.

    With `client` it is a client's too, which etcd needs: it dials itself and its peers with its serving certificate. Raises PkiError as `issue_client` does;
    ValueError for an address that is none.
    """
    names = [*map(x509.DNSName, dns_names), *(x509.IPAddress(ip_address(address)) for address in ip_addresses)]
    if not names:
        raise PkiError(f"certificate of {common_name}: no DNS name and no IP address to serve under; give at least one")
    builder = _builder(_name(common_name, organizations), key := generate_key(algorithm), not_before, not_after)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
    return _issue(ca, builder, key, usages, key_encipherment=True)


def issue_etcd_client(ca: KeyPair, key: PrivateKey, *, now: datetime) -> KeyPair:
    """The certificate of `key` that this controller shows to etcd, signed by etcd's CA: ten years, digitalSignature only, no groups."""
    builder = _builder(_name(ETCD_CLIENT_NAME), key, now - CLOCK_SKEW, now + ETCD_CLIENT_VALIDITY)
    return _issue(ca, builder, key, [ExtendedKeyUsageOID.CLIENT_AUTH], key_encipherment=False)


def _issue(
    ca: KeyPair, builder: x509.CertificateBuilder, key: PrivateKey, usages: list[x509.ObjectIdentifier], *, key_encipherment: bool
) -> KeyPair:
    issuer, issuer_key = _read_ca(ca)
    builder = builder.issuer_name(issuer.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(key_encipherment=key_encipherment), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(_authority_key_identifier(issuer, issuer_key), critical=False)
    return _signed(builder, key, issuer_key)


def _read_ca(ca: KeyPair) -> tuple[Certificate, PrivateKey]:
    issuer, key = read_certificates(ca.certificate)[0], read_key(ca.key)
    if not issuer.is_ca:
        raise PkiError(
            f"{CERTIFICATE_FIELD}: {issuer.subject.rfc4514_string()} is not a CA (basicConstraints CA is not true) and cannot sign"
        )
    if issuer.public_key != public_key_der(key):
        raise PkiError(f"{KEY_FIELD}: not the private key of {CERTIFICATE_FIELD}; store the two that were made together")
    return issuer, key


def _authority_key_identifier(issuer: Certificate, key: PrivateKey) -> x509.AuthorityKeyIdentifier:
    """The issuer's own identifier, however it was computed: verifiers compare the bytes. A self-made CA may have none."""
    if issuer.key_identifier is None:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return x509.AuthorityKeyIdentifier(issuer.key_identifier, None, None)


def _builder(subject: x509.Name, key: PrivateKey, not_before: datetime, not_after: datetime) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(subject_name=subject, public_key=key.public_key(), serial_number=x509.random_serial_number())
    return builder.not_valid_before(not_before.replace(microsecond=0)).not_valid_after(not_after.replace(microsecond=0))


def _signed(builder: x509.CertificateBuilder, key: PrivateKey, signer: PrivateKey) -> KeyPair:
    try:
        certificate = builder.sign(signer, _hash_for(signer))
        _verify(certificate, signer)
    except (ValueError, InvalidSignature):
        raise PkiError(f"{KEY_FIELD}: what it signs cannot be verified; it is damaged") from None
    return KeyPair(certificate.public_bytes(Encoding.PEM), encode_key(key))


def _verify(certificate: x509.Certificate, signer: PrivateKey) -> None:
    """Raise InvalidSignature unless the certificate has the signature of this key: one that was damaged signs, too."""
    signature, signed, algorithm = certificate.signature, certificate.tbs_certificate_bytes, _hash_for(signer)
    if isinstance(signer, ec.EllipticCurvePrivateKey):
        signer.public_key().verify(signature, signed, ec.ECDSA(algorithm))
    else:
        signer.public_key().verify(signature, signed, PKCS1v15(), algorithm)


def _hash_for(signer: PrivateKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512:
    """The hash as strong as the curve that signs; SHA-256 for RSA."""
    bits = signer.curve.key_size if isinstance(signer, ec.EllipticCurvePrivateKey) else 256
    if bits > 384:
        return hashes.SHA512()
    return hashes.SHA384() if bits > 256 else hashes.SHA256()


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, key_encipherment: bool, certificate_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=key_encipherment,
        key_cert_sign=certificate_sign,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
