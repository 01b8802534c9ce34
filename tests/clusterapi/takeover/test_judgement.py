"""What would become of a control plane under quorate, judged in one simulated life by the manager's own decision, and whether its status is quorate's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache

import msgspec

from quorate.clusterapi.inspection import Finding, Inspector
from quorate.clusterapi.takeover.judgement import prospect, unreported
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.core.takeover.state import ControlPlane, Prospect
from quorate.kubernetes.controller import Request
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import NAME, Wanted
from quorate.simulation.machines.scenarios import Stage, play

STILL = {"RollingOut": "False", "ScalingUp": "False", "ScalingDown": "False", "Remediating": "False"}


def as_upstream_says(finding: Finding, **statuses: str) -> Finding:
    """The same with a status that says so, and that has observed the specification."""
    kcp = finding.observation.kcp
    conditions = [msgspec.structs.replace(each, status=statuses.get(each.type, each.status)) for each in kcp.status.conditions]
    status = msgspec.structs.replace(kcp.status, conditions=conditions, observed_generation=kcp.metadata.generation)
    return replace(finding, observation=replace(finding.observation, kcp=msgspec.structs.replace(kcp, status=status)))


@cache
def judged() -> dict[str, tuple[ControlPlane, bool]]:
    """By moment: what would become of the control plane, and whether its status is what quorate says."""
    found: dict[str, tuple[ControlPlane, bool]] = {}

    async def look(stage: Stage) -> tuple[Inspector, Finding]:
        parts = stage.process.parts
        inspector = Inspector(parts.reconciler.observer, parts.caches, parts.reconciler.publisher, asyncio.Queue(), stage.world.now)
        finding = await inspector.look(Request(NAMESPACE, NAME))
        assert finding is not None
        return inspector, finding

    async def life(stage: Stage) -> None:
        def note(moment: str, inspector: Inspector, finding: Finding) -> None:
            found[moment] = prospect(finding, stage.world.now()), inspector.is_reported(finding)

        stage.environment.start()
        await stage.until(lambda: len(stage.names) == 2, "a second machine is made")
        note("coming up", *await look(stage))
        await stage.settled()
        await stage.passes(60.0)
        note("at rest", *await look(stage))
        stage.environment.edit({"version": "v1.34.3"})
        await stage.passes(0.05)
        note("edited just now", *await look(stage))
        await stage.until(lambda: len(stage.names) == 4, "the first of the new version is made")
        inspector, finding = await look(stage)
        note("rolling out", inspector, finding)
        note("rolling out though its status does not say so", inspector, as_upstream_says(finding, **STILL))
        await stage.settled()
        for name in stage.followers(2):
            stage.destroy(name)
        await stage.passes(300.0)
        stage.environment.edit({"version": "v1.34.4"})
        await stage.passes(60.0)
        inspector, finding = await look(stage)
        note("without a quorum", inspector, as_upstream_says(finding, **STILL))

    played = play(life, Wanted(replicas=3))
    assert not played.violations, played
    return found


def of(moment: str) -> tuple[Prospect, str]:
    control_plane, _ = judged()[moment]
    assert control_plane.name == f"{NAMESPACE}/{NAME}"
    return control_plane.prospect, control_plane.evidence


def test_nothing_becomes_of_a_control_plane_at_rest() -> None:
    assert of("at rest") == (Prospect.AT_REST, "nothing to do")


def test_one_that_comes_up_or_rolls_out_goes_on() -> None:
    assert of("coming up")[0] is Prospect.IN_MOTION
    assert of("coming up")[1].startswith("ScalingUp")
    kind, evidence = of("rolling out")
    assert kind is Prospect.IN_MOTION
    assert "RollingOut" in evidence
    assert "quorate would" in evidence


def test_one_whose_specification_nobody_has_observed_yet_goes_on() -> None:
    kind, evidence = of("edited just now")
    assert kind is Prospect.IN_MOTION
    assert "is not observed yet" in evidence


def test_a_rollout_that_the_other_provider_does_not_know_of_is_no_rollout_of_its() -> None:
    kind, evidence = of("rolling out though its status does not say so")
    assert kind is Prospect.OTHERWISE
    assert evidence.startswith("nothing goes on, and quorate would")


def test_one_that_waits_for_somebody_cannot_be_judged() -> None:
    assert of("without a quorum")[0] is Prospect.UNCLEAR


def test_a_status_that_quorate_has_written_is_quorates() -> None:
    assert judged()["at rest"][1]
    assert not judged()["rolling out though its status does not say so"][1]


def test_what_is_missing_in_a_status_is_told() -> None:
    assert unreported_of(observed=True, reported=True) == ""
    assert "generation" in unreported_of(observed=False, reported=True)
    assert "conditions" in unreported_of(observed=True, reported=False)


def unreported_of(*, observed: bool, reported: bool) -> str:
    body = {
        "metadata": {"name": "a", "namespace": "b", "generation": 2},
        "spec": {"version": "v1.34.4", "machineTemplate": {"spec": {"infrastructureRef": {"kind": "x", "name": "y", "apiGroup": "z"}}}},
        "status": {"observedGeneration": 2 if observed else 1},
    }
    return unreported(msgspec.convert(body, KubeadmControlPlane), reported=reported)
