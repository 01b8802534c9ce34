"""The machines behind the hosts of a manifest: what is on their disks, what runs on them, and who can reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from quorate.core.hosts.encryption import PLAIN, Configuration
from quorate.core.versions import Version
from quorate.hosts.act.certificates import OF_COMPONENT
from quorate.workload.static_pods import Component

CERTIFICATES = ("admin.conf", *(name for names in OF_COMPONENT.values() for name in names))
"""Those of a control plane that kubeadm renews, by its names."""


class KubeletConf(StrEnum):
    """kubelet.conf: not there, as `kubeadm init` first writes it, or pointing to a certificate beside it."""

    NONE = ""
    INLINE = "inline"
    FILE = "file"


class EtcdManifest(StrEnum):
    """etcd's manifest: not there, founding a ring, or joining one."""

    NONE = ""
    NEW = "new"
    EXISTING = "existing"


@dataclass(frozen=True, slots=True)
class PodManifest:
    """The manifest of a static Pod, as far as two of a component can differ."""

    version: Version | None
    settings: int = 0
    flagged: bool = False  # it names the file of encryption providers
    etcd: EtcdManifest = EtcdManifest.NONE


@dataclass(frozen=True, slots=True)
class Before:
    """The manifest that a component had before one that has yet to prove itself, and the containers that ran then, by id."""

    manifest: PodManifest
    containers: frozenset[str]


