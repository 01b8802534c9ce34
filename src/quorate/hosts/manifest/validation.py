"""Mistakes in a manifest that decoding does not see, and warnings for its author.

Follows KubeOne's pkg/apis/kubeone/validation, and adds what lets a cluster be built and then fails: see the modules for hosts, networks and encryption.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificates

from quorate.core.versions import Version
from quorate.hosts.manifest.cipher_suites import KNOWN
from quorate.hosts.manifest.component_fields import Component, DynamicWorker, Etcd, Features
from quorate.hosts.manifest.decoding import nearest
from quorate.hosts.manifest.encryption import problems_of
from quorate.hosts.manifest.fields import CertificateAuthority, CloudProvider, Manifest
from quorate.hosts.manifest.findings import Findings, child, item
from quorate.hosts.manifest.host_validation import validate_hosts, validate_kubelet, validate_taints
from quorate.hosts.manifest.names import address, dns_name, image, mirror, mounted, path, quantity, repository
from quorate.hosts.manifest.network_validation import validate_network
from quorate.hosts.manifest.values import duration

OLDEST_VERSION = (1, 31)  # the first whose kubeadm reads the v1beta4 configuration that is written for it
SMALLEST_QUOTA = 2 * 1024**3  # bytes; etcd's own default, and KubeOne's lower bound
_FLAG = re.compile(r"[a-z][a-z0-9-]*")


def validate(manifest: Manifest, findings: Findings) -> None:
    """Note everything that is wrong with a manifest whose defaults are filled in, and what its author should know."""
    _validate_name(manifest, findings)
    _validate_version(manifest.versions.kubernetes, findings)
    validate_hosts(manifest, findings)
    validate_kubelet(manifest.kubelet_config, "kubeletConfig", findings)
    validate_network(manifest, findings)
    _validate_cloud(manifest.cloud_provider, findings)
    _validate_registries(manifest, findings)
    _validate_ca(manifest.certificate_authority, findings)
    _validate_features(manifest.features, findings)
    _validate_components(manifest, findings)
    _validate_logging(manifest, findings)
    for index, worker in enumerate(manifest.dynamic_workers):
        _validate_worker(worker, item("dynamicWorkers", index), findings)
    for name, count in Counter(worker.name for worker in manifest.dynamic_workers).items():
        if name and count > 1:
            findings.wrong("dynamicWorkers", f"has {name} {count} times; a MachineDeployment is listed once")
    _tell(manifest, findings)


def _validate_name(manifest: Manifest, findings: Findings) -> None:
    problem = (
        dns_name(manifest.name) if manifest.name else "is missing; give the cluster a name, here or as cluster_name in Terraform's output"
    )
    if problem:
        findings.wrong("name", problem)


def _validate_version(text: str, findings: Findings) -> None:
    where = "versions.kubernetes"
    if not text:
        findings.wrong(where, "is missing; give a version such as 1.34.4")
        return
    try:
        version = Version.parse(text)
    except ValueError:
        findings.wrong(where, f"{text} is not a version such as 1.34.4, with all three numbers")
        return
    if "eks" in version.prerelease:
        findings.wrong(where, f"{text} is a version of Amazon EKS, which kubeadm does not install; name a version of Kubernetes itself")
    elif version.release[:2] < OLDEST_VERSION:
        findings.wrong(where, f"{text} is older than 1.31.0, the first whose kubeadm reads the configuration that quorate writes")


def _validate_cloud(provider: CloudProvider, findings: Findings) -> None:
    where = "cloudProvider"
    if len(provider.chosen) != 1:
        findings.wrong(
            where,
            f"names {' and '.join(provider.chosen) or 'no provider'}; name exactly one, with {{}} after it, `none: {{}}` for bare metal",
        )
    if provider.vmware_cloud_director is not None and provider.external:
        findings.wrong(
            child(where, "external"), "cannot be true: VMware Cloud Director has no cloud controller manager, and Nodes would wait for one"
        )


def _validate_registries(manifest: Manifest, findings: Findings) -> None:
    where = "containerRuntime.containerd.registries"
    hosts: dict[str, str] = {}
    for name in manifest.container_runtime.containerd.registries:
        host = name.partition("/")[0]
        first = hosts.setdefault(host, name)
        if name == "_default":
            findings.wrong(child(where, name), "is not a registry; write '*' for all that are not named")
        elif name != "*" and (problem := repository(name)):
            findings.wrong(child(where, name), problem)
        elif first != name:
            findings.wrong(child(where, name), f"is at the same host as {first}, and containerd has one configuration a host; merge them")
    for name, each in manifest.container_runtime.containerd.registries.items():
        if each.auth is not None and not all(
            secret.reveal().isprintable() for secret in (each.auth.password, each.auth.auth, each.auth.identity_token)
        ):
            findings.wrong(f"{child(where, name)}.auth", "has a character that cannot be printed; take it out")
        for index, text in enumerate(each.mirrors):
            if problem := mirror(text):
                findings.wrong(item(f"{child(where, name)}.mirrors", index), problem)
    registry = manifest.registry_configuration
    named = {
        "registryConfiguration.overwriteRegistry": (repository, registry.overwrite_registry),
        "features.coreDNS.imageRepository": (repository, manifest.features.core_dns.image_repository),
        "containerRuntime.containerd.sandboxImage": (image, manifest.container_runtime.containerd.sandbox_image),
    }
    for field, (judge, text) in named.items():
        if text and (problem := judge(text)):
            findings.wrong(field, problem)
    if registry.insecure_registry and not registry.overwrite_registry:
        findings.wrong("registryConfiguration.insecureRegistry", "has no effect without overwriteRegistry; give the registry, or remove it")


def _validate_ca(ca: CertificateAuthority, findings: Findings) -> None:
    where = "certificateAuthority"
    given = child(where, "file" if ca.file else "bundle")
    if "PRIVATE KEY-----" in ca.bundle:
        findings.wrong(given, "holds a private key, which everybody on every host could read; leave the certificates in it alone")
    elif ca.bundle and not _is_bundle(ca.bundle):
        findings.wrong(given, "is not a list of certificates as PEM")
    periods = {
        "certificateValidityPeriod": ca.certificate_validity_period,
        "caCertificateValidityPeriod": ca.ca_certificate_validity_period,
    }
    for key, period in periods.items():
        if period is not None and period <= timedelta():
            findings.wrong(child(where, key), "must be longer than 0")
    leaf, root = periods.values()
    if leaf is not None and (root or timedelta(days=3650)) < leaf:  # kubeadm's default for CAs
        findings.wrong(child(where, "certificateValidityPeriod"), "is longer than that of the CA, which ends first")


def _is_bundle(text: str) -> bool:
    try:
        return bool(load_pem_x509_certificates(text.encode()))
    except ValueError:
        return False


def _validate_features(features: Features, findings: Findings) -> None:
    if features.core_dns.replicas < 0:
        findings.wrong("features.coreDNS.replicas", f"{features.core_dns.replicas} is below 0")
    audit, login, encryption = features.static_audit_log, features.openid_connect, features.encryption_providers
    files = {
        "staticAuditLog.config.policyFilePath": (audit.enable, audit.config.policy_file_path),
        "eventRateLimit.config.configFilePath": (features.event_rate_limit.enable, features.event_rate_limit.config.config_file_path),
        "podNodeSelector.config.configFilePath": (features.pod_node_selector.enable, features.pod_node_selector.config.config_file_path),
    }
    for key, (enabled, file) in files.items():
        if enabled:
            _validate_file(file, f"features.{key}", findings)
    if audit.enable:
        if problem := mounted(audit.config.log_path):
            findings.wrong("features.staticAuditLog.config.logPath", problem)
        sizes = {
            "logMaxAge": audit.config.log_max_age,
            "logMaxBackup": audit.config.log_max_backup,
            "logMaxSize": audit.config.log_max_size,
        }
        for key, number in sizes.items():
            if number <= 0:
                findings.wrong(f"features.staticAuditLog.config.{key}", f"{number} must be greater than 0")
    if login.enable and not login.config.issuer_url.startswith("https://"):
        findings.wrong("features.openidConnect.config.issuerUrl", "must be the issuer's URL, and begin with https://")
    if login.enable and login.config.ca_file and (problem := path(login.config.ca_file)):
        findings.wrong("features.openidConnect.config.caFile", problem)
    if encryption.enable and encryption.custom_encryption_configuration:
        for problem in problems_of(encryption.custom_encryption_configuration):
            findings.wrong("features.encryptionProviders.customEncryptionConfiguration", problem)


def _validate_file(file: str, where: str, findings: Findings) -> None:
    if not file:
        findings.wrong(where, "is missing; name the file, relative to the manifest")
    elif not Path(file).is_file():
        findings.wrong(where, f"there is no file {file}")


def _validate_components(manifest: Manifest, findings: Findings) -> None:
    components = manifest.control_plane_components
    named = {"apiServer": components.api_server, "controllerManager": components.controller_manager, "scheduler": components.scheduler}
    for key, component in named.items():
        _validate_flags(component, child("controlPlaneComponents", key), findings)
    _validate_etcd(components.etcd, "controlPlaneComponents.etcd", findings)
    suites = manifest.tls_cipher_suites
    for key, names in (("apiServer", suites.api_server), ("etcd", suites.etcd), ("kubelet", suites.kubelet)):
        for index, name in enumerate(names or ()):
            if name not in KNOWN:
                near = nearest(name, KNOWN)
                findings.wrong(
                    item(f"tlsCipherSuites.{key}", index), f"{name} is not a cipher suite{f'; did you mean {near}?' if near else ''}"
                )


def _validate_flags(component: Component, path: str, findings: Findings) -> None:
    for name in component.flags:
        where = child(child(path, "flags"), name)
        if name == "feature-gates":
            findings.wrong(where, f"is forbidden here; write the gates under {path}.featureGates")
        elif not _FLAG.fullmatch(name):
            findings.wrong(where, "is not a name of a flag; write it without dashes before it")


def _validate_etcd(etcd: Etcd, path: str, findings: Findings) -> None:
    if etcd.quota_backend_bytes and etcd.quota_backend_bytes < SMALLEST_QUOTA:
        findings.wrong(child(path, "quotaBackendBytes"), f"{etcd.quota_backend_bytes} is less than 2 GiB ({SMALLEST_QUOTA})")
    if etcd.auto_compaction_retention and not etcd.auto_compaction_retention.isdigit():
        try:
            duration(etcd.auto_compaction_retention)
        except ValueError:
            findings.wrong(
                child(path, "autoCompactionRetention"), f"{etcd.auto_compaction_retention} is neither a duration such as 8h nor a number"
            )


def _validate_logging(manifest: Manifest, findings: Findings) -> None:
    logging = manifest.logging_config
    if problem := quantity(logging.container_log_max_size):
        findings.wrong("loggingConfig.containerLogMaxSize", problem)
    if logging.container_log_max_files < 2:
        findings.wrong("loggingConfig.containerLogMaxFiles", f"{logging.container_log_max_files} is too few; the kubelet needs 2 at least")


def _validate_worker(worker: DynamicWorker, path: str, findings: Findings) -> None:
    if problem := dns_name(worker.name) if worker.name else "is missing":
        findings.wrong(child(path, "name"), problem)
    if worker.replicas is None or worker.replicas < 0:
        findings.wrong(child(path, "replicas"), "must be given, and 0 at least")
    validate_taints(worker.provider_spec.taints, f"{path}.providerSpec.taints", findings)


def _tell(manifest: Manifest, findings: Findings) -> None:
    """What is allowed, and what people have been caught by."""
    hosts = manifest.control_plane.hosts
    if hosts and len(hosts) % 2 == 0:
        tolerated = (len(hosts) - 1) // 2
        findings.tell(
            "controlPlane.hosts",
            f"{len(hosts)} hosts tolerate the failure of {tolerated}, no more than {len(hosts) - 1} would, and more can fail; use an odd number",
        )
    own = {str(address(text) or text.lower()) for host in hosts for text in (host.public_address, host.private_address)}
    endpoint = manifest.api_endpoint.host.lower()
    if len(hosts) > 1 and str(address(endpoint) or endpoint) in own:
        findings.tell(
            "apiEndpoint.host",
            f"{endpoint} is one of the hosts: without it the API cannot be reached; name a load balancer or a virtual address",
        )
    if manifest.cloud_provider.external:
        cloud = manifest.cloud_provider.chosen[0] if manifest.cloud_provider.chosen else "the cloud"
        findings.tell(
            "cloudProvider", f"quorate deploys no cloud controller manager for {cloud}, and Nodes stay uninitialized until you have"
        )
    if manifest.dynamic_workers:
        findings.tell("dynamicWorkers", "quorate does not deploy machine-controller; without it MachineDeployments make no workers")
