"""What is held against every pass, counted from the plant and the stored objects alone: the promises of docs/safety.md, by their names there.

None of this knows what the pass saw or why it did what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quorate.core.machines.rules.orphans import CONSENT
from quorate.core.machines.steps import CreateReplica
from tests.explore.machines.moves import annotations_of, deleting, is_failed, is_let_go, name_of
from tests.explore.machines.plant import Plant
from tests.explore.machines.process import Pass
from tests.explore.machines.starts import CLONED_FROM
from tests.explore.machines.state import CLUSTER, CONFIGS, INFRASTRUCTURE, MACHINES, Json, State

HOOK = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup"
REMEDIATING = "controlplane.cluster.x-k8s.io/remediation-in-progress"
RECORDS = ("quorate.dev/creating", "quorate.dev/remediating", REMEDIATING)
SURGE = 1

Promise = Callable[[State, Pass], Iterator[str]]


def s1_quorum_outlives_every_removal(_before: State, done: Pass) -> Iterator[str]:
    """Counted from what runs, at the instant of the removal."""
    for gone in done.removed:
        if not (left := gone.plant.without_member(gone.member)).has_quorum:
            yield f"member {gone.member} is removed, and {_count(left)} is no quorum"


def s17_a_member_that_is_well_is_somebodys(before: State, done: Pass) -> Iterator[str]:
    """Its host runs, its Node is there, and nobody has deleted a Machine of it, or consented to its removal."""
    consented = annotations_of(before.control_plane).get(CONSENT, "")
    for gone in done.removed:
        plant, member = gone.plant, gone.member
        host = _holder(plant, member)
        machine = before.find(MACHINES, host) if host else None
        if member in plant.well and host in plant.nodes and consented != f"{member:x}" and (machine is None or not deleting(machine)):
            yield f"member {member} of {host} is removed, which is well and has its Node; nobody has deleted a Machine of it, nor consented"


def s7_leadership_moves_first(_before: State, done: Pass) -> Iterator[str]:
    """The leader does not leave while another voter that runs could lead. Who has no Node cannot be asked to hand it over."""
    for gone in done.removed:
        plant, member = gone.plant, gone.member
        if plant.leader == member and plant.well - {member} and _holder(plant, member) in plant.nodes:
            yield f"member {member} is removed while it leads"


def s2_nobody_joins_beside_a_learner(before: State, done: Pass) -> Iterator[str]:
    """No Machine is made while a member has yet to vote."""
    unsettled = [member.id for member in before.plant.members if member.learner or not member.started]
    for name in _made(before, done) if unsettled else ():
        yield f"{name} is made though member {unsettled[0]} has yet to vote"


def s3_founded_once(before: State, done: Pass) -> Iterator[str]:
    """Nothing that would run kubeadm init is made once there is a cluster, as long as any host has its data or it is on record."""
    for name in _made(before, done):
        config = _last(before, done).find(CONFIGS, name)
        founds = config is not None and "controlPlane" not in (config["spec"].get("joinConfiguration") or {})
        if founds and (before.plant.holders or before.plant.serves or before.plant.recorded):
            yield f"{name} is made to found a cluster, and there is one: members {sorted(before.plant.holders)} have its data"
        if not founds and not before.plant.founded:
            yield f"{name} is made to join, and there is nothing to join"


def s4_the_last_holder_of_data_stays(before: State, done: Pass) -> Iterator[str]:
    """No Machine is let go on whose disk alone the data is. Exempt is a cluster that was never on record: kubeadm may finish just as its Machine goes."""
    for name in _released(before, done) if before.plant.recorded else ():
        plant = _last(before, done).plant
        host = plant.host(name)
        own = host.member if host is not None else None
        held = {h.member for h in before.plant.hosts} & {m.id for m in before.plant.members if not m.learner}
        if own in held and not plant.holders - {own}:
            yield f"{name} is let go, the only one with the data"


def s5_one_change_at_a_time(before: State, done: Pass) -> Iterator[str]:
    """Nobody joins, and nobody is sent away, while another one comes or goes. Exempt are a cluster that nobody has founded, and what follows.

    The only one that holds a place is joined by its replacement before it leaves. One that a health check failed is deleted beside others: the ring changes
    at the hook, one member after the other. And in its stead one is made beside others that are broken, or have yet to join. That somebody removes a member by
    hand between the reading of the ring and the creation is no other than right after it: the Machine has yet to get a host.
    """
    made = _made(before, done)
    if len(made) + len(done.removed) > 1:
        yield f"the ring changes more than once: {done.decision.step}"
    if not before.plant.founded:
        return
    leaving = [name_of(machine) for machine in before.machines if deleting(machine) and not is_let_go(machine)]
    alone = sum(not is_let_go(machine) for machine in before.machines) == 1
    sent_away = [name for name in _deleted(before, done) if not is_failed(before.find(MACHINES, name) or {})]
    for name in [*sent_away, *(made if not alone else ())]:
        if leaving:
            yield f"{name} is {'made' if name in made else 'deleted'} while {', '.join(leaving)} leaves"
    voting = {member.host for plant in (done.seen.plant, before.plant) for member in plant.members if not member.learner}
    joining = [name_of(machine) for machine in before.machines if not deleting(machine) and name_of(machine) not in voting]
    if made and joining and REMEDIATING not in annotations_of(before.control_plane):
        yield f"{', '.join(made)} is made while {', '.join(joining)} joins"


def s6_no_more_than_desired_and_a_surge(before: State, done: Pass) -> Iterator[str]:
    """Machines that hold our hook, or none of ours and are not being deleted."""
    made = _made(before, done)
    held = [machine for machine in before.machines if HOOK in annotations_of(machine) or not deleting(machine)]
    wanted = before.control_plane["spec"]["replicas"]
    if made and len(held) + len(made) > wanted + SURGE:
        yield f"{', '.join(made)} is made beside {len(held)}, and {wanted} are wanted"


def s8_nobody_goes_without_a_reason(before: State, done: Pass) -> Iterator[str]:
    """A Machine is deleted because it failed, differs from what is wanted, or is one too many."""
    spec = before.control_plane["spec"]
    staying, deleted = [machine for machine in before.machines if not deleting(machine)], _deleted(before, done)
    for machine in staying:
        if name_of(machine) not in deleted:
            continue
        if not is_failed(machine) and is_as_wanted(before, machine) and len(staying) <= spec["replicas"]:
            yield f"{name_of(machine)} is deleted, which is as desired"


def s10_a_removal_follows_a_reading_made_for_it(_before: State, done: Pass) -> Iterator[str]:
    """Confirmed by a majority after the decision, and after the removal before."""
    for gone in done.removed:
        if not gone.read:
            yield f"member {gone.member} is removed by a list that was not read for that"


def s11_paused_means_paused(before: State, done: Pass) -> Iterator[str]:
    """Nothing comes or goes while the Cluster is paused, even where that came after the decision."""
    if before.objects[CLUSTER]["spec"].get("paused"):
        yield from (f"the Cluster is paused, and yet {what}" for what in _irrevocable(before, done))


def s12_a_machine_is_made_as_it_was_decided(before: State, done: Pass) -> Iterator[str]:
    """Whatever an earlier process had in mind when it died."""
    step, after = done.decision.step, _last(before, done)
    spec = done.observation.kcp.spec
    if not isinstance(step, CreateReplica):
        return
    for name in _made(before, done):
        machine, config, host = after.find(MACHINES, name) or {}, after.find(CONFIGS, name) or {}, after.find(INFRASTRUCTURE, name) or {}
        founds = "controlPlane" not in (config["spec"].get("joinConfiguration") or {})
        made = founds, machine["spec"].get("failureDomain", ""), machine["spec"]["version"], annotations_of(host).get(CLONED_FROM)
        template = spec.machine_template.spec.infrastructure_ref.name
        if made != (wanted := (step.initialize, step.failure_domain, spec.version, template)):
            yield f"{name} is made with {made}, and what was decided is {wanted} (whether it founds, failure domain, version, template)"


def s15_who_may_no_more_does_nothing(before: State, done: Pass) -> Iterator[str]:
    """Who leads no more writes nothing. Who decided by other Machines than there are, or where others of them leave, makes none and takes nothing away."""
    if not done.leads:
        yield from (f"another process leads, and yet: {what}" for what, _ in done.after)
    elif _others_are_there(done.seen, before):
        yield from (f"it was decided by other Machines, and yet {what}" for what in _irrevocable(before, done))


PROMISES: tuple[Promise, ...] = (
    s1_quorum_outlives_every_removal,
    s2_nobody_joins_beside_a_learner,
    s3_founded_once,
    s4_the_last_holder_of_data_stays,
    s5_one_change_at_a_time,
    s6_no_more_than_desired_and_a_surge,
    s7_leadership_moves_first,
    s8_nobody_goes_without_a_reason,
    s10_a_removal_follows_a_reading_made_for_it,
    s11_paused_means_paused,
    s12_a_machine_is_made_as_it_was_decided,
    s15_who_may_no_more_does_nothing,
    s17_a_member_that_is_well_is_somebodys,
)


def broken(before: State, done: Pass) -> list[str]:
    """Each promise that a pass breaks, with how."""
    return [f"{promise.__name__}: {how}" for promise in PROMISES for how in promise(before, done)]


def converged(state: State) -> bool:
    """Everything is as the specification says, and nothing is left over."""
    spec, plant, machines = state.control_plane["spec"], state.plant, state.machines
    names = {name_of(machine) for machine in machines}
    return (
        len(machines) == spec["replicas"]
        and not any(deleting(machine) or is_failed(machine) or not is_as_wanted(state, machine) for machine in machines)
        and names == {host.name for host in plant.hosts} == set(plant.nodes) == {member.host for member in plant.members}
        and plant.well == {member.id for member in plant.members}
        and not any(record in annotations_of(state.control_plane) for record in RECORDS)
        and all(key[2] in names for key in state.objects if key[0] in (CONFIGS, INFRASTRUCTURE))
    )


def is_as_wanted(state: State, machine: Json) -> bool:
    """Whether it has the version and the template that are asked for now."""
    spec, host = state.control_plane["spec"], state.find(INFRASTRUCTURE, name_of(machine))
    template = spec["machineTemplate"]["spec"]["infrastructureRef"]["name"]
    return bool(
        machine["spec"]["version"] == spec["version"] and (host is None or annotations_of(host).get(CLONED_FROM, template) == template)
    )


def _last(before: State, done: Pass) -> State:
    return done.after[-1][1] if done.after else before


def _made(before: State, done: Pass) -> list[str]:
    known = {name_of(machine) for machine in before.machines}
    return [name_of(machine) for machine in _last(before, done).machines if name_of(machine) not in known]


def _deleted(before: State, done: Pass) -> list[str]:
    after = _last(before, done)
    staying = [name_of(machine) for machine in before.machines if not deleting(machine)]
    return [name for name in staying if (now := after.find(MACHINES, name)) is None or deleting(now)]


def _irrevocable(before: State, done: Pass) -> Iterator[str]:
    """What was done that nobody can take back."""
    yield from (f"member {gone.member} is removed" for gone in done.removed)
    yield from (f"{name} is let go" for name in _released(before, done))
    yield from (f"{name} is deleted" for name in _deleted(before, done))
    yield from (f"{name} is made" for name in _made(before, done))
    for plural in (CONFIGS, INFRASTRUCTURE):
        there, left = ({key[2] for key in state.objects if key[0] == plural} for state in (before, _last(before, done)))
        yield from (f"what was made for {name} is deleted" for name in sorted(there - left))


def _others_are_there(seen: State, now: State) -> bool:
    """Whether there are other Machines than were seen, or others of them leave. One that was leaving may be gone."""
    then, today = ({name_of(machine): deleting(machine) for machine in state.machines} for state in (seen, now))
    return any(then.get(name) != leaves for name, leaves in today.items()) or any(
        not leaves for name, leaves in then.items() if name not in today
    )


def _released(before: State, done: Pass) -> list[str]:
    after = _last(before, done)
    held = [machine for machine in before.machines if HOOK in annotations_of(machine)]
    return [name_of(machine) for machine in held if HOOK not in annotations_of(after.find(MACHINES, name_of(machine)) or machine)]


def _holder(plant: Plant, member: int) -> str:
    return next((host.name for host in plant.hosts if host.member == member), "")


def _count(plant: Plant) -> str:
    return f"{len(plant.well)} of {len(plant.voters)}"
