"""The machines that control planes run on: switched on or off, cut off or not, with what kubeadm has put there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from quorate.core.etcd_versions import minor_of
from quorate.core.versions import Version
from quorate.workload.static_pods import Component

_LATE_PATCHES = {(3, 5): "3.5.27", (3, 6): "3.6.12", (3, 7): "3.7.3"}


class State(StrEnum):
    """How a static Pod is."""

    STARTING = "starting"
    RUNNING = "running"
    FAILING = "failing"


@dataclass(slots=True, eq=False)
class Host:
    """One machine of a workload cluster, and what is on its disk."""

    name: str  # of the infrastructure machine, and of the Node
    provider_id: str
    address: str
    version: str
    alive: bool = True  # it runs; once it is gone for good it is no longer among the cluster's hosts
    isolated: bool = False  # no other host reaches it, and it reaches none
    member: int | None = None  # the member whose data is on its disk
    components: dict[Component, State] = field(default_factory=dict)  # static Pods that the kubelet knows
    registered: bool = False  # its kubelet has made a Node
    joined: bool = False  # kubeadm is through
    certificates_last: timedelta = timedelta(days=365)  # from when kubeadm makes them; this is its default
    certificate_expires: datetime | None = None  # that of its API server; None as long as kubeadm has made none
    down_since: float | None = None
    etcd_patch: str = ""  # the version of its etcd; empty: a late patch of the one that kubeadm brings

    @property
    def peer_url(self) -> str:
        """Where its etcd listens to the others."""
        return f"https://{self.address}:2380"

    @property
    def etcd_version(self) -> str:
        """What its etcd says that it is."""
        brought = minor_of(Version.parse(self.version))
        return self.etcd_patch or (_LATE_PATCHES.get(brought, "") if brought else "")

    def runs(self, component: Component) -> bool:
        """Whether a component runs."""
        return self.alive and self.components.get(component) is State.RUNNING
