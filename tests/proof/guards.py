"""The safety predicates of quorate, each by name, with what breaks when it is gone and what notices.

A predicate that is missing here fails a test (`test_every_check_of_the_rules_is_a_guard_or_says_why_not`); one whose absence nothing notices fails another.
`python -m tests.proof.guards > docs/guards.md` writes the table for readers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from types import FunctionType, MappingProxyType
from typing import Any
from unittest import mock

from quorate.clusterapi.connect import caches
from quorate.core.checks import passed
from quorate.core.machines import decide
from quorate.core.machines.state import Answer
from quorate.core.proposal import NOTHING
from quorate.core.ring import Verdict
from tests.proof.guard import Function, Guard, Instead, returns
from tests.proof.runtime_guards import RUNTIME, changes_nothing


def says_yes(_predicate: Function) -> Function:
    """A check that always passes."""
    return lambda *_, **__: passed("disabled", "by the proof")


def says_nothing(_predicate: Function) -> Function:
    """A rule without a proposal."""
    return lambda *_, **__: NOTHING


def blocks_nothing(rule: Function) -> Function:
    """The rule with its step and checks, and without what it forbids to others."""
    return lambda *arguments: replace(rule(*arguments), blocks=frozenset())


def is_told(**changes: Any) -> Instead:
    """The predicate itself, asked about a control plane of which `changes` are said."""
    return lambda predicate: lambda control_plane, *rest: predicate(replace(control_plane, **changes), *rest)


def believes_what_is_known(_property: Function) -> Function:
    """What is not known to be initialized is taken for what is not."""
    return lambda control_plane: control_plane.initialized is True


def sees_one_replica(predicate: Function) -> Function:
    """The predicate itself, asked about a control plane of its first replica alone."""
    return lambda control_plane, *rest: predicate(replace(control_plane, replicas=control_plane.replicas[:1]), *rest)


def always_confirmed(_rule: Function) -> Function:
    """Nobody else can be, whatever this run has."""
    return lambda now, **_: now + 60


def asks_nobody(_asking: Function) -> Function:
    """It is not asked for."""

    async def ask(_lock: object) -> None:
        pass

    return ask


def chooses_anybody(_choice: Function) -> Function:
    """Whoever stays, in the order in which they come."""
    return lambda control_plane: control_plane.staying


def believes_the_ring(_predicate: Function) -> Function:
    """The ring as it was read."""
    return lambda control_plane: control_plane.ring


def asks_nothing_of_the_ring(gate: Function) -> Function:
    """The ring is read, and nothing is asked of it."""
    return lambda clients, observation, _ask: gate(clients, observation, lambda _view: (YES,))


def takes_silence_for_an_answer(gate: Function) -> Function:
    """The gate itself, for which no check is as good as one that passes."""
    return lambda clients, observation, ask: gate(clients, observation, lambda view: tuple(ask(view)) or (YES,))


def by_the_operators_clock(_time: Function) -> Function:
    """What the operator's clock shows."""
    return lambda _host, now: now


def remembers(_reading: Function) -> Function:
    """What was read last, however long ago."""

    async def known(schema: Any) -> Any:
        return schema._known

    return known


def forgets_whom_it_fits(may_own: Function) -> Function:
    """The question of a possible owner, asked about an orphan that fits nobody."""
    return lambda replica, orphan, now: may_own(replica, replace(orphan, may_be_of=()), now)


def finds_none(_look: Function) -> Function:
    """A look that finds nothing."""

    async def look(*_: object) -> dict[str, object]:
        return {}

    return look


def lets_pass(_gate: Function) -> Function:
    """A gate that is always open."""

    async def gate(*_: object) -> None:
        return

    return gate


def by_its_label(_predicate: Function) -> Function:
    """The Cluster that the label of a Machine names."""
    return caches._label_cluster


def believes_the_cache(_gate: Function) -> Function:
    """The Machine of a replica as it was observed."""

    async def gate(_clients: object, observation: Any, replica: str) -> Any:
        return next(machine.machine for machine in observation.machines if machine.name == replica)

    return gate


def returns_the_view(_reading: Function) -> Function:
    """What was decided by, in place of a fresh reading."""

    async def read(_clients: object, observation: Any) -> Any:
        return observation.view

    return read


