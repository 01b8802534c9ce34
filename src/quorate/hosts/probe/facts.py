"""What is known of one host. Every fact is known, proven absent, or unknown with the reason; none is guessed, and no key is among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeAlias, TypeVar

from quorate.core.health import Absent, Unknown
from quorate.core.versions import Version
from quorate.etcd.log_file import LogIdentity
from quorate.pki.certificates import Certificate

T = TypeVar("T")
Fact: TypeAlias = T | Absent | Unknown

PROGRAMS = ("containerd", "kubelet", "kubeadm", "kubectl")
PACKAGES = ("containerd", "kubelet", "kubeadm", "kubectl")
UNITS = ("containerd", "kubelet", "firewalld", "ufw", "nftables", "nm-cloud-setup")
MODULES = ("overlay", "br_netfilter", "nf_conntrack")
SYSCTLS = (
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.accept_ra",
    "net.ipv6.conf.all.forwarding",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
    "net.netfilter.nf_conntrack_max",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
    "vm.overcommit_memory",
    "kernel.panic",
    "kernel.panic_on_oops",
)
KUBECONFIGS = ("admin", "super-admin", "kubelet", "bootstrap-kubelet", "controller-manager", "scheduler")
CERTIFICATES = (
    "ca",
    "front-proxy-ca",
    "etcd/ca",
    "apiserver",
    "apiserver-kubelet-client",
    "apiserver-etcd-client",
    "front-proxy-client",
    "etcd/server",
    "etcd/peer",
    "etcd/healthcheck-client",
    "kubelet",
)
"""Below /etc/kubernetes/pki and without their suffix, except the last: the kubelet's own client certificate."""
RENEWED = CERTIFICATES[3:-1]
RENEWED_KUBECONFIGS = ("admin", "super-admin", "controller-manager", "scheduler")
"""Both are what `kubeadm certs renew all` renews. The CAs live on, and kubelets renew their own."""
KEYS = ("ca", "front-proxy-ca", "etcd/ca", "sa")
DIGESTS = ("sa.pub", "kubelet_configuration", "containerd_configuration")

OTHERS = ("rke2", "k3s-server", "k3s-agent", "k0s", "kubelite")
"""Processes of Kubernetes that kubeadm did not make: RKE2, k3s, k0s and MicroK8s. They leave nothing where kubeadm does."""
INITIALIZING = "/etc/kubernetes/quorate/initializing"
"""The mark of an initialization that has not ended. kubeadm leaves no other proof: a control plane that serves may lack roles, tokens and add-ons."""


class Family(Enum):
    """Which ways of packages and services a system has."""

    DEBIAN = "Debian or Ubuntu"
    RHEL = "RHEL-like"
    FLATCAR = "Flatcar"
    OTHER = "another"


class EtcdData(Enum):
    """What is in etcd's data folder."""

    EMPTY = "empty"
    MEMBER = "a member's database and log"
    INCOMPLETE = "a member's log, and no database beside it"
    WITHOUT_LOG = "files, and no member's log: what its member voted for is lost"
    BEGUN_ANEW = "files that etcd began anew, and that lack what its member had acknowledged"


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """os-release. `version` is empty where a rolling distribution has none."""

    family: Family
    id: str
    version: str
    name: str


@dataclass(frozen=True, slots=True)
class Program:
    """A program in root's PATH; its version as it tells itself."""

    path: str
    version: Fact[Version]


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package, its version as the package manager writes it. `held`: apt-mark hold, or versionlock."""

    version: str
    held: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """A systemd unit: LoadState, ActiveState, SubState, UnitFileState, and restarts since it was last started by somebody (NRestarts)."""

    load: str
    active: str
    sub: str
    file: str
    restarts: int

    @property
    def is_running(self) -> bool:
        """Runs now. `activating (auto-restart)` is a service that keeps failing."""
        return self.active in ("active", "reloading") and self.sub == "running"


@dataclass(frozen=True, slots=True)
class KernelSetting:
    """A setting of the running kernel, as text. Not `writable`: the host may not change it, as a container may not those of the machine that it is on."""

    value: str
    writable: bool


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A kubeconfig without its key: `inline` where the client certificate is in it, not in a file beside it.

    `kubeadm init` writes kubelet.conf with the certificate inline, and points it to the file in one of its last phases (kubelet-finalize).
    """

    server: str
    cas: Fact[tuple[Certificate, ...]]
    client: Fact[tuple[Certificate, ...]]
    inline: bool


