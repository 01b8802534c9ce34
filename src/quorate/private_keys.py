"""Private keys that somebody else supplies, read so that none of them stops the process that all share."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

MOST_BITS = 8192
"""Twice of what kubeadm makes: a key of 16,384 bits signs in seconds, one of 40,000 in a minute, and whoever signs with it has everybody wait meanwhile."""


class Encrypted(ValueError):
    """The key has a passphrase."""


class TooLarge(ValueError):
    """An RSA key of more than MOST_BITS."""

    def __init__(self, bits: int) -> None:
        super().__init__(f"an RSA key of {bits} bits; use one of at most {MOST_BITS}")


def load(pem: bytes) -> PrivateKeyTypes:
    """The private key in `pem`. Raises ValueError, which never quotes the input: Encrypted, TooLarge, or another where it is no key.

    Whether the numbers of an RSA key are primes is not looked at: that stops every thread of the process, 30 ms for 2048 bits and 7 s for 8192. Who signs with
    a key verifies what it signed.
    """
    try:
        key = load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)
    except TypeError:
        raise Encrypted from None
    except (ValueError, UnsupportedAlgorithm):  # their messages may quote the input
        raise ValueError from None
    if isinstance(key, rsa.RSAPrivateKey) and (size := _bits(key)) > MOST_BITS:
        raise TooLarge(size)
    return key


def _bits(key: rsa.RSAPrivateKey) -> int:
    """The bits of the largest of its numbers: the primes of a key that was made to harm may be larger than their product."""
    numbers = key.private_numbers()
    return max(key.key_size, *(each.bit_length() for each in (numbers.p, numbers.q, numbers.d, numbers.dmp1, numbers.dmq1, numbers.iqmp)))