def says_no_retry(account: Function) -> Function:
    """Every failure counts as the first."""
    return lambda policy, _previous, now: account(policy, None, now)


def forgets_who_is_updated(predicate: Function) -> Function:
    """The gate of a removal, asked as if nobody was updated."""
    return lambda plane, replica, ring, member: predicate(
        replace(plane, replicas=tuple(replace(each, update=None) for each in plane.replicas)), replica, ring, member
    )


def takes_every_answer_for_yes(rule: Function) -> Function:
    """Whatever was answered, the update is wanted."""
    return lambda plane, replica, in_place, *rest: rule(plane, replica, replace(in_place, answer=Answer.YES), *rest)


def returns_what_was_seen(_gate: Function) -> Function:
    """The view that was decided by, of which nothing is asked."""

    async def gate(_clients: object, seen: Any, _replica: str) -> Any:
        return seen.view

    return gate


def finds_it_as_it_was_seen(_look: Function) -> Function:
    """The Machine as it was observed, whatever the API has."""

    async def look(_clients: object, seen: Any, replica: str) -> Any:
        return next(machine.machine for machine in seen.machines if machine.name == replica)

    return look


def believes_what_was_answered(_asking: Function) -> Function:
    """The answer that was decided by."""

    async def ask(_extensions: object, seen: Any, replica: str, _clock: object) -> Any:
        return seen.view.replica(replica).in_place

    return ask


YES = passed("disabled", "by the proof")
FENCE = "tests/hosts/test_fence.py"
CLOCKS = "tests/core/hosts/test_hosts_clocks.py"
ACT, REMEDIATION = "tests/clusterapi/loop/test_act.py", "tests/clusterapi/loop/test_remediation.py"
IN_PLACE = "tests/clusterapi/loop/test_in_place.py"
LAST_LOOK = "tests/clusterapi/loop/test_last_look.py"
WHOSE_MEMBER = "tests/clusterapi/loop/test_whose_member.py"

