"""Fields of KubeOne's manifest that quorate does not support: each by name, with the reason and the way out.

Such a field is a mistake, or, where the user says so, listed and without effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorate.hosts.manifest.findings import Findings
from quorate.hosts.manifest.tree import Node, plain

_KUBECTL = "apply it yourself with kubectl or Helm"
_BALANCER = "make the load balancer yourself, name it in apiEndpoint.host, and remove the field"
_OF_ITS_CLOUD = "it is a setting of what KubeOne deploys for the cloud, and quorate deploys none of it"
_TELL_THE_CLOUD = "set it where you install the cloud controller manager and CSI drivers, and remove it here"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One field. `asks` tells from its plain value whether it asks for anything; `kept`: what it says still decides about kubeadm's configuration."""

    path: str
    reason: str
    remedy: str
    asks: Callable[[Any], bool] = bool
    kept: bool = False


def _addons(value: Any) -> bool:
    return not isinstance(value, dict) or any(bool(below) for below in value.values())


def _is_set(value: Any) -> bool:
    return value is not None


_CSI_DRIVERS = "cloudProvider.disableBundledCSIDrivers"
_WITH_DRIVERS = frozenset(
    ("aws", "azure", "digitalocean", "gce", "hetzner", "kubevirt", "nutanix", "openstack", "vmwareCloudDirector", "vsphere")
)
"""The clouds whose CSI drivers KubeOne deploys."""

UNSUPPORTED = (
    Unsupported(
        "controlPlane.nodeSets", "quorate makes no machines", "make them with Terraform or by hand, and list them under controlPlane.hosts"
    ),
    Unsupported("machineController.deploy", "quorate does not deploy machine-controller", f"set it to false; {_KUBECTL}"),
    Unsupported("operatingSystemManager.deploy", "quorate does not deploy operating-system-manager", f"set it to false; {_KUBECTL}"),
    Unsupported(
        "operatingSystemManager.enableNonRootDeviceOwnership",
        "it is a setting of operating-system-manager",
        "set it there, and remove it here",
    ),
    Unsupported("addons", "quorate deploys no addons", "apply them yourself with kubectl or Helm, and remove the field", _addons),
    Unsupported("helmReleases", "quorate does not run Helm", "install the releases with Helm, and remove the field"),
    Unsupported("features.metricsServer.enable", "quorate does not deploy metrics-server", f"set it to false; {_KUBECTL}"),
    Unsupported("features.nodeLocalDNS.deploy", "quorate does not deploy NodeLocal DNSCache", f"set it to false; {_KUBECTL}"),
    Unsupported(
        "features.podSecurityPolicy.enable", "Kubernetes 1.25 removed PodSecurityPolicy", "remove it; Pod Security Admission took its place"
    ),
    Unsupported(
        "features.dynamicAuditLog.enable", "Kubernetes 1.19 removed dynamic audit logs", "remove it, or use features.staticAuditLog"
    ),
    Unsupported("cloudProvider.hetzner.controlPlane", "quorate makes no load balancers", _BALANCER, _is_set),
    Unsupported("cloudProvider.openstack.controlPlane", "quorate makes no load balancers", _BALANCER, _is_set),
    Unsupported("cloudProvider.kubevirt.controlPlane", "quorate makes no load balancers", _BALANCER, _is_set),
    Unsupported(
        "cloudProvider.csiConfig", "quorate does not deploy CSI drivers", "apply one yourself with kubectl or Helm, and remove the field"
    ),
    Unsupported("cloudProvider.secretProviderClassName", "it is a setting of an addon, and quorate deploys none", "remove the field"),
    *(
        Unsupported(f"cloudProvider.{field}", _OF_ITS_CLOUD, _TELL_THE_CLOUD)
        for field in (
            "cloudConfig",
            "hetzner.networkID",
            "kubevirt.infraNamespace",
            "kubevirt.zoneAndRegionEnabled",
            "kubevirt.loadBalancerEnabled",
            "vmwareCloudDirector.vApp",
            "vmwareCloudDirector.storageProfile",
        )
    ),
    Unsupported(
        "containerRuntime.docker",
        "containerd is the only container runtime",
        "remove it; containerRuntime.containerd has the registries",
        _is_set,
    ),
    *(
        Unsupported(
            f"clusterNetwork.cni.{plugin}",
            "quorate installs no network plugin",
            "write clusterNetwork.cni.external: {} instead, and install the plugin yourself",
            _is_set,
            kept=True,
        )
        for plugin in ("canal", "cilium", "weaveNet")
    ),
)
"""Every field that is refused by name."""


def without_unsupported(tree: Node, findings: Findings, *, ignore: bool) -> Node:
    """The tree without what quorate does not do; each such field is a mistake in `findings`, or listed as ignored with `ignore`."""
    for entry in UNSUPPORTED:
        keys = entry.path.split(".")
        node = _at(tree, keys)
        if node is None or node.value is None or not entry.asks(plain(node)):
            continue
        if ignore:
            findings.ignore(entry.path, entry.reason, entry.remedy)
        else:
            findings.wrong(entry.path, f"{entry.reason}; {entry.remedy}; or go on without it: --ignore-unsupported")
        if not entry.kept:
            tree = _without(tree, keys)
    return tree


def tell_what_kubeone_would_deploy(tree: Node, findings: Findings) -> None:
    """Note what KubeOne deploys where a manifest says nothing, and quorate does not. That the CSI drivers are not switched off says as little."""
    absent = {
        "clusterNetwork.cni": "KubeOne would install Canal; quorate installs no network plugin, and Nodes become Ready when you have installed one",
        "features.metricsServer": "KubeOne would deploy metrics-server; quorate does not",
        "features.nodeLocalDNS": "KubeOne would deploy NodeLocal DNSCache; quorate does not, and kubelets point Pods at CoreDNS' Service",
    }
    if _has_cloud_with_drivers(tree):
        absent[_CSI_DRIVERS] = "KubeOne would deploy the cloud's CSI drivers; quorate does not"
    for path, message in absent.items():
        node = _at(tree, path.split("."))
        if node is None or node.value is None or (path == _CSI_DRIVERS and node.value is False):
            findings.tell(path, message)


def _has_cloud_with_drivers(tree: Node) -> bool:
    providers = _at(tree, ["cloudProvider"])
    named = {name for name, node in providers.mapping.items() if node.value is not None} if providers else set()
    return bool(named & _WITH_DRIVERS)


def _at(tree: Node, keys: list[str]) -> Node | None:
    node: Node | None = tree
    for key in keys:
        node = node.mapping.get(key) if node else None
    return node


def _without(tree: Node, keys: list[str]) -> Node:
    first, *rest = keys
    fields = dict(tree.mapping)
    if rest:
        fields[first] = _without(fields[first], rest)
    else:
        del fields[first]
    return Node(fields, tree.mark)
