"""An API server with nothing installed, and the tools by which users install quorate on one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from quorate.kubernetes.client import Client
from quorate.kubernetes.resource import CRDS, Resource
from quorate.local import commands
from quorate.local.cluster import LocalCluster
from quorate.local.folder import RunFolder
from quorate.local.programs import PROGRAMS_FOLDER, find_program
from tests.bare_cluster import bare_cluster
from tools.release import clusterctl as repository
from tools.release.product import Product

CORE_VERSION = "v1.14.0"
_CERT_MANAGER = {"Issuer": "issuers", "Certificate": "certificates"}


@dataclass(frozen=True, slots=True)
class Server:
    """The API server, as administrator; `free` are ports that nobody uses."""

    cluster: LocalCluster
    client: Client
    free: list[int]

    @property
    def folder(self) -> RunFolder:
        """Where its files are."""
        return self.cluster.launcher.folder

    async def run(self, program: str, *arguments: str, home: Path | None = None, given: str = "") -> str:
        """A program of `.bin` with the administrator's kubeconfig; its stdout. Fails the test where it fails."""
        environment = {**os.environ, "KUBECONFIG": str(self.folder.kubeconfig), "GOPROXY": "off"}
        environment |= {"XDG_CONFIG_HOME": str(home), "HOME": str(home)} if home else {}
        command = [find_program(program), *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment, input=given, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stderr[-3000:]}"
        return done.stdout


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[Server]:
    """etcd, kube-apiserver and kube-controller-manager; they end with the block."""
    async with bare_cluster(folder, spare=1 + 12) as (cluster, (controllers, *free)):
        launcher = cluster.launcher
        launcher.start(_aggregating(commands.controller_manager(PROGRAMS_FOLDER, launcher.folder, port=controllers)))
        yield Server(cluster, cluster.client, free)


def _aggregating(controllers: commands.Command) -> commands.Command:
    """kube-controller-manager with the one controller that is needed: without it the manager's role, which is an aggregate, stays empty."""
    arguments = [each for each in controllers.arguments if not each.startswith("--controllers=")]
    return replace(controllers, arguments=(*arguments, "--controllers=clusterrole-aggregation-controller"))


def stand_in_for_cert_manager() -> list[dict[str, Any]]:
    """cert-manager's namespace and two kinds, by which clusterctl knows that it is there, and which the components ask for. Nobody answers for them."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cert-manager"}}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    kinds = [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": CRDS.kind,
            "metadata": {"name": f"{plural}.cert-manager.io"},
            "spec": {
                "group": "cert-manager.io",
                "scope": "Namespaced",
                "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        for kind, plural in _CERT_MANAGER.items()
    ]
    return [namespace, *kinds]


def repositories(folder: Path, product: Product) -> Path:
    """clusterctl's configuration, as a file, for a local repository with Cluster API's core and bootstrap providers and ours under both of its names."""
    repository.write(folder, product)
    providers = [
        _upstream(folder, "cluster-api", "CoreProvider", "core", "core.yaml"),
        _upstream(folder, "kubeadm", "BootstrapProvider", "bootstrap", "bootstrap-kubeadm.yaml", label="bootstrap-kubeadm"),
    ]
    for name in repository.PROVIDERS:
        url = folder / f"control-plane-{name}" / product.tag / "control-plane-components.yaml"
        providers.append({"name": name, "type": "ControlPlaneProvider", "url": str(url)})
    path = folder / "clusterctl.yaml"
    path.write_text(yaml.safe_dump({"providers": providers}))
    return path


def _upstream(folder: Path, name: str, kind: str, prefix: str, manifest: str, *, label: str = "") -> dict[str, str]:
    """Cluster API's own components at the pinned version, laid out as its releases are."""
    release = folder / (label or name) / CORE_VERSION
    release.mkdir(parents=True)
    components = release / f"{prefix}-components.yaml"
    components.write_text((PROGRAMS_FOLDER / manifest).read_text())
    series = [{"major": 1, "minor": 14, "contract": "v1beta2"}]
    metadata = {"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata", "releaseSeries": series}
    (release / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    return {"name": name, "type": kind, "url": str(components)}


def as_list(items: list[dict[str, Any]]) -> str:
    """What kubectl takes for several objects, as JSON: writing that takes a hundredth of the time of YAML."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def resource(group: str, plural: str, kind: str, version: str = "v1", *, namespaced: bool = True) -> Resource[dict[str, Any]]:
    """A kind, as plain JSON."""
    return Resource(group, version, plural, kind, dict, namespaced)
