"""The arguments, mounts and environment of the control plane's programs and of etcd, as a manifest asks for them, in kubeadm's form.

Source: KubeOne's pkg/templates/kubeadm/v1beta4 and pkg/features for what it sets beside kubeadm's defaults; the CIS benchmark for profiling, request timeout
and the count of finished Pods. What is a program's own default is not repeated. Arguments are sorted: the same manifest gives the same text.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.component_fields import Component, Features
from quorate.hosts.manifest.encryption import kms_endpoints
from quorate.hosts.manifest.network_fields import ClusterNetwork

AUDIT_FOLDER = "/etc/kubernetes/audit"
AUDIT_POLICY = f"{AUDIT_FOLDER}/policy.yaml"
ADMISSION_FOLDER = "/etc/kubernetes/admission"
ADMISSION_CONFIGURATION = f"{ADMISSION_FOLDER}/admission-config.yaml"
ENCRYPTION_FOLDER = "/etc/kubernetes/encryption-providers"
ENCRYPTION_CONFIGURATION = f"{ENCRYPTION_FOLDER}/encryption-providers.yaml"
CUSTOM_ENCRYPTION_CONFIGURATION = f"{ENCRYPTION_FOLDER}/custom-encryption-providers.yaml"
VOLUME_PLUGINS = "/var/lib/kubelet/volumeplugins"
"""Where FlexVolume plugins are: a folder that can be written to on Flatcar too, whose /usr, kubeadm's default, is read-only."""

_MOUNTED_BY_KUBEADM = ("/etc/kubernetes/pki/", "/etc/ssl/certs/", "/etc/pki/", "/etc/ca-certificates/", "/usr/share/ca-certificates/")
_ETCD_PKI = "/etc/kubernetes/pki/etcd"


def api_server(manifest: Manifest) -> dict[str, Any]:
    """The API server's part of a ClusterConfiguration, without its certificate's names."""
    features = manifest.features
    arguments = {
        "enable-admission-plugins": ",".join(_admission_plugins(features)),
        "kubelet-certificate-authority": "/etc/kubernetes/pki/ca.crt",
        "profiling": "false",
        "request-timeout": "1m",
        "service-node-port-range": manifest.cluster_network.node_port_range,
        "tls-cipher-suites": ",".join(manifest.tls_cipher_suites.api_server or ()),
        **_audit(features),
        **_openid_connect(features),
        **_encryption(features),
    }
    if has_admission_configuration(features):
        arguments["admission-control-config-file"] = ADMISSION_CONFIGURATION
    return _component(arguments, manifest.control_plane_components.api_server, _api_server_volumes(features))


def controller_manager(manifest: Manifest) -> dict[str, Any]:
    """The controller manager's part of a ClusterConfiguration."""
    arguments = {
        "flex-volume-plugin-dir": VOLUME_PLUGINS,
        "profiling": "false",
        "terminated-pod-gc-threshold": "1000",
        **_node_networks(manifest.cluster_network),
    }
    return _component(arguments, manifest.control_plane_components.controller_manager)


def scheduler(manifest: Manifest) -> dict[str, Any]:
    """The scheduler's part of a ClusterConfiguration."""
    return _component({"profiling": "false"}, manifest.control_plane_components.scheduler)


def local_etcd(manifest: Manifest) -> dict[str, Any]:
    """The etcd member that every control-plane host has. Its feature gates and flags are those of etcd 3.6, which Kubernetes 1.34 and later run.

    Members compare their data with each other every four hours and at every compaction; a gate that is given takes the place of kubeadm's, so that the check
    at start is named again. The environment lets `etcdctl` work inside the Pod without arguments.
    """
    etcd = manifest.control_plane_components.etcd
    arguments = {
        "cipher-suites": ",".join(manifest.tls_cipher_suites.etcd or ()),
        "corrupt-check-time": "240m",
        "feature-gates": "CompactHashCheck=true,InitialCorruptCheck=true",
        "quota-backend-bytes": str(etcd.quota_backend_bytes) if etcd.quota_backend_bytes else "",
        "auto-compaction-mode": etcd.auto_compaction_mode.value,
        "auto-compaction-retention": etcd.auto_compaction_retention,
    }
    environment = {
        "ETCDCTL_CACERT": f"{_ETCD_PKI}/ca.crt",
        "ETCDCTL_CERT": f"{_ETCD_PKI}/healthcheck-client.crt",
        "ETCDCTL_ENDPOINTS": "https://127.0.0.1:2379",
        "ETCDCTL_KEY": f"{_ETCD_PKI}/healthcheck-client.key",
    }
    return {
        "dataDir": "/var/lib/etcd",
        "extraArgs": named_values(arguments),
        "extraEnvs": named_values(environment),
    }


def named_values(values: Mapping[str, str]) -> list[dict[str, str]]:
    """kubeadm's list of names and values, sorted; what has no value is left to the program."""
    return [{"name": name, "value": value} for name, value in sorted(values.items()) if value]


def has_admission_configuration(features: Features) -> bool:
    """Whether the API server is given a file that configures admission plugins."""
    return features.event_rate_limit.enable or features.pod_node_selector.enable


