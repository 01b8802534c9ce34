"""The fields of a manifest that say how the programs of a cluster are set up: container runtime, features, components, workers made by machine-controller.

Source: KubeOne's v1beta2 API (pkg/apis/kubeone/v1beta2/types.go) for names and meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from quorate.hosts.manifest.decoding import ZERO_COUNTS, empty_mapping, named
from quorate.hosts.manifest.host_fields import Taint
from quorate.hosts.manifest.network_fields import IPFamily
from quorate.hosts.manifest.values import NO_SECRET, Opaque, Secret


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """How containerd logs in at a registry."""

    username: str = ""
    password: Secret = NO_SECRET
    auth: Secret = NO_SECRET
    identity_token: Secret = NO_SECRET


@dataclass(frozen=True, slots=True)
class RegistryTLS:
    """How containerd checks a registry's certificate."""

    insecure_skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class Registry:
    """Where containerd gets the images of one registry from."""

    mirrors: tuple[str, ...] = ()
    override_path: bool = False
    tls_config: RegistryTLS | None = None
    auth: RegistryAuth | None = None


@dataclass(frozen=True, slots=True)
class Containerd:
    """containerd's settings; `registries` by the name of the registry, `*` for all others."""

    registries: Mapping[str, Registry] = field(default_factory=empty_mapping)
    device_ownership_from_security_context: bool = False
    sandbox_image: str = ""


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """The container runtime, which is always containerd."""

    docker: Opaque | None = None
    containerd: Containerd = field(default_factory=Containerd)


@dataclass(frozen=True, slots=True)
class CoreDNS:
    """CoreDNS' settings."""

    replicas: int = field(default=2, metadata=ZERO_COUNTS)
    deploy_pod_disruption_budget: bool = True
    image_repository: str = ""


@dataclass(frozen=True, slots=True)
class Switch:
    """A feature that is on or off."""

    enable: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """Something that KubeOne deploys, or does not."""

    deploy: bool = False


@dataclass(frozen=True, slots=True)
class OperatingSystemManager:
    """What makes the systems of machine-controller's Machines."""

    deploy: bool = False
    enable_non_root_device_ownership: bool = False


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file beside the manifest; relative paths start from the manifest's folder."""

    config_file_path: str = ""


@dataclass(frozen=True, slots=True)
class FileFeature:
    """An admission plugin of the API server that a file configures."""

    enable: bool = False
    config: ConfigFile = field(default_factory=ConfigFile)


@dataclass(frozen=True, slots=True)
class StaticAuditLogConfig:
    """The API server's audit log: the policy beside the manifest, the log on the host (days, files, MiB)."""

    policy_file_path: str = ""
    log_path: str = "/var/log/kubernetes/audit.log"
    log_max_age: int = 30
    log_max_backup: int = 3
    log_max_size: int = 100


@dataclass(frozen=True, slots=True)
class StaticAuditLog:
    """The API server's audit log."""

    enable: bool = False
    config: StaticAuditLogConfig = field(default_factory=StaticAuditLogConfig)


@dataclass(frozen=True, slots=True)
class OpenIDConnectConfig:
    """The issuer of tokens that the API server accepts, and which claims name the user and the groups."""

    issuer_url: str = ""
    client_id: str = "kubernetes"
    username_claim: str = "sub"
    username_prefix: str = "oidc:"
    groups_claim: str = "groups"
    groups_prefix: str = "oidc:"
    required_claim: str = ""
    signing_algs: str = "RS256"
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class OpenIDConnect:
    """Login with tokens of an OpenID Connect issuer."""

    enable: bool = False
    config: OpenIDConnectConfig = field(default_factory=OpenIDConnectConfig)


@dataclass(frozen=True, slots=True)
class EncryptionProviders:
    """Encryption of Secrets in etcd. Without a configuration of its own the provider file is generated once, at install, and copied from host to host after."""

    enable: bool = False
    custom_encryption_configuration: Secret = NO_SECRET


@dataclass(frozen=True, slots=True)
class Features:
    """What the control plane does beyond the plain. What KubeOne only deploys into the cluster is not here, or refused."""

    core_dns: CoreDNS = field(default_factory=CoreDNS, metadata=named("coreDNS"))
    always_pull_images: Switch = field(default_factory=Switch)
    event_rate_limit: FileFeature = field(default_factory=FileFeature)
    pod_node_selector: FileFeature = field(default_factory=FileFeature)
    pod_security_policy: Switch = field(default_factory=Switch)
    static_audit_log: StaticAuditLog = field(default_factory=StaticAuditLog)
    dynamic_audit_log: Switch = field(default_factory=Switch)
    metrics_server: Switch = field(default_factory=Switch)
    openid_connect: OpenIDConnect = field(default_factory=OpenIDConnect)
    encryption_providers: EncryptionProviders = field(default_factory=EncryptionProviders)
    node_local_dns: Deployment = field(default_factory=Deployment, metadata=named("nodeLocalDNS"))


class CompactionMode(StrEnum):
    """How etcd decides what to compact by itself."""

    PERIODIC = "periodic"
    REVISION = "revision"
    UNSET = ""


@dataclass(frozen=True, slots=True)
class Etcd:
    """etcd's settings; 0 and empty leave them to etcd."""

    quota_backend_bytes: int = 0
    auto_compaction_retention: str = ""
    auto_compaction_mode: CompactionMode = CompactionMode.UNSET


@dataclass(frozen=True, slots=True)
class Component:
    """Flags and feature gates of one component, which win over those that quorate sets. Flags are named without their dashes."""

    flags: Mapping[str, str] = field(default_factory=empty_mapping)
    feature_gates: Mapping[str, bool] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class ControlPlaneComponents:
    """The components' settings."""

    controller_manager: Component = field(default_factory=Component)
    scheduler: Component = field(default_factory=Component)
    api_server: Component = field(default_factory=Component)
    etcd: Etcd = field(default_factory=Etcd)


@dataclass(frozen=True, slots=True)
class TLSCipherSuites:
    """Cipher suites by component, as Go names them; None before defaults are set."""

    api_server: tuple[str, ...] | None = None
    etcd: tuple[str, ...] | None = None
    kubelet: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DNSServers:
    """The name servers of a worker with a fixed network."""

    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StaticNetwork:
    """The fixed network of workers that machine-controller makes."""

    cidr: str = ""
    gateway: str = ""
    dns: DNSServers = field(default_factory=DNSServers)
    ip_family: IPFamily = IPFamily.IPV4


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """What machine-controller makes workers from. The provider's own part is handed on unread."""

    cloud_provider_spec: Opaque | None = None
    annotations: Mapping[str, str] = field(default_factory=empty_mapping)
    machine_annotations: Mapping[str, str] = field(default_factory=empty_mapping)
    node_annotations: Mapping[str, str] = field(default_factory=empty_mapping)
    machine_object_annotations: Mapping[str, str] = field(default_factory=empty_mapping)
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    taints: tuple[Taint, ...] = ()
    ssh_public_keys: tuple[str, ...] = ()
    operating_system: str = ""
    operating_system_spec: Opaque | None = None
    network: StaticNetwork | None = None
    overwrite_cloud_config: Secret | None = None


@dataclass(frozen=True, slots=True)
class DynamicWorker:
    """One MachineDeployment that has to exist; `replicas` is None only where the manifest does not say."""

    name: str = ""
    replicas: int | None = None
    provider_spec: ProviderSpec = field(default_factory=ProviderSpec)
