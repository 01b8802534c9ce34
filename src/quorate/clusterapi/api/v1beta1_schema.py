"""The schemas of v1beta1, made from those of v1beta2 by the ways in which the two differ.

v1beta1 puts fewer bounds, has durations where v1beta2 has seconds and maps where it has lists of arguments, and keeps some fields at other places. The
conversion between the values of both is in `conversion`.

Source: cluster-api, controlplane/kubeadm/config/crd; KEP-1693 structural schemas.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_BOUNDS_OF_V1BETA2 = ("minItems", "minProperties", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
_HEADERS = {
    "apiVersion": {"type": "string", "description": "The version of kubeadm's configuration that this was written in. Nobody reads it."},
    "kind": {"type": "string", "description": "The kind of kubeadm's configuration. Nobody reads it."},
}


def control_plane(new: Mapping[str, Any]) -> Schema:
    """The schema of KubeadmControlPlanes in v1beta1, of which `new` is that in v1beta2."""
    old = copy.deepcopy(dict(new))
    old.pop("required", None)
    spec, status = _properties(old, "spec"), _properties(old, "status")
    _shared_spec(spec)
    _require(old["properties"]["spec"], "machineTemplate", "kubeadmConfigSpec", "version")
    _machine_template(spec["machineTemplate"], required=("infrastructureRef",))
    _machine_references(_properties(spec, "machineTemplate"))
    _status(status)
    old["properties"]["status"].pop("minProperties", None)
    return old


def control_plane_template(new: Mapping[str, Any]) -> Schema:
    """The schema of KubeadmControlPlaneTemplates in v1beta1, of which `new` is that in v1beta2."""
    old = copy.deepcopy(dict(new))
    old.pop("required", None)
    template = old["properties"]["spec"]["properties"]["template"]
    _require(template, "spec")
    template.pop("minProperties", None)
    template["properties"]["metadata"] = _unbounded(template["properties"]["metadata"])
    spec = _properties(template, "spec")
    template["properties"]["spec"].pop("minProperties", None)
    _shared_spec(spec)
    _require(template["properties"]["spec"], "kubeadmConfigSpec")
    _machine_template(spec["machineTemplate"], required=())
    return old


def _shared_spec(spec: Schema) -> None:
    """What control planes and their templates have in common."""
    _kubeadm_config_spec(spec)
    _rollout(spec)
    remediation = spec["remediationStrategy"] = _unbounded(spec.pop("remediation"))
    _durations(remediation["properties"], "retryPeriod", "minHealthyPeriod")
    spec["machineNamingStrategy"] = _unbounded(spec.pop("machineNaming"))


def _rollout(spec: Schema) -> None:
    rollout = _unbounded(spec.pop("rollout"))["properties"]
    spec["rolloutBefore"], spec["rolloutAfter"], spec["rolloutStrategy"] = rollout["before"], rollout["after"], rollout["strategy"]
    rollout["before"]["properties"]["certificatesExpiryDays"].pop("minimum")
    rollout["strategy"].pop("required")
    rollout["strategy"]["default"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}


def _machine_template(template: Schema, required: tuple[str, ...]) -> None:
    """What was put below `spec` in v1beta2 stands beside the metadata."""
    properties = template["properties"]
    within = properties.pop("spec")["properties"]
    template.pop("minProperties", None)
    properties["metadata"] = _unbounded(properties["metadata"])
    deletion = within.pop("deletion")["properties"]
    properties |= within | deletion
    _durations(properties, *(name.removesuffix("Seconds") for name in deletion))
    _require(template, *required)


def _machine_references(properties: Schema) -> None:
    """The template of the infrastructure as a reference of Kubernetes, and readiness gates, of which there may be none."""
    fields = {
        "apiVersion": "The version in which the template is written.",
        "fieldPath": "A part of the object. Nobody reads it.",
        "kind": "The template's kind.",
        "name": "Its name.",
        "namespace": "Its namespace, which is the control plane's own.",
        "resourceVersion": "One state of it. Nobody reads it.",
        "uid": "Its identity. Nobody reads it.",
    }
    properties["infrastructureRef"] = {
        "type": "object",
        "description": properties["infrastructureRef"]["description"],
        "x-kubernetes-map-type": "atomic",
        "properties": {name: {"type": "string", "description": text} for name, text in fields.items()},
    }
    properties["readinessGates"].pop("minItems")


def _status(status: Schema) -> None:
    """What v1beta2 keeps as deprecated is v1beta1's own, and the other way round."""
    deprecated = status.pop("deprecated")["properties"]["v1beta1"]["properties"]
    new = {name: status.pop(name) for name in ("conditions", "readyReplicas", "availableReplicas", "upToDateReplicas")}
    status["v1beta2"] = {"type": "object", "description": "What v1beta2 has under the same names with another meaning.", "properties": new}
    status |= deprecated
    status["initialized"] = _unbounded(status.pop("initialization"))["properties"]["controlPlaneInitialized"]
    status["ready"] = {"type": "boolean", "description": "Whether an API server of it can be asked."}
    status["observedGeneration"].pop("minimum")
    remediation = status["lastRemediation"]
    remediation["properties"]["timestamp"] = remediation["properties"].pop("time")
    remediation["properties"]["retryCount"].pop("minimum")
    _require(remediation, "machine", "retryCount", "timestamp")


