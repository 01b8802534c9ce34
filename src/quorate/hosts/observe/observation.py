"""The result of one observation of a cluster: the value that the decision reads, and what the steps need beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from quorate.core.health import Absent, Unknown
from quorate.core.hosts.state import Cluster
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.render.kubeadm_configuration import Machine
from quorate.workload.membership import RingReading


@dataclass(frozen=True, slots=True)
class Observation:
    """One cluster at one moment. Mappings are by host name, in the manifest's order, and have every host of the manifest."""

    cluster: Cluster
    facts: Mapping[str, HostFacts | Unreachable]
    machines: Mapping[str, Machine]
    ca: str | Absent | Unknown  # SHA-256 of the cluster CA's DER, in hexadecimal; Absent: no host that was asked has one
    ring: RingReading | Unknown | Absent  # the ring as its members told it, with who answered where
    api: ApiReading | Unknown | Absent  # what the API told; Absent: there is no cluster yet
    at: datetime  # when it began
