"""The certificates of a local cluster: one CA for the API server, its clients and every webhook server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from quorate.local.folder import write_private
from quorate.local.ports import LOOPBACK
from quorate.pki import KeyAlgorithm, admin_kubeconfig, generate_ca, generate_service_account, issue_server

_ALGORITHM = KeyAlgorithm.ECDSA_P256  # made in under a millisecond, where RSA takes up to 400
_VALIDITY = timedelta(days=364)  # within the CA's
_CLOCK_SKEW = timedelta(minutes=5)
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where the files lie. `serving` is a folder with tls.crt and tls.key, as webhook servers want it."""

    ca: Path
    serving: Path
    service_account: Path
    service_account_public: Path

    @property
    def ca_data(self) -> bytes:
        """The CA's certificate, PEM."""
        return self.ca.read_bytes()


def write_certificates(folder: Path, kubeconfig: Path, server: str, *, now: datetime) -> CertificateFiles:
    """Make a CA, a serving certificate for loopback, a service account key, and an administrator's kubeconfig for `server`, valid for a year."""
    ca = generate_ca(
        _ALGORITHM, now=now, days=365, common_name="quorate-local-ca"
    )  # another name than the leaf's, which else counts as self-signed
    files = CertificateFiles(folder / "ca.crt", folder / "serving", folder / "sa.key", folder / "sa.pub")
    files.serving.mkdir(mode=0o700)
    serving = issue_server(
        ca,
        common_name="quorate-local",
        dns_names=_NAMES,
        ip_addresses=(LOOPBACK,),
        algorithm=_ALGORITHM,
        not_before=now - _CLOCK_SKEW,
        not_after=now + _VALIDITY,
    )
    tokens = generate_service_account(_ALGORITHM)
    write_private(files.ca, ca.certificate)
    write_private(files.serving / "tls.crt", serving.certificate)
    write_private(files.serving / "tls.key", serving.key)
    write_private(files.service_account, tokens.key)
    write_private(files.service_account_public, tokens.certificate)
    write_private(kubeconfig, admin_kubeconfig("local", server, ca, _ALGORITHM, now=now))
    return files
