"""TLS contexts from certificates in memory: toward an API server or an etcd member, by its own CA and with a client's pair, and of a server of ours."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from quorate import private_keys

Counting = Callable[[], AbstractContextManager[object]]

_DESCRIPTORS = Path("/proc/self/fd")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
"""Python's own for TLS 1.2, but none with which the server chooses the group of numbers (DHE): a large one takes seconds. Go offers none of these either."""
_MOST_KEY = 32 * 1024
"""Bytes of a key's PEM; one of 8192 bits has 6 KiB."""
_KINDS = (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey)


_MOST_HANDSHAKE = 32 * 1024
"""Bytes that a server may send before it is let speak: a chain of five certificates has 10 KiB, and the names of the CAs that it takes have some more. OpenSSL
reads 100 KiB of certificates, and verifies each: 6 ms for a key that was made to take long (an RSA exponent of 3,000 bits, which Go refuses).
"""


class _Handshake(ssl.SSLObject):
    """One connection's TLS, of a client that does not listen for ever before it knows whom it hears. Made by `_Context.wrap_bio`."""

    incoming: ssl.MemoryBIO
    counting: Counting
    received = 0

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises SSLError where the server sends more than any has to."""
        self.received += self.incoming.pending
        if self.received > _MOST_HANDSHAKE:
            raise ssl.SSLError(1, f"the server sends more than {_MOST_HANDSHAKE >> 10} KiB before TLS is agreed on")
        with self.counting():
            super().do_handshake()


class _Context(ssl.SSLContext):
    """A client's context, which counts what handshakes take."""

    sslobject_class = _Handshake
    counting: Counting = nullcontext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """TLS over these two, as event loops have it."""
        wrapped = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(wrapped, _Handshake):
            wrapped.incoming, wrapped.counting = incoming, self.counting
        return wrapped


def client_context(
    *,
    ca: bytes,
    certificate: bytes = b"",
    key: bytes = b"",
    insecure: bool = False,
    check_hostname: bool = True,
    counting: Counting = nullcontext,
) -> ssl.SSLContext:
    """A context that trusts `ca` alone, or the system's where it is empty, and presents the certificate (all PEM).

    As for Go's clients, whatever certificate is in `ca` is trusted, one that another CA has signed too, and text around it is passed over.
    ssl.create_default_context would load every public CA: 834 KiB and 20 ms a cluster instead of 26 KiB and 1 ms. `counting` makes what is entered for the
    time in which each step of a handshake computes. Raises ValueError naming what is malformed.
    """
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.counting = counting
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.check_hostname = check_hostname and not insecure
    if insecure:
        context.verify_mode = ssl.CERT_NONE
    elif ca:
        _trust(context, ca)
    else:
        context.load_default_certs()
    if certificate:
        _present(context, certificate, key)
    return context


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A context that serves with the certificate and its key (PEM), and asks nobody for theirs. Raises ValueError where the two do not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _present(context, certificate, key)
    return context


def _trust(context: ssl.SSLContext, ca: bytes) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # or OpenSSL goes on to a root that signed itself
    try:
        context.load_verify_locations(cadata=b"\n".join(_CERTIFICATE.findall(ca)).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"the CA is not PEM: {error}") from error


def _present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _file(b"\n".join((*_CERTIFICATE.findall(certificate), _plain(key)))) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ValueError(f"the certificate and the key do not make a pair: {error}") from error


def _plain(key: bytes) -> bytes:
    """The key written anew, so that OpenSSL gets nothing that somebody else wrote: of an encrypted key it would try the password, and how many rounds of
    computing that takes is for the key to say. Nor one that signs for seconds, in the event loop that all share. Raises ValueError.
    """
    wrong = "the certificate and the key do not make a pair"
    if len(key) > _MOST_KEY:
        raise ValueError(f"{wrong}: the key has {len(key)} bytes; use one of at most {_MOST_KEY}")
    try:
        read = private_keys.load(key)
    except private_keys.Encrypted:
        raise ValueError(f"{wrong}: the key is encrypted; store it without a passphrase") from None
    except private_keys.TooLarge as error:
        raise ValueError(f"{wrong}: the key is {error} bits") from None
    except ValueError:
        raise ValueError(f"{wrong}: the key is no PEM encoded private key") from None
    if not isinstance(read, _KINDS):
        raise ValueError(f"{wrong}: the key is neither RSA, ECDSA nor Ed25519; use one of at most {private_keys.MOST_BITS} bits")  # noqa: TRY004 (what is wrong is the input, as above)
    return read.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A path that can be read once, for OpenSSL's binding, which takes files only.

    In memory where the system can do that, so that whenever the process dies no key is left on a disk; elsewhere (macOS, or where /proc is not mounted) in a
    file of its owner's alone.
    """
    if hasattr(os, "memfd_create") and _DESCRIPTORS.is_dir():
        with os.fdopen(os.memfd_create("quorate-pair", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            yield str(_DESCRIPTORS / str(file.fileno()))
        return
    descriptor, path = tempfile.mkstemp(prefix="quorate-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield path
    finally:
        Path(path).unlink()
