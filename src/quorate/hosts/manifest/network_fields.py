"""The cluster network's fields in a manifest: subnets, the network plugin, kube-proxy, and the proxy that hosts reach the internet through.

Source: KubeOne's v1beta2 API (pkg/apis/kubeone/v1beta2/types.go) for names and meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from quorate.hosts.manifest.decoding import named


class IPFamily(StrEnum):
    """Which addresses Pods and Services have. With two, the first is that of the Nodes."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"
    IPV4_IPV6 = "IPv4+IPv6"
    IPV6_IPV4 = "IPv6+IPv4"


class KubeProxyReplacement(StrEnum):
    """Whether Cilium does what kube-proxy would."""

    STRICT = "strict"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Canal:
    """Canal's settings; the MTU is that of the VXLAN interface, 0 before defaults are set."""

    mtu: int = 0


@dataclass(frozen=True, slots=True)
class Cilium:
    """Cilium's settings."""

    kube_proxy_replacement: KubeProxyReplacement = KubeProxyReplacement.DISABLED
    enable_hubble: bool = False
    enable_l2_announcements: bool = False
    enable_gateway_api: bool = field(default=False, metadata=named("enableGatewayAPI"))
    enable_local_redirect_policy: bool = False


@dataclass(frozen=True, slots=True)
class WeaveNet:
    """Weave Net's settings."""

    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class ExternalCNI:
    """The network plugin is the user's own."""


@dataclass(frozen=True, slots=True)
class CNI:
    """The network plugin; exactly one is set in a valid manifest. quorate installs none of them: what it says decides only about kubeadm's configuration."""

    canal: Canal | None = None
    cilium: Cilium | None = None
    weave_net: WeaveNet | None = None
    external: ExternalCNI | None = None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The keys of those that are set."""
        plugins = {"canal": self.canal, "cilium": self.cilium, "weaveNet": self.weave_net, "external": self.external}
        return tuple(name for name, plugin in plugins.items() if plugin is not None)


@dataclass(frozen=True, slots=True)
class IPVS:
    """kube-proxy's settings in its IPVS mode."""

    scheduler: str = ""
    exclude_cidrs: tuple[str, ...] = field(default=(), metadata=named("excludeCIDRs"))
    strict_arp: bool = field(default=False, metadata=named("strictARP"))
    tcp_timeout: timedelta = timedelta()
    tcp_fin_timeout: timedelta = timedelta()
    udp_timeout: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class IPTables:
    """kube-proxy's iptables mode, which has no settings."""


@dataclass(frozen=True, slots=True)
class KubeProxy:
    """Whether kube-proxy runs, and in which mode; neither mode set leaves it to kube-proxy's default."""

    skip_installation: bool = False
    ipvs: IPVS | None = None
    iptables: IPTables | None = None


@dataclass(frozen=True, slots=True)
class ClusterNetwork:
    """The networks of Pods and Services. Empty texts and None are what has no default in this family of addresses."""

    pod_subnet: str = ""
    pod_subnet_ipv6: str = field(default="", metadata=named("podSubnetIPv6"))
    service_subnet: str = ""
    service_subnet_ipv6: str = field(default="", metadata=named("serviceSubnetIPv6"))
    service_domain_name: str = ""
    node_port_range: str = ""
    cni: CNI | None = None
    kube_proxy: KubeProxy = field(default_factory=KubeProxy)
    ip_family: IPFamily = IPFamily.IPV4
    node_cidr_mask_size_ipv4: int | None = field(default=None, metadata=named("nodeCIDRMaskSizeIPv4"))
    node_cidr_mask_size_ipv6: int | None = field(default=None, metadata=named("nodeCIDRMaskSizeIPv6"))

    @property
    def has_ipv4(self) -> bool:
        """Whether Pods have IPv4 addresses."""
        return self.ip_family is not IPFamily.IPV6

    @property
    def has_ipv6(self) -> bool:
        """Whether Pods have IPv6 addresses."""
        return self.ip_family is not IPFamily.IPV4

    @property
    def pod_subnets(self) -> tuple[str, ...]:
        """The Pods' subnets, the Nodes' own family first."""
        return self._ordered(self.pod_subnet, self.pod_subnet_ipv6)

    @property
    def service_subnets(self) -> tuple[str, ...]:
        """The Services' subnets, the Nodes' own family first."""
        return self._ordered(self.service_subnet, self.service_subnet_ipv6)

    def _ordered(self, ipv4: str, ipv6: str) -> tuple[str, ...]:
        present = ((ipv4,) if self.has_ipv4 else ()) + ((ipv6,) if self.has_ipv6 else ())
        return present[::-1] if self.ip_family is IPFamily.IPV6_IPV4 else present


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxies that hosts use. Not shown in a repr: their URLs may hold passwords."""

    http: str = field(default="", repr=False)
    https: str = field(default="", repr=False)
    no_proxy: str = ""
