"""kubeadm's own ClusterConfiguration, as it keeps it in the ConfigMap kubeadm-config: read, brought to a control plane's specification, and written again.

A document is the YAML as plain dicts, in kubeadm's API v1beta3 or v1beta4; a specification is Cluster API's v1beta2 KubeadmConfigSpec. Fields that neither
the specification nor this module knows stay as they are. Source: Cluster API's bootstrap/kubeadm/pkg/types for the conversions, controlplane/kubeadm for
what follows the specification; kubeadm's own defaults are kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4/defaults.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from quorate.core import documents
from quorate.core.versions import Version
from quorate.kubeadm.config import Spec, api_version, etcd_is_managed, inner, machine_config

Document = dict[str, Any]

V1BETA3, V1BETA4 = "kubeadm.k8s.io/v1beta3", "kubeadm.k8s.io/v1beta4"
_KIND = "ClusterConfiguration"

# The fields that the specification has, of each part that follows it as a whole; whatever else the part has stays.
_COMPONENT = ("extraArgs", "extraVolumes", "extraEnvs")
_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("apiServer", (*_COMPONENT, "certSANs")),
    ("controllerManager", _COMPONENT),
    ("scheduler", _COMPONENT),
)
_LOCAL_ETCD = ("imageRepository", "imageTag", "dataDir", "extraArgs", "extraEnvs", "serverCertSANs", "peerCertSANs")
_EXTERNAL_ETCD = ("endpoints", "caFile", "certFile", "keyFile")

# What kubeadm writes where nothing was asked for: it says the same as nothing, and is no reason to write.
_DEFAULT_DATA_DIR, _DEFAULT_ALGORITHM, _DEFAULT_DAYS = "/var/lib/etcd", "RSA-2048", 365

_ONLY_V1BETA4 = ("certificateValidityPeriod", "caCertificateValidityPeriod", "encryptionAlgorithm", "proxy")
_OBJECTS = (*((part,) for part, _ in _PARTS), ("dns",), ("networking",), ("proxy",), ("etcd",), ("etcd", "local"), ("etcd", "external"))
_COMPONENTS = (*((part,) for part, _ in _PARTS), ("etcd", "local"))
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|us|µs|ns|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DAY = 86400.0


def decode(text: str) -> Document:
    """The document in a ConfigMap's text; an empty text, as Cluster API's in-memory provider keeps it, is an empty one. Raises ValueError."""
    try:
        document = documents.load(text, most=documents.MOST_OF_A_TENANT)
    except documents.NotADocument as error:
        raise ValueError(str(error)) from None
    if document is None:
        return {}
    if not isinstance(document, dict) or document.get("kind") != _KIND or document.get("apiVersion") not in (V1BETA3, V1BETA4):
        found = f"{document.get('apiVersion')} {document.get('kind')}" if isinstance(document, dict) else type(document).__name__
        raise ValueError(f"it is a {found}, not a {_KIND} of {V1BETA3} or {V1BETA4}")
    wrong = [path for path in _OBJECTS if not isinstance(_at(document, path) or {}, dict)]
    wrong += [] if wrong else [(*path, "extraArgs") for path in _COMPONENTS if not _are_arguments(_at(document, (*path, "extraArgs")))]
    lists = ((*path, field) for path in _COMPONENTS for field in ("extraVolumes", "extraEnvs"))
    wrong += [] if wrong else [path for path in lists if not _are_named(_at(document, path))]
    if wrong:
        raise ValueError(f"its {'.'.join(wrong[0])} is not of the type that it has in kubeadm's API")
    return document


def encode(document: Document) -> str:
    """The text of a document."""
    return documents.dump(document)


def brought_up_to_date(document: Document, spec: Spec, version: Version) -> Document:
    """The document as machines that join with this specification and version should read it, in the kubeadm API of the version.

    It is the very same object where it already says all that: the form of the API alone is no reason to write. Raises ValueError below Kubernetes v1.22.
    """
    changed = converted(document, api_version(version))
    before = converted(document, api_version(version))
    changed["kubernetesVersion"] = f"v{str(version).removeprefix('v')}"
    cluster = inner(spec, "clusterConfiguration")
    if not _is_empty(cluster):
        _follow(changed, cluster, spec, version)
    return document if _normalized(changed) == _normalized(before) else changed


def with_dns(document: Document, dns: Mapping[str, Any], version: Version) -> Document:
    """The document with the image of CoreDNS that is asked for, and this Kubernetes version; the very same object where it says that already."""
    changed = converted(document, api_version(version))
    before = converted(document, api_version(version))
    changed["kubernetesVersion"] = f"v{str(version).removeprefix('v')}"
    changed["dns"] = _followed(changed.get("dns"), dns, ("imageRepository", "imageTag"))
    return document if _normalized(changed) == _normalized(before) else changed


def converted(document: Document, api: str) -> Document:
    """A copy of the document in another version of kubeadm's API. What that version does not have is left out."""
    result: Document = {**document, "apiVersion": api, "kind": _KIND}
    for part, _ in _PARTS:
        if isinstance(result.get(part), dict):
            result[part] = _converted_part(result[part], api)
    etcd = result.get("etcd")
    if isinstance(etcd, dict) and isinstance(etcd.get("local"), dict):
        result["etcd"] = {**etcd, "local": _converted_part(etcd["local"], api)}
    if api == V1BETA3:
        for name in _ONLY_V1BETA4:
            result.pop(name, None)
    return result