GUARDS: tuple[Guard, ...] = (
    Guard("a removal leaves a quorum", {"core.quorum:removal_keeps_quorum": says_yes}, "s1_quorum_outlives_every_removal"),
    Guard("the ring can commit a removal", {"core.ring:Ring.commits": returns(Verdict(1, 1))}, "s1_quorum_outlives_every_removal"),
    Guard(
        "a replica's removal leaves a quorum",
        {"core.machines.checks:quorum_survives_removal": says_yes},
        "s1_quorum_outlives_every_removal",
    ),
    Guard("a failed replica's removal leaves a quorum", {"core.machines.rules.loss:_quorum": says_yes}, "s1_quorum_outlives_every_removal"),
    Guard("who vanishes does not count", {"core.machines.checks:dependable_ring": believes_the_ring}, "s1_quorum_outlives_every_removal"),
    Guard("two that go leave enough", {"core.machines.rules.loss:_together": says_yes}, "s1_two_that_go_leave_enough"),
    Guard("only who is held may be counted on to stay", {"core.machines.rules.loss:is_held": returns(True)}, "s1_two_that_go_leave_enough"),
    Guard("an update in place leaves a quorum", {"core.quorum:restart_keeps_quorum": says_yes}, "s1_quorum_outlives_an_update"),
    Guard(
        "a replica's update in place leaves a quorum",
        {"core.machines.checks:quorum_survives_restart": says_yes},
        "s1_quorum_outlives_an_update",
    ),
    Guard(
        "a voter that is well does not leave while another may restart",
        {"core.machines.checks:_beside_updates": forgets_who_is_updated},
        "s1_nobody_well_leaves_beside_an_update",
    ),
    Guard(
        "nobody comes or goes while another is updated in place",
        {"core.machines.rules.in_place:wait_for_updates": blocks_nothing},
        "s5_one_change_at_a_time",
    ),
    Guard(
        "an update that was begun waits for another one", {"core.machines.rules.in_place:_under_way": says_yes}, "s5_one_change_at_a_time"
    ),
    Guard(
        "only what an extension can do is updated in place",
        {"core.machines.rules.in_place:update_or_ask": takes_every_answer_for_yes},
        "s8_an_update_needs_a_reason",
    ),
    Guard("the last of a surge is not updated", {"core.machines.rules.in_place:takes_place": returns(True)}, "s8_an_update_needs_a_reason"),
    Guard(
        "the ring is asked before an update in place is marked, and before it begins",
        {"clusterapi.act.in_place:_gate": returns_what_was_seen},
        f"{IN_PLACE}::test_nothing_is_marked_where_the_ring_fails_at_the_last_instant_and_nothing_begins_where_it_fails_after",
    ),
    Guard(
        "the API is asked whether another one is updated",
        {"clusterapi.act.in_place:_still_alone": finds_it_as_it_was_seen},
        f"{IN_PLACE}::test_one_at_a_time_by_what_the_api_has",
    ),
    Guard(
        "the extension is asked once more",
        {"clusterapi.act.in_place:ask": believes_what_was_answered},
        f"{IN_PLACE}::test_an_extension_that_changes_its_mind_at_the_last_instant_is_believed",
    ),
    Guard("an addition leaves a quorum", {"core.quorum:quorum_survives_addition": says_yes}, "s1_quorum_outlives_an_addition"),
    Guard("nobody joins beside who has not joined yet", {"core.ring:Ring.unsettled": returns(())}, "s2_one_joins_at_a_time"),
    Guard("a cluster is founded once", {"core.machines.rules.initialize:initialize": is_told(initialized=False)}, "s3_founded_once"),
    Guard("nobody joins what was never founded", {"core.machines.rules.preflight:_initialized": says_yes}, "s3_founded_once"),
    Guard(
        "another replica holds the data",
        {"core.machines.rules.remove:another_holds_the_data": says_yes},
        "s4_the_last_holder_of_data_stays",
    ),
    Guard(
        "a replica holds the data that an orphan has",
        {"core.machines.rules.remove:a_replica_holds_the_data": says_yes},
        "s4_the_last_holder_of_data_stays",
    ),
    Guard(
        "nothing is begun while somebody leaves",
        {"core.machines.rules.preflight:_nobody_leaves": says_yes, "core.machines.rules.remove:release_the_leaving": blocks_nothing},
        "s5_one_change_at_a_time",
    ),
    Guard("one remediation at a time", {"core.machines.rules.remediate:_previous_finished": says_yes}, "s5_one_change_at_a_time"),
    Guard(
        "only a remediation that cannot finish is overtaken",
        {"core.machines.rules.remediate:_cannot_finish": returns(True)},
        "s5_one_change_at_a_time",
    ),
    Guard(
        "only a remediation whose replacement cannot join is overtaken",
        {"core.machines.rules.remediate:_keeps_others_out": returns(True)},
        "s5_one_change_at_a_time",
    ),
    Guard("there is room", {"core.machines.rules.preflight:has_room": says_yes}, "s6_no_more_than_desired_and_a_surge"),
    Guard("who is as desired stays", {"core.machines.rules.placement:candidates": chooses_anybody}, "s8_nobody_goes_without_a_reason"),
    Guard("paused means paused", {"core.machines.rules.guard:respect_a_pause": says_nothing}, "s11_paused_means_paused"),
    Guard(
        "a replacement carries its record",
        {"core.machines.rules.remediate:keep_the_records": says_nothing},
        "a_replacement_carries_its_record",
    ),
    Guard("another serves", {"core.machines.checks:another_serves": says_yes}, "another_serves"),
    Guard("only who never joined serves nobody", {"core.machines.rules.remove:never_joined": returns(True)}, "another_serves"),
    Guard("all others are well", {"core.machines.checks:components_healthy": returns((YES, YES))}, "all_others_are_well"),
    Guard("an etcd that is not ours is well", {"core.machines.checks:_external_etcd_answers": says_yes}, "all_others_are_well"),
    Guard("somebody serves whom a replacement can join", {"core.machines.checks:somebody_serves": says_yes}, "all_others_are_well"),
    Guard("nobody joins on its host", {"core.machines.rules.remove:_nobody_joins": returns(())}, "s1_a_join_under_way_is_waited_for"),
    Guard("it waits at our hook", {"core.machines.rules.remove:has_arrived": says_yes}, "only_what_waits_at_our_hook_is_let_go"),
    Guard("it will wait at our hook", {"core.machines.rules.preflight:_waits_for_us": says_yes}, "only_what_waits_at_our_hook_is_let_go"),
    Guard(
        "a failed one will wait at our hook",
        {"core.machines.rules.remediate:_will_wait_for_us": says_yes},
        "only_what_waits_at_our_hook_is_let_go",
    ),
    Guard("an orphan is no newcomer", {"core.machines.rules.orphans:_aged": says_yes}, "an_orphan_has_no_owner"),
    Guard("an orphan lives on no Machine's Node", {"core.machines.rules.orphans:_has_no_owner": says_yes}, "an_orphan_has_no_owner"),
    Guard("an orphan is not of one on its way", {"core.machines.rules.orphans:_is_of_no_newcomer": says_yes}, "an_orphan_has_no_owner"),
    Guard(
        "an orphan that fits a replica stays with it",
        {"core.machines.rules.orphans:_may_own": forgets_whom_it_fits},
        "an_orphan_has_no_owner",
    ),
    Guard("its possible owner can be done without", {"core.machines.rules.orphans:_can_do_without": returns(())}, "an_orphan_has_no_owner"),
    Guard("nobody else is coming up", {"core.machines.rules.loss:_nobody_coming_up": says_yes}, "a_remediation_has_its_reason"),
    Guard("records can be read", {"core.machines.rules.remediate:_records_readable": says_yes}, "a_remediation_has_its_reason"),
    Guard("retries are left", {"core.machines.rules.remediate:_account": says_no_retry}, "a_remediation_has_its_reason"),
    Guard(
        "before initialization only who is alone goes",
        {"core.machines.rules.remove:exempt_before_initialization": says_yes},
        "before_initialization_only_the_first_goes",
    ),
    Guard(
        "before initialization only who is alone is replaced",
        {"core.machines.rules.rollout:_begin_anew": sees_one_replica},
        "before_initialization_only_the_first_goes",
    ),
    Guard(
        "what is not known to be initialized may hold data",
        {
            "core.machines.state:ControlPlane.may_be_initialized": believes_what_is_known,
            "core.machines.rules.guard:wait_for_the_workload_cluster": says_nothing,
        },
        "s4_the_last_holder_of_data_stays",
    ),
    Guard(
        "the next minor version of etcd joins members that are ready for it",
        {"core.etcd_versions:members_ready": says_yes},
        "tests/core/test_rules_preflight.py::test_the_next_minor_version_of_etcd_joins_only_members_that_are_ready_for_it",
    ),
    Guard(
        "no etcd joins that does not start with its flags",
        {"core.etcd_versions:flags_known": says_yes},
        "tests/core/test_rules_preflight.py::test_an_etcd_that_would_not_start_with_its_flags_joins_nobody",
    ),
    Guard("the version is near", {"core.machines.rules.preflight:version_is_near": says_yes}, "versions_stay_close"),
    Guard("the version is no step back", {"core.machines.rules.preflight:version_is_not_below": says_yes}, "versions_stay_close"),
    Guard("who goes can be replaced", {"core.machines.rules.preflight:_replacement_possible": returns(())}, "versions_stay_close"),
    Guard(
        "the topology's version has arrived", {"core.machines.rules.preflight:topology_arrived": says_yes}, "nothing_moves_behind_a_gate"
    ),
    Guard("there is a template", {"core.machines.rules.preflight:template_exists": says_yes}, "nothing_moves_behind_a_gate"),
    Guard(
        "newcomers read the new configuration",
        {
            "core.machines.rules.preflight:_workload_prepared": says_yes,
            "core.machines.rules.maintenance:prepare_the_workload": blocks_nothing,
        },
        "nothing_moves_behind_a_gate",
    ),
    Guard("the members agree", {"core.machines.rules.orphans:members_agree": says_nothing}, "nothing_moves_behind_a_gate"),
    Guard("the specification is valid", {"core.machines.rules.guard:refuse_what_is_invalid": says_nothing}, "nothing_moves_behind_a_gate"),
    Guard(
        "the Cluster names it", {"core.machines.rules.guard:be_the_one_that_the_cluster_names": says_nothing}, "nothing_moves_behind_a_gate"
    ),
    Guard("all Machines are ours", {"core.machines.rules.guard:leave_others_machines_alone": says_nothing}, "nothing_moves_behind_a_gate"),
    Guard(
        "Machines without an owner are adopted",
        {"core.machines.rules.adopt:adopt_stand_alone_machines": says_nothing},
        "nothing_moves_behind_a_gate",
    ),
    Guard("there is infrastructure", {"core.machines.rules.guard:wait_for_infrastructure": says_nothing}, "nothing_moves_behind_a_gate"),
    Guard("there is an endpoint", {"core.machines.rules.guard:wait_for_the_endpoint": says_nothing}, "nothing_moves_behind_a_gate"),
    Guard(
        "the workload cluster answers",
        {"core.machines.rules.guard:wait_for_the_workload_cluster": says_nothing},
        "nothing_moves_behind_a_gate",
    ),
    Guard(
        "there are certificates", {"core.machines.rules.certificates:provide_certificates": blocks_nothing}, "nothing_moves_behind_a_gate"
    ),
    Guard("what is being deleted only goes", {"core.machines.rules.delete:take_down": says_nothing}, "nothing_moves_behind_a_gate"),
    Guard(
        "a member leaves only after a last look",
        {"clusterapi.act.etcd_membership:pass_the_gate": asks_nothing_of_the_ring},
        f"{ACT}::test_a_removal_that_would_break_quorum_by_now_is_refused_and_nothing_is_written",
    ),
    Guard(
        "the last look is a fresh one",
        {"clusterapi.act.etcd_membership:read_afresh": returns_the_view},
        f"{ACT}::test_a_ring_that_cannot_be_read_at_the_instant_of_acting_refuses",
    ),
    Guard(
        "a Machine is deleted only if the ring can do without it by then",
        {"clusterapi.act.etcd_membership:may_be_deleted": returns((YES,))},
        f"{ACT}::test_a_replica_is_not_deleted_once_the_ring_cannot_do_without_it",
    ),
    Guard(
        "a failed Machine is deleted only if the ring can do without it by then",
        {"clusterapi.act.remediation:_asked": returns((YES,))},
        f"{REMEDIATION}::test_what_the_ring_cannot_do_without_by_now_is_not_deleted_and_the_record_is_forgotten",
    ),
    Guard(
        "a Machine is deleted beside nobody who began to leave by then",
        {"clusterapi.act.permission:same_machines": returns(None)},
        f"{ACT}::test_a_replica_is_not_deleted_beside_one_that_began_to_leave_since_it_was_judged",
    ),
    Guard(
        "a member goes only with a Machine that still leaves",
        {"clusterapi.act.permission:still_leaves": believes_the_cache},
        f"{ACT}::test_nothing_leaves_with_a_machine_that_a_backup_of_the_management_cluster_has_otherwise",
    ),
    Guard(
        "a member goes after what hooks of others wait for",
        {"clusterapi.act.permission:_has_arrived": returns(YES)},
        f"{LAST_LOOK}::test_no_member_leaves_before_a_hook_that_the_cache_has_yet_to_see",
    ),
    Guard(
        "a member that somebody consented to remove goes only while that is so",
        {"clusterapi.act.etcd_membership:_has_lost_its_consent": returns(False)},
        "tests/clusterapi/loop/test_somebodys_members.py::test_one_stays_whose_consent_was_taken_back_before_the_cache_had_heard_of_it",
    ),
    Guard(
        "what is asked for is asked for still",
        {"clusterapi.act.permission:still_asked_for": lets_pass},
        f"{ACT}::test_a_replica_is_not_deleted_for_a_specification_that_is_not_asked_for_any_more",
    ),
    Guard(
        "a Machine is made only while it is asked for still",
        {"clusterapi.act.permission:still_asked_for": lets_pass},
        "tests/clusterapi/loop/test_creation.py::test_no_machine_is_made_for_what_changed_while_its_token_was_waited_for",
    ),
    Guard(
        "what was begun is what is wanted now",
        {"clusterapi.desired.intent:makes_the_same": returns(True)},
        "tests/clusterapi/loop/test_creation.py::test_who_is_to_join_never_comes_out_as_the_one_that_founds_the_cluster",
    ),
    Guard(
        "nothing is paused by then",
        {"clusterapi.act.permission:still_permitted": lets_pass},
        f"{ACT}::test_nothing_is_destroyed_once_somebody_has_paused_it",
    ),
    Guard(
        "all Machines go only while their control plane does",
        {"clusterapi.act.permission:_lives_or_goes_as_it_did": returns(None)},
        f"{LAST_LOOK}::test_nothing_is_deleted_once_a_restore_has_undone_the_deletion_of_the_control_plane",
    ),
    Guard(
        "no other Machines are there than those that were counted",
        {"clusterapi.act.permission:same_machines": returns(None)},
        f"{LAST_LOOK}::test_no_second_cluster_is_founded_beside_a_machine_that_the_cache_has_yet_to_see",
    ),
    Guard(
        "a Machine is its Cluster's, whatever its labels say",
        {"clusterapi.act.permission:clusters_of": by_its_label, "clusterapi.connect.caches:clusters_of": by_its_label},
        f"{LAST_LOOK}::test_no_second_cluster_is_founded_beside_a_machine_without_the_name_of_its_cluster",
    ),
    Guard(
        "all Machines go only while they are their control plane's",
        {"clusterapi.act.permission:same_owners": returns(None)},
        "tests/clusterapi/loop/test_handed_over.py::test_a_control_plane_that_goes_takes_no_machines_along_that_were_handed_over",
    ),
    Guard(
        "all Machines go only after the workers",
        {"clusterapi.act.permission:_workers": finds_none},
        "tests/clusterapi/loop/test_handed_over.py::test_a_control_plane_stays_while_there_are_workers_that_the_cache_has_yet_to_see",
    ),
    Guard(
        "each Machine is whose it was",
        {"clusterapi.act.permission:same_owners": returns(None)},
        "tests/clusterapi/loop/test_handed_over.py::test_no_member_is_removed_of_a_machine_that_was_handed_over",
    ),
    Guard(
        "who writes leads still",
        {"clusterapi.act.permission:still_leads": returns(None)},
        f"{ACT}::test_nothing_is_destroyed_by_a_process_that_may_lead_no_more",
    ),
    Guard(
        "what a Machine has is not taken away with a creation",
        {"clusterapi.act.companions:is_the_control_planes_alone": returns(True)},
        "tests/clusterapi/loop/test_creation.py::test_what_a_machine_owns_too_by_now_is_not_deleted",
    ),
    Guard(
        "a last look asks something",
        {"clusterapi.act.etcd_membership:pass_the_gate": takes_silence_for_an_answer},
        f"{ACT}::test_a_last_look_that_asks_nothing_lets_nothing_pass",
    ),
    Guard(
        "the first Machine is deleted only if kubeadm has not finished by then",
        {"clusterapi.act.permission:still_uninitialized": lets_pass},
        f"{ACT}::test_the_first_machine_is_not_deleted_once_kubeadm_has_finished_on_it",
    ),
    Guard(
        "members are looked for on every control-plane Node",
        {"clusterapi.observe.orphans:nodes_without_machine": returns({})},
        "tests/clusterapi/loop/test_somebodys_members.py::test_healthy_voters_whose_nodes_live_stay_and_are_named",
    ),
    Guard(
        "a Node of a member's name is asked for before the member is called an orphan",
        {"clusterapi.observe.orphans:look_for_nodes": finds_none},
        "tests/clusterapi/loop/test_somebodys_members.py::test_the_last_look_asks_for_a_node_that_no_list_has",
    ),
    Guard(
        "a Machine that a silent member fits is not proven without one",
        {"clusterapi.observe.ring:_Hosts.at_its_address": returns(())},
        f"{WHOSE_MEMBER}::test_one_that_a_silent_member_fits_is_not_proven_without_though_another_has_its_name",
    ),
    Guard(
        "a Node that has another providerID is not the Machine's",
        {"clusterapi.observe.machines:told_apart": changes_nothing},
        f"{WHOSE_MEMBER}::test_the_member_on_the_node_of_another_host_is_not_removed_with_the_machine_that_had_its_name",
    ),
    Guard(
        "a Machine is held no more only once its own member has left",
        {"clusterapi.act.etcd_membership:joins_on": returns("cp-4")},
        "tests/clusterapi/loop/test_observe.py::test_a_machine_may_be_joining_though_the_learner_of_another_host_was_removed",
    ),
    Guard(
        "only who was made to found the cluster proves that nobody had",
        {"clusterapi.observe.initialization:_is_founding": returns(True)},
        "tests/clusterapi/loop/test_initialization.py::test_the_only_machine_of_a_control_plane_that_lost_its_status_is_kept",
    ),
    Guard(
        "who became a Node shows that somebody founded the cluster",
        {"clusterapi.observe.initialization:_became_nodes": returns([])},
        "tests/clusterapi/loop/test_initialization.py::test_no_second_cluster_is_founded_for_workers_that_joined_the_first",
    ),
    Guard(
        "etcd is where the Machines have it",
        {"clusterapi.observe.machines:has_etcd": returns(None)},
        "tests/clusterapi/loop/test_moved_etcd.py::test_the_only_voter_that_is_well_stays_though_an_external_etcd_is_asked_for",
    ),
    Guard(
        "what differs for the first time does so by a definition that was read after it",
        {"clusterapi.api.bootstrap_schema:BootstrapSchema.known_fields_now": remembers},
        "tests/clusterapi/loop/test_unknown_fields.py::test_a_definition_that_changed_since_it_was_read_replaces_nothing",
    ),
    Guard(
        "no host joins whose clock is apart",
        {"core.hosts.rules.clocks:clock_fits": says_yes},
        f"{CLOCKS}::test_a_control_plane_host_that_is_apart_does_not_join_and_the_next_one_does",
    ),
    Guard(
        "no certificate is made by clocks that are apart",
        {"core.hosts.rules.clocks:agree_on_the_time": says_nothing},
        f"{CLOCKS}::test_members_that_are_apart_bar_certificates_and_no_repair",
    ),
    Guard(
        "a certificate expires by the clock of its host",
        {"core.hosts.rules.clocks:own_time": by_the_operators_clock},
        f"{CLOCKS}::test_certificates_expire_by_the_clock_of_their_host",
    ),
    Guard(
        "whoever changes existing hosts has the Lease or most of them",
        {"hosts.run.lock_confirmed:confirmed_until": always_confirmed},
        f"{FENCE}::test_without_the_lease_and_without_most_of_the_hosts_nothing_is_changed",
    ),
    Guard(
        "most of the hosts are not enough beside somebody who has the Lease",
        {"hosts.run.lock:Lock._renew_lease": asks_nobody},
        f"{FENCE}::test_nobody_goes_on_with_the_hosts_alone_once_the_api_says_that_the_lease_is_anothers",
    ),
    Guard(
        "a script begins only while nobody else can be confirmed",
        {"hosts.run.lock:Lock._by_the_clock_of": returns(10**9)},
        f"{FENCE}::test_a_script_that_arrives_when_somebody_elsewhere_may_be_confirmed_does_nothing",
    ),
    Guard(
        "a member of existing hosts leaves only after a last look",
        {"hosts.act.rings:require": returns(None)},
        "tests/hosts/act/test_ring.py::test_no_member_that_is_well_leaves_while_another_is_silent",
    ),
    Guard(
        "a Node of existing hosts goes only while it is what it was",
        {"hosts.act.ring:_still_goes": says_yes},
        "tests/hosts/act/test_ring.py::test_a_node_that_is_ready_again_when_it_is_to_go_stays",
    ),
    Guard(
        "a member is removed only while it is the replica's",
        {"clusterapi.act.etcd_membership:_its_own": returns(True)},
        f"{ACT}::test_a_member_that_became_anothers_is_not_removed",
    ),
    *RUNTIME,
)
"""Everything that stands between a decision and a lost quorum, and what else must not happen."""

