"""How CoreDNS in the cluster differs from what the manifest says. Pure. Its Corefile is its owner's: a manifest says nothing of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from quorate.core.health import Absent
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.observe.values import differ, difference
from quorate.hosts.render.core_dns import budget_wanted
from quorate.hosts.render.kubeadm_configuration import cluster_configuration
from quorate.workload.coredns import images
from quorate.workload.updates import CannotUpdate


def core_dns_differences(manifest: Manifest, api: ApiReading) -> Iterator[str]:
    """Each as a sentence. Of a cluster without CoreDNS, which somebody has removed, nothing is asked."""
    if not isinstance(api.core_dns, Mapping):
        return
    replicas = api.core_dns["spec"].get("replicas")
    if differ(replicas, wanted := manifest.features.core_dns.replicas):
        yield f"CoreDNS: replicas {difference(replicas, wanted)}"
    with suppress(CannotUpdate):  # an image by its digest, or a Deployment of somebody's own making
        current, image = images(api.core_dns, cluster_configuration(manifest))
        if current != image:
            yield f"CoreDNS: image {difference(str(current), str(image))}"
    match api.core_dns_budget, budget_wanted(manifest):
        case Absent(), True:
            yield "CoreDNS: its PodDisruptionBudget is missing"
        case Mapping(), False:
            yield "CoreDNS: it has a PodDisruptionBudget, and the manifest leaves it out"
