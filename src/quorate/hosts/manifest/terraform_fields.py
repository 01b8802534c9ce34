"""The Terraform outputs that are merged into a manifest, as Terraform spells their keys.

Source: KubeOne's pkg/terraform/v1beta2/config.go. `kubeone_workers` has no fields here: it is spelled as the manifest is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from quorate.hosts.manifest.decoding import empty_mapping


@dataclass(frozen=True, slots=True)
class APIOutput:
    """`kubeone_api`: where the API server is found."""

    KEYS_AS_NAMED: ClassVar = True

    endpoint: str = ""
    apiserver_alternative_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KubeletOutput:
    """The kubelets' settings of a group of hosts; the first three are lists such as `cpu=200m,memory=200Mi` and `memory.available<100Mi`."""

    KEYS_AS_NAMED: ClassVar = True

    system_reserved: str = ""
    kube_reserved: str = ""
    eviction_hard: str = ""
    max_pods: int | None = None
    image_gc_high_threshold_percent: int | None = None
    image_gc_low_threshold_percent: int | None = None
    image_minimum_gc_age: str = ""
    image_maximum_gc_age: str = ""


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Hosts that are alike but for their addresses, hostnames and host keys, which are parallel lists."""

    KEYS_AS_NAMED: ClassVar = True

    public_address: tuple[str, ...] = ()
    private_address: tuple[str, ...] = ()
    ipv6_addresses: tuple[tuple[str, ...], ...] = ()
    hostnames: tuple[str, ...] = ()
    operating_system: str = ""
    ssh_user: str = ""
    ssh_port: int = 0
    ssh_private_key_file: str = ""
    ssh_cert_file: str = ""
    ssh_agent_socket: str = ""
    ssh_hosts_keys: tuple[str | None, ...] = ()
    bastion: str = ""
    bastion_port: int = 0
    bastion_user: str = ""
    bastion_host_key: str = ""
    bastion_private_key_file: str = ""
    kubelet: KubeletOutput = field(default_factory=KubeletOutput)
    labels: Mapping[str, str] = field(default_factory=empty_mapping)
    annotations: Mapping[str, str] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class ControlPlaneOutput(HostGroup):
    """`kubeone_hosts.control_plane`: the control plane's hosts, and what else Terraform knows of the cluster."""

    cluster_name: str = ""
    cloud_provider: str = ""
    leader_ip: str = ""
    untaint: bool = False
    network_id: str = ""
    vapp_name: str = ""
    storage_profile: str = ""


@dataclass(frozen=True, slots=True)
class HostsOutput:
    """`kubeone_hosts`."""

    KEYS_AS_NAMED: ClassVar = True

    control_plane: ControlPlaneOutput = field(default_factory=ControlPlaneOutput)
