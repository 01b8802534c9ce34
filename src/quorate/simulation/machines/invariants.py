"""The safety invariants S1 to S12 and S17 of the design, judged by what is true in the world, not by what the provider believes.

Each is a function from one event to a sentence that says what is wrong, or None. A process can only know what was true when it asked: where it acts on a
reading, the condition must have held at some instant between the beginning of that reading and the act. S9 is about existing hosts: certificates are not
renewed in place here. They speak of a control plane that is initialized and is to live; before that, and while it is deleted, nothing can be lost. What they
say of members holds for a ring of the control plane's own: with an external etcd the data are its API servers, without which nobody joins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from quorate.clusterapi.types.names import UPDATE_MACHINE_HOOK, Annotation, Hook
from quorate.core.machines.rules.orphans import CONSENT
from quorate.simulation.engine.apiserver import timestamp
from quorate.simulation.engine.journal import Removal
from quorate.simulation.engine.objects import CONFIGS, INFRASTRUCTURE, NODES, Stored
from quorate.simulation.engine.world import EPOCH
from quorate.simulation.machines.environment import Environment
from quorate.simulation.machines.knowledge import Knowledge, failed_health_check

READING_LASTS = 60.0
"""Seconds that a removal may come after the reading that it rests on: a reading of 20 s, and two calls of 15 s on slow ways."""
UNDER_WAY = 0.1
"""Seconds between the last look at a Machine and the removal of its member: an answer and a request, each of which takes up to 8 ms here."""
PAUSE_NOTICED = 60.0
"""Seconds after which a pause that a process knows of must have stopped every step that was under way."""


@dataclass(frozen=True, slots=True)
class Act:
    """One write of a process to a Machine: `before` is None where it made it; `knowledge` is what the process knew.

    One that is `late` was sent, and given up, so long ago that its sender may have decided on something else since. Nothing can call it back.
    """

    process: str
    machine: Stored
    before: Stored | None
    knowledge: Knowledge
    late: bool = False


def s1_removal_keeps_quorum(environment: Environment, removal: Removal) -> str | None:
    """No removal while the ring cannot commit it, nor one that leaves fewer healthy voters than the quorum of the resulting ring."""
    ring = environment.cluster.ring
    since = removal.read_since if removal.read_since is not None else environment.world.time()
    member = ring.members.get(removal.member)
    if member is not None and member.learner:
        return None
    if any(state.survives_without(removal.member) for state in ring.states_since(since)):
        return None
    return f"member {removal.member:x} is removed though of {len(ring.voters)} voters only {len(ring.well)} are well"


def s1_update_keeps_quorum(environment: Environment, act: Act) -> str | None:
    """No update in place begins unless the others have quorum while the host's member is down."""
    host = environment.cluster.hosts.get(act.machine.name)
    if not _begins_update(act) or host is None or host.member is None or environment.cluster.external is not None:
        return None
    since = act.knowledge.reading if act.knowledge.reading is not None else environment.world.time()
    if any(len(state.well - {host.member}) > len(state.voters) // 2 for state in environment.cluster.ring.states_since(since)):
        return None
    return f"{act.machine.name} is updated in place though the others have no quorum without it"


def s5_one_update_at_a_time(_environment: Environment, act: Act) -> str | None:
    """No update in place begins while another one is under way."""
    if not _begins_update(act) or act.late:
        return None
    others = [m.name for m in act.knowledge.ours if m.uid != act.machine.uid and not m.deleting and _pending(m)]
    return f"{act.machine.name} is updated in place beside {', '.join(others)}" if others else None


def s7_leadership_moves_before_an_update(environment: Environment, act: Act) -> str | None:
    """A host whose member leads is not updated in place while another one can take leadership; an honest try is enough."""
    ring, host = environment.cluster.ring, environment.cluster.hosts.get(act.machine.name)
    if not _begins_update(act) or host is None or host.member is None or environment.cluster.external is not None:
        return None
    since = environment.world.time() - READING_LASTS
    if any(state.leader != host.member for state in ring.states_since(since)) or not environment.cluster.can_be_asked(host):
        return None
    return f"{act.machine.name} is updated in place while its member leads" if ring.well - {host.member} else None


def s7_leadership_moves_first(environment: Environment, removal: Removal) -> str | None:
    """Leadership moves before its holder goes, when anyone can take it and the holder can be asked to give it; an honest try is enough."""
    ring = environment.cluster.ring
    since = removal.read_since if removal.read_since is not None else environment.world.time()
    if removal.moved_leader_since or any(state.leader != removal.member for state in ring.states_since(since)):
        return None
    holder = environment.cluster.host_of(removal.member)
    if holder is None or not environment.cluster.can_be_asked(holder):
        return None
    staying = {
        environment.cluster.hosts[machine.name].member
        for machine in environment.machines
        if not machine.deleting and machine.name in environment.cluster.hosts
    }
    others = (ring.well & staying) - {removal.member}
    return f"member {removal.member:x} is removed while it leads, and {len(others)} that stay could" if others else None


def s10_reading_before_removal(environment: Environment, removal: Removal) -> str | None:
    """Every removal of a member follows a linearizable read made for it."""
    if removal.read_since is None:
        return f"member {removal.member:x} is removed without a list of the members since the decision, or since the last change"
    age = environment.process(removal.process).ran_since(removal.read_since)
    return f"member {removal.member:x} is removed on a reading that is {age:.0f} s old" if age > READING_LASTS else None


def s17_who_has_a_node_is_somebodys(environment: Environment, removal: Removal) -> str | None:
    """A member that was well, or whose Node was ready, ever since it was asked goes only with a Machine that leaves, or where its owner consented."""
    cluster, since = environment.cluster, removal.read_since if removal.read_since is not None else environment.world.time()
    host, consented = (
        cluster.host_of(removal.member),
        environment.control_plane.annotations.get(CONSENT, "") if environment.control_plane else "",
    )
    node = cluster.server.find(NODES, "", host.name) if host is not None else None
    if host is None or node is None or f"{removal.member:x}" in consented.split(",") or _leaves(environment, removal.process, host.name):
        return None
    asked, ready = timestamp(EPOCH + timedelta(seconds=since)), node.condition("Ready")
    was_well = all(removal.member in state.well for state in cluster.ring.states_since(since))
    was_ready = ready.get("status") == "True" and ready["lastTransitionTime"] < asked
    if not (was_well or was_ready) or node.metadata["creationTimestamp"] >= asked:
        return None
    return f"member {removal.member:x} of {host.name} is removed, which {'is well' if was_well else 'is down'} and has its Node"


def _leaves(environment: Environment, process: str, name: str) -> bool:
    """Whether the Machine is being deleted, or was when the process may have looked at it last."""
    seen = environment.seen_leaving.get(name)
    now = any(machine.name == name and machine.deleting for machine in environment.machines)
    return now or (seen is not None and environment.process(process).ran_since(seen) <= UNDER_WAY)


def s1_deletion_keeps_the_hook(_environment: Environment, act: Act) -> str | None:
    """A Machine that the provider deletes carries our hook: it would otherwise take its member along."""
    if not _deletes(act) or not act.knowledge.initialized or Hook.PRE_TERMINATE in act.machine.annotations:
        return None
    return f"{act.machine.name} is deleted without our hook"


def s1_released_without_a_member(environment: Environment, act: Act) -> str | None:
    """A Machine is let go only when its member is out of the ring."""
    if not _releases(act):
        return None
    host = environment.cluster.hosts.get(act.machine.name)
    ring = environment.cluster.ring
    if host is None or host.member not in ring.members:
        return None
    since = act.knowledge.reading if act.knowledge.reading is not None else environment.world.time()
    if any(host.member not in state.voters for state in ring.states_since(since)):
        return None
    return f"{act.machine.name} is let go while its member {host.member:x} votes"


def s2_no_joining_beside_a_learner(environment: Environment, act: Act) -> str | None:
    """Nobody is asked to join while a learner, or a member that never started, is in the ring."""
    if not _creates(act) or not act.knowledge.initialized or environment.cluster.external is not None:
        return None
    if act.knowledge.reading is None:
        return f"{act.machine.name} is created without a reading of the ring"
    if any(not state.unsettled for state in environment.cluster.ring.states_since(act.knowledge.reading)):
        return None
    return f"{act.machine.name} is created beside {len(environment.cluster.ring.history[-1].unsettled)} members that do not vote yet"


def s3_never_initialized_twice(environment: Environment, act: Act) -> str | None:
    """Never a second `kubeadm init` once the control plane was initialized."""
    if not _creates(act) or not act.knowledge.initialized:
        return None
    config = environment.world.management.find(CONFIGS, *act.machine.key)
    if config is not None and "joinConfiguration" not in config.spec:
        return f"{act.machine.name} would initialize a cluster that is initialized"
    return None


def s4_last_holder_stays(environment: Environment, act: Act) -> str | None:
    """The last holder of data is never let go while the control plane is to live."""
    if not _releases(act):
        return None
    cluster = environment.cluster
    host = cluster.hosts.get(act.machine.name)
    if host is None or not cluster.holds_data(host):
        return None
    staying = [m for m in act.knowledge.ours if m.uid != act.machine.uid and not _is_let_go(m)]
    if any(machine.name in cluster.hosts and cluster.holds_data(cluster.hosts[machine.name]) for machine in staying):
        return None
    return f"{act.machine.name} is let go with the last copy of the data"


def s5_one_change_at_a_time(environment: Environment, act: Act) -> str | None:
    """At most one membership change in flight: nobody joins, and nobody else is sent away, while one comes or goes.

    Except that the only replica, when somebody deletes it, is joined by its replacement before it leaves: otherwise it could never leave. And one that
    failed its health check may be deleted beside others: the ring changes only at the hook, one member after the other.
    """
    if environment.cluster.external is not None or act.late:
        return None
    creates = _creates(act)
    if not (creates or (_deletes(act) and not failed_health_check(act.machine))) or not act.knowledge.initialized:
        return None
    leaving = [m.name for m in act.knowledge.known_leaving if m.name != act.machine.name]
    alone = creates and sum(not _is_let_go(machine) for machine in act.knowledge.ours) == 2
    if leaving and not alone:
        return f"{act.machine.name} is {'created' if creates else 'deleted'} while {', '.join(leaving)} leaves"
    joining = [m.name for m in act.knowledge.ours if m.uid != act.machine.uid and not m.deleting and m.name not in environment.ever_voted]
    return f"{act.machine.name} is created while {', '.join(joining)} joins" if creates and joining else None


def s6_no_more_than_desired(environment: Environment, act: Act) -> str | None:
    """No create raises the number of Machines not yet let go above desired plus surge; with maxSurge 0 those that still hold infrastructure count too."""
    if not _creates(act) or act.late:
        return None
    desired, surge = act.knowledge.desired
    management = environment.world.management
    held = [m for m in act.knowledge.ours if not _is_let_go(m) or (surge == 0 and management.find(INFRASTRUCTURE, *m.key) is not None)]
    return f"{act.machine.name} is number {len(held)} of {desired} + {surge}" if len(held) > desired + surge else None


def s8_replaced_for_a_reason(environment: Environment, act: Act) -> str | None:
    """A replica equal to the specification is sent away only for remediation, rollout.after, rollout.before, the delete annotation or scale down."""
    if not _deletes(act) or act.knowledge.reasons_to_go(environment, act.before or act.machine):
        return None
    return f"{act.machine.name} is deleted for no reason"


def s8_made_for_a_reason(_environment: Environment, act: Act) -> str | None:
    """Nobody is made while as many as desired are there, all of them as the specification asks for, and none of them leaves or is to be replaced."""
    if not _creates(act) or act.knowledge.reasons_to_come(act.machine):
        return None
    return f"{act.machine.name} is created for no reason"


def s11_paused_means_paused(_environment: Environment, act: Act) -> str | None:
    """While paused nothing is done to Machines."""
    known = act.knowledge.paused_for
    if known is None or known < PAUSE_NOTICED:
        return None
    return f"{act.machine.name} is written {known:.0f} s after a pause became known"


def one_leader(environment: Environment) -> str | None:
    """Of the processes that are elected one leads at a time, whatever has become of the others, and none is needed."""
    leading = [
        process.name for process in environment.processes if process.alive and process.elector is not None and process.elector.leading
    ]
    return f"{' and '.join(leading)} lead at the same time" if len(leading) > 1 else None


ON_REMOVAL: tuple[Callable[[Environment, Removal], str | None], ...] = (
    s1_removal_keeps_quorum,
    s7_leadership_moves_first,
    s10_reading_before_removal,
    s17_who_has_a_node_is_somebodys,
)
ON_ACT: tuple[Callable[[Environment, Act], str | None], ...] = (
    s1_deletion_keeps_the_hook,
    s1_released_without_a_member,
    s2_no_joining_beside_a_learner,
    s3_never_initialized_twice,
    s4_last_holder_stays,
    s5_one_change_at_a_time,
    s6_no_more_than_desired,
    s8_replaced_for_a_reason,
    s8_made_for_a_reason,
    s11_paused_means_paused,
    s1_update_keeps_quorum,
    s5_one_update_at_a_time,
    s7_leadership_moves_before_an_update,
)
"""S12, no duplicate and no intent lost, is what S6 and the orphans at the end of a run show (`quorate.simulation.machines.liveness`)."""


def _is_let_go(machine: Stored) -> bool:
    return machine.deleting and Hook.PRE_TERMINATE not in machine.annotations


def _pending(machine: Stored) -> bool:
    return UPDATE_MACHINE_HOOK in machine.annotations.get(Annotation.PENDING_HOOKS, "").split(",")


def _begins_update(act: Act) -> bool:
    """Whether core may begin from now on."""
    return act.before is not None and _pending(act.machine) and not _pending(act.before)


def _creates(act: Act) -> bool:
    return act.before is None


def _deletes(act: Act) -> bool:
    return act.before is not None and not act.before.deleting and act.machine.deleting


def _releases(act: Act) -> bool:
    held = act.before is not None and Hook.PRE_TERMINATE in act.before.annotations
    return held and Hook.PRE_TERMINATE not in act.machine.annotations and act.knowledge.initialized