def _converted_part(part: Mapping[str, Any], api: str) -> dict[str, Any]:
    """One component: v1beta3 keeps arguments in a map, v1beta4 in a list; each has a field that the other lacks."""
    result = dict(part)
    arguments = result.get("extraArgs")
    if api == V1BETA4:
        result.pop("timeoutForControlPlane", None)
        if isinstance(arguments, dict):
            result["extraArgs"] = [{"name": name, "value": arguments[name]} for name in sorted(arguments)]
    else:
        result.pop("extraEnvs", None)
        if isinstance(arguments, list):
            result["extraArgs"] = {argument["name"]: argument.get("value", "") for argument in arguments}
    return result


def _follow(document: Document, cluster: Mapping[str, Any], spec: Spec, version: Version) -> None:
    """Set in the document what follows the specification."""
    api = document["apiVersion"]
    if cluster.get("imageRepository"):  # cannot be taken back, as upstream: kubeadm has written its own into the document
        document["imageRepository"] = cluster["imageRepository"]
    document["featureGates"] = machine_config(spec, version=version, init=True)["clusterConfiguration"].get("featureGates") or {}
    for part, fields in _PARTS:
        document[part] = _followed(document.get(part), _converted_part(inner(cluster, part), api), fields)
    _follow_etcd(document, inner(cluster, "etcd"), managed=etcd_is_managed(spec))
    if api == V1BETA4:
        days, current = cluster.get("certificateValidityPeriodDays") or 0, _days(document.get("certificateValidityPeriod"))
        if (days or _DEFAULT_DAYS) != (current or _DEFAULT_DAYS):
            document["certificateValidityPeriod"] = f"{days * 24}h0m0s" if days else None
        algorithm = cluster.get("encryptionAlgorithm") or ""
        if (algorithm or _DEFAULT_ALGORITHM) != (document.get("encryptionAlgorithm") or _DEFAULT_ALGORITHM):
            document["encryptionAlgorithm"] = algorithm or None
    for name in [name for name, value in document.items() if value is None]:
        del document[name]


def _follow_etcd(document: Document, etcd: Mapping[str, Any], *, managed: bool) -> None:
    current = document.get("etcd") or {}
    if not managed:
        external = _followed(current.get("external"), inner(etcd, "external"), _EXTERNAL_ETCD)
        document["etcd"] = {**{name: value for name, value in current.items() if name != "local"}, "external": external}
        return
    local = _converted_part(inner(etcd, "local"), document["apiVersion"])
    found = current.get("local") or {}
    if not local.get("dataDir") and found.get("dataDir") == _DEFAULT_DATA_DIR:
        local["dataDir"] = _DEFAULT_DATA_DIR
    kept = {name: value for name, value in current.items() if name != "external"}
    document["etcd"] = {**kept, "local": _followed(found, local, _LOCAL_ETCD)}


def _followed(current: Any, wanted: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """A part with these fields as they are wanted, and every other one as it is."""
    others = {name: value for name, value in (current or {}).items() if name not in fields}
    return others | {name: wanted[name] for name in fields if not _means_absent(wanted.get(name))}


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _are_arguments(value: Any) -> bool:
    return all(isinstance(name, str) for name in value) if isinstance(value, dict) else _are_named(value)


def _are_named(value: Any) -> bool:
    """Whether it is a list of objects, each with a name, or nothing."""
    return value is None or (
        isinstance(value, list) and all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in value)
    )


def _days(duration: Any) -> int:
    """Whole days in a duration as Go writes it, such as 8760h0m0s; 0 for none."""
    parts = _DURATION.findall(duration) if isinstance(duration, str) else []
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return int(seconds // _DAY) if math.isfinite(seconds) else 0


def _means_absent(value: Any) -> bool:
    return value in (None, "", {}, [])


def _is_empty(value: Any) -> bool:
    """Whether nothing is set in it, at any depth."""
    return all(map(_is_empty, value.values())) if isinstance(value, dict) else _means_absent(value)


def _normalized(value: Any) -> Any:
    """The value without what means absent; an argument's empty value is a value."""
    if isinstance(value, dict):
        if value.keys() == {"name", "value"}:
            return value
        members = {name: _normalized(member) if name != "extraArgs" else member for name, member in value.items()}
        return {name: member for name, member in members.items() if not _means_absent(member)}
    return [_normalized(element) for element in value] if isinstance(value, list) else value
