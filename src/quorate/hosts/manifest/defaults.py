"""KubeOne's defaults, filled into a decoded manifest.

Source: KubeOne's pkg/apis/kubeone/v1beta2/defaults.go and config.go. What it fills in for what quorate does not do (machine-controller, addons, Canal) stays
unset here. Defaults that depend on nothing are those of the fields themselves.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quorate.hosts.manifest.cipher_suites import API_SERVER, ETCD, KUBELET
from quorate.hosts.manifest.component_fields import Features, TLSCipherSuites
from quorate.hosts.manifest.fields import APIEndpoint, CertificateAuthority, CloudProvider, ControlPlane, Manifest, StaticWorkers, Versions
from quorate.hosts.manifest.findings import Findings
from quorate.hosts.manifest.host_fields import Host, Taint, TaintEffect
from quorate.hosts.manifest.named_files import content_of
from quorate.hosts.manifest.network_fields import CNI, Canal, ClusterNetwork, ExternalCNI, Proxy
from quorate.hosts.manifest.values import Text

SSH_PORT = 22
SSH_USERNAME = "root"
SSH_AGENT_SOCKET = "env:SSH_AUTH_SOCK"
CONTROL_PLANE_TAINT = Taint(key="node-role.kubernetes.io/control-plane", effect=TaintEffect.NO_SCHEDULE)
CANAL_MTU = 1450  # the 1500 of Ethernet without the 50 bytes of VXLAN
NO_PROXY = "127.0.0.1/8,localhost"


def with_defaults(manifest: Manifest, folder: Path, findings: Findings) -> Manifest:
    """The manifest with every default filled in, and files named beside it as absolute paths; relative ones start from `folder`.

    Reads `certificateAuthority.file`; that it cannot be read is noted in `findings`.
    """
    control_plane = _control_plane(manifest.control_plane)
    network = _network(manifest.cluster_network)
    return replace(
        manifest,
        control_plane=control_plane,
        static_workers=StaticWorkers(tuple(_host(host, ()) for host in manifest.static_workers.hosts)),
        api_endpoint=_endpoint(manifest.api_endpoint, control_plane),
        cloud_provider=_cloud_provider(manifest.cloud_provider),
        versions=Versions(manifest.versions.kubernetes.removeprefix("v")),
        cluster_network=network,
        proxy=_proxy(manifest.proxy, network),
        certificate_authority=_ca(manifest, folder, findings),
        features=_features(manifest.features, folder),
        tls_cipher_suites=_suites(manifest.tls_cipher_suites),
    )


def _control_plane(control_plane: ControlPlane) -> ControlPlane:
    hosts = [_host(host, (CONTROL_PLANE_TAINT,)) for host in control_plane.hosts]
    if hosts and not any(host.is_leader for host in hosts):
        hosts[0] = replace(hosts[0], is_leader=True)
    return replace(control_plane, hosts=tuple(hosts))


def _host(host: Host, taints: tuple[Taint, ...]) -> Host:
    username = host.ssh_username or SSH_USERNAME
    return replace(
        host,
        public_address=host.public_address or host.private_address,
        private_address=host.private_address or host.public_address,
        ssh_username=username,
        ssh_port=host.ssh_port or SSH_PORT,
        ssh_private_key_file=_home(host.ssh_private_key_file),
        ssh_cert_file=_home(host.ssh_cert_file),
        ssh_agent_socket=host.ssh_agent_socket or ("" if host.ssh_private_key_file else SSH_AGENT_SOCKET),
        bastion_port=host.bastion_port or SSH_PORT,
        bastion_user=host.bastion_user or username,
        bastion_private_key_file=_home(host.bastion_private_key_file),
        taints=taints if host.taints is None else host.taints,
    )


def _home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~/") else path


def _endpoint(endpoint: APIEndpoint, control_plane: ControlPlane) -> APIEndpoint:
    if endpoint.host or not control_plane.hosts:
        return endpoint
    return replace(endpoint, host=control_plane.hosts[0].public_address)


def _cloud_provider(provider: CloudProvider) -> CloudProvider:
    """In-tree cloud providers are gone from Kubernetes, so that all but two clouds have an external one. VMware Cloud Director has no controller manager."""
    if provider.none is not None or provider.vmware_cloud_director is not None or not provider.chosen:
        return provider
    return replace(provider, external=True)


def _network(network: ClusterNetwork) -> ClusterNetwork:
    ipv4, ipv6 = network.has_ipv4, network.has_ipv6
    return replace(
        network,
        pod_subnet=network.pod_subnet or ("10.244.0.0/16" if ipv4 else ""),
        service_subnet=network.service_subnet or ("10.96.0.0/12" if ipv4 else ""),
        node_cidr_mask_size_ipv4=_default(network.node_cidr_mask_size_ipv4, 24 if ipv4 else None),
        pod_subnet_ipv6=network.pod_subnet_ipv6 or ("fd01::/48" if ipv6 else ""),
        service_subnet_ipv6=network.service_subnet_ipv6 or ("fd02::/120" if ipv6 else ""),
        node_cidr_mask_size_ipv6=_default(network.node_cidr_mask_size_ipv6, 64 if ipv6 else None),
        service_domain_name=network.service_domain_name or "cluster.local",
        node_port_range=network.node_port_range or "30000-32767",
        cni=_cni(network.cni),
    )


def _cni(cni: CNI | None) -> CNI:
    if cni is None:
        return CNI(external=ExternalCNI())
    if cni.canal is not None and not cni.canal.mtu:
        return replace(cni, canal=Canal(CANAL_MTU))
    return cni


def _proxy(proxy: Proxy, network: ClusterNetwork) -> Proxy:
    if not proxy.http and not proxy.https:
        return proxy
    parts = (NO_PROXY, network.service_domain_name, network.pod_subnet, network.service_subnet, proxy.no_proxy)
    return replace(proxy, no_proxy=",".join(part for part in parts if part))


def _ca(manifest: Manifest, folder: Path, findings: Findings) -> CertificateAuthority:
    ca = manifest.certificate_authority
    if not ca.file:
        return replace(ca, bundle=ca.bundle or manifest.ca_bundle)
    file = folder / Path(ca.file).expanduser()
    try:
        return replace(ca, file=str(file), bundle=Text(content_of(file).decode()))
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text"
        findings.wrong("certificateAuthority.file", f"cannot read {file}: {cause}")
        return replace(ca, file=str(file))


def _features(features: Features, folder: Path) -> Features:
    audit, rate, selector = features.static_audit_log, features.event_rate_limit, features.pod_node_selector
    return replace(
        features,
        static_audit_log=replace(audit, config=replace(audit.config, policy_file_path=_beside(folder, audit.config.policy_file_path))),
        event_rate_limit=replace(rate, config=replace(rate.config, config_file_path=_beside(folder, rate.config.config_file_path))),
        pod_node_selector=replace(
            selector, config=replace(selector.config, config_file_path=_beside(folder, selector.config.config_file_path))
        ),
    )


def _beside(folder: Path, path: str) -> str:
    return str(folder / Path(path).expanduser()) if path else ""


def _suites(suites: TLSCipherSuites) -> TLSCipherSuites:
    return TLSCipherSuites(
        api_server=API_SERVER if suites.api_server is None else suites.api_server,
        etcd=ETCD if suites.etcd is None else suites.etcd,
        kubelet=KUBELET if suites.kubelet is None else suites.kubelet,
    )


def _default(value: int | None, default: int | None) -> int | None:
    return default if value is None else value
