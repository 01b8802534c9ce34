"""The Secrets of a workload cluster, as far as a connection to its API server asks for them."""

from __future__ import annotations

from quorate.pki import KeyPair
from quorate.workload.access import EtcdSecrets


class GivenKubeconfig:
    """The Secrets of a cluster whose etcd nobody asks for."""

    def __init__(self, kubeconfig: bytes) -> None:
        self._kubeconfig = kubeconfig

    async def kubeconfig(self) -> bytes:
        return self._kubeconfig

    async def etcd(self) -> EtcdSecrets:
        return EtcdSecrets(KeyPair(b"", b""))