@dataclass(slots=True)
class Disk:
    """What is on a machine's disk. Everything but packages and settings of the system is a trace of a cluster."""

    containerd: bool = False
    prepared: bool = False  # settings of the system, and containerd's
    kubelet: Version | None = None
    kubeadm: Version | None = None
    ca: int = 0  # of which cluster it trusts the CA; 0: of none
    initializing: bool = False  # our mark of an initialization that has not ended
    admin_conf: bool = False
    super_admin_conf: bool = False
    bootstrap_conf: bool = False
    kubelet_conf: KubeletConf = KubeletConf.NONE
    kubelet_configuration: bool = False
    components: Version | None = None  # of the manifests of API server, controller manager and scheduler; None: they are not there
    settings: int = 0  # the revision of the settings in the API server's manifest
    etcd_settings: int = 0  # in etcd's
    kubelet_settings: int = 0  # in the kubelet's configuration
    etcd: EtcdManifest = EtcdManifest.NONE
    etcd_version: Version | None = None  # of the Kubernetes whose etcd its manifest names
    before: Mapping[Component, Before] = field(default_factory=dict)  # by component; never changed, but replaced
    data: int | None = None  # the member whose data is in etcd's folder
    certificates: Mapping[str, datetime] = field(
        default_factory=dict
    )  # until when each of CERTIFICATES is valid; never changed, but replaced
    providers: Configuration | None = None  # the file of encryption providers; None: it is not there
    flagged: bool = False  # the API server's manifest names it

    @property
    def certificates_expire(self) -> datetime | None:
        """When the first does."""
        return min(self.certificates.values(), default=None)

    @property
    def revisions(self) -> set[int]:
        """Those of the settings that its files were made from."""
        return {self.kubelet_settings, self.settings, self.etcd_settings} if self.components is not None else {self.kubelet_settings}

    def manifest(self, component: Component) -> PodManifest | None:
        """That of a component; None where it is not there."""
        if component is Component.ETCD:
            return PodManifest(self.etcd_version, self.etcd_settings, etcd=self.etcd) if self.etcd else None
        if self.components is None:
            return None
        api_server = component is Component.API_SERVER
        return PodManifest(self.components, self.settings, self.flagged) if api_server else PodManifest(self.components)

    def replace_manifest(self, component: Component, made: PodManifest) -> None:
        """Another takes its place. Those of the controller manager and the scheduler follow the API server's."""
        if component is Component.ETCD:
            self.etcd_version, self.etcd_settings, self.etcd = made.version, made.settings, made.etcd
        elif component is Component.API_SERVER:
            self.components, self.settings, self.flagged = made.version, made.settings, made.flagged

    def valid(self, component: Component) -> datetime | None:
        """Until when those are that a component reads as it starts."""
        return min((self.certificates[name] for name in OF_COMPONENT[component] if name in self.certificates), default=None)

    @property
    def stores_with(self) -> Configuration:
        """What an API server that starts now stores Secrets with."""
        return (self.providers or PLAIN) if self.flagged else PLAIN

    @property
    def keys(self) -> frozenset[str]:
        """Those in the file, whether or not it is named."""
        return (self.providers or PLAIN).keys

    def forget(self) -> None:
        """Take every trace of a cluster away, as a reset does."""
        empty = Disk(containerd=self.containerd, prepared=self.prepared, kubelet=self.kubelet, kubeadm=self.kubeadm)
        for name in Disk.__slots__:
            setattr(self, name, getattr(empty, name))


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a static Pod that runs, what it was made from, by a kubelet of which minor version, and until when the certificates are valid that it
    read as it started.
    """

    id: str
    manifest: PodManifest | None
    kubelet: int | None
    valid: datetime | None


@dataclass(slots=True)
class Lock:
    """Whose a machine, or the Lease, is, since when that was not renewed, and since when it is so. "" is its holder where it was given back."""

    holder: str
    renewed: float
    taken: float


@dataclass(slots=True, eq=False)
class Machine:
    """One machine at one address. A name may get another machine, and then has another address."""

    name: str
    address: str
    disk: Disk = field(default_factory=Disk)
    on: bool = True
    gone: bool = False  # for good, with everything on its disk
    reachable: bool = True  # over SSH
    isolated: bool = False  # no other machine reaches it, and it reaches none
    clock_apart: bool = False
    unreadable: bool = False  # some of its files cannot be read
    hostile: bytes | None = None  # what it answers every probe with, whatever is on it
    etcd_fails: bool = False  # its etcd cannot start, for as long as this lasts
    containerd_runs: bool = False
    kubelet_runs: bool = False
    kubelet_version: Version | None = None  # of the kubelet that runs
    member: int | None = None  # the member that its etcd process is; None: none runs
    api_version: Version | None = None  # of the API server that runs; None: none does
    api_settings: int = 0  # which it was started with
    api_flagged: bool = False
    api_providers: Configuration = PLAIN  # as its file was when it was started
    emptied_at: float | None = None  # when a fault emptied its etcd's folder last
    kubeadm_since: float | None = None  # when the kubeadm was started that runs; None: none does
    containers: dict[Component, Container] = field(default_factory=dict)  # of static Pods, those that are about to end among them
    ended: dict[Component, str] = field(default_factory=dict)  # those that a signal was sent to, by id, until the kubelet starts another
    started: int = 0  # containers, ever
    lock: Lock | None = None  # below /run

    @property
    def kubeadm_runs(self) -> bool:
        """Whether a script of kubeadm is under way."""
        return self.kubeadm_since is not None

    @property
    def answers(self) -> bool:
        """Whether an operator can work on it."""
        return self.on and self.reachable and not self.gone

    @property
    def talks(self) -> bool:
        """Whether other machines reach it."""
        return self.on and not self.isolated and not self.gone

    @property
    def is_taken_down(self) -> bool:
        """Whether somebody has ended its etcd or its API server, and the kubelet has yet to start it anew."""
        return not {Component.ETCD, Component.API_SERVER}.isdisjoint(self.ended)

    @property
    def peer_url(self) -> str:
        """Where its etcd listens to the others."""
        return f"https://{self.address}:2380"

    @property
    def traces(self) -> bool:
        """Whether anything of a cluster is on its disk."""
        disk = self.disk
        return bool(
            disk.ca or disk.admin_conf or disk.bootstrap_conf or disk.kubelet_conf or disk.components or disk.etcd or disk.data is not None
        )

    def stop(self) -> None:
        """Nothing runs on it any more: it is off, or started anew."""
        self.lock = None
        self.containers.clear()
        self.ended.clear()
        self.containerd_runs = self.kubelet_runs = False
        self.kubelet_version = self.member = self.api_version = None

    def lose_disk(self) -> None:
        """It is installed anew."""
        self.stop()
        self.disk = Disk()