@dataclass(frozen=True, slots=True)
class StaticPod:
    """A file in the manifest folder: SHA-256 of its content in hexadecimal, its images, and the flags of its program such as `--secure-port=6443`."""

    sha256: str
    images: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def version(self) -> str:
        """The tag of the first image without a digest; empty where it has none."""
        image = self.images[0].partition("@")[0] if self.images else ""
        return image.rpartition("/")[2].partition(":")[2]

    def flag(self, name: str) -> str | None:
        """The value of the flag, None where it is not set. Of one that is given twice the last counts."""
        given = (flag.removeprefix("--").partition("=") for flag in reversed(self.flags))
        return next((value for found, _, value in given if flag_name(found) == name), None)


def flag_name(name: str) -> str:
    """The name of a flag as it is documented: Kubernetes' programs take `_` for `-` in it. Source: k8s.io/component-base/cli/flag, WordSepNormalizeFunc."""
    return name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an HTTP endpoint said: the status, and up to 400 bytes of the body without the checks that passed. No answer: Absent is nobody listening."""

    status: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Everything that one probe learned of a host. Mappings have every name of the tuple above them; `manifests` has the file names that are there."""

    operating_system: Fact[OperatingSystem]
    kernel: Fact[str]
    architecture: Fact[str]  # as Kubernetes and packages name it: amd64, arm64
    hostname: Fact[str]
    fqdn: Fact[str]
    clock: Fact[datetime]  # to the second; the host's own
    machine_id: Fact[str]  # two hosts with the same one are the same machine, or clones that the kubelet takes for one
    product_uuid: Fact[str]  # of the firmware; containers have that of the machine that they are on
    ssh_host_key: Fact[str]  # the public half, as in known_hosts
    addresses: Fact[frozenset[str]]  # of its network interfaces, but those that have the addresses of Services
    running_for: Fact[timedelta]  # since it was switched on
    selinux_enforcing: Fact[bool]
    selinux_at_boot: Fact[bool]  # whether it enforces after the next boot, by its configuration
    ufw: Fact[bool]  # whether it is switched on; its unit runs either way
    nftables: Fact[bool]  # whether a rule that is loaded drops or rejects packets; of a host that has joined it is not asked
    swap: Fact[bool]  # in use
    swap_in_fstab: Fact[bool]  # will be after the next boot
    modules: Mapping[str, Fact[str]]  # "loaded" or "builtin"
    sysctls: Mapping[str, Fact[KernelSetting]]
    programs: Mapping[str, Fact[Program]]
    packages: Mapping[str, Fact[Package]]
    units: Mapping[str, Fact[Unit]]
    processes: Fact[
        frozenset[str]
    ]  # of kubeadm, kubelet, containerd, etcd, the control plane's and OTHERS; kubeadm and these only outside of containers
    ports: Fact[frozenset[int]]  # TCP, listening, on any address
    kubeconfigs: Mapping[str, Fact[Kubeconfig]]
    certificates: Mapping[str, Fact[tuple[Certificate, ...]]]  # at least one; the first is the leaf
    keys: Mapping[str, Fact[None]]  # None: there. Their content stays on the host
    digests: Mapping[str, Fact[str]]  # SHA-256 in hexadecimal
    kubelet_flags: Fact[str]  # KUBELET_KUBEADM_ARGS as kubeadm-flags.env has it
    manifests: Fact[Mapping[str, Fact[StaticPod]]]
    etcd_folder: Fact[str]  # of its data, on the host: where its manifest has it from, or else where this cluster has it
    etcd_log_folder: Fact[str]  # where its manifest has etcd's log from; Absent: it names none, and the log is with the data
    etcd_data: Fact[EtcdData]
    etcd_identity: Fact[LogIdentity]  # whose the log in its data is; Absent: there is none
    initialization: Fact[None]  # None: one that quorate began on it has not ended, see INITIALIZING
    kubeadm_leftovers: Fact[tuple[str, ...]]  # folders of an upgrade that runs, or did not end well
    kubelet_healthz: Fact[Answer]
    api_server_livez: Fact[Answer]
    api_server_readyz: Fact[Answer]
    etcd_health: Fact[Answer]

    def manifest(self, component: str) -> Fact[StaticPod]:
        """The static pod that kubeadm writes for `etcd`, `kube-apiserver` and so on."""
        return self.manifests.get(f"{component}.yaml", Absent()) if isinstance(self.manifests, Mapping) else self.manifests
