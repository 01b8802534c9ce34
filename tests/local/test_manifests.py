"""Upstream's manifests, rewritten for managers on loopback."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.local import manifests
from quorate.local.errors import MissingTool
from quorate.local.manifests import ManifestSet

CA = b"the CA"
SERVICE = {"service": {"name": "webhook-service", "namespace": "capi-system", "path": "/validate-it"}}
INJECTED = {"cert-manager.io/inject-ca-from": "capi-system/serving-cert"}


def kind(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "machines", "labels": {"a": "b"}, "annotations": INJECTED},
        "spec": spec,
    }


HOOKS = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "capi", "annotations": INJECTED},
    "webhooks": [{"name": "machine", "clientConfig": SERVICE, "failurePolicy": "Fail"}],
}
ITEMS = [
    kind(group="cluster.x-k8s.io", conversion={"strategy": "Webhook", "webhook": {"clientConfig": SERVICE}}),
    kind(group="cluster.x-k8s.io"),
    HOOKS,
    {"kind": "Namespace", "metadata": {"name": "capi-system"}},
    {"kind": "Deployment", "metadata": {"name": "capi-controller-manager"}},
    {"kind": "Role", "metadata": {"name": "manager"}},
]


@pytest.fixture
def made() -> ManifestSet:
    return manifests.manifest_set(ITEMS, webhook_port=25001, ca=CA)


def test_conversion_goes_to_the_manager_on_loopback_under_the_local_ca(made: ManifestSet) -> None:
    webhook = made.kinds[0]["spec"]["conversion"]["webhook"]
    assert webhook["clientConfig"] == {"url": "https://127.0.0.1:25001/convert", "caBundle": base64.b64encode(CA).decode()}
    assert webhook["conversionReviewVersions"] == ["v1"]
    assert "conversion" not in made.kinds[1]["spec"]


def test_webhooks_keep_their_path_and_policy(made: ManifestSet) -> None:
    (hook,) = made.webhooks[0]["webhooks"]
    assert hook["clientConfig"]["url"] == "https://127.0.0.1:25001/validate-it"
    assert hook["failurePolicy"] == "Fail"


def test_labels_stay_for_they_are_the_contract_and_annotations_for_cert_manager_go(made: ManifestSet) -> None:
    assert made.kinds[0]["metadata"] == {"name": "machines", "labels": {"a": "b"}}
    assert "annotations" not in made.webhooks[0]["metadata"]


def test_deployments_and_roles_stay_out(made: ManifestSet) -> None:
    assert [item["metadata"]["name"] for item in made.namespaces] == ["capi-system"]
    assert len(made.kinds) + len(made.namespaces) + len(made.webhooks) == 4


@pytest.mark.usefixtures("made")
def test_what_was_read_is_not_changed() -> None:
    assert HOOKS["webhooks"] == [{"name": "machine", "clientConfig": SERVICE, "failurePolicy": "Fail"}]
    assert ITEMS[0]["spec"]["conversion"]["webhook"] == {"clientConfig": SERVICE}


def test_merged_manifest_set_keeps_the_order_of_its_parts(made: ManifestSet) -> None:
    twice = manifests.merge([made, made])
    assert twice.kinds == made.kinds * 2
    assert twice.webhooks == made.webhooks * 2


def test_a_manifest_that_was_not_rendered_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match=r"core\.yaml is missing: build the programs and their manifests with `make programs`"):
        manifests.read(tmp_path / "core.yaml")


def test_own_kinds_come_as_they_are_with_the_namespace_of_the_lease(tmp_path: Path) -> None:
    (tmp_path / "kinds.yaml").write_text(yaml.safe_dump_all([kind(group="controlplane.cluster.x-k8s.io"), None, {"kind": "Other"}]))
    own = manifests.own_kinds(tmp_path)
    assert [item["spec"]["group"] for item in own.kinds] == ["controlplane.cluster.x-k8s.io"]
    assert [item["metadata"]["name"] for item in own.namespaces] == ["capi-kubeadm-control-plane-system"]
    assert own.webhooks == ()


def test_missing_own_kinds_are_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="holds no CustomResourceDefinitions: write them with `make manifests`"):
        manifests.own_kinds(tmp_path)