def _kubeadm_config_spec(spec: Schema) -> None:
    old = spec["kubeadmConfigSpec"] = _unbounded(spec["kubeadmConfigSpec"])
    properties = old["properties"]
    properties["useExperimentalRetryJoin"] = {"type": "boolean", "description": "Read by nobody any more."}
    properties["mounts"]["items"].pop("maxItems")
    _disks(properties)
    for name in ("clusterConfiguration", "initConfiguration", "joinConfiguration"):
        properties[name]["properties"] |= copy.deepcopy(_HEADERS)
    _cluster_configuration(_properties(properties, "clusterConfiguration"))
    for configuration in (_properties(properties, "initConfiguration"), _properties(properties, "joinConfiguration")):
        configuration.pop("timeouts")
        _as_map(_properties(configuration, "nodeRegistration"), "kubeletExtraArgs")
    _init_and_join(_properties(properties, "initConfiguration"), _properties(properties, "joinConfiguration"))


def _disks(properties: Schema) -> None:
    partition = properties["diskSetup"]["properties"]["partitions"]["items"]
    partition.pop("x-kubernetes-validations")
    partition["properties"]["diskLayout"]["minItems"] = 1
    _require(partition, *partition["required"], "layout")


def _cluster_configuration(configuration: Schema) -> None:
    etcd = configuration["etcd"]["properties"]["local"]
    for component in (configuration["apiServer"], configuration["controllerManager"], configuration["scheduler"], etcd):
        _as_map(component["properties"], "extraArgs")
    configuration["apiServer"]["properties"]["timeoutForControlPlane"] = _duration("How long kubeadm waits for the API server.")
    configuration["clusterName"] = _text("The cluster's name. The Cluster's own counts.", 63)
    configuration["kubernetesVersion"] = _text("The Kubernetes version. The control plane's own counts.", 256)
    networking = {
        "dnsDomain": _text("The domain of the cluster's services.", 253),
        "podSubnet": _text("The range of the Pods' addresses.", 1024),
        "serviceSubnet": _text("The range of the services' addresses.", 1024),
    }
    description = "The cluster's network. What the Cluster says counts."
    configuration["networking"] = {"type": "object", "description": description, "properties": networking}


def _init_and_join(init: Schema, join: Schema) -> None:
    token = init["bootstrapTokens"]["items"]["properties"]
    token["token"] = {"type": "string", "description": token["token"]["description"]}
    _durations(token, "ttl")
    for endpoint in (init["localAPIEndpoint"], join["controlPlane"]["properties"]["localAPIEndpoint"]):
        endpoint["properties"]["bindPort"].pop("minimum")
    join["discovery"]["properties"]["timeout"] = _duration("How long kubeadm waits for the cluster to be found.")


def _unbounded(schema: Mapping[str, Any]) -> Schema:
    """A schema without what only v1beta2 demands of lists and objects, however deep. The rules of lists of arguments go with the lists."""
    kept = {key: value for key, value in schema.items() if key not in _BOUNDS_OF_V1BETA2}
    if "properties" in kept:
        kept["properties"] = {name: _unbounded(inner) for name, inner in kept["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in kept:
            kept[key] = _unbounded(kept[key])
    return kept


def _as_map(properties: Schema, name: str) -> None:
    description = properties[name]["description"]
    properties[name] = {"type": "object", "description": description, "additionalProperties": {"type": "string"}}


def _durations(properties: Schema, *names: str) -> None:
    """Numbers of seconds become durations, under names that do not say so."""
    for name in names:
        properties[name] = _duration(properties.pop(f"{name}Seconds")["description"])


def _duration(description: str) -> Schema:
    return {"type": "string", "description": description}


def _text(description: str, most: int) -> Schema:
    return {"type": "string", "description": description, "minLength": 1, "maxLength": most}


def _properties(parent: Schema, name: str) -> Schema:
    """The properties of an object within an object's schema, or within a set of properties."""
    found: Schema = parent.get("properties", parent)[name]["properties"]
    return found


def _require(schema: Schema, *names: str) -> None:
    schema.pop("required", None)
    if names:
        schema["required"] = sorted(names)
