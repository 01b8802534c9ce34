"""kubeadm's configuration (v1beta4) from a manifest: of the host that initializes the cluster, of those that join it, and of their upgrades. Pure.

The certificate key is not used: CAs go to hosts over SSH, from memory to memory, and so does what a joining host checks the cluster against.
Source: kubeadm.k8s.io/v1beta4; KubeOne's pkg/templates/kubeadm/v1beta4 for what it sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quorate.hosts.manifest import Host, Manifest, Secret
from quorate.hosts.manifest.network_fields import IPFamily
from quorate.hosts.render.component_arguments import api_server, controller_manager, local_etcd, named_values, scheduler
from quorate.hosts.render.component_configurations import (
    PATCHES,
    duration,
    kube_proxy_configuration,
    kubelet_configuration,
    kubelet_settings,
)
from quorate.hosts.render.containerd_configuration import DEFAULT_REGISTRY
from quorate.hosts.render.host_files import HostFile, yaml_documents
from quorate.kubeadm.bootstrap_token import GROUP
from quorate.pki import kubeconfig

API_VERSION = "kubeadm.k8s.io/v1beta4"
CRI_SOCKET = "unix:///run/containerd/containerd.sock"
TOKEN_TTL = "1h0m0s"  # noqa: S105
"""How long a bootstrap token lives: longer than any install, and written as kubeadm writes it."""
INIT_PATH = "/etc/kubernetes/quorate/init.yaml"
JOIN_PATH = "/etc/kubernetes/quorate/join.yaml"
DISCOVERY_PATH = "/etc/kubernetes/quorate/discovery.conf"
UPGRADE_PATH = "/etc/kubernetes/quorate/upgrade.yaml"
_JOINING = "joining"


@dataclass(frozen=True, slots=True)
class Machine:
    """A host with what only the host itself can tell: the name of its Node, and which of kubeadm's preflight checks are to be passed over there."""

    host: Host
    name: str
    ignored_preflight_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """How a host joins a cluster, and knows that it is the right one: by the certificates of its CA, in PEM, which came from a host of it.

    kubeadm's other way, a hash of the CA and the description of the cluster that the controller manager signs with the token, is to be waited for: the
    first join comes 2 to 3 s before there is a controller manager that leads.
    """

    token: Secret = field(repr=False)
    ca: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not self.ca:
            raise ValueError("no certificate of the cluster's CA is given, and a host must not join a cluster that it cannot check")


def init_file(manifest: Manifest, machine: Machine, token: Secret) -> HostFile:
    """What `kubeadm init --config` is given on the first host. It holds the token: remove it when the host is initialized."""
    kube_proxy = kube_proxy_configuration(manifest)
    documents = (
        init_configuration(manifest, machine, token),
        cluster_configuration(manifest),
        kubelet_configuration(manifest),
        *(() if kube_proxy is None else (kube_proxy,)),
    )
    return HostFile(INIT_PATH, yaml_documents(*documents))


def join_files(manifest: Manifest, machine: Machine, discovery: Discovery, *, control_plane: bool) -> tuple[HostFile, HostFile]:
    """What `kubeadm join --config` is given, and the kubeconfig that it names. That one holds the token: remove both when the host has joined."""
    configuration = join_configuration(manifest, machine, control_plane=control_plane)
    return HostFile(JOIN_PATH, yaml_documents(configuration)), HostFile(DISCOVERY_PATH, yaml_documents(_kubeconfig(manifest, discovery)))


def upgrade_file(manifest: Manifest, machine: Machine, *, patched: bool = False, renews: bool = True) -> HostFile:
    """What `kubeadm upgrade apply --config` and `kubeadm upgrade node --config` are given. Images are pulled beforehand, or where they are missing.

    `patched`: there are patches on the host beside that of its kubelet. `renews`: certificates are renewed of what gets another manifest, and in any case those
    of administrators.
    """
    patches = {"patches": {"directory": PATCHES}} if patched else _patches(machine)
    options: dict[str, Any] = {"imagePullPolicy": "IfNotPresent", "imagePullSerial": False, **_ignored(machine), **patches}
    options |= {} if renews else {"certificateRenewal": False}
    document = {
        "apiVersion": API_VERSION,
        "kind": "UpgradeConfiguration",
        "apply": {"kubernetesVersion": str(manifest.version), **options},
        "node": options,
    }
    return HostFile(UPGRADE_PATH, yaml_documents(document))


def init_configuration(manifest: Manifest, machine: Machine, token: Secret) -> dict[str, Any]:
    """The first host's InitConfiguration."""
    bootstrap_token = {
        "token": token.reveal(),
        "ttl": TOKEN_TTL,
        "usages": ["signing", "authentication"],
        "groups": [GROUP],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "InitConfiguration",
        "bootstrapTokens": [bootstrap_token],
        "localAPIEndpoint": {"advertiseAddress": node_address(manifest, machine.host)},
        "nodeRegistration": _node_registration(manifest, machine),
        **_patches(machine),
    }


