"""The checks at which a history may end waiting for somebody: what has to be so in the plant, whatever quorate saw, and what somebody does who follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from quorate.core.machines.checks import COMPONENTS_HEALTHY, COMPONENTS_SURVIVE, INITIALIZED, MEMBERS_HEALTHY, NOBODY_LEAVES, ROOM
from quorate.core.machines.rules.guard import NOT_PAUSED, WORKLOAD_ANSWERS
from quorate.core.machines.rules.loss import NOBODY_COMING_UP
from quorate.core.machines.rules.orphans import CONSENT, HAS_NO_OWNER, IS_OF_NO_NEWCOMER, RING_IS_READ
from quorate.core.machines.rules.remediate import PREVIOUS_FINISHED
from quorate.core.machines.rules.remove import ANOTHER_HOLDS_THE_DATA, AT_HOOK
from quorate.core.quorum import QUORUM_SURVIVES_ADDITION, QUORUM_SURVIVES_REMOVAL
from tests.explore.machines.moves import (
    Moves,
    annotations_of,
    deleting,
    had_node,
    is_called_initialized,
    is_drained,
    name_of,
    with_deleted,
)
from tests.explore.machines.plant import Member, Plant
from tests.explore.machines.promises import HOOK
from tests.explore.machines.starts import start
from tests.explore.machines.state import CLUSTER, CONTROL_PLANES, MACHINES, NAME, State


@dataclass(frozen=True, slots=True)
class Wait:
    """When it is so, and what somebody does about it, one thing at a time, each by the words with which the check has to ask for it."""

    is_so: Callable[[State], bool]
    remedies: Mapping[str, Moves]


def _does_not_answer(state: State) -> bool:
    return not (state.plant.reachable and state.plant.serves)


def _nothing_tells_whether_it_was_founded(state: State) -> bool:
    """No object says so, some Machine's host may have its data, and no API server says whether it has."""
    on_record = is_called_initialized(state) or "quorate.dev/initialized" in annotations_of(state.control_plane)
    return not on_record and bool(state.plant.hosts or state.machines) and _does_not_answer(state)


def all_is_made_anew(state: State) -> Iterator[tuple[str, State]]:
    """By who knows that there never was a cluster, or that it is lost for good and no host is there to restore it on: all of it goes, and is made again."""
    lost = _is_lost_for_good(state.plant) and not list(etcd_is_restored(state))
    if lost or not state.plant.founded:
        yield "somebody deletes what is left of it, and creates it anew", start(0)


def _not_all_are_well(state: State) -> bool:
    """Some Machine or member has no host that runs, no Node, or no vote."""
    plant = state.plant
    of = {host.name: host for host in plant.hosts}
    voting = {name for name, host in of.items() if host.member in plant.well and name in plant.nodes}
    return {name_of(machine) for machine in state.machines} != voting or {member.host for member in plant.members} != voting


def _somebody_has_no_node(state: State) -> bool:
    """Or none that core has seen yet."""
    return any(name_of(machine) not in state.plant.nodes or not had_node(machine) for machine in state.machines)


def _somebody_leaves(state: State) -> bool:
    return any(map(deleting, state.machines))


def _somebody_is_on_the_way_to_our_hook(state: State) -> bool:
    return any(deleting(machine) and not is_drained(machine) for machine in state.machines)


def who_never_came_is_deleted(state: State) -> Iterator[tuple[str, State]]:
    """The Machine of a host on which kubeadm has ended with an error: a member is silent, or the one that it was about to start is gone, or its data is."""
    plant = state.plant
    silent = {member.id for member in plant.members if member.started} - plant.running
    for host in plant.hosts:
        machine = state.find(MACHINES, host.name)
        gave_up = (host.todo == "join" and bool(silent)) or (host.todo in ("vote", "register") and not plant.member(host.member))
        if gave_up and machine is not None and not deleting(machine):
            yield f"somebody deletes {host.name}, on which kubeadm has given up", with_deleted(state, host.name)


def who_has_no_host_is_deleted(state: State) -> Iterator[tuple[str, State]]:
    """The Machine that had a Node, and whose host is gone for good: an older backup brought it back."""
    for machine in state.machines:
        if had_node(machine) and state.plant.host(name_of(machine)) is None and not deleting(machine):
            yield f"somebody deletes {name_of(machine)}, whose host is gone for good", with_deleted(state, name_of(machine))


def etcd_is_restored(state: State) -> Iterator[tuple[str, State]]:
    """A snapshot, on a host of a Machine; the data of the others is put away. Only where those that have data can never be a quorum again."""
    if _is_lost_for_good(state.plant):
        yield from _restores(state)


def etcd_is_restored_on_a_machine(state: State) -> Iterator[tuple[str, State]]:
    """The same where no Machine's host has the data of a voter, whoever else has."""
    if not any(state.find(MACHINES, host.name) for host in state.plant.hosts if host.member in state.plant.voters):
        yield from _restores(state)


