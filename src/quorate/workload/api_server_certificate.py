"""When the certificate of one control-plane machine's API server expires, asked of the API server itself.

Source: GetAPIServerCertificateExpiry in Cluster API's controlplane/kubeadm/pkg/workload_cluster.go: the TLS handshake alone is made, nothing is verified and
nothing said. A certificate tells no secret, and one that has expired must be readable too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from quorate.core.text import printable
from quorate.etcd.dialers import PROTOCOL, Connection, UpgradeRefused
from quorate.etcd.port_forward import PortForward
from quorate.kubeadm.config import inner
from quorate.pki.certificates import MALFORMED
from quorate.workload.access import WebSocketOpener, opener
from quorate.workload.static_pods import NAMESPACE, Component
from quorate.workload.updates import CannotUpdate

DEADLINE = 15.0
"""Seconds that asking one API server may take."""
DEFAULT_PORT = 6443
COMMON_NAME = "kube-apiserver"
"""Of the certificate that kubeadm makes; a proxy in front of the API server shows another."""


def port_of(spec: Mapping[str, Any]) -> int:
    """The port on which the API server of a machine with this KubeadmConfig spec listens."""
    init = inner(spec, "initConfiguration", "localAPIEndpoint")
    join = inner(spec, "joinConfiguration", "controlPlane", "localAPIEndpoint")
    ports = (endpoint.get("bindPort") for endpoint in (init, join))
    return next((port for port in ports if isinstance(port, int) and port), DEFAULT_PORT)


async def expiry_through_port_forward(client: WebSocketOpener, node: str, port: int) -> datetime:
    """As `certificate_expiry`, through whichever API server answers to the static Pod `kube-apiserver-<node>`."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{Component.API_SERVER.pod_name(node)}/portforward?ports={port}"

    async def dial() -> PortForward:
        try:
            return PortForward.start(await opener(client)(path, (PROTOCOL,)))
        except UpgradeRefused as refusal:  # whatever it is, it is tried again soon enough
            raise ConnectionRefusedError(str(refusal)) from refusal

    return await certificate_expiry(dial, node, port)


async def certificate_expiry(dial: Callable[[], Awaitable[Connection]], node: str, port: int) -> datetime:
    """The instant, in UTC, after which the certificate of the API server on a node is no longer valid; `dial` connects to it.

    Raises CannotUpdate naming the node and the cause. Takes at most 15 s.
    """
    try:
        async with asyncio.timeout(DEADLINE):
            der = await _shown_by(await dial())
    except TimeoutError as error:
        raise CannotUpdate(f"the API server on {node} did not show its certificate within {DEADLINE:g} s") from error
    except (OSError, ssl.SSLError) as error:
        raise CannotUpdate(f"the API server on {node} could not be asked for its certificate: {error}") from error
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        expiry = certificate.not_valid_after_utc
    except MALFORMED as error:
        raise CannotUpdate(f"the API server on {node} showed a certificate that cannot be read: {error}") from error
    if COMMON_NAME not in names:
        raise CannotUpdate(printable(f"port {port} on {node} showed a certificate of {', '.join(names) or 'nobody'}, not of {COMMON_NAME}"))
    return expiry


async def _shown_by(connection: Connection) -> bytes:
    """The certificate that the other side shows in its handshake, as DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default context loads every public CA: 834 KiB and 20 ms, for nothing
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        reader_writer = await asyncio.open_connection(sock=connection.socket, ssl=context, server_hostname="")
    except (OSError, ssl.SSLError) as error:
        raise ConnectionError(connection.failure or str(error)) from error
    else:
        writer = reader_writer[1]
        der: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        if der is None:
            raise ConnectionError("it showed no certificate")
        return der
    finally:
        await connection.aclose()
