"""InitConfiguration and JoinConfiguration: what kubeadm is told on the first machine, and on those that join it.

Source: cluster-api, api/bootstrap/kubeadm/v1beta2/kubeadm_types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import field

from quorate.clusterapi.types.environment import NodeTaint
from quorate.clusterapi.types.kubeadm_cluster import UNIQUE_NAME, Arg
from quorate.clusterapi.types.schema import ApiStruct, group, int32, items, keyed, one_of, plain, rule, text

Text256 = Annotated[str, text(most=256)]
Text512 = Annotated[str, text(most=512)]
SkipPhases = Annotated[list[Text256], items("Phases of kubeadm to leave out.", least=1, most=50)]


class BootstrapToken(ApiStruct):
    """A token that lets a machine join."""

    token: Annotated[str, text("The token: six characters, a dot, sixteen characters.", most=23)]
    description: Annotated[str, text("What the token is for.", most=512)] = ""
    ttl_seconds: Annotated[int | None, int32("Seconds that it lives; 0: for ever.", least=0)] = None
    expires: Annotated[datetime | None, plain("When it ends, in place of how long it lives.")] = None
    usages: Annotated[list[Text256], items("What it may be used for.", least=1, most=100)] = field(default_factory=list)
    groups: Annotated[list[Text256], items("Groups that its holder belongs to.", least=1, most=100)] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class NodeRegistrationOptions(ApiStruct):
    """How a machine's Node registers."""

    name: Annotated[str, text("The Node's name; not set: the machine's host name.", most=253)] = ""
    cri_socket: Annotated[str, text("The container runtime's socket.", most=512)] = ""
    taints: Annotated[
        list[NodeTaint] | None,
        items(
            "Taints that the Node registers with; not set: kubeadm's for control planes; empty: none.", least=0, most=100, list_type=None
        ),
    ] = None
    kubelet_extra_args: Annotated[
        list[Arg],
        keyed(
            "Further command-line flags of the kubelet.",
            "name",
            "value",
            most=100,
            rules=(rule(UNIQUE_NAME, "kubeletExtraArgs name must be unique"),),
        ),
    ] = field(default_factory=list)
    ignore_preflight_errors: Annotated[list[Text512], items("kubeadm's preflight checks whose failure is ignored.", least=1, most=50)] = (
        field(default_factory=list)
    )
    image_pull_policy: Annotated[str, one_of("When kubeadm pulls images; not set: IfNotPresent.", "Always", "IfNotPresent", "Never")] = ""
    image_pull_serial: Annotated[bool | None, plain("Pull images one by one; needs Kubernetes v1.31; not set: true.")] = None


class APIEndpoint(ApiStruct):
    """Where the machine's own API server listens."""

    advertise_address: Annotated[str, text("The address it is known by.", most=39)] = ""
    bind_port: Annotated[int | None, int32("The port it listens on.", least=1)] = None


class Patches(ApiStruct):
    """Patches that kubeadm puts on the manifests it writes."""

    directory: Annotated[str, text("Where the patches are on the machine.", most=512)] = ""


class Timeouts(ApiStruct):
    """How long kubeadm waits, in seconds."""

    control_plane_component_health_check_seconds: Annotated[
        int | None, int32("For a component of the control plane to be healthy; not set: 240.", least=0)
    ] = None
    kubelet_health_check_seconds: Annotated[int | None, int32("For the kubelet to be healthy; not set: 240.", least=0)] = None
    kubernetes_api_call_seconds: Annotated[int | None, int32("For a call of the Kubernetes API; not set: 60.", least=0)] = field(
        default=None, name="kubernetesAPICallSeconds"
    )
    etcd_api_call_seconds: Annotated[int | None, int32("For a call of etcd; not set: 120.", least=0)] = field(
        default=None, name="etcdAPICallSeconds"
    )
    tls_bootstrap_seconds: Annotated[int | None, int32("For the kubelet to get its certificate; not set: 300.", least=0)] = None
    discovery_seconds: Annotated[int | None, int32("To find the cluster and trust it; not set: 300.", least=0)] = None


class InitConfiguration(ApiStruct):
    """What the first machine is told."""

    bootstrap_tokens: Annotated[list[BootstrapToken], items("Tokens to make at once.", least=1, most=100)] = field(default_factory=list)
    node_registration: Annotated[NodeRegistrationOptions, group("How the Node registers.")] = NodeRegistrationOptions()
    local_api_endpoint: Annotated[APIEndpoint, group("Where the API server listens.")] = field(
        default=APIEndpoint(), name="localAPIEndpoint"
    )
    skip_phases: SkipPhases = field(default_factory=list)
    patches: Annotated[Patches, group("Patches on kubeadm's manifests.")] = Patches()
    timeouts: Annotated[Timeouts, group("How long kubeadm waits.")] = Timeouts()


