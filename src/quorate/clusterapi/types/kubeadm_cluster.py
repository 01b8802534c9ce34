"""ClusterConfiguration: what kubeadm is told that is the same on every machine of a control plane.

Source: cluster-api, api/bootstrap/kubeadm/v1beta2/kubeadm_types.go.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from quorate.clusterapi.types.environment import EnvVar
from quorate.clusterapi.types.schema import ApiStruct, group, int32, items, keyed, one_of, plain, rule, text

UNIQUE_NAME = "self.all(x, self.exists_one(y, x.name == y.name))"


class Arg(ApiStruct):
    """One command-line flag. Its value may be empty, and must be there."""

    name: Annotated[str, text("The flag, without leading dashes.", most=256)]
    value: Annotated[str, text("The flag's value.", least=0, most=1024)]


class HostPathMount(ApiStruct):
    """A path of the host, mounted into a static Pod."""

    name: Annotated[str, text("The volume's name in the Pod.", most=512)]
    host_path: Annotated[str, text("The path on the host.", most=512)]
    mount_path: Annotated[str, text("The path in the Pod.", most=512)]
    read_only: Annotated[bool | None, plain("Mount it read-only.")] = None
    path_type: Annotated[str, plain("What must be, or is made, on the host: a core/v1 HostPathType.")] = ""


ExtraArgs = Annotated[
    list[Arg],
    keyed("Further command-line flags.", "name", "value", most=100, rules=(rule(UNIQUE_NAME, "extraArgs name must be unique"),)),
]
ExtraEnvs = Annotated[list[EnvVar], items("Further environment variables.", least=1, most=100)]
ExtraVolumes = Annotated[list[HostPathMount], items("Further paths of the host to mount.", least=1, most=100)]
ImageRepository = Annotated[str, text("The registry and path that images come from.", most=512)]
ImageTag = Annotated[str, text("The image's tag.", most=256)]
SubjectAlternativeNames = Annotated[
    list[Annotated[str, text(most=253)]], items("Further subject alternative names in the certificate.", least=1, most=100)
]
FilePath = Annotated[str, text("A path on the machine.", most=512)]


class APIServer(ApiStruct):
    """The API server."""

    extra_args: ExtraArgs = field(default_factory=list)
    extra_volumes: ExtraVolumes = field(default_factory=list)
    extra_envs: ExtraEnvs = field(default_factory=list)
    cert_sans: SubjectAlternativeNames = field(default_factory=list, name="certSANs")


class ControllerManager(ApiStruct):
    """The controller manager."""

    extra_args: ExtraArgs = field(default_factory=list)
    extra_volumes: ExtraVolumes = field(default_factory=list)
    extra_envs: ExtraEnvs = field(default_factory=list)


class Scheduler(ApiStruct):
    """The scheduler."""

    extra_args: ExtraArgs = field(default_factory=list)
    extra_volumes: ExtraVolumes = field(default_factory=list)
    extra_envs: ExtraEnvs = field(default_factory=list)


class DNS(ApiStruct):
    """CoreDNS; changed in place, never by a rollout."""

    image_repository: ImageRepository = ""
    image_tag: ImageTag = ""


class LocalEtcd(ApiStruct):
    """etcd that runs on the control plane's machines."""

    image_repository: ImageRepository = ""
    image_tag: ImageTag = ""
    data_dir: Annotated[str, text("Where etcd keeps its data; not set: /var/lib/etcd.", most=512)] = ""
    extra_args: ExtraArgs = field(default_factory=list)
    extra_envs: ExtraEnvs = field(default_factory=list)
    server_cert_sans: SubjectAlternativeNames = field(default_factory=list, name="serverCertSANs")
    peer_cert_sans: SubjectAlternativeNames = field(default_factory=list, name="peerCertSANs")


class ExternalEtcd(ApiStruct):
    """etcd that runs elsewhere, and is somebody else's to keep."""

    endpoints: Annotated[list[Annotated[str, text(most=512)]], items("Where its members are reached.", least=1, most=50)]
    ca_file: FilePath
    cert_file: FilePath
    key_file: FilePath


class Etcd(ApiStruct):
    """etcd: on the machines (local, also when nothing is set) or elsewhere (external)."""

    local: Annotated[LocalEtcd, group("etcd on the control plane's machines.")] = LocalEtcd()
    external: Annotated[ExternalEtcd | None, plain("etcd elsewhere.")] = None


class ClusterConfiguration(ApiStruct):
    """What is the same on every machine."""

    etcd: Annotated[Etcd, group("Where etcd runs.")] = Etcd()
    control_plane_endpoint: Annotated[str, text("host:port of the API server; cannot be changed.", most=512)] = ""
    api_server: Annotated[APIServer, group("The API server.")] = APIServer()
    controller_manager: Annotated[ControllerManager, group("The controller manager.")] = ControllerManager()
    scheduler: Annotated[Scheduler, group("The scheduler.")] = Scheduler()
    dns: Annotated[DNS, group("CoreDNS; changed in place.")] = DNS()
    certificates_dir: Annotated[str, text("Where certificates are kept; cannot be changed; not set: /etc/kubernetes/pki.", most=512)] = ""
    image_repository: ImageRepository = ""
    feature_gates: Annotated[dict[str, bool], plain("kubeadm's feature gates.")] = field(default_factory=dict)
    certificate_validity_period_days: Annotated[
        int | None, int32("Days that kubeadm's certificates are valid; needs Kubernetes v1.31; not set: 365.", least=1, most=1095)
    ] = None
    ca_certificate_validity_period_days: Annotated[
        int | None, int32("Days that the CAs are valid; cannot be changed; not set: 3650.", least=1, most=36500)
    ] = None
    encryption_algorithm: Annotated[
        str,
        one_of("The algorithm of private keys; not set: RSA-2048.", "ECDSA-P256", "ECDSA-P384", "RSA-2048", "RSA-3072", "RSA-4096"),
    ] = ""