def _restores(state: State) -> Iterator[tuple[str, State]]:
    staying = {name_of(machine) for machine in state.machines if not deleting(machine) or HOOK in annotations_of(machine)}
    for host in state.plant.hosts:
        if host.runs and not host.todo and host.name in staying and state.plant.founded:
            yield f"somebody restores a snapshot on {host.name}", state.at(_restored(state, host.name))


def _is_lost_for_good(plant: Plant) -> bool:
    """Whether those that have data can never be a quorum again."""
    return 2 * len(plant.holders) <= len(plant.voters)


def _restored(state: State, name: str) -> Plant:
    own, plant = state.unused_id(), state.plant
    hosts = tuple(replace(host, member=own if host.name == name else None) for host in plant.hosts)
    return replace(plant, hosts=hosts, members=(Member(own, name),), nodes=tuple(sorted({*plant.nodes, name}))).settled()


def _members_of_no_machine(state: State) -> list[Member]:
    kept = {host.member for host in state.plant.hosts if state.find(MACHINES, host.name)}
    return [member for member in state.plant.members if member.id not in kept]


def _somebodys_member_runs_on_a_node(state: State) -> bool:
    of = {host.member: host.name for host in state.plant.hosts}
    return any(of.get(member.id) in state.plant.nodes for member in _members_of_no_machine(state))


def somebody_consents(state: State) -> Iterator[tuple[str, State]]:
    """To the removal of one whose data is on no Machine's host."""
    for member in _members_of_no_machine(state):
        if annotations_of(state.control_plane).get(CONSENT) != f"{member.id:x}":
            consent = {"metadata": {"annotations": {CONSENT: f"{member.id:x}"}}}
            yield f"somebody consents to the removal of member {member.id} of {member.host}", state.changed(CONTROL_PLANES, NAME, consent)


def _one_machine_has_the_data(state: State) -> bool:
    """At the most: the hosts of no more than one Machine hold the data of a member that votes."""
    holding = [host for host in state.plant.hosts if host.member in state.plant.voters and state.find(MACHINES, host.name)]
    return len(holding) <= 1


def kubelets_are_restarted(state: State) -> Iterator[tuple[str, State]]:
    """One that runs and has joined makes its Node where that is missing."""
    plant = state.plant
    for host in plant.hosts:
        if host.runs and not host.todo and host.name not in plant.nodes and plant.member(host.member) and plant.serves:
            yield f"somebody restarts the kubelet of {host.name}", state.at(plant.with_node(host.name))


_TO_A_NODE: dict[str, Moves] = {
    "systemctl restart kubelet": kubelets_are_restarted,
    "kubeadm has given up, delete the Machine": who_never_came_is_deleted,
    "gone for good, delete the Machine": who_has_no_host_is_deleted,
}
_BACK: dict[str, Moves] = {"Bring the failed members back": kubelets_are_restarted, "restore etcd from a snapshot": etcd_is_restored}

WAITS: dict[str, Wait] = {
    NOT_PAUSED: Wait(lambda state: bool(state.objects[CLUSTER]["spec"].get("paused")), {}),
    WORKLOAD_ANSWERS: Wait(_does_not_answer, {"restore a snapshot": etcd_is_restored, "create it anew": all_is_made_anew}),
    INITIALIZED: Wait(_nothing_tells_whether_it_was_founded, {"Restore access": etcd_is_restored, "create it anew": all_is_made_anew}),
    COMPONENTS_HEALTHY: Wait(_not_all_are_well, _TO_A_NODE),
    MEMBERS_HEALTHY: Wait(_not_all_are_well, {}),
    COMPONENTS_SURVIVE: Wait(_not_all_are_well, {"back to health": kubelets_are_restarted}),
    QUORUM_SURVIVES_ADDITION: Wait(_not_all_are_well, _BACK),
    QUORUM_SURVIVES_REMOVAL: Wait(_not_all_are_well, _BACK),
    NOBODY_COMING_UP: Wait(_somebody_has_no_node, _TO_A_NODE),
    PREVIOUS_FINISHED: Wait(_not_all_are_well, {}),
    NOBODY_LEAVES: Wait(_somebody_leaves, {}),
    ROOM: Wait(_somebody_leaves, {}),
    IS_OF_NO_NEWCOMER: Wait(_somebody_has_no_node, {CONSENT: somebody_consents}),
    RING_IS_READ: Wait(_not_all_are_well, {}),
    AT_HOOK: Wait(_somebody_is_on_the_way_to_our_hook, {}),
    HAS_NO_OWNER: Wait(_somebodys_member_runs_on_a_node, {CONSENT: somebody_consents}),
    ANOTHER_HOLDS_THE_DATA: Wait(
        _one_machine_has_the_data,
        _TO_A_NODE
        | {"Repair what the health check": kubelets_are_restarted, "restore etcd from a snapshot": etcd_is_restored_on_a_machine},
    ),
}
"""By the name of the check."""