class BootstrapTokenDiscovery(ApiStruct):
    """Find the cluster by a token."""

    token: Annotated[str, text("The token.", most=512)] = ""
    api_server_endpoint: Annotated[str, text("host:port of an API server.", most=512)] = ""
    ca_cert_hashes: Annotated[list[Text512], items("Hashes of the CAs' public keys to trust.", least=1, most=100)] = field(
        default_factory=list
    )
    unsafe_skip_ca_verification: Annotated[bool | None, plain("Trust whoever answers.")] = field(
        default=None, name="unsafeSkipCAVerification"
    )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.api_server_endpoint})"


class KubeConfigCluster(ApiStruct):
    """The cluster entry of a kubeconfig."""

    server: Annotated[str, text("The API server's address.", most=512)] = ""
    tls_server_name: Annotated[str, text("The name expected in its certificate.", most=512)] = ""
    insecure_skip_tls_verify: Annotated[bool | None, plain("Trust whoever answers.")] = field(default=None, name="insecureSkipTLSVerify")
    certificate_authority_data: Annotated[bytes, plain("CAs to trust, in PEM.", minLength=1, maxLength=51200)] = b""
    proxy_url: Annotated[str, text("A proxy on the way.", most=512)] = field(default="", name="proxyURL")


class KubeConfigAuthProvider(ApiStruct):
    """An authentication provider."""

    name: Annotated[str, text("Its name.", most=256)]
    config: Annotated[dict[str, str], plain("What it is told.")] = field(default_factory=dict)


class KubeConfigAuthExecEnv(ApiStruct):
    """An environment variable of a credential plugin."""

    name: Annotated[str, text("The variable's name.", most=512)]
    value: Annotated[str, text("Its value.", most=512)]


class KubeConfigAuthExec(ApiStruct):
    """A credential plugin."""

    command: Annotated[str, text("The command.", most=1024)]
    args: Annotated[list[Text512], items("Its arguments.", least=1, most=100)] = field(default_factory=list)
    env: Annotated[list[KubeConfigAuthExecEnv], items("Its environment variables, beside the machine's.", least=1, most=100)] = field(
        default_factory=list
    )
    api_version: Annotated[str, text("The version it is spoken to in; not set: client.authentication.k8s.io/v1.", most=512)] = ""
    provide_cluster_info: Annotated[bool | None, plain("Tell it about the cluster.")] = None


class KubeConfigUser(ApiStruct):
    """The user entry of a kubeconfig: one of these."""

    auth_provider: Annotated[KubeConfigAuthProvider | None, plain("An authentication provider.")] = None
    exec: Annotated[KubeConfigAuthExec | None, plain("A credential plugin.")] = None


class FileDiscoveryKubeConfig(ApiStruct):
    """A kubeconfig to write for discovery."""

    cluster: Annotated[KubeConfigCluster, group("The cluster; what is not set comes from the Cluster.")] = KubeConfigCluster()
    user: Annotated[KubeConfigUser, group("The user.")]


class FileDiscovery(ApiStruct):
    """Find the cluster by a kubeconfig."""

    kube_config_path: Annotated[str, text("Where the kubeconfig is on the machine.", most=512)]
    kube_config: Annotated[FileDiscoveryKubeConfig | None, plain("The kubeconfig to write there.")] = None


class Discovery(ApiStruct):
    """How a machine finds the cluster it joins."""

    bootstrap_token: Annotated[BootstrapTokenDiscovery, group("By a token.")] = BootstrapTokenDiscovery()
    file: Annotated[FileDiscovery | None, plain("By a kubeconfig.")] = None
    tls_bootstrap_token: Annotated[str, text("The token to ask for a certificate with.", most=512)] = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class JoinControlPlane(ApiStruct):
    """Join as a control plane. That it is there counts, even when it is empty."""

    local_api_endpoint: Annotated[APIEndpoint, group("Where the API server listens.")] = field(
        default=APIEndpoint(), name="localAPIEndpoint"
    )


class JoinConfiguration(ApiStruct):
    """What the machines that join are told."""

    node_registration: Annotated[NodeRegistrationOptions, group("How the Node registers.")] = NodeRegistrationOptions()
    ca_cert_path: Annotated[str, text("Where the cluster's CA is kept; not set: /etc/kubernetes/pki/ca.crt.", most=512)] = ""
    discovery: Annotated[Discovery, group("How the cluster is found; filled in by the bootstrap provider.")] = Discovery()
    control_plane: Annotated[JoinControlPlane | None, plain("Join as a control plane.")] = None
    skip_phases: SkipPhases = field(default_factory=list)
    patches: Annotated[Patches, group("Patches on kubeadm's manifests.")] = Patches()
    timeouts: Annotated[Timeouts, group("How long kubeadm waits.")] = Timeouts()
