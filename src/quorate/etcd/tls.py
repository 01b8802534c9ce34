"""Trust and identity toward etcd: the chain is verified against etcd's own authority, the host name is not."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client needs to be let in, all PEM: etcd's authority, a certificate that it signed, and the key of that one."""

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """A TLS context for etcd: at least 1.2, HTTP/2 by ALPN, chain verified for server authentication.

    The host name is not checked, because members are addressed by the name of their static Pod, which kubeadm does not put into the certificate.
    Raises ValueError naming what is malformed. Costs about 1 ms.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(cadata=credentials.authority.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"the certificate of etcd's authority is not PEM: {error}") from error
    try:
        _load_pair(context, credentials)
    except ssl.SSLError as error:
        raise ValueError(f"etcd's client certificate and key do not make a pair: {error}") from error
    return context


def _load_pair(context: ssl.SSLContext, credentials: Credentials) -> None:
    # OpenSSL's binding takes files only. This one is in memory: whenever the process dies, no key is left on a disk.
    descriptor = os.memfd_create("quorate-etcd", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as pair:
        pair.write(credentials.certificate.rstrip() + b"\n" + credentials.key)
        pair.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")  # or OpenSSL asks at the terminal for an encrypted key's
