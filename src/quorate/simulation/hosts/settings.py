"""Revisions of a simulated manifest's settings, in the words in which production writes them, and read back from documents that it, or kubeadm, has written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from quorate.core.versions import Version
from quorate.hosts.render.provider_files import FLAG

API_SERVER = "max-requests-inflight"
"""The flag of API servers that says of which revision the settings are: what it is set to matters to nobody."""
QUOTA = 2 << 30
"""Bytes of etcd's quota, to which the revision is added."""
PODS = 100
"""The most of a kubelet, to which the revision is added."""


@dataclass(frozen=True, slots=True)
class Configured:
    """What a ClusterConfiguration says."""

    version: Version | None = None
    api_server: int = 0
    etcd: int = 0
    encrypts: bool = False  # API servers read a file of encryption providers


@lru_cache(maxsize=4096)
def configured(document: str) -> Configured:
    """Nothing is read of a document that is not there."""
    version = _found(document, r"^kubernetesVersion: (\S+)")
    api_server = _found(document, rf"name: {API_SERVER}\n +value: ['\"]?(\d+)")
    etcd = _found(document, r"name: quota-backend-bytes\n +value: ['\"]?(\d+)")
    return Configured(
        version=Version.parse(version) if version else None,
        api_server=int(api_server or 0),
        etcd=int(etcd or QUOTA) - QUOTA,
        encrypts=FLAG in document,
    )


@lru_cache(maxsize=4096)
def kubelets(document: str) -> int:
    """The revision that a KubeletConfiguration is of."""
    return int(_found(document, r"^maxPods: (\d+)") or PODS) - PODS


def with_version(document: str, version: Version) -> str:
    """The ClusterConfiguration as kubeadm writes it after an upgrade."""
    return re.sub(r"^kubernetesVersion: .*$", f"kubernetesVersion: {version}", document, flags=re.MULTILINE)


def _found(text: str, pattern: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""
