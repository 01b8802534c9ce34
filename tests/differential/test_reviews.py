"""The comparison of admission reviews finds what differs, knows what differs on purpose, and the reviews are as they are said to be."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from quorate.clusterapi.api import admission, crd, webhooks
from quorate.kubernetes.client import Client
from quorate.kubernetes.webhook import admission_response
from tests.differential.admissions import Reviews, Verdict, on_purpose, patched
from tests.differential.objects import Object
from tests.differential.reviews import CASES, CONTROL_PLANE, TEMPLATE, Reviewer, changed, control_plane, to_be_scaled
from tests.differential.servers import Server, Servers, enabled

SCHEMAS = {
    (definition.resource.kind, version["name"]): version["schema"]["openAPIV3Schema"]
    for definition in crd.DEFINITIONS
    for version in crd.custom_resource_definition(definition)["spec"]["versions"]
}
ALLOWED = Verdict(True, 200)
CONFIGURATION = "kubeadmConfigSpec.clusterConfiguration"


@dataclass
class Ours:
    """In a server's place our own functions, but for what is spoilt in each answer."""

    spoilt: Object = field(default_factory=dict)

    async def review(self, path: str, request: Object) -> Object:
        gates = enabled()
        answers = {
            webhooks.DEFAULT.path: lambda: admission.default(request),
            webhooks.VALIDATE.path: lambda: admission.validate(request, gates),
            webhooks.VALIDATE_TEMPLATE.path: lambda: admission.validate_template(request, gates),
            webhooks.VALIDATE_SCALE.path: lambda: admission.validate_scaling(request, to_be_scaled()[0]),
        }
        response: Object = msgspec.json.decode(msgspec.json.encode(admission_response(answers[path]())))
        return response | self.spoilt


def beside(**spoilt: Any) -> Reviews:
    return Reviews(Servers(cast("Server", Ours(spoilt)), cast("Server", Ours()), cast("Client", None), Path()))


def refused(*fields: str) -> Verdict:
    return Verdict(False, 422, fields)


def creating(**changes: Any) -> Object:
    return {"operation": "CREATE", "object": changed(control_plane("a"), {key.replace("__", "."): value for key, value in changes.items()})}


async def test_what_is_the_same_is_no_difference() -> None:
    both = beside()
    await both.create(control_plane("a"))
    await both.update(control_plane("a"), changed(control_plane("a"), {"replicas": 2}))
    assert both.result.differences == []
    assert both.result.compared == {"default": 2, f"create {CONTROL_PLANE}": 1, f"update {CONTROL_PLANE}": 1}
    assert both.result.allowed == {"default": 2, f"create {CONTROL_PLANE}": 1, f"update {CONTROL_PLANE}": 0}


async def test_another_verdict_is_told_with_the_request() -> None:
    both = beside(allowed=False, status={"code": 422, "details": {"causes": [{"field": "spec.replicas"}]}})
    await both.scale({"metadata": {"name": "stacked", "namespace": "reviews"}, "spec": {"replicas": 3}})
    assert both.result.different == 1
    assert both.result.differences[0].startswith("scale: ours Verdict(allowed=True")
    assert '"replicas": 3' in both.result.differences[0]


async def test_another_object_with_defaults_is_told_with_the_path() -> None:
    both = beside(patch=None)
    await both.create(changed(control_plane("a"), {"replicas": None}))
    assert "default, .spec.replicas: only ours: 1" in both.result.differences


def test_a_patch_is_applied_to_lists_too() -> None:
    operations = [
        {"op": "replace", "path": "/a/0", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "remove", "path": "/b~1c"},
        {"op": "add", "path": "/a/1", "value": 9},
    ]
    response = msgspec.json.decode(msgspec.json.encode({"patch": msgspec.json.encode(operations)}))
    assert patched({"a": [0, 2], "b/c": 1}, response) == {"a": [1, 9, 2, 3]}


@pytest.mark.parametrize(
    ("theirs", "request_", "ours"),
    [
        (refused("spec.replicas"), creating(), refused("spec.replicas")),
        (refused("spec.machineTemplate.infrastructure.name"), creating(), refused("spec.machineTemplate.spec.infrastructureRef.name")),
        (refused("dns.imageTag"), creating(), refused(f"spec.{CONFIGURATION}.dns.imageTag")),
        (ALLOWED, creating(version="v1.21.9"), refused("spec.version")),
        (ALLOWED, creating(version="v1.22.0"), ALLOWED),
        (ALLOWED, creating(rollout__before__certificatesExpiryDays=365), refused("spec.rollout.before.certificatesExpiryDays")),
        (
            ALLOWED,
            creating(rollout__before__certificatesExpiryDays=365, **{f"{CONFIGURATION}__certificateValidityPeriodDays": 400}),
            ALLOWED,
        ),
        (
            refused("spec.replicas"),
            {**creating(replicas=2), "oldObject": changed(control_plane("a"), {"replicas": 2, "remediation": {}})},
            ALLOWED,
        ),
        (refused("spec.version"), {**creating(), "oldObject": changed(control_plane("a"), {"version": "v1"})}, ALLOWED),
        (Verdict(False, 400), creating(version="v1.21.9"), Verdict(False, 400)),
    ],
)
def test_what_differs_on_purpose_is_reckoned_in(theirs: Verdict, request_: Object, ours: Verdict) -> None:
    expected, purposes = on_purpose(theirs, request_)
    assert expected == ours
    assert bool(purposes) == (theirs != ours)


def test_the_same_seed_makes_the_same_reviews_every_case_among_them() -> None:
    one, other = (list(Reviewer(SCHEMAS, random.Random(3)).changes(CONTROL_PLANE, 200)) for _ in range(2))
    assert one == other
    assert len(one) == 200
    assert len({msgspec.json.encode(new["spec"]) for _, new in one[: len(CASES)]}) > 0.9 * len(CASES)


@pytest.mark.parametrize("kind", [CONTROL_PLANE, TEMPLATE])
async def test_many_reviews_are_allowed_and_many_are_not(kind: str) -> None:
    both = beside()
    for obj in Reviewer(SCHEMAS, random.Random(1)).creations(kind, 400):
        await both.create(obj)
    assert 80 < both.result.allowed[f"create {kind}"] < 320
    assert both.result.differences == []
