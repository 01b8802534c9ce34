"""A control plane whose etcd is not its own: no ring to count, and the API servers' word for how its etcd is."""

from __future__ import annotations

from quorate.core.checks import unknown
from quorate.simulation.machines.cluster_objects import Wanted
from quorate.simulation.machines.scenarios import Stage
from quorate.simulation.machines.workload_cluster import ExternalEtcd
from tests.proof.guard import Function
from tests.proof.guards import says_nothing, says_yes
from tests.simulation.staging import Scenario


async def three_are_made_upgraded_and_scaled(stage: Stage) -> None:
    """Three come up, are upgraded, become four, for any number is good here, and two."""
    await stage.up()
    stage.environment.edit({"version": "v1.34.3"})
    await stage.settled(within=600)
    for replicas in (4, 2):
        stage.environment.edit({"replicas": replicas})
        await stage.settled(within=300)


def the_ring_must_be_known(_check: Function) -> Function:
    """Where no ring can be read nobody joins."""
    return lambda _plane: (unknown("ring", "it is not known"),)


async def one_is_lost(stage: Stage) -> None:
    """One of three is lost, and a health check fails it."""
    await stage.up()
    lost = stage.names[1]
    stage.destroy(lost)
    await stage.passes(60.0)
    stage.mark(lost)
    await stage.settled(within=600)
    stage.expect(lost not in stage.names, "it is there still")


def a_member_must_be_known(_check: Function) -> Function:
    """Without knowing its member nobody goes."""
    return lambda *_: unknown("member", "it is not known")


async def its_etcd_does_not_answer(stage: Stage) -> None:
    """The etcd of others goes down when one more replica is asked for: it is made when that etcd is back, and why not before is said."""
    await stage.up()
    _external(stage).well = False
    await stage.passes(60.0)
    before = stage.names
    stage.environment.edit({"replicas": 4})
    await stage.stays(lambda: stage.names == before, "one more was made though no API server reaches its etcd", seconds=180)
    stage.expect(stage.condition("EtcdClusterHealthy").get("status") != "True", "its etcd is said to be well")
    _external(stage).well = True
    await stage.settled(within=600)


def _external(stage: Stage) -> ExternalEtcd:
    external = stage.environment.cluster.external
    if external is None:
        raise AssertionError("etcd is not external")
    return external


EXTERNAL = Wanted(external_etcd=True)

SCENARIOS = (
    Scenario(
        "external etcd: three are made, upgraded, and scaled to numbers that are even",
        three_are_made_upgraded_and_scaled,
        "where no ring can be read nobody joins",
        {"core.machines.rules.preflight:_ring_bears_one_more": the_ring_must_be_known},
        "liveness",
        EXTERNAL,
    ),
    Scenario(
        "external etcd: one that is lost is replaced",
        one_is_lost,
        "nobody goes whose member is not known",
        {"core.machines.rules.loss:_quorum": a_member_must_be_known},
        "liveness",
        EXTERNAL,
    ),
    Scenario(
        "external etcd: nobody joins while no API server reaches its etcd",
        its_etcd_does_not_answer,
        "what is not ours is no concern of ours",
        {"core.machines.checks:_external_etcd_answers": says_yes, "core.machines.rules.guard:wait_for_the_workload_cluster": says_nothing},
        "scene",
        EXTERNAL,
    ),
)
