"""The command line of every program of a local cluster.

Source: the programs' own flags (Kubernetes v1.34, etcd v3.6, Cluster API v1.14); the feature gates agree between the Cluster API managers, as they must.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quorate.local.certificates import CertificateFiles
from quorate.local.folder import RunFolder
from quorate.local.manifests import Provider
from quorate.local.ports import LOOPBACK
from quorate.local.programs import find_program

CAPD_DEBUG_PORT = 19000
CAPD_FIRST_LISTENER_PORT = 20000  # one more for each workload cluster
AUDIT_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n"
QUORATE_MANAGER = "quorate-manager"
_VERBOSITY = "--v=2"


@dataclass(frozen=True, slots=True)
class Command:
    """How to start one program, and where it says that it is ready (empty: nobody waits for it)."""

    name: str
    arguments: tuple[str, ...]
    ready_url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManagerPorts:
    """Where a controller manager serves webhooks, health and metrics."""

    webhook: int
    health: int
    diagnostics: int

    @property
    def flags(self) -> tuple[str, ...]:
        return (
            f"--webhook-port={self.webhook}",
            f"--health-addr={LOOPBACK}:{self.health}",
            f"--diagnostics-address={LOOPBACK}:{self.diagnostics}",
            "--insecure-diagnostics",
        )

    @property
    def ready_url(self) -> str:
        return f"http://{LOOPBACK}:{self.health}/readyz"


def etcd(programs: Path, folder: RunFolder, *, client_port: int, peer_port: int) -> Command:
    """etcd with one member; without fsync, for its data is thrown away with the folder."""
    client, peer = f"http://{LOOPBACK}:{client_port}", f"http://{LOOPBACK}:{peer_port}"
    arguments = (
        f"--data-dir={folder.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    )
    return Command("etcd", (find_program("etcd", programs), *arguments), f"{client}/readyz")


def api_server(programs: Path, folder: RunFolder, files: CertificateFiles, *, port: int, etcd_port: int) -> Command:
    """kube-apiserver with RBAC and an audit log; its readiness wants a client certificate, so it has no URL here."""
    policy = folder.path / "audit-policy.yaml"
    policy.write_text(AUDIT_POLICY)
    arguments = (
        f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
        f"--secure-port={port}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",  # else it looks for a default route, and ends where the machine has none
        "--endpoint-reconciler-type=none",  # an Endpoints object may not hold a loopback address
        f"--tls-cert-file={files.serving}/tls.crt",
        f"--tls-private-key-file={files.serving}/tls.key",
        f"--client-ca-file={files.ca}",
        f"--service-account-key-file={files.service_account_public}",
        f"--service-account-signing-key-file={files.service_account}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes service accounts here
        "--allow-privileged",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder.audit_log}",
        "--audit-log-mode=blocking",
        "--shutdown-delay-duration=0s",
    )
    return Command("kube-apiserver", (find_program("kube-apiserver", programs), *arguments))


def controller_manager(programs: Path, folder: RunFolder, *, port: int) -> Command:
    """kube-controller-manager, for garbage collection by owner reference and the end of namespaces only."""
    arguments = (
        f"--kubeconfig={folder.kubeconfig}",
        "--controllers=garbage-collector-controller,namespace-controller",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={folder.pki}",
    )
    return Command("kube-controller-manager", (find_program("kube-controller-manager", programs), *arguments))


def cluster_api_manager(provider: Provider, programs: Path, folder: RunFolder, files: CertificateFiles, ports: ManagerPorts) -> Command:
    """One of Cluster API's managers. CAPD's in-memory clusters are reached at POD_IP."""
    arguments = (
        f"--kubeconfig={folder.kubeconfig}",
        *ports.flags,
        f"--webhook-cert-dir={files.serving}",
        f"--feature-gates={provider.feature_gates}",
        _VERBOSITY,
    )
    return Command(provider.program, (find_program(provider.program, programs), *arguments), ports.ready_url, {"POD_IP": LOOPBACK})


def quorate_manager(folder: RunFolder, files: CertificateFiles, ports: ManagerPorts, extra: Sequence[str]) -> Command:
    """`quorate manager` of this very installation."""
    serving = f"--webhook-cert-dir={files.serving}"
    arguments = (f"--kubeconfig={folder.kubeconfig}", "--etcd-dialer=in-memory", *ports.flags, serving, *extra)
    return Command(QUORATE_MANAGER, (sys.executable, "-m", "quorate", "manager", *arguments), ports.ready_url)


def environment(command: Command) -> dict[str, str]:
    """The environment a program gets: ours, its own additions, and no kubeconfig or pod identity of somebody else's."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "POD_NAME", "POD_NAMESPACE", "POD_UID")}
    return {**inherited, **command.environment}
