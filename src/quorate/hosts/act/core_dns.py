"""Updates CoreDNS to match the manifest, by patches of the fields that the manifest decides."""

from __future__ import annotations

from contextlib import suppress

from quorate.hosts.manifest import Manifest
from quorate.hosts.render.core_dns import BUDGET, BUDGETS, budget_wanted
from quorate.hosts.render.kubeadm_configuration import cluster_configuration
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import AlreadyExists, NotFound
from quorate.workload.coredns import DEPLOYMENTS, NAME, move_image
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import CannotUpdate, checked


async def update_core_dns(manifest: Manifest, api: Client) -> None:
    """Set what differs. Idempotent; a cluster without CoreDNS, and an image whose version cannot be told, are left alone.

    Raises CannotUpdate for a Deployment that cannot be read, and what the API answers.
    """
    with suppress(NotFound):
        deployment = await api.get(DEPLOYMENTS, NAME, NAMESPACE)
        checked(deployment, f"Deployment {NAMESPACE}/{NAME}")
        replicas = manifest.features.core_dns.replicas
        if deployment["spec"].get("replicas") != replicas:
            metadata = {"resourceVersion": deployment["metadata"]["resourceVersion"]}
            await api.merge_patch(DEPLOYMENTS, NAME, {"metadata": metadata, "spec": {"replicas": replicas}}, NAMESPACE)
        with suppress(CannotUpdate):
            await move_image(api, cluster_configuration(manifest))
        await _ensure_budget(manifest, api)


async def _ensure_budget(manifest: Manifest, api: Client) -> None:
    wanted = budget_wanted(manifest)
    try:
        await api.get(BUDGETS, NAME, NAMESPACE)
    except NotFound:
        if wanted:
            with suppress(AlreadyExists):
                await api.create(BUDGETS, BUDGET, NAMESPACE)
        return
    if wanted is False:
        await api.delete(BUDGETS, NAME, NAMESPACE)
