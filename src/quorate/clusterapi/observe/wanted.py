"""What follows the specification of a control plane, as this process knows it: is there anything to do, what failed last, and when it is tried again.

What is wanted is known by its fingerprint; what was done for it is in `quorate.clusterapi.connect.progress`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from quorate.clusterapi.api.fields import object_at
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.progress import Task
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Annotation, Hook
from quorate.core.maintenance import Maintenance
from quorate.kubernetes.controller import Request


def preparation(clients: Clients, kcp: KubeadmControlPlane) -> Maintenance:
    """Permissions and kubeadm's configuration."""
    return clients.progress.of(request_of(kcp), Task.PREPARATION, preparation_wanted(kcp))


def addons(clients: Clients, kcp: KubeadmControlPlane) -> Maintenance:
    """kube-proxy and CoreDNS."""
    return clients.progress.of(request_of(kcp), Task.ADDONS, addons_wanted(kcp))


def coredns(clients: Clients, kcp: KubeadmControlPlane, machine: Machine) -> Maintenance:
    """CoreDNS on the Node of a Machine that may go next. Where annotations give somebody else a say in its drain, it is left to them."""
    marks = machine.metadata.annotations
    others = Annotation.EXCLUDE_NODE_DRAINING in marks or any(mark.startswith(Hook.PRE_DRAIN_PREFIX) for mark in marks)
    if others or Annotation.SKIP_COREDNS in kcp.metadata.annotations:
        return Maintenance()
    return clients.progress.of(request_of(kcp), Task.COREDNS, machine.metadata.uid.encode())


def expiries(clients: Clients, kcp: KubeadmControlPlane, unrecorded: Iterable[str]) -> Maintenance:
    """When the API servers' certificates expire; `unrecorded` names the replicas of which it is not recorded yet."""
    names = sorted(unrecorded)
    known = clients.progress.of(request_of(kcp), Task.EXPIRIES, expiries_wanted(kcp, names))
    return replace(known, pending=True) if names else Maintenance()


def kubeconfig(clients: Clients, kcp: KubeadmControlPlane) -> Maintenance:
    """How the last attempt to write the admin kubeconfig ended: its problem and the time of the next one, if it failed."""
    return clients.progress.of(request_of(kcp), Task.KUBECONFIG, kubeconfig_wanted(kcp))


def request_of(kcp: KubeadmControlPlane) -> Request:
    """The control plane by namespace and name."""
    return Request(kcp.metadata.namespace, kcp.metadata.name)


def cluster_configuration(kcp: KubeadmControlPlane) -> dict[str, Any]:
    """kubeadm's ClusterConfiguration, as far as the specification has it."""
    return object_at(kcp.spec.kubeadm_config_spec, "clusterConfiguration")


def preparation_wanted(kcp: KubeadmControlPlane) -> bytes:
    """Permissions and kubeadm's configuration follow the version and the ClusterConfiguration."""
    return _fingerprint(kcp.metadata.uid, kcp.spec.version, cluster_configuration(kcp))


def addons_wanted(kcp: KubeadmControlPlane) -> bytes:
    """kube-proxy and CoreDNS follow the version, their images, and whether they are to be left alone."""
    skipped = [key in kcp.metadata.annotations for key in (Annotation.SKIP_KUBE_PROXY, Annotation.SKIP_COREDNS)]
    wanted = cluster_configuration(kcp)
    return _fingerprint(kcp.metadata.uid, kcp.spec.version, skipped, wanted.get("imageRepository"), wanted.get("dns"), bool(wanted))


def expiries_wanted(kcp: KubeadmControlPlane, names: list[str]) -> bytes:
    """The expiries of these replicas' certificates are wanted."""
    return _fingerprint(kcp.metadata.uid, names)


def kubeconfig_wanted(kcp: KubeadmControlPlane) -> bytes:
    """The kubeconfig is wanted anew where the control plane is another one."""
    return kcp.metadata.uid.encode()


def _fingerprint(*wanted: Any) -> bytes:
    return hashlib.sha256(msgspec.json.encode(wanted, order="sorted")).digest()
