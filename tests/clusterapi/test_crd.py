"""The published CRDs: compared path by path with upstream's facts, fresh as committed, and acceptable to an API server."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml
from msgspec import inspect as types

from quorate.clusterapi.api import crd, rbac, webhooks
from quorate.clusterapi.types.schema import ApiStruct, published_as, text

ROOT = Path(__file__).parents[2]
FACTS = Path(__file__).parent / "upstream_schema"
TEMPLATE, CONTROL_PLANE = "kubeadmcontrolplanetemplates", "kubeadmcontrolplanes"

STRUCTURE = ("properties", "items", "additionalProperties", "required", "description")


def flat(schema: dict[str, Any], path: str = "", *, required: bool = False) -> dict[str, dict[str, Any]]:
    """A schema as one entry for each path: `[]` for items of a list, `{}` for values of a map."""
    facts = {key: value for key, value in schema.items() if key not in STRUCTURE} | ({"required": True} if required else {})
    found = {path: facts}
    for name, part in schema.get("properties", {}).items():
        found |= flat(part, f"{path}.{name}", required=name in schema.get("required", ()))
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            found |= flat(schema[key], path + suffix)
    return found


def facts(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FACTS / name).read_text())
    return content


def upstream(plural: str, version: str, config_path: str) -> dict[str, Any]:
    """Upstream's facts of one CRD, with the part that both share put in its place."""
    suffix = "" if version == "v1beta2" else f"_{version}"
    shared = {config_path + path: fact for path, fact in facts(f"kubeadmconfigspec{suffix}.json").items()}
    return facts(f"{plural.removesuffix('s')}{suffix}.json") | shared


def version_of(plural: str, name: str = "v1beta2") -> dict[str, Any]:
    (definition,) = [each for each in crd.DEFINITIONS if each.resource.plural == plural]
    versions = crd.custom_resource_definition(definition, webhooks.conversion())["spec"]["versions"]
    (version,) = [each for each in versions if each["name"] == name]
    assert isinstance(version, dict)
    return version


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(
    ("plural", "config_path"), [(CONTROL_PLANE, ".spec.kubeadmConfigSpec"), (TEMPLATE, ".spec.template.spec.kubeadmConfigSpec")]
)
def test_every_path_is_upstreams(plural: str, config_path: str, version: str) -> None:
    ours, theirs = flat(version_of(plural, version)["schema"]["openAPIV3Schema"]), upstream(plural, version, config_path)
    assert {path: (ours.get(path), theirs.get(path)) for path in ours | theirs if ours.get(path) != theirs.get(path)} == {}


def test_the_facts_are_of_the_whole_schema() -> None:
    kinds = ("kubeadmconfigspec", "kubeadmcontrolplane", "kubeadmcontrolplanetemplate")
    assert [len(facts(f"{name}.json")) for name in kinds] == [348, 88, 44]
    assert [len(facts(f"{name}_v1beta1.json")) for name in kinds] == [337, 88, 41]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("plural", [CONTROL_PLANE, TEMPLATE])
