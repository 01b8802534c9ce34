"""A simulated manifest as its operator would have written it, so that what production renders of it says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache

from quorate.hosts import manifest as production
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.kubeadm_configuration import Machine
from quorate.simulation.hosts.settings import API_SERVER, PODS, QUOTA
from quorate.simulation.hosts.site import Entry, Manifest

LABEL = "revision"
"""Of a Node, which says of which revision its labels are."""
_TEXT = """\
apiVersion: kubeone.k8c.io/v1beta2
kind: KubeOneCluster
name: site
versions: {kubernetes: 1.34.0}
cloudProvider: {none: {}}
apiEndpoint: {host: api.example.com}
clusterNetwork: {cni: {external: {}}}
features: {metricsServer: {enable: false}, nodeLocalDNS: {deploy: false}}
controlPlane: {hosts: [{publicAddress: 192.0.2.1, privateAddress: 10.0.0.1, taints: []}]}
"""


@lru_cache(maxsize=256)
def manifest_of(manifest: Manifest) -> production.Manifest:
    """The manifest, with every default filled in."""
    base = _base()
    components = replace(
        base.control_plane_components,
        api_server=replace(base.control_plane_components.api_server, flags={API_SERVER: str(manifest.settings)}),
        etcd=replace(base.control_plane_components.etcd, quota_backend_bytes=QUOTA + manifest.settings),
    )
    return replace(
        base,
        versions=replace(base.versions, kubernetes=str(manifest.version).removeprefix("v")),
        control_plane=replace(base.control_plane, hosts=tuple(_host(manifest, each) for each in manifest.control_planes)),
        static_workers=replace(
            base.static_workers, hosts=tuple(_host(manifest, each) for each in manifest.entries if not each.control_plane)
        ),
        control_plane_components=components,
        kubelet_config=replace(base.kubelet_config, max_pods=PODS + manifest.settings),
        features=replace(base.features, encryption_providers=replace(base.features.encryption_providers, enable=manifest.encrypts)),
    )


@lru_cache(maxsize=256)
def machines_of(manifest: Manifest) -> Mapping[str, Machine]:
    """Each host with its name."""
    return {host.hostname: Machine(host, host.hostname) for host in manifest_of(manifest).hosts}


def _host(manifest: Manifest, entry: Entry) -> production.Host:
    return replace(
        _base().hosts[0],
        public_address=entry.address,
        private_address=entry.private_address,
        hostname=entry.name,
        operating_system=OperatingSystem.DEBIAN,
        labels={LABEL: str(manifest.labels)} if manifest.labels else {},
    )


@cache
def _base() -> production.Manifest:
    return production.parse(_TEXT)
