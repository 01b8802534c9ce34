"""What is wrong with a KubeadmControlPlane or its template, beyond what the schema can say. Pure functions on plain JSON that never raise.

The controller asks `validate_create` about what it reads as well, so that an object that no webhook has seen gets a condition instead of being acted on.

Two things are not checked here. The rules, which know what runs, check a version below every one that still runs. CoreDNS' upgrade path from one image tag to
the next is not checked at all yet: it needs CoreDNS' own table of versions, which comes with the next release.

Source: cluster-api, controlplane/kubeadm/webhooks/admission.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from typing import Any

from quorate.clusterapi.api.defaults import DEFAULT_MAX_SURGE, apply_previous_kubeadm_config_defaults
from quorate.clusterapi.api.fields import Errors, FieldError, Kind, Object, at, defined, integer_at, object_at, text_at
from quorate.clusterapi.api.immutability import immutable_changes
from quorate.clusterapi.api.kubeadm_config_validation import (
    validate_cluster_configuration,
    validate_etcd_stays,
    validate_kubeadm_config_spec,
)
from quorate.clusterapi.api.machine_template_validation import validate_metadata, validate_naming, validate_taints
from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES, FeatureGate
from quorate.core.versions import Version, parse_or_none

DEFAULT_CA_VALIDITY_DAYS = 3650
DEFAULT_VALIDITY_DAYS = 365  # of the certificates that kubeadm makes
OLDEST_VERSION = (1, 22, 0)  # the bootstrap provider has no kubeadm configuration for older ones
_MAX_VERSION_LENGTH = 256  # the schema's limit; numbers of thousands of digits are refused by Python itself
_STRICT_VERSION = re.compile(
    r"v?(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def validate_create(obj: Object, gates: Collection[str] = DEFAULT_FEATURE_GATES) -> tuple[FieldError, ...]:
    """What is wrong with a KubeadmControlPlane after defaulting; `gates` are the feature gates that are on."""
    return tuple(_control_plane(object_at(obj, "spec"), gates))


def validate_update(old: Object, new: Object, gates: Collection[str] = DEFAULT_FEATURE_GATES) -> tuple[FieldError, ...]:
    """What is wrong with a KubeadmControlPlane as it is to become, and with the way there."""
    configuration = ("spec", "kubeadmConfigSpec", "clusterConfiguration")
    return (
        *validate_create(new, gates),
        *immutable_changes(object_at(old), object_at(new)),
        *_version_step(text_at(old, "spec", "version"), text_at(new, "spec", "version")),
        *validate_etcd_stays(object_at(old, *configuration), object_at(new, *configuration), ".".join(configuration)),
    )


def validate_scale(obj: Object, replicas: object) -> tuple[FieldError, ...]:
    """What is wrong with scaling this KubeadmControlPlane to `replicas`. Surging by none with fewer than three is for the next update to refuse."""
    spec = object_at(obj, "spec")
    return tuple(_replicas(spec | {"replicas": replicas}, "spec"))


def validate_template_create(obj: Object, gates: Collection[str] = DEFAULT_FEATURE_GATES) -> tuple[FieldError, ...]:
    """What is wrong with a KubeadmControlPlaneTemplate."""
    if FeatureGate.CLUSTER_TOPOLOGY not in gates:
        message = f"templates need the feature gate {FeatureGate.CLUSTER_TOPOLOGY}: turn it on to use ClusterClasses"
        return (FieldError("spec", Kind.FORBIDDEN, message),)
    spec = object_at(obj, "spec", "template", "spec")
    metadata = object_at(obj, "spec", "template", "metadata")
    return (*_shared(spec, "spec.template.spec", gates), *validate_metadata(metadata, "spec.template.metadata"))


def validate_template_update(old: Object, new: Object) -> tuple[FieldError, ...]:
    """What is wrong with changing a KubeadmControlPlaneTemplate: its spec never may. What Cluster API filled in before v1.11 may be left out."""
    before, after = (_comparable(object_at(each, "spec", "template", "spec")) for each in (old, new))
    if not defined(at(after, "rollout", "strategy")) and at(before, "rollout", "strategy") == _PREVIOUS_STRATEGY:
        _remove_strategy(before)
        _remove_strategy(after)
    if before == after:
        return ()
    return (FieldError("spec.template.spec", Kind.INVALID, "cannot be changed: make a new template and let the ClusterClass refer to it"),)


_PREVIOUS_STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": DEFAULT_MAX_SURGE}}


def _comparable(spec: Object) -> Object:
    result = copy.deepcopy(spec)
    result["kubeadmConfigSpec"] = apply_previous_kubeadm_config_defaults(object_at(spec, "kubeadmConfigSpec"))
    return result


def _remove_strategy(spec: Object) -> None:
    rollout = {key: value for key, value in object_at(spec, "rollout").items() if key != "strategy"}
    spec.pop("rollout", None)
    if rollout:
        spec["rollout"] = rollout


def _control_plane(spec: Object, gates: Collection[str]) -> Errors:
    yield from _replicas(spec, "spec")
    reference = object_at(spec, "machineTemplate", "spec", "infrastructureRef")
    for field in ("apiGroup", "kind", "name"):
        if not text_at(reference, field):
            path = f"spec.machineTemplate.spec.infrastructureRef.{field}"
            yield FieldError(path, Kind.INVALID, "must not be empty: machines are made from the template it refers to")
    yield from _version(spec.get("version"))
    yield from _shared(spec, "spec", gates)


def _shared(spec: Object, path: str, gates: Collection[str]) -> Errors:
    """What control planes and their templates have in common."""
    template = object_at(spec, "machineTemplate")
    configuration = object_at(spec, "kubeadmConfigSpec", "clusterConfiguration")
    yield from validate_taints(object_at(template, "spec"), f"{path}.machineTemplate.spec", gates)
    yield from validate_metadata(object_at(template, "metadata"), f"{path}.machineTemplate.metadata")
    yield from _rollout(spec, path)
    yield from validate_naming(spec, path)
    yield from validate_cluster_configuration(configuration, f"{path}.kubeadmConfigSpec.clusterConfiguration")
    yield from validate_kubeadm_config_spec(object_at(spec, "kubeadmConfigSpec"), f"{path}.kubeadmConfigSpec", gates)


def _replicas(spec: Object, path: str) -> Errors:
    path = f"{path}.replicas"
    if spec.get("replicas") is None:
        yield FieldError(path, Kind.REQUIRED, "is required")
        return
    replicas = integer_at(spec, "replicas")
    if replicas is None:
        yield FieldError(path, Kind.INVALID, "must be an integer")
        return
    if replicas <= 0:
        yield FieldError(path, Kind.FORBIDDEN, f"{replicas} is not a number of machines a control plane can have: at least 1")
    external = defined(at(spec, "kubeadmConfigSpec", "clusterConfiguration", "etcd", "external"))
    if replicas % 2 == 0 and not external:
        message = f"{replicas} is even, and etcd runs on the machines: an even number tolerates no more failures than one fewer"
        yield FieldError(path, Kind.FORBIDDEN, message)


def _version(version: Any) -> Errors:
    path = "spec.version"
    if not isinstance(version, str) or not version:
        yield FieldError(path, Kind.REQUIRED, "is required, such as v1.34.4")
        return
    if not version.startswith("v"):
        yield FieldError(path, Kind.INVALID, "must start with v, as v1.34.4 does")
    parsed = _parse(version)
    if parsed is None:
        yield FieldError(path, Kind.INVALID, "must be a semantic version with all three numbers, such as v1.34.4")
    elif parsed.release < OLDEST_VERSION:
        yield FieldError(path, Kind.INVALID, "must be v1.22.0 or later: kubeadm cannot be configured for older ones")


def _parse(version: str) -> Version | None:
    usable = len(version) <= _MAX_VERSION_LENGTH and _STRICT_VERSION.fullmatch(version)
    return parse_or_none(version) if usable else None


def _version_step(old: str, new: str) -> Errors:
    """At most one minor up at a time. From a version that is none, any way is a way out."""
    before, after = _parse(old), _parse(new)
    if before and after and after.release >= (before.major, before.minor + 2, 0):
        message = f"cannot go from {old} to {new}: Kubernetes is upgraded one minor version at a time"
        yield FieldError("spec.version", Kind.FORBIDDEN, message)


def _rollout(spec: Object, path: str) -> Errors:
    """Rollout strategy and certificate lifetimes; without a strategy neither is checked, as upstream does (only templates can lack one)."""
    strategy = object_at(spec, "rollout", "strategy")
    if not defined(strategy):
        return
    if strategy.get("type") != "RollingUpdate":
        yield FieldError(f"{path}.rollout.strategy.type", Kind.REQUIRED, "must be RollingUpdate: there is no other strategy")
    yield from _max_surge(at(strategy, "rollingUpdate", "maxSurge"), integer_at(spec, "replicas"), f"{path}.rollout.strategy.rollingUpdate")
    yield from _validity(spec, path)


def _max_surge(max_surge: Any, replicas: int | None, path: str) -> Errors:
    if max_surge is None:
        return
    surge = surge_of(max_surge)
    if surge == 0 and replicas is not None and replicas < 3:
        yield FieldError(
            path, Kind.REQUIRED, f"with maxSurge 0 a machine goes before its successor comes: that needs 3 replicas, not {replicas}"
        )
    if surge not in (0, 1):
        yield FieldError(f"{path}.maxSurge", Kind.REQUIRED, "must be 1 or 0")


def surge_of(max_surge: Any) -> int:
    """maxSurge as a number: an integer, or a string that holds one. Anything else, a percentage too, counts as 0, as Kubernetes' IntOrString does."""
    if isinstance(max_surge, str):
        return int(max_surge) if _INTEGER.fullmatch(max_surge) else 0
    return max_surge if isinstance(max_surge, int) else 0


def _validity(spec: Object, path: str) -> Errors:
    configuration = object_at(spec, "kubeadmConfigSpec", "clusterConfiguration")
    days = integer_at(configuration, "certificateValidityPeriodDays")
    ca = integer_at(configuration, "caCertificateValidityPeriodDays") or DEFAULT_CA_VALIDITY_DAYS
    if days and days > ca:
        where = f"{path}.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays"
        yield FieldError(where, Kind.INVALID, f"{days} days are more than the {ca} that the CAs are valid")
    before = integer_at(spec, "rollout", "before", "certificatesExpiryDays")
    lives = days or DEFAULT_VALIDITY_DAYS
    if before and before >= lives:
        message = (
            f"{before} days before expiry is no later than the start of certificates that live {lives}: machines would be replaced for ever"
        )
        yield FieldError(f"{path}.rollout.before.certificatesExpiryDays", Kind.INVALID, message)
