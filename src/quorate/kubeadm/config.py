"""The KubeadmConfigSpec of one machine, made from the one of its control plane.

Specs are the v1beta2 KubeadmConfigSpec as plain dicts, exactly as the API server stores them. Source: Cluster API's
controlplane/kubeadm/pkg/desiredstate/desired_state.go; for the versions of kubeadm's own API, bootstrap/kubeadm/types.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from quorate.core.versions import Version

Spec = Mapping[str, Any]

KUBELET_LOCAL_MODE = "ControlPlaneKubeletLocalMode"
# A kubelet of 1.31 needs an API server of at least 1.31, so that it must not talk to an older one behind the load balancer; in 1.36 kubeadm drops the gate.
KUBELET_LOCAL_MODE_FROM, KUBELET_LOCAL_MODE_UNTIL = (1, 31, 0), (1, 36, 0)


def api_version(kubernetes_version: Version) -> str:
    """The kubeadm API that configures this Kubernetes version, pre-releases counting as their release; raises ValueError below 1.22."""
    minor = kubernetes_version.release[:2]
    if minor < (1, 22):
        raise ValueError(f"Kubernetes {kubernetes_version} is older than v1.22, the first whose kubeadm is supported")
    return "kubeadm.k8s.io/v1beta3" if minor < (1, 31) else "kubeadm.k8s.io/v1beta4"


def machine_config(spec: Spec, *, version: Version, init: bool, token: str = "") -> dict[str, Any]:
    """The KubeadmConfig spec of a machine that initializes the cluster, or of one that joins it. `spec`, the control plane's, is not touched.

    A joining machine keeps `clusterConfiguration`, from which the bootstrap provider learns what etcd it is, and always has
    `joinConfiguration.controlPlane`, the mark of a join. With a bootstrap token to join by, the bootstrap provider adds the rest of the discovery.
    """
    config = copy.deepcopy(dict(spec))
    if init:
        config.pop("joinConfiguration", None)
    else:
        config.pop("initConfiguration", None)
        join = _member(config, "joinConfiguration")
        _member(join, "controlPlane")
        if token:
            _member(_member(join, "discovery"), "bootstrapToken")["token"] = token
    if KUBELET_LOCAL_MODE_FROM <= version.release < KUBELET_LOCAL_MODE_UNTIL:
        _member(_member(config, "clusterConfiguration"), "featureGates").setdefault(KUBELET_LOCAL_MODE, True)
    return config


def brings_discovery(spec: Spec) -> bool:
    """Whether whoever wrote the spec says how a joining machine finds the cluster and is known to it: by a file, or by a token of theirs."""
    discovery = inner(spec, "joinConfiguration", "discovery")
    return any(inner(discovery, "file").values()) or bool(inner(discovery, "bootstrapToken").get("token"))


def is_join(spec: Spec) -> bool:
    """Whether a machine's spec is that of a joining control plane: `joinConfiguration.controlPlane` is there, be it empty."""
    return inner(spec, "joinConfiguration").get("controlPlane") is not None


def etcd_is_managed(spec: Spec) -> bool:
    """Whether etcd runs on the control plane's own machines: no field of `clusterConfiguration.etcd.external` is set."""
    return not any(inner(spec, "clusterConfiguration", "etcd", "external").values())


def etcd_image_tag(spec: Spec) -> str:
    """The tag of etcd's image on the control plane's own machines; empty where kubeadm chooses it."""
    tag = inner(spec, "clusterConfiguration", "etcd", "local").get("imageTag")
    return tag if isinstance(tag, str) else ""


def etcd_flags(spec: Spec) -> tuple[str, ...]:
    """The names of the flags that etcd on the control plane's own machines is given."""
    arguments = inner(spec, "clusterConfiguration", "etcd", "local").get("extraArgs")
    named = [argument.get("name") for argument in arguments if isinstance(argument, Mapping)] if isinstance(arguments, list) else []
    return tuple(name for name in named if isinstance(name, str))


def inner(spec: Spec, *names: str) -> Spec:
    """The object below the names, one in the other; empty where there is none, or something else stands there: not every API server checks a schema."""
    for name in names:
        found = spec.get(name)
        spec = found if isinstance(found, Mapping) else {}
    return spec


def _member(parent: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under `name`, created empty where there is none."""
    if not isinstance(parent.get(name), dict):
        parent[name] = {}
    member: dict[str, Any] = parent[name]
    return member
