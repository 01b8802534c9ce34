"""What the Secrets of a cluster hold, as the decision reads it: which CAs are there, and when the admin kubeconfig is to be renewed."""

from __future__ import annotations

from datetime import datetime

from quorate.clusterapi.connect.caches import is_ours
from quorate.clusterapi.connect.workloads import ClusterSecrets
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import CLUSTER_SECRET_TYPE
from quorate.clusterapi.types.names import Secret as SecretSuffix
from quorate.core.machines.state import Certificates, Kubeconfig
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ApiError
from quorate.kubernetes.objects import ObjectMeta, Secret
from quorate.pki import PkiError, is_generated, purposes, rotates_at


class Credentials:
    """Reads them; each Secret is looked up once in a pass, and a kubeconfig is parsed once for every version of it."""

    def __init__(self) -> None:
        self._rotations: dict[
            Request, tuple[ObjectMeta, datetime]
        ] = {}  # by control plane: its kubeconfig, and when that one is to be renewed

    async def read(self, secrets: ClusterSecrets, kcp: KubeadmControlPlane, *, etcd_managed: bool) -> tuple[Certificates, Kubeconfig]:
        """Certificates and kubeconfig; Secrets that the API will not let us read are a problem to report, not an end to the pass."""
        try:
            kubeconfig = self._kubeconfig(await secrets.find(SecretSuffix.KUBECONFIG), kcp)
            return await _certificates(secrets, etcd_managed=etcd_managed), kubeconfig
        except ApiError as error:
            return Certificates(problem=str(error)), Kubeconfig(exists=True, problem=str(error))

    def _kubeconfig(self, secret: Secret | None, kcp: KubeadmControlPlane) -> Kubeconfig:
        if secret is None:
            return Kubeconfig(exists=False)
        if not is_made_here(secret, kcp):
            return Kubeconfig(exists=True, ours=False)
        try:
            return Kubeconfig(exists=True, rotates_at=self._rotates_at(Request(kcp.metadata.namespace, kcp.metadata.name), secret))
        except PkiError as error:
            return Kubeconfig(exists=True, problem=f"Secret {secret.metadata.namespace}/{secret.metadata.name}: {error}")

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._rotations.pop(request, None)

    def _rotates_at(self, request: Request, secret: Secret) -> datetime:
        known = self._rotations.get(request)
        if known is not None and (known[0].uid, known[0].resource_version) == (secret.metadata.uid, secret.metadata.resource_version):
            return known[1]
        moment = rotates_at(secret.data.get("value", b""))
        self._rotations[request] = secret.metadata, moment
        return moment


def is_made_here(secret: Secret, kcp: KubeadmControlPlane) -> bool:
    """Whether a Secret is one that was made for the control plane, and none that its user supplied."""
    return secret.type == CLUSTER_SECRET_TYPE and is_ours(secret.metadata, kcp)


async def _certificates(secrets: ClusterSecrets, *, etcd_managed: bool) -> Certificates:
    found = {purpose: await secrets.find(purpose) for purpose in purposes(external_etcd=not etcd_managed)}
    missing = [purpose for purpose, secret in found.items() if secret is None]
    empty = [secret.metadata for secret in found.values() if secret is not None and not secret.data.get("tls.crt")]
    problem = f"Secret {empty[0].namespace}/{empty[0].name} has no tls.crt" if empty else ""
    generatable = all(is_generated(purpose, external_etcd=not etcd_managed) for purpose in missing)
    return Certificates(tuple(map(str, missing)), generatable, problem)
