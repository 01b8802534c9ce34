"""What is asked for, as the decision reads it: from the KubeadmControlPlane with what admission would have filled in, and from its Cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from quorate.clusterapi.api.crd import struct_schema
from quorate.clusterapi.api.defaults import default_kubeadm_control_plane
from quorate.clusterapi.api.shapes import fitting
from quorate.clusterapi.api.validation import surge_of, validate_create
from quorate.clusterapi.types.cluster import Cluster, FailureDomain
from quorate.clusterapi.types.kubeadm_config import KubeadmConfigSpec
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane, KubeadmControlPlaneSpec
from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES, Annotation
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES
from quorate.core import etcd_versions
from quorate.core.machines.state import Desired, RemediationPolicy
from quorate.core.text import printable
from quorate.core.versions import Version, parse_or_none
from quorate.kubeadm.config import etcd_flags, etcd_image_tag, etcd_is_managed
from quorate.kubernetes.controller import Request

_CONFIG_SPEC = struct_schema(KubeadmConfigSpec)
_MOST_SECONDS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Read:
    version: tuple[str, str]  # uid and resourceVersion
    asked: KubeadmControlPlaneSpec  # as it is stored
    kcp: KubeadmControlPlane
    problems: tuple[str, ...]


class Specifications:
    """Control planes with their defaults, and what admission would refuse of each: worked out once for every version of an object, not in every pass.

    `gates` are the feature gates that are on.
    """

    def __init__(self, gates: Collection[str] = DEFAULT_FEATURE_GATES) -> None:
        self._gates = gates
        self._read: dict[Request, _Read] = {}

    def of(self, stored: KubeadmControlPlane) -> tuple[KubeadmControlPlane, tuple[str, ...]]:
        """The control plane as admission would have stored it, and what it would have refused, as sentences."""
        metadata = stored.metadata
        request, version = Request(metadata.namespace, metadata.name), (metadata.uid, metadata.resource_version)
        read = self._read.get(request)
        if read is not None and read.version == version:
            return read.kcp, read.problems
        if read is not None and read.asked == stored.spec:  # a status was written: nearly every new version is one
            kcp, problems = msgspec.structs.replace(stored, spec=read.kcp.spec), read.problems
        else:
            plain, unreadable = _with_defaults(stored)
            wrong = validate_create({"metadata": {"name": metadata.name}, "spec": plain["spec"]}, self._gates)
            problems = (*unreadable, *(printable(f"{error.path}: {error.message}") for error in wrong))
            kcp = msgspec.convert(plain, KubeadmControlPlane)
        self._read[request] = _Read(version, stored.spec, kcp, problems)
        return kcp, problems

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._read.pop(request, None)


def asks_the_same(stored: KubeadmControlPlane, judged: KubeadmControlPlane) -> bool:
    """Whether a control plane as it is stored asks for what was judged, which has its defaults."""
    return bool(msgspec.convert(_with_defaults(stored)[0], KubeadmControlPlane).spec == judged.spec)


def _with_defaults(stored: KubeadmControlPlane) -> tuple[dict[str, Any], list[str]]:
    """The control plane as plain values with its defaults, without those in its KubeadmConfigSpec that have another type than they should, and which these
    are.
    """
    plain: dict[str, Any] = msgspec.to_builtins(stored)
    problems: list[str] = []
    spec = plain["spec"]
    spec["kubeadmConfigSpec"] = fitting(spec.get("kubeadmConfigSpec", {}), _CONFIG_SPEC, "spec.kubeadmConfigSpec", problems)
    return default_kubeadm_control_plane(plain), [printable(problem) for problem in problems]


def desired(kcp: KubeadmControlPlane, cluster: Cluster) -> Desired:
    """What the owner asked for."""
    spec = kcp.spec
    version = parse_or_none(spec.version) or Version(0, 0, 0, text=printable(spec.version))  # refused as invalid before anybody reads it
    rolling = spec.rollout.strategy.rolling_update if spec.rollout.strategy else None
    surge = rolling.max_surge if rolling else None
    return Desired(
        replicas=spec.replicas or 0,
        version=version,
        max_surge=1 if surge is None else surge_of(surge),
        etcd_managed=etcd_is_managed(spec.kubeadm_config_spec),
        etcd_minor=etcd_versions.minor_of(version, etcd_image_tag(spec.kubeadm_config_spec)),
        etcd_flags=tuple(map(printable, etcd_flags(spec.kubeadm_config_spec))),
        remediation=_remediation(kcp),
        failure_domains=tuple(sorted(domain.name for domain in cluster.status.failure_domains if _may_hold(domain))),
    )


def _may_hold(domain: FailureDomain) -> bool:
    """Whether control planes may be in a failure domain: not in one with a name that is no line of text, which no provider has."""
    return bool(domain.control_plane) and domain.name.isprintable()


def _remediation(kcp: KubeadmControlPlane) -> RemediationPolicy:
    asked, default = kcp.spec.remediation, RemediationPolicy()
    return RemediationPolicy(
        max_retry=asked.max_retry,
        retry_period=_seconds(asked.retry_period_seconds or 0),
        min_healthy_period=default.min_healthy_period
        if asked.min_healthy_period_seconds is None
        else _seconds(asked.min_healthy_period_seconds),
    )


def _seconds(count: int) -> timedelta:
    """At most what the published format int32 has, 68 years: an API server stores more."""
    return timedelta(seconds=min(count, _MOST_SECONDS))


def paused(kcp: KubeadmControlPlane, cluster: Cluster) -> str:
    """By what the control plane is paused; empty where it is not."""
    reasons = [f"Cluster {cluster.metadata.name} spec.paused"] if cluster.spec.paused else []
    reasons += [f"annotation {Annotation.PAUSED}"] if Annotation.PAUSED in kcp.metadata.annotations else []
    return " and ".join(reasons)


def not_the_clusters(kcp: KubeadmControlPlane, cluster: Cluster, claimants: Iterable[KubeadmControlPlane]) -> str:
    """Why the Cluster's control plane is another one, or may be; empty where it is this one. `claimants` are those that have the Cluster as their owner."""
    named, its = cluster.spec.control_plane_ref, f"Cluster {cluster.metadata.name}"
    if named is None:
        names = sorted({kcp.metadata.name, *(each.metadata.name for each in claimants)})
        told = f"{its} has no spec.controlPlaneRef, and these want to be its control plane: {', '.join(names)}"
        return told if len(names) > 1 else ""
    ours = KUBEADM_CONTROL_PLANES
    if (named.api_group, named.kind, named.name) == (ours.group, ours.kind, kcp.metadata.name):
        return ""
    group = f" of {named.api_group}" if named.api_group != ours.group else ""
    return printable(f"{its} spec.controlPlaneRef names {named.kind} {named.name}{group}")


def topology_pending(kcp: KubeadmControlPlane, cluster: Cluster) -> str:
    """The version that a managed topology is about to set, unless the one that is set is a step on the way there; empty where there is none."""
    topology = cluster.spec.topology
    if topology is None or not topology.version or topology.version == kcp.spec.version:
        return ""
    step = cluster.metadata.annotations.get(Annotation.UPGRADE_STEP)
    return "" if step == kcp.spec.version else printable(step or topology.version)
