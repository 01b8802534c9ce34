"""Who else applies an object: what GitOps controllers, Helm and Cluster API Operator leave on what they manage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quorate.clusterapi.takeover.kinds import Object, key_of

_LABELS = {
    "kustomize.toolkit.fluxcd.io/name": "Flux (Kustomization {})",
    "helm.toolkit.fluxcd.io/name": "Flux (HelmRelease {})",
    "argocd.argoproj.io/instance": "Argo CD (Application {})",
    "addons.cluster.x-k8s.io/applied": "a ClusterResourceSet",
}
_ANNOTATIONS = {
    "argocd.argoproj.io/tracking-id": "Argo CD ({})",
    "meta.helm.sh/release-name": "Helm (release {})",
    "config.k8s.io/owning-inventory": "an inventory of kpt or Config Sync ({})",
}
_OPERATOR = "operator.cluster.x-k8s.io"


def owners(items: Iterable[Object]) -> Iterator[tuple[str, str]]:
    """Objects that somebody manages, each with who that is, as far as they say so. Each owner is named once, with the first of its objects."""
    told = set[str]()
    for item in items:
        for who in _marks(item):
            if who not in told:
                told.add(who)
                yield str(key_of(item)), who


def _marks(item: Object) -> Iterator[str]:
    metadata = item["metadata"]
    for marks, names in ((metadata.get("labels") or {}, _LABELS), (metadata.get("annotations") or {}, _ANNOTATIONS)):
        for name, who in names.items():
            if name in marks:
                yield who.format(str(marks[name]).partition(":")[0])
    for owner in metadata.get("ownerReferences") or ():
        if owner["apiVersion"].partition("/")[0] == _OPERATOR:
            yield f"Cluster API Operator ({owner['kind']} {owner['name']})"