NOT_GUARDS: Mapping[str, str] = MappingProxyType(
    {
        "core.checks:passed": "makes a check",
        "core.checks:failed": "makes a check",
        "core.checks:unknown": "makes a check",
        "core.machines.checks:_all_well": "words the answer of components_healthy",
        "core.machines.rules.preflight:before_joining": "asks the others",
        "core.machines.rules.preflight:before_deleting": "asks the others",
        "core.machines.rules.preflight:before_updating": "asks the others",
        "core.machines.rules.preflight:version_fits": "asks the two about versions, and _etcd_fits",
        "core.machines.rules.preflight:_etcd_fits": "asks members_ready and flags_known",
        "core.machines.rules.preflight:_well_enough_to_join": "asks components_healthy or somebody_serves",
        "core.machines.rules.preflight:_ring_bears_one_more": "asks quorum_survives_addition",
        "core.machines.rules.preflight:_nobody_leaves_but_the_only_one": "asks _nobody_leaves; the exemption is judged by S5",
        "core.machines.rules.remove:safe_to_let_go": "asks the others",
        "core.machines.rules.remove:_may_go": "asks the others",
        "core.machines.rules.loss:_alone": "asks the others",
        "core.machines.rules.loss:safe_to_remediate": "asks the others",
        "core.machines.rules.remediate:_questions": "asks the others",
        "core.machines.rules.remediate:_named": "words the answers of the others",
        "core.machines.rules.remediate:_not_deleting": "for the report alone: decide asks only about those that stay",
        "core.machines.rules.orphans:may_be_removed": "asks the others",
        "core.machines.rules.maintenance:_failing": "words the last failure of maintenance, which endangers nobody",
    }
)
"""Functions of the rules that answer with checks and are no safety predicates of their own, with the reason."""


