"""The management objects come to be others than those that quorate wrote: set back to an older backup, or moved to where their status is lost."""

from __future__ import annotations

from quorate.core.health import Unknown
from quorate.simulation.engine.objects import BACKED_UP
from quorate.simulation.machines import restores
from quorate.simulation.machines.scenarios import Stage
from tests.proof.guard import Function
from tests.proof.guards import says_yes
from tests.simulation.staging import ONE, Scenario


async def a_backup_of_three_is_restored_when_there_are_five(stage: Stage) -> None:
    """Two members run on Nodes that no object speaks of. They stay, until a person who has read about them consents to their removal."""
    await stage.up()
    backup = stage.world.management.backup(BACKED_UP)
    known = set(stage.names)
    stage.environment.edit({"replicas": 5})
    await stage.settled()
    begun = stage.world.time()
    stage.world.management.restore(backup, BACKED_UP, who=restores.RESTORE)
    stage.restart()
    await stage.stays(lambda: len(stage.ring.voters) == 5, "a member that is well was removed unasked", seconds=600)
    restores.put_right(stage.environment)
    await stage.settled()
    stage.quorum_since(begun)
    stage.expect(set(stage.names) == known, "Machines that were there at all times were replaced")


async def the_only_machine_is_moved_and_then_called_failed(stage: Stage) -> None:
    """Nothing says any more that the cluster was initialized, its endpoint is not reached from there, and a health check fails its only Machine."""
    await stage.up()
    only, member = stage.names[0], stage.member(stage.names[0])
    restores.move(stage.environment, reached=False, recorded=False)
    stage.environment.start()
    stage.mark(only)
    await stage.stays(lambda: stage.machine(only), "the Machine with all data was replaced", seconds=900)
    stage.environment.cluster.reachable = True
    stage.let_health_check_judge()
    await stage.settled()
    stage.expect(member in stage.ring.members, "its member is gone")
    stage.expect(len(stage.environment.cluster.founded_by) == 1, "the cluster was founded a second time")


def unknown_is_no(judged: Function) -> Function:
    """What nobody knows to be initialized is not."""

    def judge(*arguments: object) -> object:
        found = judged(*arguments)
        return False if isinstance(found, Unknown) else found

    return judge


SCENARIOS = (
    Scenario(
        "restored management cluster: members on Nodes without a Machine stay until their owner consents",
        a_backup_of_three_is_restored_when_there_are_five,
        "a member of no Machine is nobody's, whatever it runs on",
        {"core.machines.rules.orphans:_has_no_owner": says_yes},
        "s17_who_has_a_node_is_somebodys",
    ),
    Scenario(
        "moved status: a control plane of which nobody knows whether it was initialized keeps its only Machine",
        the_only_machine_is_moved_and_then_called_failed,
        "what is not known to be initialized is not",
        {"clusterapi.observe.initialization:is_initialized": unknown_is_no},
        "s4_last_holder_stays",
        ONE,
    ),
)
