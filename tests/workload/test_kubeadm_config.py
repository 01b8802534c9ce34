"""The ConfigMap kubeadm-config is read, changed and written if it differs; nobody's write is lost."""

from __future__ import annotations

import pytest

from quorate.kubeadm.cluster_configuration import Document, decode
from quorate.kubernetes.errors import Conflict, ConnectionFailed
from quorate.workload.kubeadm_config import update_kubeadm_config
from quorate.workload.updates import CannotUpdate

from .cluster_api import ClusterApi, config_map

TEXT = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\n"


def _api(text: str = TEXT) -> ClusterApi:
    api = ClusterApi()
    api.put("configmaps", config_map("kubeadm-config", {"ClusterConfiguration": text, "other": "kept"}))
    return api


def _upgrade(document: Document) -> Document:
    return document if document.get("kubernetesVersion") == "v1.35.4" else {**document, "kubernetesVersion": "v1.35.4"}


def _stored(api: ClusterApi) -> Document:
    return decode(api.objects["configmaps", "kubeadm-config"]["data"]["ClusterConfiguration"])


async def test_a_difference_is_written_once_and_other_keys_stay() -> None:
    api = _api()
    await update_kubeadm_config(api, _upgrade)
    await update_kubeadm_config(api, _upgrade)
    assert _stored(api)["kubernetesVersion"] == "v1.35.4"
    assert api.objects["configmaps", "kubeadm-config"]["data"]["other"] == "kept"
    assert len(api.writes) == 1


async def test_a_write_in_between_is_read_and_kept() -> None:
    api = _api()
    api.before_patch.append(
        lambda: api.put("configmaps", config_map("kubeadm-config", {"ClusterConfiguration": f"{TEXT}clusterName: theirs\n"}))
    )
    await update_kubeadm_config(api, _upgrade)
    assert (_stored(api)["clusterName"], _stored(api)["kubernetesVersion"]) == ("theirs", "v1.35.4")


async def test_a_conflict_without_end_is_told() -> None:
    api = _api()
    api.before_patch += [lambda: api.put("configmaps", api.objects["configmaps", "kubeadm-config"])] * 9
    with pytest.raises(Conflict):
        await update_kubeadm_config(api, _upgrade)
    assert len(api.reads) == 5


async def test_a_write_whose_answer_was_lost_is_not_made_again() -> None:
    api = _api()
    api.lose_answer_of = 0
    with pytest.raises(ConnectionFailed):
        await update_kubeadm_config(api, _upgrade)
    await update_kubeadm_config(api, _upgrade)
    assert len(api.writes) == 1


@pytest.mark.parametrize(
    ("api", "said"),
    [
        (ClusterApi(), "does not exist"),
        (_api("kind: Pod"), "cannot be used"),
    ],
)
async def test_a_config_that_is_missing_or_broken_is_an_error_with_a_way_out(api: ClusterApi, said: str) -> None:
    with pytest.raises(CannotUpdate, match=f"kube-system/kubeadm-config {said}|{said}.*upload-config"):
        await update_kubeadm_config(api, _upgrade)


async def test_a_config_map_without_its_key_is_an_error() -> None:
    api = ClusterApi()
    api.put("configmaps", config_map("kubeadm-config", {}))
    with pytest.raises(CannotUpdate, match="no key ClusterConfiguration"):
        await update_kubeadm_config(api, _upgrade)
