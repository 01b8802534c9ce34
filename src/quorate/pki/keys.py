"""Private keys and key pairs: which algorithms kubeadm knows, how their PEM looks, and how both are read back.

Source: `encryptionAlgorithm` of kubeadm's ClusterConfiguration and Cluster API's util/certs: keys are written as PKCS#1 (`RSA PRIVATE KEY`) or SEC1
(`EC PRIVATE KEY`), and read as either of these or PKCS#8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from quorate import private_keys

CERTIFICATE_FIELD = "tls.crt"
KEY_FIELD = "tls.key"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class PkiError(ValueError):
    """A certificate, key or kubeconfig that cannot be used. The message names the field (`tls.crt`) and the cause, never key material."""


class KeyAlgorithm(StrEnum):
    """What kubeadm accepts as `encryptionAlgorithm`; unset means RSA-2048."""

    RSA_2048 = "RSA-2048"
    RSA_3072 = "RSA-3072"
    RSA_4096 = "RSA-4096"
    ECDSA_P256 = "ECDSA-P256"
    ECDSA_P384 = "ECDSA-P384"

    @classmethod
    def parse(cls, text: str) -> KeyAlgorithm:
        """The algorithm that `encryptionAlgorithm: text` asks for, RSA-2048 where it is empty; raises PkiError naming those that exist."""
        try:
            return cls(text or cls.RSA_2048)
        except ValueError:
            raise PkiError(f"encryptionAlgorithm: {text!r} is none of {', '.join(cls)}") from None


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (or, for service accounts, a public key) and its private key, both PEM. The key never shows in a repr.

    `key` is empty where only the certificate is known, as with the CA of an external etcd.
    """

    certificate: bytes
    key: bytes = field(repr=False)

    @classmethod
    def from_secret_data(cls, data: Mapping[str, bytes]) -> KeyPair:
        """The pair in a Secret's data. Raises PkiError without `tls.crt`; a missing `tls.key` is read as empty, as upstream reads it."""
        certificate = data.get(CERTIFICATE_FIELD)
        if not certificate:
            raise PkiError(f"{CERTIFICATE_FIELD}: missing or empty; store the PEM encoded certificate there")
        return cls(certificate, data.get(KEY_FIELD, b""))

    def secret_data(self) -> dict[str, bytes]:
        """The pair as a Secret's data."""
        return {CERTIFICATE_FIELD: self.certificate, KEY_FIELD: self.key}


def generate_key(algorithm: KeyAlgorithm) -> PrivateKey:
    """A fresh private key. RSA-2048 takes about 40 ms of CPU, RSA-4096 about 400 ms, ECDSA next to nothing."""
    match algorithm:
        case KeyAlgorithm.ECDSA_P256:
            return ec.generate_private_key(ec.SECP256R1())
        case KeyAlgorithm.ECDSA_P384:
            return ec.generate_private_key(ec.SECP384R1())
        case _:
            return rsa.generate_private_key(public_exponent=65537, key_size=int(algorithm.removeprefix("RSA-")))


def encode_key(key: PrivateKey) -> bytes:
    """The key as kubeadm writes it: PEM, PKCS#1 for RSA and SEC1 for ECDSA, not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def encode_public_key(key: PrivateKey) -> bytes:
    """The key's public half as PKIX PEM (`PUBLIC KEY`), the form of a service account's `tls.crt`."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def public_key_der(key: PrivateKey) -> bytes:
    """The key's public half as PKIX DER, the one form in which two public keys are compared."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def read_key(pem: bytes) -> PrivateKey:
    """The private key in `pem`: PKCS#1, PKCS#8 or SEC1; RSA or ECDSA, the two that kubeadm loads. Raises PkiError naming `tls.key` and the cause."""
    if not pem.strip():
        raise PkiError(f"{KEY_FIELD}: missing or empty; store the PEM encoded private key there")
    try:
        key = private_keys.load(pem)
    except private_keys.Encrypted:
        raise PkiError(f"{KEY_FIELD}: the private key is encrypted; store it without a passphrase") from None
    except private_keys.TooLarge as error:
        raise PkiError(f"{KEY_FIELD}: {error}") from None
    except ValueError:
        raise PkiError(f"{KEY_FIELD}: not a PEM encoded private key (PKCS#1, PKCS#8 or SEC1)") from None
    if not isinstance(key, PrivateKey):
        raise PkiError(f"{KEY_FIELD}: {type(key).__name__} is not supported; use an RSA or ECDSA key")
    return key
