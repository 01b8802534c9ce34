"""TLS toward an API server, by its own authority and with a client certificate from memory, and TLS of a server of ours, from memory too."""

from __future__ import annotations

import os
import ssl


def client_context(*, authority: bytes, certificate: bytes = b"", key: bytes = b"", insecure: bool = False) -> ssl.SSLContext:
    """A context that trusts `authority` alone, or the system's where it is empty, and presents the certificate (all PEM).

    ssl.create_default_context would load every public authority: 834 KiB and 20 ms a cluster instead of 26 KiB and 1 ms.
    Raises ValueError naming what is malformed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority:
        _trust(context, authority)
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


def _trust(context: ssl.SSLContext, authority: bytes) -> None:
    try:
        context.load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"the certificate authority is not PEM: {error}") from error


def _present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL's binding takes files only. This one is in memory: whenever the process dies, no key is left on a disk.
    descriptor = os.memfd_create("quorate-pair", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as pair:
        pair.write(certificate.rstrip() + b"\n" + key)
        pair.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")  # or OpenSSL asks at the terminal for an encrypted key's
        except ssl.SSLError as error:
            raise ValueError(f"the certificate and the key do not make a pair: {error}") from error