def join_configuration(manifest: Manifest, machine: Machine, *, control_plane: bool) -> dict[str, Any]:
    """The JoinConfiguration of a control-plane host or a worker."""
    made: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "JoinConfiguration",
        "discovery": {"file": {"kubeConfigPath": DISCOVERY_PATH}},
        "nodeRegistration": _node_registration(manifest, machine),
    }
    if control_plane:
        made["controlPlane"] = {"localAPIEndpoint": {"advertiseAddress": node_address(manifest, machine.host)}}
    return {**made, **_patches(machine)}


def cluster_configuration(manifest: Manifest) -> dict[str, Any]:
    """The ClusterConfiguration, which kubeadm keeps in the cluster and reads again at every join and upgrade. It holds no secrets."""
    ca = manifest.certificate_authority
    periods = {
        "certificateValidityPeriod": ca.certificate_validity_period,
        "caCertificateValidityPeriod": ca.ca_certificate_validity_period,
    }
    made: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "ClusterConfiguration",
        "clusterName": manifest.name,
        "kubernetesVersion": str(manifest.version),
        "controlPlaneEndpoint": control_plane_endpoint(manifest),
        **{key: duration(period) for key, period in periods.items() if period is not None},
        "networking": {
            "podSubnet": ",".join(manifest.cluster_network.pod_subnets),
            "serviceSubnet": ",".join(manifest.cluster_network.service_subnets),
            "dnsDomain": manifest.cluster_network.service_domain_name,
        },
        "apiServer": {**api_server(manifest), "certSANs": certificate_names(manifest)},
        "controllerManager": controller_manager(manifest),
        "scheduler": scheduler(manifest),
        "etcd": {"local": local_etcd(manifest)},
    }
    if registry := manifest.registry_configuration.overwrite_registry:
        made["imageRepository"] = registry
    if repository := manifest.features.core_dns.image_repository:
        made["dns"] = {"imageRepository": repository}
    if manifest.cluster_network.kube_proxy.skip_installation:
        made["proxy"] = {"disabled": True}
    return made


def _kubeconfig(manifest: Manifest, discovery: Discovery) -> dict[str, Any]:
    """The cluster, and the token as its user: nothing has to be readable by anonymous users then."""
    return kubeconfig.document(
        manifest.name,
        f"https://{control_plane_endpoint(manifest)}",
        discovery.ca,
        user=_JOINING,
        credentials={"token": discovery.token.reveal()},
        context=_JOINING,
    )


def control_plane_endpoint(manifest: Manifest) -> str:
    """Where clients find the API server, as `host:port`, an IPv6 address in brackets."""
    host = manifest.api_endpoint.host.lower()
    return f"{f'[{host}]' if ':' in host else host}:{manifest.api_endpoint.port}"


def image_repository(manifest: Manifest) -> str:
    """Where the images of Kubernetes' own components come from."""
    return manifest.registry_configuration.overwrite_registry or DEFAULT_REGISTRY


def certificate_names(manifest: Manifest) -> list[str]:
    """The names and addresses that the API server's certificate has beside kubeadm's own (the host's name and address, the Service's)."""
    endpoint = manifest.api_endpoint
    return list(dict.fromkeys(name.lower() for name in (endpoint.host, *endpoint.alternative_names)))


def _node_registration(manifest: Manifest, machine: Machine) -> dict[str, Any]:
    """Images are pulled several at a time, which is faster. An empty list of taints means none; without the field kubeadm would taint control planes."""
    arguments = {"node-ip": _node_ip(manifest, machine), "cloud-provider": "external" if manifest.cloud_provider.external else ""}
    return {
        "name": machine.name,
        "criSocket": CRI_SOCKET,
        "imagePullPolicy": "IfNotPresent",
        "imagePullSerial": False,
        "taints": [_without_empty(key=taint.key, value=taint.value, effect=taint.effect.value) for taint in machine.host.taints or ()],
        "kubeletExtraArgs": named_values(arguments),
        **_ignored(machine),
    }


def node_address(manifest: Manifest, host: Host) -> str:
    """The address that etcd and the API server of this host have, of the cluster's first family."""
    if manifest.cluster_network.ip_family in (IPFamily.IPV6, IPFamily.IPV6_IPV4):
        return host.ipv6_addresses[0]
    return host.private_address


def _node_ip(manifest: Manifest, machine: Machine) -> str:
    """The Node's addresses. With two families and an external cloud provider it is the provider that knows them."""
    network = manifest.cluster_network
    if network.ip_family is IPFamily.IPV4_IPV6:
        return "" if manifest.cloud_provider.external else f"{machine.host.private_address},{machine.host.ipv6_addresses[0]}"
    return node_address(manifest, machine.host)


def _ignored(machine: Machine) -> dict[str, Any]:
    return {"ignorePreflightErrors": sorted(machine.ignored_preflight_errors)} if machine.ignored_preflight_errors else {}


def _patches(machine: Machine) -> dict[str, Any]:
    return {"patches": {"directory": PATCHES}} if kubelet_settings(machine.host.kubelet) else {}


def _without_empty(**values: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}
