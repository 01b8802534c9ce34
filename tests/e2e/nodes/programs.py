"""The programs inside the nodes: Kubernetes in two versions, etcd as each has it, CoreDNS; pinned in `tools/nodes`, built into `.cache/nodes/bin`."""

from __future__ import annotations

import os
from pathlib import Path

from quorate.local.programs import PROJECT, Builder, Program
from quorate.local.progress import Progress
from tests.e2e.nodes.engine import CACHE, FILES

BINARIES = CACHE / "bin"
TOOLS = CACHE / "tools"
"""What the tests themselves call on this machine: no part of any host, so that a change of it makes nothing else anew."""
VERSIONS = ("v1.34.4", "v1.35.4")
"""The Kubernetes versions that hosts can have; every scenario of an upgrade goes from the first to the second."""
ETCD = {"v1.34.4": "3.6.5", "v1.35.4": "3.6.6"}
"""etcd as kubeadm of each Kubernetes version wants it."""
COREDNS = {"v1.34.4": "v1.12.1", "v1.35.4": "v1.13.1"}
"""CoreDNS likewise. Both tags have the program that `tools/nodes/coredns` pins: only the tag matters to kubeadm."""
HOST_PROGRAMS = ("kubeadm", "kubelet", "kubectl")
IMAGE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
_ETCD = "go.etcd.io/etcd"


def build_programs(progress: Progress) -> None:
    """Build what is missing or out of date. On two idle cores with nothing cached 25 minutes. Raises MissingTool, BuildFailed."""
    os.environ.pop("KUBEBUILDER_ASSETS", None)  # programs of another version would count as built
    for folder, programs in _products().items():
        Builder(BINARIES / folder, FILES, PROJECT / ".cache").build(programs, progress)
    Builder(TOOLS, FILES, PROJECT / ".cache").build([Program("etcdutl", "etcdutl", f"{_ETCD}/etcdutl/v3")], progress)


def binary(folder: str, name: str) -> Path:
    """The path of a program; `folder` is a Kubernetes version, `etcd-3.6.5`, `coredns`."""
    return BINARIES / folder / name


def _products() -> dict[str, list[Program]]:
    products = {version: [_kubernetes(version, name) for name in (*HOST_PROGRAMS, *IMAGE_PROGRAMS)] for version in VERSIONS}
    for version in ETCD.values():
        products[f"etcd-{version}"] = [Program("etcd", f"etcd-{version}", f"{_ETCD}/server/v3")]
    products["etcd-3.6.6"].append(Program("etcdctl", "etcd-3.6.6", f"{_ETCD}/etcdctl/v3"))
    products["coredns"] = [Program("coredns", "coredns", "github.com/coredns/coredns")]
    return products


def _kubernetes(version: str, name: str) -> Program:
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())])
    return Program(name, f"kubernetes-{major}.{minor}", f"k8s.io/kubernetes/cmd/{name}", flags)
