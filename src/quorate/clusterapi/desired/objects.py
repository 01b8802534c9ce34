"""The objects that make one control-plane Machine, as they should be: the Machine, its KubeadmConfig and its infrastructure. Pure.

The Machine is applied whole under one field manager, now and whenever what may change in place has changed. KubeadmConfig and infrastructure are applied in two
parts: specification and owner under that manager, labels and annotations under another, so that the latter can change later without claiming the former. The
label that says that they are a control plane's is in both: where only the first part arrives, what it made is found by it, and taken down.
Source: cluster-api, controlplane/kubeadm/pkg/desiredstate, and controllers/external for the shape of a clone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.desired import remediation_record
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import (
    ETCD_READINESS_GATES,
    KUBEADM_CONTROL_PLANE_KIND,
    MANDATORY_READINESS_GATES,
    Annotation,
    Hook,
    Label,
)
from quorate.clusterapi.types.references import ObjectReference
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINES
from quorate.core.versions import Version
from quorate.kubeadm.config import etcd_is_managed, machine_config
from quorate.kubeadm.names import label_value
from quorate.kubernetes.objects import OwnedMeta

Object = dict[str, Any]

FOUNDED_BY = "quorate.dev/founded-by"
"""On the Machine that was made to found the cluster: the uid of the control plane that had it made, and was not initialized then."""


def owner_reference(kcp: KubeadmControlPlane, *, controller: bool) -> Object:
    """A reference to the control plane as owner."""
    reference = {
        "apiVersion": KUBEADM_CONTROL_PLANES.api_version,
        "kind": KUBEADM_CONTROL_PLANE_KIND,
        "name": kcp.metadata.name,
        "uid": kcp.metadata.uid,
    }
    return reference | {"controller": True, "blockOwnerDeletion": True} if controller else reference


def machine_labels(kcp: KubeadmControlPlane, cluster: str) -> dict[str, str]:
    """The labels of everything made for a Machine: the template's, and ours above them."""
    return {
        **kcp.spec.machine_template.metadata.labels,
        Label.CLUSTER_NAME: cluster,
        Label.CONTROL_PLANE: "",
        Label.CONTROL_PLANE_NAME: label_value(kcp.metadata.name),
    }


def machine_annotations(kcp: KubeadmControlPlane) -> dict[str, str]:
    """The annotations of everything made for a Machine."""
    return dict(kcp.spec.machine_template.metadata.annotations)


def new_machine(
    kcp: KubeadmControlPlane,
    cluster: str,
    name: str,
    *,
    failure_domain: str,
    config: ObjectReference,
    infrastructure: ObjectReference,
    initialize: bool = False,
) -> Object:
    """A Machine to create at the control plane's version."""
    kept = _remediation(_readable(kcp.metadata.annotations, Annotation.REMEDIATION_IN_PROGRESS))
    kept |= {FOUNDED_BY: kcp.metadata.uid} if initialize else {}
    return _machine(kcp, cluster, name, kcp.spec.version, failure_domain, config, infrastructure, kept)


def updated_machine(kcp: KubeadmControlPlane, cluster: str, machine: Machine) -> Object:
    """An existing Machine with everything that may change in place as it should be; its version and failure domain stay.

    It carries the uid, so that applying it can never create a Machine that has gone meanwhile. One that somebody made by hand may have bootstrap data of its
    own, and no KubeadmConfig: what it refers to is its owner's to say.
    """
    spec = machine.spec
    annotations = machine.metadata.annotations
    kept = _remediation(annotations.get(Annotation.REMEDIATION_FOR))
    kept |= {FOUNDED_BY: annotations[FOUNDED_BY]} if FOUNDED_BY in annotations else {}
    desired = _machine(
        kcp, cluster, machine.metadata.name, spec.version, spec.failure_domain, spec.bootstrap.config_ref, spec.infrastructure_ref, kept
    )
    desired["metadata"]["uid"] = machine.metadata.uid
    return desired


def machine_in_place(kcp: KubeadmControlPlane, cluster: str, machine: Machine) -> Object:
    """An existing Machine as it is to be after an update in place: at the control plane's version. Its failure domain stays."""
    body = updated_machine(kcp, cluster, machine)
    return {**body, "spec": {**body["spec"], "version": kcp.spec.version}}


def companion_in_place(body: Object, found: OwnedMeta, *, mark: bool) -> Object:
    """What was composed for a new Machine, for one that exists: under the name and the uid of what it has, which is its Machine's by now; with the mark of an
    update in place, which core waits for, or without it, to try.
    """
    metadata = {**body["metadata"], "name": found.name, "uid": found.uid}
    if any(owner.kind == MACHINES.kind for owner in found.owner_references):
        metadata.pop("ownerReferences", None)
    marks = {Annotation.UPDATE_IN_PROGRESS: ""} if mark else {}
    return {**body, "metadata": metadata | {"annotations": {**(metadata.get("annotations") or {}), **marks}}}


def config(kcp: KubeadmControlPlane, name: str, *, initialize: bool, token: str = "") -> Object:
    """The KubeadmConfig of a new Machine, without annotations and all labels but one; with the bootstrap token to join by, where there is one."""
    metadata = {
        "name": name,
        "namespace": kcp.metadata.namespace,
        "labels": {Label.CONTROL_PLANE: ""},
        "ownerReferences": [owner_reference(kcp, controller=False)],
    }
    spec = machine_config(kcp.spec.kubeadm_config_spec, version=Version.parse(kcp.spec.version), init=initialize, token=token)
    return {"apiVersion": KUBEADM_CONFIGS.api_version, "kind": KUBEADM_CONFIGS.kind, "metadata": metadata, "spec": spec}


