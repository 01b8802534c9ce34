"""Updates in place, each as a scene: whoever dies after any of the writes, an extension that is away, a host that is down, an update that never ends."""

from __future__ import annotations

from quorate.clusterapi.types.names import UPDATE_MACHINE_HOOK, Annotation
from quorate.simulation.engine.apiserver import Change
from quorate.simulation.engine.objects import CONFIGS, INFRASTRUCTURE, MACHINES
from quorate.simulation.engine.world import NAMESPACE
from quorate.simulation.machines.cluster_objects import Wanted
from quorate.simulation.machines.extension import CONFIGURATION, VERSION, Extension
from quorate.simulation.machines.extension import INFRASTRUCTURE as HOST
from quorate.simulation.machines.scenarios import Stage
from tests.proof.guard import returns
from tests.proof.guards import returns_what_was_seen, says_nothing
from tests.simulation.staging import Scenario

UPDATED = Wanted(replicas=3, max_surge=0, updates=frozenset({VERSION, CONFIGURATION, HOST}))
_CHANGED = (MACHINES, CONFIGS, INFRASTRUCTURE)


def _configure(stage: Stage, content: str) -> None:
    stage.environment.edit({"version": "v1.34.3", "kubeadmConfigSpec": {"files": [{"path": "/etc/note", "content": content}]}})


def _extension(stage: Stage) -> Extension:
    assert stage.environment.extension is not None
    return stage.environment.extension


def _is_updated(stage: Stage) -> bool:
    """Whether somebody is updated in place now."""
    return any(Annotation.PENDING_HOOKS in machine.annotations for machine in stage.environment.machines)


async def the_process_dies_after_every_write(stage: Stage) -> None:
    """Each of the five writes is, for each of the three machines, the last one that its process makes."""
    await stage.up()
    names, died, begun = stage.names, set[str](), stage.world.time()

    def after(change: Change) -> None:
        if change.kind not in _CHANGED or not change.who.startswith("quorate-") or change.after is None or change.before is None:
            return
        annotations = change.after.annotations
        pending = UPDATE_MACHINE_HOOK in annotations.get(Annotation.PENDING_HOOKS, "")
        write = f"{change.kind.kind} {change.object.name} {change.after.spec.get('version')} {pending}"
        if Annotation.UPDATE_IN_PROGRESS in annotations and write not in died:
            died.add(write)
            stage.world.after(0.0, stage.restart)

    stage.world.management.subscribe(after)
    _configure(stage, "new")
    await stage.settled(within=1200)
    stage.expect(len(died) >= 15, f"only {len(died)} of the writes were seen")
    stage.expect(stage.names == names, f"{names} were {stage.names} in the end")
    stage.expect(all(stage.host(name).version == "v1.34.3" for name in names), "a host has the old version")
    stage.quorum_since(begun)


async def the_extension_is_away(stage: Stage) -> None:
    """The extension does not answer when a change comes, and is back a quarter of an hour later."""
    await stage.up()
    names = stage.names
    _extension(stage).down = True
    _configure(stage, "new")
    await stage.stays(lambda: stage.names == names, "a machine was replaced though its extension may be back", seconds=900)
    stage.expect("updater" in stage.condition("Stalled").get("message", ""), "nobody says for whom it waits")
    _extension(stage).down = False
    await stage.settled(within=1200)
    stage.expect(stage.names == names, "a machine was replaced")


async def a_host_is_down(stage: Stage) -> None:
    """One host of three is off when a change comes: another one that restarts would take the quorum along."""
    await stage.up()
    names, off = stage.names, stage.followers(1)[0]
    stage.power(off, on=False)
    await stage.passes(60.0)
    begun = stage.world.time()
    _configure(stage, "new")
    await stage.stays(lambda: not _is_updated(stage), "somebody is updated while a host is down", seconds=300)
    stage.power(off, on=True)
    await stage.settled(within=1200)
    stage.expect(set(stage.names) <= set(names) or len(stage.names) == 3, "machines are missing")
    stage.quorum_since(begun)


async def an_update_never_ends(stage: Stage) -> None:
    """The extension fails once it has begun; a health check fails the machine in the end, and the others are updated after it was replaced."""
    await stage.up()
    names = stage.names
    _configure(stage, "new")
    await stage.until(lambda: _is_updated(stage), "an update begins", within=120)
    _extension(stage).fails = True
    stuck = next(machine.name for machine in stage.environment.machines if Annotation.PENDING_HOOKS in machine.annotations)
    await stage.until(lambda: stuck in stage.condition("Stalled").get("message", ""), "it says who is stuck", within=300)
    stage.mark(stuck)
    await stage.until(lambda: stage.world.management.find(MACHINES, NAMESPACE, stuck) is None, "the stuck one is replaced", within=600)
    _extension(stage).fails = False
    await stage.settled(within=1200)
    stage.expect(len(set(names) & set(stage.names)) == 2, f"of {names} there are {stage.names}")


SCENARIOS = (
    Scenario(
        "in place: whoever dies after any of the writes, nobody is replaced and everybody is updated",
        the_process_dies_after_every_write,
        "what was begun is somebody else's to finish",
        {"core.machines.rules.in_place:finish_what_was_begun": says_nothing},
        "liveness",
        UPDATED,
    ),
    Scenario(
        "in place CAPI#13863: an extension that does not answer is waited for",
        the_extension_is_away,
        "one that does not answer is none",
        {"core.machines.rules.in_place:takes_place": returns(False)},
        "scene",
        UPDATED,
    ),
    Scenario(
        "in place: nobody is updated beside a host that is down",
        a_host_is_down,
        "an extension knows what it does",
        {"core.machines.rules.preflight:before_updating": returns(()), "clusterapi.act.in_place:_gate": returns_what_was_seen},
        "s1_update_keeps_quorum",
        UPDATED,
    ),
    Scenario(
        "in place: an update that never ends is ended by a health check",
        an_update_never_ends,
        "nothing happens beside an update, remediation neither",
        {"core.machines.rules.remediate:remediate": says_nothing},
        "liveness",
        UPDATED,
    ),
)
