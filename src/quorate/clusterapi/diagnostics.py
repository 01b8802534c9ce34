"""The server of /metrics with its protection: TLS with a certificate made at the start, and the API server's word on who may read."""

from __future__ import annotations

from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry

from quorate.kubernetes.authentication_filter import AuthenticationFilter
from quorate.kubernetes.client import Client
from quorate.kubernetes.health_server import DiagnosticsServer, Protection
from quorate.pki import KeyAlgorithm, generate_ca, issue_server
from quorate.tls import server_context

_DAYS = 3650  # longer than any process lives; nobody can verify the certificate anyway, and upstream's is as little verified


def protected(address: str, registry: CollectorRegistry, client: Client, now: datetime) -> DiagnosticsServer:
    """The server, which asks through `client` and closes it at its end. Raises ValueError for what is no address."""
    algorithm, until = KeyAlgorithm.ECDSA_P256, now + timedelta(days=_DAYS)
    ca = generate_ca(algorithm, now=now, days=_DAYS, common_name="quorate-diagnostics")
    pair = issue_server(
        ca,
        common_name="localhost",
        dns_names=("localhost",),
        ip_addresses=("127.0.0.1", "::1"),
        algorithm=algorithm,
        not_before=now - timedelta(minutes=5),
        not_after=until,
    )
    return DiagnosticsServer(address, registry, Protection(server_context(pair.certificate, pair.key), AuthenticationFilter(client)))
