"""What tenants write into their objects is harmless on the terminal of whoever looks at them all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import pytest

from quorate.cli import lines
from quorate.cli.machines import get
from quorate.cli.machines.plan import plan_of
from quorate.cli.machines.status import status_of
from quorate.clusterapi.desired import intent
from quorate.clusterapi.inspection import Finding
from quorate.core.machines.decide import decide

from .conftest import NOON

if TYPE_CHECKING:
    from .conftest import World

EVIL = "ghost\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[Hall is well \u202eelif"
FAILED = [{"type": kind, "status": "False"} for kind in ("HealthCheckSucceeded", "OwnerRemediated")]


def record(**more: Any) -> str:
    return json.dumps({"machine": EVIL, "timestamp": "2026-01-01T11:59:00Z", "retryCount": 9, **more})


def annotated(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


WRITTEN: dict[str, tuple[tuple[str, str, dict[str, Any]], ...]] = {
    "a remediation in progress": (
        ("machines", "cp-2", {"status": {"conditions": FAILED}}),
        ("kubeadmcontrolplanes", "demo", annotated(**{"controlplane.cluster.x-k8s.io/remediation-in-progress": record()})),
    ),
    "what a Machine was made for": (
        ("machines", "cp-2", {"status": {"conditions": FAILED}}),
        ("machines", "cp-2", annotated(**{"controlplane.cluster.x-k8s.io/remediation-for": record()})),
        ("kubeadmcontrolplanes", "demo", {"spec": {"remediation": {"retryPeriodSeconds": 600, "maxRetry": 3}}}),
    ),
    "a Machine that is being made": (("kubeadmcontrolplanes", "demo", annotated(**{intent.ANNOTATION: json.dumps({"name": EVIL})})),),
    "a Machine's version": (("machines", "cp-2", {"spec": {"version": EVIL}}),),
    "the control plane's version": (("kubeadmcontrolplanes", "demo", {"spec": {"version": EVIL}}),),
    "a topology's version": (("clusters", "demo", {"spec": {"topology": {"version": EVIL}}}),),
    "a topology's step": (
        ("clusters", "demo", {"spec": {"topology": {"version": "v1.36.0"}}}),
        ("clusters", "demo", annotated(**{"topology.internal.cluster.x-k8s.io/upgrade-step": EVIL})),
    ),
    "where a machine was cloned from": (
        (
            "devmachines",
            "cp-2",
            annotated(**{"cluster.x-k8s.io/cloned-from-name": EVIL, "cluster.x-k8s.io/cloned-from-groupkind": "x"}),
        ),
    ),
    "a failure domain": (("clusters", "demo", {"status": {"failureDomains": [{"name": EVIL, "controlPlane": True}]}}),),
    "a Machine's failure domain": (("machines", "cp-2", {"spec": {"failureDomain": EVIL}}),),
    "keys of a configuration": (
        ("kubeadmconfigs", "cp-2", {"spec": {"clusterConfiguration": {EVIL: "x", "apiServer": {EVIL: "x"}}, EVIL: {"x": EVIL}}}),
    ),
    "values of a configuration": (("kubeadmconfigs", "cp-2", {"spec": {"joinConfiguration": {"caCertPath": EVIL}}}),),
    "keys of what is asked for": (
        ("kubeadmcontrolplanes", "demo", {"spec": {"kubeadmConfigSpec": {EVIL: "x", "clusterConfiguration": {EVIL: "x"}}}}),
    ),
    "who is the Cluster's control plane": (
        ("clusters", "demo", {"spec": {"controlPlaneRef": {"apiGroup": EVIL, "kind": EVIL, "name": EVIL}}}),
    ),
    "a template": (
        ("kubeadmcontrolplanes", "demo", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": {"name": EVIL, "kind": EVIL}}}}}),
    ),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
async def test_what_a_tenant_writes_is_printable_on_the_terminal_of_who_looks(
    three: World, written: tuple[tuple[str, str, dict[str, Any]], ...]
) -> None:
    three.api.change("kubeadmcontrolplanes", "demo", {"spec": {"replicas": 5}})
    for plural, name, patch in written:
        three.api.change(plural, name, patch)
    assert_harmless(await shown(three))


async def test_names_in_a_tenants_own_cluster_are_printable(three: World) -> None:
    three.add_node(EVIL)
    three.add_machine("cp-4", node=False)
    assert_harmless(await shown(three))


async def test_a_creation_of_a_name_that_no_machine_can_have_is_none(three: World) -> None:
    three.api.change("kubeadmcontrolplanes", "demo", annotated(**{intent.ANNOTATION: json.dumps({"name": "../demo"})}))
    view = (await three.look()).view
    assert view is not None
    assert view.creation is None


async def shown(world: World) -> str:
    """What the commands print of the control plane, without our own colours."""
    observation = await world.look()
    assert observation.view is not None
    found = Finding(observation, decide(observation.view, world.now))
    texts = (
        lines.explanation(status_of(found, world.now), world.now),
        get.render([get.summary_of(found)], "table", NOON),
        lines.plan(plan_of(found, world.now)),
    )
    return click.unstyle("\n".join(texts))


def assert_harmless(text: str) -> None:
    assert [line for line in text.split("\n") if not line.isprintable()] == []
