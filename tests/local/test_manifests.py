"""Upstream's manifests, rewritten for managers on loopback."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

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


def test_own_kinds_come_with_their_webhooks_and_the_namespace_of_the_lease() -> None:
    own = manifests.own(webhook_port=25001, ca=CA)
    assert [item["spec"]["group"] for item in own.kinds] == ["controlplane.cluster.x-k8s.io"] * 2
    assert [item["metadata"]["name"] for item in own.namespaces] == ["capi-kubeadm-control-plane-system"]
    assert [item["kind"] for item in own.webhooks] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    configs = [item["spec"]["conversion"]["webhook"]["clientConfig"] for item in own.kinds]
    configs += [hook["clientConfig"] for item in own.webhooks for hook in item["webhooks"]]
    assert {config["url"].rpartition("/")[0] for config in configs} == {"https://127.0.0.1:25001"}


def test_where_nobody_serves_webhooks_there_are_none_and_nothing_needs_converting() -> None:
    own = manifests.own(webhook_port=0, ca=CA)
    assert own.webhooks == ()
    assert not [item for item in own.kinds if "conversion" in item["spec"]]
    assert {(v["name"], v["served"], v["storage"]) for item in own.kinds for v in item["spec"]["versions"]} == {
        ("v1beta1", False, False),
        ("v1beta2", True, True),
    }