def test_columns_are_upstreams(plural: str, version: str) -> None:
    columns = version_of(plural, version)["additionalPrinterColumns"]
    ours = [{key: value for key, value in column.items() if key != "description"} for column in columns]
    assert ours == facts("columns.json" if version == "v1beta2" else "columns_v1beta1.json")[plural]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_the_control_plane_has_status_and_scale_and_the_template_neither(version: str) -> None:
    assert version_of(CONTROL_PLANE, version)["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert version_of(TEMPLATE, version)["subresources"] == {}


def test_names_labels_and_categories() -> None:
    control_plane, template = (crd.custom_resource_definition(definition, webhooks.conversion()) for definition in crd.DEFINITIONS)
    assert control_plane["metadata"] == {
        "name": "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
        "labels": {
            "clusterctl.cluster.x-k8s.io": "",
            "cluster.x-k8s.io/v1beta1": "v1beta1",
            "cluster.x-k8s.io/v1beta2": "v1beta2",
            "cluster.x-k8s.io/provider": "control-plane-kubeadm",
        },
    }
    assert control_plane["spec"]["names"] == {
        "kind": "KubeadmControlPlane",
        "listKind": "KubeadmControlPlaneList",
        "plural": "kubeadmcontrolplanes",
        "singular": "kubeadmcontrolplane",
        "categories": ["cluster-api"],
        "shortNames": ["kcp"],
    }
    assert template["metadata"]["name"] == "kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io"
    assert "shortNames" not in template["spec"]["names"]


def test_v1beta1_is_served_as_deprecated_where_a_webhook_converts_and_v1beta2_is_stored() -> None:
    for definition in crd.DEFINITIONS:
        spec = crd.custom_resource_definition(definition, webhooks.conversion())["spec"]
        versions = [(v["name"], v["served"], v["storage"], v.get("deprecated", False)) for v in spec["versions"]]
        assert versions == [("v1beta1", True, False, True), ("v1beta2", True, True, False)]
        service = spec["conversion"]["webhook"]["clientConfig"]["service"]
        assert service == {
            "name": "capi-kubeadm-control-plane-webhook-service",
            "namespace": "capi-kubeadm-control-plane-system",
            "path": "/convert",
        }


def test_where_nobody_converts_v1beta1_is_known_and_not_served() -> None:
    for definition in crd.DEFINITIONS:
        made = crd.custom_resource_definition(definition)
        assert [(v["name"], v["served"], v["storage"]) for v in made["spec"]["versions"]] == [
            ("v1beta1", False, False),
            ("v1beta2", True, True),
        ]
        assert "conversion" not in made["spec"]
        assert "cluster.x-k8s.io/v1beta1" not in made["metadata"]["labels"]


def test_everything_is_described() -> None:
    def undescribed(schema: dict[str, Any], path: str) -> list[str]:
        found = [] if schema.get("description") or path.endswith(("[]", "{}")) or path in ("", ".metadata") else [path]
        for name, part in schema.get("properties", {}).items():
            found += undescribed(part, f"{path}.{name}")
        for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
            found += undescribed(schema[key], path + suffix) if key in schema else []
        return found

    for plural in (CONTROL_PLANE, TEMPLATE):
        for version in ("v1beta1", "v1beta2"):
            assert undescribed(version_of(plural, version)["schema"]["openAPIV3Schema"], "") == []


@pytest.mark.parametrize(("folder", "files"), [("crd", crd.files()), ("rbac", rbac.files()), ("webhook", webhooks.files())])
def test_committed_manifests_are_fresh(folder: str, files: dict[str, str]) -> None:
    committed = {path.name: path.read_text() for path in (ROOT / "config" / folder).glob("*.yaml")}
    assert committed == files, "run `make manifests`"


def test_manifests_read_back_as_they_were_made() -> None:
    for definition, content in zip(crd.DEFINITIONS, crd.files().values(), strict=True):
        assert yaml.safe_load(content) == crd.custom_resource_definition(definition, webhooks.conversion())
        assert "&id" not in content


def test_webhooks_are_upstreams() -> None:
    theirs = facts("webhooks.json")
    for configuration in webhooks.configurations():
        for hook in configuration["webhooks"]:
            service = hook.pop("clientConfig")["service"]
            assert service.pop("path") == theirs["paths"][hook["name"]]
            assert service == {"name": "capi-kubeadm-control-plane-webhook-service", "namespace": "capi-kubeadm-control-plane-system"}
        assert {hook["name"]: hook for hook in configuration["webhooks"]} == theirs[configuration["metadata"]["name"]]


class Inner(ApiStruct):
    """What is inside."""

    name: Annotated[str, text("A name.", most=5)]


class Outer(ApiStruct):
    """What is outside."""

    kept: Annotated[dict[str, Any], published_as(Inner, "Kept as it is.")] = msgspec.field(default_factory=dict)
    when: datetime | None = None
    number_or_text: int | str | None = None


def test_a_field_kept_as_a_dict_publishes_the_schema_it_is_told_to() -> None:
    kept = crd.struct_schema(Outer)["properties"]["kept"]
    assert kept["properties"]["name"] == {"type": "string", "description": "A name.", "minLength": 1, "maxLength": 5}
    assert kept["required"] == ["name"]
    assert kept["description"] == "Kept as it is."


def test_optional_fields_are_published_without_null() -> None:
    properties = crd.struct_schema(Outer)["properties"]
    assert properties["when"] == {"type": "string", "format": "date-time"}
    assert properties["numberOrText"] == {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def test_a_type_without_a_structural_schema_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"AnyType.*no structural schema"):
        crd.schema_of(types.AnyType())
    with pytest.raises(TypeError, match="only int-or-string"):
        crd.schema_of(types.UnionType((types.IntType(), types.BoolType())))


def test_the_roles_are_upstreams() -> None:
    manager, aggregated, election = rbac.roles()
    rules = {
        (group, resource, verb)
        for rule in manager["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if "resourceNames" not in rule
    }
    assert ("", "secrets", "patch") in rules
    assert ("cluster.x-k8s.io", "machines/status", "patch") in rules
    assert ("cluster.x-k8s.io", "clusters", "patch") not in rules
    assert not {resource for _, resource, _ in rules} & {"pods", "nodes", "configmaps"}
    named = [rule for rule in manager["rules"] if "resourceNames" in rule]
    assert [rule["resourceNames"] for rule in named] == [[definition.name for definition in crd.DEFINITIONS]]
    label = "kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager"
    assert manager["metadata"]["labels"][label] == "true"
    assert aggregated["aggregationRule"] == {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
    assert election["kind"] == "Role"
    assert election["rules"][1]["apiGroups"] == ["coordination.k8s.io"]
