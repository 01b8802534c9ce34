"""What is filled in where a control plane does not say it. Pure functions on plain JSON; what they are given is left as it was.

Source: cluster-api, controlplane/kubeadm/webhooks/admission/kubeadmcontrolplane.go and bootstrap/kubeadm/webhooks/admission/kubeadmconfigtemplate.go.
"""

from __future__ import annotations

import copy

from quorate.clusterapi.api.fields import Object, at, object_at

DEFAULT_REPLICAS = 1
DEFAULT_MAX_SURGE = 1


def _object_in(parent: Object, key: str) -> Object:
    """The object under a key, put there if it is missing or null; one of another type is left for the API server to refuse."""
    if parent.get(key) is None:
        parent[key] = {}
    return object_at(parent, key)


def default_kubeadm_control_plane(obj: Object) -> Object:
    """A copy of a KubeadmControlPlane with its defaults: one replica, `v` before the version, a rolling update that surges by one.

    Idempotent. The rollout strategy's type is always overwritten, as upstream does: there is only one.
    """
    result = copy.deepcopy(obj)
    spec = _object_in(result, "spec")
    if spec.get("replicas") is None:
        spec["replicas"] = DEFAULT_REPLICAS
    version = spec.get("version")
    if isinstance(version, str) and version and not version.startswith("v"):
        spec["version"] = f"v{version}"
    strategy = _object_in(_object_in(spec, "rollout"), "strategy")
    strategy["type"] = "RollingUpdate"
    rolling_update = _object_in(strategy, "rollingUpdate")
    if rolling_update.get("maxSurge") is None:
        rolling_update["maxSurge"] = DEFAULT_MAX_SURGE
    return result


def apply_previous_kubeadm_config_defaults(spec: Object) -> Object:
    """A copy of a KubeadmConfigSpec with the defaults that Cluster API stored before v1.11: for comparisons alone, never to be written."""
    result = copy.deepcopy(spec)
    if not result.get("format"):
        result["format"] = "cloud-config"
    for configuration in ("initConfiguration", "joinConfiguration"):
        registration = _object_in(_object_in(result, configuration), "nodeRegistration")
        if not registration.get("imagePullPolicy"):
            registration["imagePullPolicy"] = "IfNotPresent"
    credentials = at(result, "joinConfiguration", "discovery", "file", "kubeConfig", "user", "exec")
    if isinstance(credentials, dict) and credentials and not credentials.get("apiVersion"):
        credentials["apiVersion"] = "client.authentication.k8s.io/v1"
    return result
