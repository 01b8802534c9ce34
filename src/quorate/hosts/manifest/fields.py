"""The manifest as a whole: `kind: KubeOneCluster` of `kubeone.k8c.io/v1beta2`, as frozen values with KubeOne's defaults filled in.

Source: KubeOne's v1beta2 API (pkg/apis/kubeone/v1beta2/types.go) for names and meaning. Fields for what quorate does not do are known, so that they can be
refused by name, and are read no further.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta

from quorate.core.versions import Version
from quorate.hosts.manifest.component_fields import (
    ContainerRuntime,
    ControlPlaneComponents,
    Deployment,
    DynamicWorker,
    Features,
    OperatingSystemManager,
    TLSCipherSuites,
)
from quorate.hosts.manifest.decoding import NOT_A_KEY, key_of, named
from quorate.hosts.manifest.findings import Ignored, Notice
from quorate.hosts.manifest.host_fields import Host, KubeletSettings
from quorate.hosts.manifest.network_fields import ClusterNetwork, Proxy
from quorate.hosts.manifest.values import NO_SECRET, NO_TEXT, Opaque, Secret, Text

API_VERSION = "kubeone.k8c.io/v1beta2"
KIND = "KubeOneCluster"


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The control plane's hosts."""

    hosts: tuple[Host, ...] = ()
    node_sets: tuple[Opaque, ...] = ()


@dataclass(frozen=True, slots=True)
class StaticWorkers:
    """The workers that are hosts of the user's own."""

    hosts: tuple[Host, ...] = ()


@dataclass(frozen=True, slots=True)
class APIEndpoint:
    """Where clients and joining hosts find the API server, mostly a load balancer, and further names in its certificate."""

    host: str = ""
    port: int = 6443
    alternative_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provider:
    """A cloud without settings of its own."""


@dataclass(frozen=True, slots=True)
class Hetzner:
    """Hetzner's settings."""

    network_id: str = field(default="", metadata=named("networkID"))
    control_plane: Opaque | None = None


@dataclass(frozen=True, slots=True)
class KubeVirt:
    """KubeVirt's settings."""

    infra_namespace: str = ""
    zone_and_region_enabled: bool = False
    load_balancer_enabled: bool = False
    control_plane: Opaque | None = None


@dataclass(frozen=True, slots=True)
class OpenStack:
    """OpenStack's settings."""

    control_plane: Opaque | None = None


@dataclass(frozen=True, slots=True)
class VMwareCloudDirector:
    """VMware Cloud Director's settings."""

    v_app: str = ""
    storage_profile: str = ""


@dataclass(frozen=True, slots=True)
class CloudProvider:
    """The cloud that the hosts are in; exactly one is set in a valid manifest, `none` for bare metal. Settings of what KubeOne deploys for it are refused.

    With `external`, kubelets wait for the cloud's own controller manager to initialize their Nodes.
    """

    external: bool = False
    disable_bundled_csi_drivers: bool = field(default=False, metadata=named("disableBundledCSIDrivers"))
    cloud_config: Secret = NO_SECRET
    csi_config: Secret = NO_SECRET
    secret_provider_class_name: str = ""
    aws: Provider | None = None
    azure: Provider | None = None
    digitalocean: Provider | None = None
    gce: Provider | None = None
    hetzner: Hetzner | None = None
    kubevirt: KubeVirt | None = None
    nutanix: Provider | None = None
    openstack: OpenStack | None = None
    equinixmetal: Provider | None = None
    vmware_cloud_director: VMwareCloudDirector | None = None
    vsphere: Provider | None = None
    none: Provider | None = None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The keys of the providers that are set."""
        names = {each.name: key_of(each) for each in fields(self) if each.name not in _NO_PROVIDERS}
        return tuple(key for name, key in names.items() if getattr(self, name) is not None)


_NO_PROVIDERS = ("external", "disable_bundled_csi_drivers", "cloud_config", "csi_config", "secret_provider_class_name")


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions to run; without a leading `v`."""

    kubernetes: str = ""


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """CAs that hosts trust besides their system's own (PEM), and how long certificates live; None leaves that to kubeadm."""

    bundle: Text = NO_TEXT
    file: str = ""
    certificate_validity_period: timedelta | None = None
    ca_certificate_validity_period: timedelta | None = None


@dataclass(frozen=True, slots=True)
class SystemPackages:
    """Whether quorate sets up the package repositories, or the user has done so. As in KubeOne, a mapping that does not say means no."""

    configure_repositories: bool = False


@dataclass(frozen=True, slots=True)
class RegistryConfiguration:
    """The registry that all images come from, where it is not each image's own."""

    overwrite_registry: str = ""
    insecure_registry: bool = False


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """How much of a container's log is kept."""

    container_log_max_size: str = "100Mi"
    container_log_max_files: int = 5


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a cluster is to be. As `load` gives it, it is valid and complete: every default is filled in.

    `notices` are what its author should know, `ignored` the fields without effect, `folder` where its relative paths start.
    """

    api_version: str = ""
    kind: str = ""
    metadata: Opaque | None = None
    name: str = ""
    control_plane: ControlPlane = field(default_factory=ControlPlane)
    kubelet_config: KubeletSettings = field(default_factory=KubeletSettings)
    api_endpoint: APIEndpoint = field(default_factory=APIEndpoint)
    cloud_provider: CloudProvider = field(default_factory=CloudProvider)
    versions: Versions = field(default_factory=Versions)
    container_runtime: ContainerRuntime = field(default_factory=ContainerRuntime)
    cluster_network: ClusterNetwork = field(default_factory=ClusterNetwork)
    proxy: Proxy = field(default_factory=Proxy)
    static_workers: StaticWorkers = field(default_factory=StaticWorkers)
    dynamic_workers: tuple[DynamicWorker, ...] = ()
    machine_controller: Deployment = field(default_factory=Deployment)
    operating_system_manager: OperatingSystemManager = field(default_factory=OperatingSystemManager)
    ca_bundle: Text = NO_TEXT
    certificate_authority: CertificateAuthority = field(default_factory=CertificateAuthority)
    features: Features = field(default_factory=Features)
    addons: Opaque | None = None
    helm_releases: Opaque | None = None
    system_packages: SystemPackages = field(default_factory=lambda: SystemPackages(configure_repositories=True))
    registry_configuration: RegistryConfiguration = field(default_factory=RegistryConfiguration)
    logging_config: LoggingConfig = field(default_factory=LoggingConfig)
    tls_cipher_suites: TLSCipherSuites = field(default_factory=TLSCipherSuites)
    control_plane_components: ControlPlaneComponents = field(default_factory=ControlPlaneComponents)
    notices: tuple[Notice, ...] = field(default=(), metadata=NOT_A_KEY)
    ignored: tuple[Ignored, ...] = field(default=(), metadata=NOT_A_KEY)

    @property
    def version(self) -> Version:
        """The Kubernetes version, as `v1.34.4`."""
        return Version.parse(f"v{self.versions.kubernetes}")

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Every host: the control plane's, then the static workers."""
        return self.control_plane.hosts + self.static_workers.hosts

    @property
    def leader(self) -> Host:
        """The host that the manifest would have initialize the cluster."""
        return next(host for host in self.control_plane.hosts if host.is_leader)