@contextmanager
def disabled(guard: Guard) -> Iterator[None]:
    """Nothing that quorate has loaded asks this guard any more, for as long as this lasts."""
    with ExitStack() as stack:
        for place, instead in guard.places.items():
            for patch in _patches(place, instead):
                stack.enter_context(patch)
        yield


def _patches(place: str, instead: Instead) -> Iterator[AbstractContextManager[object]]:
    module_name, _, path = place.partition(":")
    owner_path, _, name = path.rpartition(".")
    module = importlib.import_module(f"quorate.{module_name}")
    if owner_path:  # of a class: every user looks it up there
        owner = getattr(module, owner_path)
        found = vars(owner)[name]
        yield mock.patch.object(owner, name, instead(found) if isinstance(found, FunctionType) else property(instead(found.fget)))
        return
    function = getattr(module, name)
    disabled_function = instead(function)
    for user in [loaded for key, loaded in sys.modules.items() if key.startswith("quorate.")]:
        yield from (mock.patch.object(user, key, disabled_function) for key, value in list(vars(user).items()) if value is function)
    if any(rule is function for _, rule in decide.RULES):
        rules = tuple((key, disabled_function if rule is function else rule) for key, rule in decide.RULES)
        yield mock.patch.object(decide, "RULES", rules)


