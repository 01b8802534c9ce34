"""An etcd of one member that no control plane manages, as a process of this machine, with a CA of its own."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quorate.local import ports
from quorate.local.errors import BuildFailed, StartFailed
from quorate.pki import KeyAlgorithm, KeyPair, generate_ca, issue_etcd_client, issue_server
from quorate.pki.keys import generate_key
from tests.e2e.nodes.commands import run
from tests.e2e.nodes.programs import binary

_ALGORITHM = KeyAlgorithm.ECDSA_P256
_START_TIMEOUT = 30.0
_PKI = "/etc/kubernetes/pki"  # where kubeadm's configuration says that the files of the Secrets will be


class ExternalEtcd:
    """Runs for the length of the block, reached at `address`."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder / "external-etcd"
        self._address = address
        self._now = datetime.now(UTC)
        self._ca = generate_ca(_ALGORITHM, now=self._now, days=2, common_name="external-etcd")
        self._client = issue_etcd_client(self._ca, generate_key(_ALGORITHM), now=self._now)
        client_port, self._peer_port = ports.choose(2, start=os.getpid())
        self._endpoint = f"https://{address}:{client_port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir()
        server = issue_server(
            self._ca,
            common_name="external-etcd",
            ip_addresses=(self._address,),
            algorithm=_ALGORITHM,
            not_before=self._now - timedelta(minutes=5),
            not_after=self._now + timedelta(days=1),
        )
        for name, pair in {"server": server, "client": self._client, "ca": self._ca}.items():
            self._write(name, pair)
        peer = f"http://{ports.LOOPBACK}:{self._peer_port}"
        options = {
            "name": "external",
            "data-dir": self._folder / "data",
            "listen-client-urls": self._endpoint,
            "advertise-client-urls": self._endpoint,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"external={peer}",
            "cert-file": self._folder / "server.crt",
            "key-file": self._folder / "server.key",
            "trusted-ca-file": self._folder / "ca.crt",
            "client-cert-auth": "true",
        }
        with (self._folder / "log").open("w") as log:
            command = [str(binary("etcd-3.6.6", "etcd")), *(f"--{name}={value}" for name, value in options.items()), "--unsafe-no-fsync"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    @property
    def configuration(self) -> dict[str, Any]:
        """`etcd.external` of a ClusterConfiguration."""
        return {
            "endpoints": [self._endpoint],
            "caFile": f"{_PKI}/etcd/ca.crt",
            "certFile": f"{_PKI}/apiserver-etcd-client.crt",
            "keyFile": f"{_PKI}/apiserver-etcd-client.key",
        }

    def secrets(self, cluster: str) -> list[dict[str, Any]]:
        """What the owner of the cluster has to provide: etcd's CA without its key, and the API servers' client certificate."""
        return [
            _secret(f"{cluster}-etcd", cluster, {"tls.crt": self._ca.certificate}),
            _secret(f"{cluster}-apiserver-etcd-client", cluster, {"tls.crt": self._client.certificate, "tls.key": self._client.key}),
        ]

    def _write(self, name: str, pair: KeyPair) -> None:
        (self._folder / f"{name}.crt").write_bytes(pair.certificate)
        (self._folder / f"{name}.key").touch(mode=0o600)
        (self._folder / f"{name}.key").write_bytes(pair.key)

    def _wait(self) -> None:
        credentials = [
            f"--cacert={self._folder / 'ca.crt'}",
            f"--cert={self._folder / 'client.crt'}",
            f"--key={self._folder / 'client.key'}",
        ]
        command: list[Path | str] = [binary("etcd-3.6.6", "etcdctl"), *credentials, f"--endpoints={self._endpoint}", "endpoint", "health"]
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT
        while True:
            try:
                run(command, making="etcd")
            except BuildFailed as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise StartFailed(f"the external etcd does not answer; see {self._folder / 'log'}: {error}") from None
                time.sleep(0.2)
            else:
                return


def _secret(name: str, cluster: str, data: dict[str, bytes]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