def infrastructure(kcp: KubeadmControlPlane, template: ForeignObject, name: str) -> Object:
    """The infrastructure machine that the template describes, without the annotations of the control plane and all of its labels but one.

    Labels and annotations of the template itself and where it was cloned from stay with the specification: they never change.
    """
    reference = kcp.spec.machine_template.spec.infrastructure_ref
    if problem := shape_problem(template):
        raise ValueError(problem)
    clone = copy.deepcopy(template.spec.get("template") or {})
    metadata = clone.get("metadata") or {}
    cloned_from = {Annotation.CLONED_FROM_NAME: reference.name, Annotation.CLONED_FROM_GROUP_KIND: reference.group_kind}
    clone["metadata"] = {
        "name": name,
        "namespace": kcp.metadata.namespace,
        "labels": {**(metadata.get("labels") or {}), Label.CONTROL_PLANE: ""},
        "annotations": {**(metadata.get("annotations") or {}), **cloned_from},
        "ownerReferences": [owner_reference(kcp, controller=False)],
    }
    return {**clone, "apiVersion": template.api_version, "kind": kind_made_by(template.kind)}


def shape_problem(template: ForeignObject) -> str:
    """Why nothing can be made from a template: what should be an object in it and is none; empty where all is as it should be."""
    inner = template.spec.get("template") or {}
    metadata = (inner.get("metadata") or {}) if isinstance(inner, dict) else {}
    parts = {"spec.template": inner, "spec.template.metadata": metadata}
    parts |= {f"spec.template.metadata.{key}": metadata.get(key) or {} for key in ("labels", "annotations") if isinstance(metadata, dict)}
    odd = [path for path, part in parts.items() if not isinstance(part, dict)]
    return f"{template.kind} {template.metadata.namespace}/{template.metadata.name}: {', '.join(odd)} must be an object" if odd else ""


def kind_made_by(template_kind: str) -> str:
    """The kind of what a template of this kind makes, by Cluster API's contract: its own without `Template`."""
    return template_kind.removesuffix("Template")


def companion_metadata(kcp: KubeadmControlPlane, cluster: str, companion: Mapping[str, Any], uid: str) -> Object:
    """The labels and annotations of a KubeadmConfig or infrastructure machine that exists, to be applied under their own field manager."""
    identity = {"name": companion["metadata"]["name"], "namespace": kcp.metadata.namespace, "uid": uid}
    given = machine_annotations(kcp)
    wanted = {"labels": machine_labels(kcp, cluster)} | ({"annotations": given} if given else {})
    return {"apiVersion": companion["apiVersion"], "kind": companion["kind"], "metadata": identity | wanted}


def _machine(
    kcp: KubeadmControlPlane,
    cluster: str,
    name: str,
    version: str,
    failure_domain: str,
    config: ObjectReference | None,
    infrastructure: ObjectReference | None,
    kept_annotations: dict[str, str],
) -> Object:
    template = kcp.spec.machine_template.spec
    spec: Object = {
        "clusterName": cluster,
        "version": version,
        "readinessGates": _readiness_gates(kcp),
    }
    optional = {
        "bootstrap": {"configRef": msgspec.to_builtins(config)} if config else None,
        "infrastructureRef": msgspec.to_builtins(infrastructure),
        "failureDomain": failure_domain,
        "deletion": msgspec.to_builtins(template.deletion),
        "taints": msgspec.to_builtins(template.taints),
    }
    spec |= {key: value for key, value in optional.items() if value}
    metadata = {
        "name": name,
        "namespace": kcp.metadata.namespace,
        "labels": machine_labels(kcp, cluster),
        "annotations": {**machine_annotations(kcp), **kept_annotations, Hook.PRE_TERMINATE: ""},
        "ownerReferences": [owner_reference(kcp, controller=True)],
    }
    return {"apiVersion": MACHINES.api_version, "kind": MACHINES.kind, "metadata": metadata, "spec": spec}


def _remediation(data: str | None) -> dict[str, str]:
    """The history of replacements follows from one Machine to the next in its place."""
    return {} if data is None else {Annotation.REMEDIATION_FOR: data}


def _readable(annotations: Mapping[str, str], key: str) -> str | None:
    """The record under this key, unless nobody could read it: a Machine that inherited it could never be replaced."""
    try:
        return annotations[key] if remediation_record.read(annotations, key) else None
    except remediation_record.MalformedRecord:
        return None


def _readiness_gates(kcp: KubeadmControlPlane) -> list[Object]:
    ours = MANDATORY_READINESS_GATES + (ETCD_READINESS_GATES if etcd_is_managed(kcp.spec.kubeadm_config_spec) else ())
    gates: list[Object] = [{"conditionType": str(gate)} for gate in ours]
    gates += msgspec.to_builtins(kcp.spec.machine_template.spec.readiness_gates)
    first: dict[str, Object] = {}
    for gate in gates:
        first.setdefault(gate["conditionType"], gate)
    return list(first.values())
