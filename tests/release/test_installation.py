"""What is installed: objects that fit together, under either provider's name, with either way to get certificates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from quorate.cli.machines.manager import command
from quorate.clusterapi.api import rbac
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE, Label
from quorate.local.programs import PROGRAMS_FOLDER
from tools.release import clusterctl
from tools.release.clusterctl import COMPONENTS, PROVIDERS
from tools.release.installation import Certificates
from tools.release.product import Product

PRODUCT = Product("1.2.3", "c0ffee", 1_700_000_000, "registry.example.com/quorate")
Objects = Mapping[tuple[str, str], dict[str, Any]]
BOTH = pytest.mark.parametrize("certificates", list(Certificates))
NAMES = pytest.mark.parametrize("provider", PROVIDERS)


def installed(provider: str = "quorate", certificates: Certificates = Certificates.CERT_MANAGER) -> Objects:
    text = clusterctl.with_defaults(clusterctl.components(PRODUCT, provider, certificates))
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


def only(objects: Objects, kind: str) -> dict[str, Any]:
    (found,) = (item for (each, _), item in objects.items() if each == kind)
    return found


def container(objects: Objects) -> dict[str, Any]:
    (found,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]


@NAMES
@BOTH
def test_everything_has_the_providers_label_and_no_variable_without_a_default(provider: str, certificates: Certificates) -> None:
    assert {item["metadata"]["labels"][Label.PROVIDER] for item in installed(provider, certificates).values()} == {
        f"control-plane-{provider}"
    }
    assert "${" not in clusterctl.with_defaults(clusterctl.components(PRODUCT, provider, certificates))


@NAMES
def test_what_is_selected_is_what_the_pods_have(provider: str) -> None:
    objects = installed(provider)
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        only(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        only(objects, "Service")["spec"]["selector"],
        only(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    ports = {each["name"]: each["containerPort"] for each in container(objects)["ports"]}
    assert ports == {"webhook-server": 9443, "healthz": 9440, "metrics": 8443}
    assert {each["port"] for each in only(objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"]} == set(ports)


@BOTH
def test_the_command_line_is_one_that_the_manager_takes(certificates: Certificates) -> None:
    arguments = container(installed(certificates=certificates))["args"]
    assert all(re.fullmatch(r"--[a-z-]+=.*", each) for each in arguments)
    given = command.make_context("manager", list(arguments)).params
    assert given["leader_elect"] is True
    assert given["feature_gates"]["MachinePool"] is True


@NAMES
def test_roles_are_those_of_the_code_and_each_is_bound_to_the_account_of_the_pods(provider: str) -> None:
    objects = installed(provider)
    account = only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    rules = objects["ClusterRole", "capi-kubeadm-control-plane-manager-role"]["rules"]
    assert rules == [grant.manifest() for grant in rbac.MANAGER]
    bindings = [item for (kind, _), item in objects.items() if kind.endswith("Binding")]
    assert {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings} == {
        ("ClusterRole", "capi-kubeadm-control-plane-aggregated-manager-role"),
        ("Role", "capi-kubeadm-control-plane-leader-election-role"),
    }
    assert [each["subjects"] for each in bindings] == [[{"kind": "ServiceAccount", "name": account, "namespace": DEFAULT_NAMESPACE}]] * 2


def test_without_cert_manager_nothing_of_it_is_left_and_the_manager_may_tell_the_api_server() -> None:
    text = clusterctl.components(PRODUCT, "quorate", Certificates.SELF_MANAGED)
    assert "cert-manager" not in text
    objects = installed(certificates=Certificates.SELF_MANAGED)
    assert "--webhook-certificates=self-managed" in container(objects)["args"]
    granted = objects["ClusterRole", "capi-kubeadm-control-plane-manager-role"]["rules"]
    named = {name for rule in granted for name in rule.get("resourceNames", ()) if "patch" in rule["verbs"]}
    told = {name for kind, name in objects if kind.endswith("WebhookConfiguration") or kind == "CustomResourceDefinition"}
    assert named == told


@pytest.mark.integration
def test_the_names_that_both_providers_share_are_upstreams() -> None:
    """So that whichever is installed second replaces what the first left: there is never a second webhook, Service or role for the same thing."""
    upstream = {
        (each["kind"], each["metadata"]["name"])
        for each in yaml.safe_load_all((PROGRAMS_FOLDER / "controlplane-kubeadm.yaml").read_text())
        if each
    }
    ours = set(installed("kubeadm"))
    assert upstream - ours == set()
    assert {kind for kind, _ in ours - upstream} == {"NetworkPolicy", "PodDisruptionBudget"}
    assert {kind for kind, _ in ours ^ set(installed("quorate"))} == {"Deployment", "NetworkPolicy", "PodDisruptionBudget"}


def test_metadata_maps_the_series_to_the_contract() -> None:
    found = yaml.safe_load(clusterctl.metadata(PRODUCT))
    assert (found["apiVersion"], found["kind"]) == ("clusterctl.cluster.x-k8s.io/v1alpha3", "Metadata")
    assert found["releaseSeries"] == [{"major": 1, "minor": 2, "contract": "v1beta2"}]


def test_a_repository_has_a_folder_for_each_name_and_version(tmp_path: Any) -> None:
    clusterctl.write(tmp_path, PRODUCT)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {f"control-plane-{name}/v1.2.3/{file}" for name in PROVIDERS for file in ("metadata.yaml", *COMPONENTS.values())}
