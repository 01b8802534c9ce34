"""The machines that control planes run on: switched on or off, cut off or not, with what kubeadm has put there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from quorate.workload.static_pods import Component


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

    @property
    def peer_url(self) -> str:
        """Where its etcd listens to the others."""
        return f"https://{self.address}:2380"

    def runs(self, component: Component) -> bool:
        """Whether a component runs."""
        return self.alive and self.components.get(component) is State.RUNNING
