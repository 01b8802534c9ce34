"""The fields of one host in a manifest: how it is reached, what it is called, and what its Node and its kubelet are to have.

Source: KubeOne's v1beta2 API (pkg/apis/kubeone/v1beta2/types.go) for names and meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from quorate.hosts.manifest.decoding import empty_mapping, named


class OperatingSystem(StrEnum):
    """The families of systems whose packages quorate knows; UNKNOWN until the host itself has told."""

    UBUNTU = "ubuntu"
    DEBIAN = "debian"
    CENTOS = "centos"
    RHEL = "rhel"
    ROCKY_LINUX = "rockylinux"
    FLATCAR = "flatcar"
    UNKNOWN = ""


class TaintEffect(StrEnum):
    """What a taint does to Pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"
    UNSET = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a Node."""

    key: str = ""
    value: str = ""
    effect: TaintEffect = TaintEffect.UNSET


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """What a kubelet keeps for the system, and when it collects images. None and empty: the kubelet's own default."""

    system_reserved: Mapping[str, str] = field(default_factory=empty_mapping)
    kube_reserved: Mapping[str, str] = field(default_factory=empty_mapping)
    eviction_hard: Mapping[str, str] = field(default_factory=empty_mapping)
    max_pods: int | None = None
    image_gc_high_threshold_percent: int | None = field(default=None, metadata=named("imageGCHighThresholdPercent"))
    image_gc_low_threshold_percent: int | None = field(default=None, metadata=named("imageGCLowThresholdPercent"))
    image_minimum_gc_age: timedelta = field(default=timedelta(), metadata=named("imageMinimumGCAge"))
    image_maximum_gc_age: timedelta = field(default=timedelta(), metadata=named("imageMaximumGCAge"))


@dataclass(frozen=True, slots=True)
class Host:
    """One host, control plane or static worker. SSH goes to `public_address`; etcd, the kubelet and probes use `private_address`.

    `hostname` is empty where the manifest leaves it to the host. `ssh_agent_socket` may be `env:NAME`. The host public keys are in SSH's wire format, empty
    where the manifest does not pin them. `taints` is None only before defaults are set; no taints at all is an empty tuple.
    """

    public_address: str = ""
    private_address: str = ""
    ipv6_addresses: tuple[str, ...] = ()
    hostname: str = ""
    operating_system: OperatingSystem = OperatingSystem.UNKNOWN
    is_leader: bool = False
    ssh_username: str = ""
    ssh_port: int = 0
    ssh_private_key_file: str = ""
    ssh_cert_file: str = ""
    ssh_agent_socket: str = ""
    ssh_host_public_key: bytes = b""
    bastion: str = ""
    bastion_port: int = 0
    bastion_user: str = ""
    bastion_host_public_key: bytes = b""
    bastion_private_key_file: str = ""
    taints: tuple[Taint, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    annotations: Mapping[str, str] = field(default_factory=empty_mapping)
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