def encryption_path(features: Features) -> str:
    """Where the provider file is. KubeOne's two names, so that a cluster which it made keeps the flag that it has."""
    return CUSTOM_ENCRYPTION_CONFIGURATION if features.encryption_providers.custom_encryption_configuration else ENCRYPTION_CONFIGURATION


def _component(arguments: Mapping[str, str], own: Component, volumes: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """The user's flags come last and win; an empty one of theirs is theirs too."""
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(own.feature_gates.items()))
    quorates = {name: value for name, value in arguments.items() if value and name not in own.flags}
    users = {**own.flags, **({"feature-gates": gates} if gates else {})}
    made: dict[str, Any] = {"extraArgs": [{"name": name, "value": value} for name, value in sorted({**quorates, **users}.items())]}
    if mounts := list(volumes):
        made["extraVolumes"] = mounts
    return made


def _admission_plugins(features: Features) -> Iterable[str]:
    """What is added to the API server's default plugins. NodeRestriction is kubeadm's, which this flag takes the place of."""
    yield "NodeRestriction"
    if features.always_pull_images.enable:
        yield "AlwaysPullImages"
    if features.event_rate_limit.enable:
        yield "EventRateLimit"
    if features.pod_node_selector.enable:
        yield "PodNodeSelector"


def _audit(features: Features) -> dict[str, str]:
    if not features.static_audit_log.enable:
        return {}
    config = features.static_audit_log.config
    return {
        "audit-policy-file": AUDIT_POLICY,
        "audit-log-path": config.log_path,
        "audit-log-maxage": str(config.log_max_age),
        "audit-log-maxbackup": str(config.log_max_backup),
        "audit-log-maxsize": str(config.log_max_size),
    }


def _openid_connect(features: Features) -> dict[str, str]:
    if not features.openid_connect.enable:
        return {}
    config = features.openid_connect.config
    return {
        "oidc-issuer-url": config.issuer_url,
        "oidc-client-id": config.client_id,
        "oidc-username-claim": config.username_claim,
        "oidc-username-prefix": config.username_prefix,
        "oidc-groups-claim": config.groups_claim,
        "oidc-groups-prefix": config.groups_prefix,
        "oidc-required-claim": config.required_claim,
        "oidc-signing-algs": config.signing_algs,
        "oidc-ca-file": config.ca_file,
    }


def _encryption(features: Features) -> dict[str, str]:
    """With the automatic reload a changed file is in use within a minute on a running API server: none keeps a key that was rotated away."""
    if not features.encryption_providers.enable:
        return {}
    return {"encryption-provider-config": encryption_path(features), "encryption-provider-config-automatic-reload": "true"}


def _api_server_volumes(features: Features) -> Iterable[dict[str, Any]]:
    if features.static_audit_log.enable:
        yield _folder("audit-conf", AUDIT_FOLDER, read_only=True)
        yield _folder("audit-log", posixpath.dirname(features.static_audit_log.config.log_path), read_only=False)
    if has_admission_configuration(features):
        yield _folder("admission-conf", ADMISSION_FOLDER, read_only=True)
    if features.encryption_providers.enable:
        yield _folder("encryption-providers-conf", ENCRYPTION_FOLDER, read_only=True)
        for number, folder in enumerate(_kms_folders(features)):
            yield _folder(f"kms-{number}", folder, read_only=False)
    ca_file = features.openid_connect.config.ca_file if features.openid_connect.enable else ""
    if ca_file and not ca_file.startswith(_MOUNTED_BY_KUBEADM):
        yield {"name": "oidc-ca", "hostPath": ca_file, "mountPath": ca_file, "readOnly": True, "pathType": "File"}


def _kms_folders(features: Features) -> tuple[str, ...]:
    """The folders of the plugins' sockets. Not the sockets: a plugin that restarts makes a new one, which a mount of the old one would not show."""
    paths = (endpoint.removeprefix("unix://") for endpoint in kms_endpoints(features.encryption_providers.custom_encryption_configuration))
    absolute = (path for path in paths if path.startswith("/") and not path.startswith("/@"))  # abstract sockets need no mount
    return tuple(dict.fromkeys(posixpath.dirname(path) for path in absolute))


def _folder(name: str, path: str, *, read_only: bool) -> dict[str, Any]:
    return {"name": name, "hostPath": path, "mountPath": path, "readOnly": read_only, "pathType": "DirectoryOrCreate"}


def _node_networks(network: ClusterNetwork) -> dict[str, str]:
    """How large a part of the Pods' subnet each Node has. Cilium gives out addresses itself."""
    if network.cni is not None and network.cni.cilium is not None:
        return {}
    ipv4, ipv6 = network.node_cidr_mask_size_ipv4, network.node_cidr_mask_size_ipv6
    return {
        "node-cidr-mask-size-ipv4": str(ipv4) if network.has_ipv4 and ipv4 is not None else "",
        "node-cidr-mask-size-ipv6": str(ipv6) if network.has_ipv6 and ipv6 is not None else "",
    }
