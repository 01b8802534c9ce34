"""The ConfigMap kube-system/kubeadm-config, from which every machine that joins learns what the control plane is. Read, changed and written if it differs.

Source: UpdateClusterConfiguration in Cluster API's controlplane/kubeadm/pkg/workload_cluster.go.
"""

from __future__ import annotations

from collections.abc import Callable

from quorate.kubeadm.cluster_configuration import Document, decode, encode
from quorate.kubernetes.errors import Conflict, NotFound
from quorate.kubernetes.resource import CONFIG_MAPS
from quorate.workload.static_pods import NAMESPACE
from quorate.workload.updates import Api, CannotUpdate

NAME = "kubeadm-config"
KEY = "ClusterConfiguration"

_ATTEMPTS = 5  # somebody else writing this ConfigMap is rare; five times in a row is not chance


async def update_kubeadm_config(api: Api, change: Callable[[Document], Document]) -> None:
    """Apply `change` to the document, and write what came of it unless that is the very object it was given.

    Written by a merge patch that holds only if nobody has written since; otherwise all is done again, up to five times. Idempotent. Raises CannotUpdate where
    there is no such document or `change` raises ValueError, Conflict, and what else the API answers.
    """
    for attempt in range(_ATTEMPTS):
        try:
            await _update(api, change)
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


async def _update(api: Api, change: Callable[[Document], Document]) -> None:
    try:
        stored = await api.get(CONFIG_MAPS, NAME, NAMESPACE)
    except NotFound as error:
        raise CannotUpdate(
            f"ConfigMap {NAMESPACE}/{NAME} does not exist, so no machine can join: restore it with `kubeadm init phase upload-config kubeadm`"
        ) from error
    if KEY not in stored.data:
        raise CannotUpdate(f"ConfigMap {NAMESPACE}/{NAME} has no key {KEY}: restore it with `kubeadm init phase upload-config kubeadm`")
    try:
        document = decode(stored.data[KEY])
        changed = change(document)
    except ValueError as error:
        raise CannotUpdate(
            f"the key {KEY} of ConfigMap {NAMESPACE}/{NAME} cannot be used: {error}; correct it, or restore it with "
            "`kubeadm init phase upload-config kubeadm`"
        ) from error
    if changed is not document:
        patch = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "data": {KEY: encode(changed)}}
        await api.merge_patch(CONFIG_MAPS, NAME, patch, NAMESPACE)
