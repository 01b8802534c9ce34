"""An installation of one provider as its objects tell it: read from a file of components or from the cluster, and what its program is told by its flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from quorate.clusterapi.takeover.kinds import ENTRY, KINDS, Object, key_of, place
from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES, LEADER_ELECTION_LEASE, PROVIDER_NAME, Label
from quorate.core import documents
from quorate.core.takeover.state import Key, Provider, Side
from quorate.kubernetes.config import ConfigError

MANAGER = "manager"
"""The name of the container whose flags count, by clusterctl's contract."""
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_SELF_MANAGED = "self-managed"
_LEFT_OUT = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp")
_REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True)
class Installation:
    """The objects of one provider by their keys, in the order in which they are written."""

    side: Side
    objects: Mapping[Key, Object]

    @property
    def deployment(self) -> Object:
        """The one Deployment."""
        return next(item for key, item in self.objects.items() if key.kind == "Deployment")

    def describe(self) -> Provider:
        """What the manifests say of the provider; nothing of its Pods."""
        deployment, container = self.deployment, manager_of(self.deployment)
        flags = flags_of(container)
        key = key_of(deployment)
        elects = flags.get("leader-elect", "false") == "true"
        entry = next((item for each, item in self.objects.items() if each.kind == ENTRY.resource.kind), {})
        return Provider(
            side=self.side,
            label=label_of(deployment),
            version=entry.get("version") or version_in(container.get("image", "")),
            deployment=key,
            gates=gates_of(flags.get("feature-gates", "")),
            watches=flags.get("namespace", ""),
            filters=flags.get("watch-filter", ""),
            lease=f"{key.namespace}/{flags.get('leader-elect-resource-name') or LEADER_ELECTION_LEASE}" if elects else "",
            only_the_leader_serves=flags.get("webhook-certificates", "") == _SELF_MANAGED,
        )


def of(side: Side, objects: Iterable[Object]) -> Installation:
    """The installation that consists of these objects. Raises ConfigError where it has not exactly one Deployment with a container `manager`."""
    found = {key_of(item): cleaned(item) for item in objects}
    installation = Installation(side, {key: found[key] for key in sorted(found, key=place)})
    deployments = [key for key in found if key.kind == "Deployment"]
    if len(deployments) != 1:
        raise ConfigError(f"{side} has to have one Deployment, not {len(deployments)}: {', '.join(map(str, deployments)) or 'none'}")
    if not manager_of(installation.deployment):
        raise ConfigError(f"{deployments[0]} has no container {MANAGER}: is it a provider of Cluster API?")
    return installation


def read(path: Path, side: Side, version: str) -> Installation:
    """The installation in a file of components, as clusterctl makes it of them: with its labels, and with an entry in its inventory of this version.

    Raises ConfigError where the file cannot be read or used.
    """
    try:
        items = [item for item in documents.load_all(path.read_bytes()) if item]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except documents.NotADocument as error:
        raise ConfigError(f"{path}: {error}") from error
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("metadata"), dict) or not item["metadata"].get("name"):
            raise ConfigError(f"{path}: a document in it is no object of Kubernetes: it has no metadata.name")
        if item.get("kind") not in KINDS:
            raise ConfigError(f"{path}: {item.get('kind')} {item['metadata']['name']} is of a kind that no provider's components have here")
    if _VARIABLE.search(repr([item for item in items if item["kind"] == "Deployment"])):
        raise ConfigError(f"{path} has variables in it: take what `clusterctl generate provider --control-plane NAME` prints")
    installation = of(side, items)
    label, namespace = label_of(installation.deployment), key_of(installation.deployment).namespace
    entry = _entry(label, namespace, version or installation.describe().version)
    return of(side, [_labelled(item) for item in (*installation.objects.values(), entry)])


def label_of(item: Object) -> str:
    """By which clusterctl knows whose it is."""
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels.get(Label.PROVIDER, PROVIDER_NAME)


def manager_of(deployment: Object) -> Object:
    """The container of the provider's program; empty where there is none."""
    containers: list[Object] = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or []
    return next((container for container in containers if container.get("name") == MANAGER), {})


def flags_of(container: Object) -> dict[str, str]:
    """Flags and their values, as Go's programs read them: `--flag` is true, and of the same flag the last one counts."""
    found: dict[str, str] = {}
    waiting = ""
    for argument in container.get("args") or ():
        if waiting and not argument.startswith("--"):
            found[waiting] = argument
        waiting = ""
        if argument.startswith("--"):
            name, given, value = argument[2:].partition("=")
            found[name.replace("_", "-")] = value if given else "true"
            waiting = "" if given else name.replace("_", "-")
    return found


def gates_of(text: str) -> frozenset[str]:
    """The feature gates that are on."""
    on = set(map(str, DEFAULT_FEATURE_GATES))
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        (on.add if value.strip().lower() in ("true", "1", "t") else on.discard)(name.strip())
    return frozenset(on)


def version_in(image: str) -> str:
    """The version that an image's tag says; "" where it says none."""
    found = _VERSION.fullmatch(image.partition("@")[0].rpartition(":")[2])
    return found.group() if found else ""


def cleaned(item: Object) -> Object:
    """An object without what the server alone says."""
    metadata = {name: value for name, value in item["metadata"].items() if name not in _LEFT_OUT}
    if _REVISION in (metadata.get("annotations") or {}):
        metadata["annotations"] = {name: value for name, value in metadata["annotations"].items() if name != _REVISION}
    return {name: value for name, value in item.items() if name != "status"} | {"metadata": metadata}


def _labelled(item: Object) -> Object:
    labels = {**(item["metadata"].get("labels") or {}), Label.CLUSTERCTL: ""}
    return item | {"metadata": item["metadata"] | {"labels": labels}}


def _entry(label: str, namespace: str, version: str) -> Object:
    """An entry of clusterctl's inventory. Source: cluster-api, cmd/clusterctl/client/repository/components.go."""
    if not version:
        raise ConfigError("the components do not say which version they are, since the image's tag is none: give --components-version")
    return {
        "apiVersion": ENTRY.resource.api_version,
        "kind": ENTRY.resource.kind,
        "metadata": {
            "name": label,
            "namespace": namespace,
            "labels": {Label.PROVIDER: label, "clusterctl.cluster.x-k8s.io/core": "inventory"},
        },
        "providerName": label.removeprefix("control-plane-"),
        "type": "ControlPlaneProvider",
        "version": version,
    }
