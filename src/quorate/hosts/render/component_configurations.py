"""The configurations of the kubelet and of kube-proxy that all hosts share, and what one host's kubelet has of its own.

Source: KubeOne's pkg/templates/kubernetesconfigs for what it sets beside the programs' defaults. kubeadm keeps the shared ones in ConfigMaps; a host's own
settings are a patch, which kubeadm applies at init, join and every upgrade, so that they do not depend on flags that the kubelet is to lose.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quorate.hosts.manifest import Host, Manifest
from quorate.hosts.manifest.host_fields import KubeletSettings
from quorate.hosts.manifest.network_fields import IPVS
from quorate.hosts.render.component_arguments import VOLUME_PLUGINS
from quorate.hosts.render.host_files import HostFile, yaml_documents

PATCHES = "/etc/kubernetes/patches"
"""The folder of a host's patches to what kubeadm writes."""

_KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
_KUBE_PROXY = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}


def kubelet_configuration(manifest: Manifest) -> dict[str, Any]:
    """The KubeletConfiguration of the cluster. Serving certificates come from the cluster's CA: their requests have to be approved."""
    made = {
        **_KUBELET,
        "authentication": {"anonymous": {"enabled": False}},
        "cgroupDriver": "systemd",
        "containerLogMaxFiles": manifest.logging_config.container_log_max_files,
        "containerLogMaxSize": manifest.logging_config.container_log_max_size,
        "readOnlyPort": 0,
        "rotateCertificates": True,
        "serverTLSBootstrap": True,
        "volumePluginDir": VOLUME_PLUGINS,
        **kubelet_settings(manifest.kubelet_config),
    }
    if suites := manifest.tls_cipher_suites.kubelet:
        made["tlsCipherSuites"] = list(suites)
    return made


def kubelet_settings(settings: KubeletSettings) -> dict[str, Any]:
    """What a manifest says of kubelets, in a KubeletConfiguration's terms; nothing for what it leaves to the kubelet."""
    values: dict[str, Any] = {
        "systemReserved": dict(sorted(settings.system_reserved.items())) or None,
        "kubeReserved": dict(sorted(settings.kube_reserved.items())) or None,
        "evictionHard": dict(sorted(settings.eviction_hard.items())) or None,
        "maxPods": settings.max_pods,
        "imageGCHighThresholdPercent": settings.image_gc_high_threshold_percent,
        "imageGCLowThresholdPercent": settings.image_gc_low_threshold_percent,
        "imageMinimumGCAge": duration(settings.image_minimum_gc_age) if settings.image_minimum_gc_age else None,
        "imageMaximumGCAge": duration(settings.image_maximum_gc_age) if settings.image_maximum_gc_age else None,
    }
    return {key: value for key, value in values.items() if value is not None}


def kubelet_patch(host: Host) -> HostFile | None:
    """The file that gives this host's kubelet its own settings; None where it has none, and needs no folder of patches."""
    settings = kubelet_settings(host.kubelet)
    if not settings:
        return None
    return HostFile(f"{PATCHES}/kubeletconfiguration0+merge.yaml", yaml_documents({**_KUBELET, **settings}))


def kube_proxy_configuration(manifest: Manifest) -> dict[str, Any] | None:
    """The KubeProxyConfiguration of the cluster; None where kube-proxy is not to run.

    kube-proxy leaves the size of the connection table alone: the hosts' own, 1,000,000 by the prerequisites, is above the 32,768 a core that it would set.
    """
    network = manifest.cluster_network
    if network.kube_proxy.skip_installation:
        return None
    made: dict[str, Any] = {
        **_KUBE_PROXY,
        "clusterCIDR": ",".join(network.pod_subnets),
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
    if network.kube_proxy.ipvs is not None:
        return {**made, "mode": "ipvs", "ipvs": _ipvs(network.kube_proxy.ipvs)}
    return {**made, "mode": "iptables"} if network.kube_proxy.iptables is not None else made


def duration(span: timedelta) -> str:
    """The span as Go reads it; parts of a second are kept to the microsecond."""
    seconds = span.total_seconds()
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{seconds:f}s"


def _ipvs(ipvs: IPVS) -> dict[str, Any]:
    return {
        "excludeCIDRs": list(ipvs.exclude_cidrs),
        "scheduler": ipvs.scheduler,
        "strictARP": ipvs.strict_arp,
        "tcpTimeout": duration(ipvs.tcp_timeout),
        "tcpFinTimeout": duration(ipvs.tcp_fin_timeout),
        "udpTimeout": duration(ipvs.udp_timeout),
    }