def answering_functions() -> Iterator[str]:
    """Every function of `core.checks`, `core.quorum`, `core.machines.checks` and of the rules whose answer has a Check in it, as `module:function`."""
    for name, module in sorted(sys.modules.items()):
        if name in ("quorate.core.checks", "quorate.core.quorum", "quorate.core.machines.checks") or name.startswith(
            "quorate.core.machines.rules."
        ):
            for key, value in sorted(vars(module).items()):
                if isinstance(value, FunctionType) and value.__module__ == name and "Check" in str(value.__annotations__.get("return", "")):
                    yield f"{name.removeprefix('quorate.')}:{key}"


_HEAD = """# What guards the quorum, and what notices when it is gone

Each predicate is taken out in turn; the exhaustive check, or the test named, must then fail (`tests/proof/test_mutation.py`). The invariants are those of
`tests/proof/safety.py` and `conduct.py`. Where several functions stand behind each other they are taken out together. Made by `python -m tests.proof.guards`.

| guard | predicate | without it falls |
|---|---|---|
"""


def table() -> str:
    """The whole page."""
    rows = [f"| {guard.name} | {', '.join(f'`{place}`' for place in guard.places)} | `{guard.breaks}` |\n" for guard in GUARDS]
    others = [f"| `{place}` | {reason} |\n" for place, reason in NOT_GUARDS.items()]
    return _HEAD + "".join(rows) + "\n## Checks that guard nothing by themselves\n| function | why |\n|---|---|\n" + "".join(others)


if __name__ == "__main__":
    sys.stdout.write(table())
