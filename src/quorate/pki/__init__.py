"""CAs, the certificates they issue, and the kubeconfig made of both.

Everything here is synchronous and pure but for the operating system's randomness; RSA keys cost 40 to 400 ms of CPU, so callers in an event loop use a thread.
"""

from __future__ import annotations

from quorate.pki.certificates import Certificate, not_after, read_certificates, verify_pair
from quorate.pki.issue import generate_ca, generate_service_account, issue_client, issue_etcd_client, issue_server
from quorate.pki.keys import KeyAlgorithm, KeyPair, PkiError
from quorate.pki.kubeconfig import admin_kubeconfig, rotate, rotates_at
from quorate.pki.purposes import Purpose, generate, is_generated, purposes

__all__ = [
    "Certificate",
    "KeyAlgorithm",
    "KeyPair",
    "PkiError",
    "Purpose",
    "admin_kubeconfig",
    "generate",
    "generate_ca",
    "generate_service_account",
    "is_generated",
    "issue_client",
    "issue_etcd_client",
    "issue_server",
    "not_after",
    "purposes",
    "read_certificates",
    "rotate",
    "rotates_at",
    "verify_pair",
]
