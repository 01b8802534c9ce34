"""The four remediation scenarios of the proposal for Cluster API's KubeadmControlPlane (20191017-kubeadm-based-control-plane.md), by their names there."""

from __future__ import annotations

from typing import Any

from quorate.core.proposal import NOTHING
from quorate.simulation.machines.hosts import State
from quorate.simulation.machines.scenarios import Stage
from quorate.workload.static_pods import Component
from tests.proof.guard import Function, returns
from tests.proof.guards import YES, lets_pass, returns_the_view, says_nothing, says_yes
from tests.simulation.staging import Scenario


async def scenario_1(stage: Stage) -> None:
    """One of three fails, etcd and all: it goes first, and then one takes its place."""
    await stage.up()
    failed = stage.followers(1)[0]
    begun = stage.world.time()
    stage.destroy(failed)
    await stage.passes(60.0)
    stage.mark(failed)
    await stage.until(lambda: stage.machine(failed) is None, "the one that failed goes", within=120)
    stage.expect(stage.most_members_since(begun) == 3, "its replacement joined before it had gone")
    await stage.settled(within=300)
    stage.quorum_since(begun)


async def scenario_2(stage: Stage) -> None:
    """Two of three are marked, and only one of them has lost its etcd: they are replaced one after the other."""
    await stage.up()
    dead, ill = stage.followers(2)
    begun, first_ones = stage.world.time(), set(stage.names)
    stage.destroy(dead)
    await stage.passes(60.0)
    stage.mark(dead)
    stage.mark(ill)
    await stage.until(lambda: set(stage.names) - first_ones, "the replacement of the first is made", within=200)
    stage.expect(dead not in stage.names and _is_there(stage, ill), "the second one goes before the first is replaced")
    await stage.until(lambda: stage.machine(ill) is None, "the second one goes too", within=300)
    await stage.settled(within=300)
    stage.quorum_since(begun)


async def scenario_2_without_quorum(stage: Stage) -> None:
    """Two of three have lost their etcd: nobody is replaced, and it is said that a human is needed; one of them comes back, and the rest is done."""
    await stage.up()
    dead, down = stage.followers(2)
    stage.destroy(dead)
    stage.power(down, on=False)
    await stage.passes(60.0)
    stage.mark(dead)
    stage.mark(down)
    await stage.stays(lambda: _is_there(stage, dead) and _is_there(stage, down), "one was deleted, and there was no quorum", seconds=180)
    stage.expect(stage.condition("Stalled").get("status") == "True", "nobody is told that a human is needed")
    stage.power(down, on=True)
    await stage.until(lambda: stage.machine(dead) is None, "the dead one is replaced", within=300)
    await stage.settled(within=600)


async def scenario_3(stage: Stage) -> None:
    """The etcd of one does not answer, and another one is marked: it is not replaced as long as the first does not answer, and it is said why."""
    await stage.up()
    unresponsive, marked = stage.followers(2)
    begun = stage.world.time()
    _etcd(stage, unresponsive, State.FAILING)
    await stage.passes(30.0)
    stage.mark(marked)
    await stage.stays(lambda: _is_there(stage, marked), "it was deleted, and etcd could not do without it", seconds=180)
    refusal = stage.condition("OwnerRemediated", marked)
    stage.expect(refusal["reason"] == "CannotBeRemediated" and "quorum" in refusal["message"], f"it is not said why: {refusal}")
    _etcd(stage, unresponsive, State.RUNNING)
    await stage.until(lambda: stage.machine(marked) is None, "it is replaced once all answer", within=300)
    await stage.settled(within=300)
    stage.quorum_since(begun)


async def scenario_4(stage: Stage) -> None:
    """A machine fails in the middle of a rollout: it is replaced first, by the new specification, and then the rollout goes on."""
    await stage.up()
    failed = stage.followers(1)[0]
    begun = stage.world.time()
    stage.destroy(failed)
    await stage.passes(60.0)
    stage.environment.edit({"version": "v1.34.3"})
    stage.mark(failed)
    first_ones = set(stage.names)
    await stage.until(lambda: set(stage.names) - first_ones, "a replacement is made", within=200)
    stage.expect(failed not in stage.names, "somebody else went first")
    newest = stage.machine(stage.names[-1])
    stage.expect(newest is not None and newest.spec["version"] == "v1.34.3", "its replacement is of the old version")
    await stage.settled(within=600)
    stage.quorum_since(begun)


def not_during_a_rollout(rule: Function) -> Function:
    """What is to be replaced anyway need not be remediated."""
    return lambda plane, now: NOTHING if plane.outdated else rule(plane, now)


def _is_there(stage: Stage, name: str) -> bool:
    machine = stage.machine(name)
    return machine is not None and not machine.deleting


def _etcd(stage: Stage, name: str, state: State) -> None:
    stage.host(name).components[Component.ETCD] = state
    stage.environment.kubelets.poke(stage.host(name))


UNGATED: dict[str, Any] = {
    "core.machines.rules.loss:_quorum": says_yes,
    "clusterapi.act.remediation:_asked": returns((YES,)),
    "clusterapi.act.etcd_membership:read_afresh": returns_the_view,
}

SCENARIOS = (
    Scenario(
        "scenario 1: three replicas, one machine marked for remediation",
        scenario_1,
        "nobody is remediated",
        {"core.machines.rules.remediate:remediate": says_nothing},
        "liveness",
    ),
    Scenario(
        "scenario 2: three replicas, two machines marked for remediation",
        scenario_2,
        "both may go at once",
        {"core.machines.rules.remediate:_previous_finished": says_yes, "core.machines.rules.remediate:keep_the_records": says_nothing},
        "scene",
    ),
    Scenario(
        "scenario 2: three replicas, two machines marked for remediation, and no quorum",
        scenario_2_without_quorum,
        "what is marked goes",
        {
            **UNGATED,
            "core.machines.rules.guard:wait_for_the_workload_cluster": says_nothing,
            "core.machines.checks:another_serves": says_yes,
            "clusterapi.act.etcd_membership:pass_leadership_on": lets_pass,
        },
        "scene",
    ),
    Scenario(
        "scenario 3: three replicas, one unresponsive etcd member, one (different) unhealthy machine",
        scenario_3,
        "what is marked goes",
        UNGATED,
        "scene",
    ),
    Scenario(
        "scenario 4: unhealthy machines combined with rollout",
        scenario_4,
        "what is to be replaced anyway need not be remediated",
        {"core.machines.rules.remediate:remediate": not_during_a_rollout},
        "liveness",
    ),
)
