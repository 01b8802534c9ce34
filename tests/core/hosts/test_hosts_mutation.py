"""Without any one of its guards a decision about hosts does harm, and the oracle notices."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from inspect import isfunction, signature
from random import Random
from typing import Any
from unittest import mock

import pytest

from quorate.core.checks import passed
from quorate.core.health import Unknown
from quorate.core.hosts import decide as table
from quorate.core.hosts.rules import leftovers, skew
from quorate.core.hosts.rules.encryption import KEYS_KNOWN
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import RemoveMember
from quorate.core.proposal import NOTHING

from .conftest import GOOD, Build
from .oracle import objections
from .worlds import everything

YES = passed("disabled", "by the test")

# Each predicate, or several that stand behind each other, with what it answers when it is disabled.
GUARDS: dict[str, dict[str, object]] = {
    "a removal leaves a quorum": {"gates:removal": YES},
    "an addition leaves a quorum": {"gates:addition": YES},
    "others have quorum during a restart": {"gates:restart": YES},
    "a host of the manifest holds the data": {"rules.facts:holds_the_data": YES},
    "a dead member was silent for three probes": {"rules.members:_dead": YES},
    "nobody makes a learner of nobody a voter any more": {"rules.members:_given_up": YES},
    "an orphan is no host's member": {"rules.members:_matches_no_host": YES},
    "no more hosts leave than was said": {"rules.departures:as_many_as_said": YES},
    "a host that is reset has left the ring": {"rules.leftovers:_out_of_the_ring": YES, "gates:reset": YES},
    "a reset leaves a quorum": {"gates:reset": YES},
    "no host that cannot be asked holds the cluster": {"rules.found:_nothing_hidden": (), "rules.guard:refuse_what_is_unknown": NOTHING},
    "no host has traces of a cluster": {"rules.found:_no_traces": YES, "rules.guard:refuse_what_does_not_fit": NOTHING},
    "versions do not change while a host has yet to join": {"rules.join:repair_at_the_running_version": NOTHING},
    "a snapshot comes first": {"rules.snapshot:after_a_snapshot": "as it is"},
    "repair comes first": {"rules.repair:repair_comes_first": NOTHING},
    "a start may be a restart": {"rules.services:restarts_member": False},
    "there is a quorum": {"rules.guard:keep_the_quorum": NOTHING, "gates:restart": YES},
}


# What stands where the oracle has no word, or worlds of so many kinds would be needed: each with what answers in its place and the test that fails then, with
# its arguments beside `build`.
TOLD_BY_A_TEST: dict[str, tuple[dict[str, object], str, dict[str, object]]] = {
    "one operator at a time": ({"rules.guard:work_alone": NOTHING}, "guard:test_two_operators_never_work_at_once", {}),
    "a kubeadm ends first": (
        {"rules.guard:let_kubeadm_end": NOTHING},
        "guard:test_a_kubeadm_that_still_runs_is_left_to_end_and_looked_at_again",
        {},
    ),
    "hosts fit together": (
        {"rules.guard:refuse_what_does_not_fit": NOTHING},
        "guard:test_a_control_plane_host_of_another_cluster_stops_everything",
        {},
    ),
    "hosts are known": (
        {"rules.guard:refuse_what_is_unknown": NOTHING},
        "guard:test_a_control_plane_host_that_may_be_anything_stops_everything_but_starting",
        {},
    ),
    "no more is done than was asked for": (
        {"rules.guard:stop_before_kubeadm": NOTHING},
        "guard:test_no_init_neither_joins_nor_upgrades",
        {},
    ),
    "the last with the data is named": (
        {"rules.guard:keep_the_data": NOTHING},
        "members:test_that_a_member_of_no_host_is_the_last_with_the_data_is_said_before_anything_else",
        {},
    ),
    "etcd takes writes": ({"rules.guard:need_writes": NOTHING}, "guard:test_nothing_is_begun_that_etcd_would_refuse_to_write", {}),
    "the API answers": (
        {"rules.guard:need_the_api": NOTHING},
        "mend:test_the_only_host_that_a_setting_broke_is_mended_without_its_api",
        {},
    ),
    "members agree": ({"rules.members:members_agree": NOTHING}, "members:test_a_ring_in_dispute_is_left_alone", {}),
    "API servers read what others store": (
        {"rules.encryption:agree_about_keys": NOTHING},
        "key_rules:test_nobody_is_given_keys_with_which_somebody_could_not_read_what_others_store",
        {"third": Unknown("no file"), "said": KEYS_KNOWN},
    ),
    "what is stored as plain text stays readable": (
        {"rules.encryption:_cannot_read": ()},
        "key_rules:test_no_configuration_comes_with_which_what_is_stored_as_plain_text_could_not_be_read",
        {},
    ),
    "only a key of quorate's making is rotated": (
        {"rules.encryption:_cannot_rotate": ()},
        "key_rules:test_a_key_that_is_not_quorates_is_not_rotated",
        {},
    ),
    "no etcd runs where one is to begin": (
        {"rules.found:_no_ring": YES},
        "found:test_an_etcd_that_runs_somewhere_is_nobodys_to_overwrite",
        {"ring": Unknown("connection refused")},
    ),
    "a beginning is alone": ({"rules.found:_alone": YES}, "found:test_a_ring_with_others_is_no_beginning", {}),
    "a beginning goes on with its data": (
        {"rules.found:_is_mounted": YES},
        "found:test_it_waits_for_a_disk_that_may_not_be_mounted_yet",
        {},
    ),
    "a beginning goes on with its version": (
        {"rules.found:_same_version": YES},
        "found:test_it_goes_on_with_the_version_that_it_began_with",
        {},
    ),
    "the name is free": ({"rules.join:_name_free": YES}, "members:test_nobody_joins_under_the_name_of_a_node_that_is_not_gone", {}),
    "somebody serves who others join": (
        {"rules.facts:somebody_serves": YES},
        "mend:test_nobody_joins_where_no_control_plane_is_wholly_well",
        {},
    ),
    "every member answers who joins": (
        {"rules.join:_members_answer": YES},
        "mend:test_nobody_joins_beside_a_host_that_is_away_although_the_ring_could_bear_it",
        {},
    ),
    "no kubelet is above an API server": (
        {"rules.skew:none_is_older": YES},
        "found:test_no_worker_joins_above_an_api_server_that_an_upgrade_did_not_reach_before_its_host_fell_silent",
        {},
    ),
    "who joins gets what the manifest says": (
        {"rules.configuration:after_the_configuration": "the first"},
        "mend:test_nobody_joins_with_a_setting_that_the_manifest_has_corrected_though_what_it_broke_cannot_be_mended_yet",
        {},
    ),
    "no etcd runs on a host that is reset": (
        {"rules.leftovers:_runs_no_etcd": YES},
        "members:test_a_host_is_not_reset_that_may_hold_something",
        {"host": {"member_health": GOOD}, "name": leftovers.RUNS_NO_ETCD},
    ),
    "data outside the ring outnumber no voters": (
        {"rules.leftovers:_no_more_copies": YES},
        "members:test_no_host_is_reset_where_as_many_hold_data_outside_the_ring_as_serve_in_it",
        {},
    ),
    "data of another ring go by name alone": (
        {"rules.leftovers:_no_other_data": YES},
        "members:test_no_host_is_reset_that_holds_data_of_another_ring",
        {},
    ),
    "a machine controller's machine keeps its Node": (
        {"rules.leftovers:_is_no_machines": YES},
        "members:test_the_node_of_a_machine_controllers_machine_stays_though_it_has_the_label",
        {},
    ),
    "the Node of a host on which nothing is left is not ready": (
        {"rules.leftovers:_of_wiped_hosts": (("cp-3", YES),)},
        "members:test_a_node_that_is_ready_is_not_deleted_for_a_host_on_which_nothing_is_left",
        {},
    ),
    "no Pods run on a worker that is reset": (
        {"rules.leftovers:_runs_nothing": YES},
        "members:test_a_worker_whose_join_was_cut_short_is_reset_unless_it_runs_pods",
        {},
    ),
    "a worker under the control planes is not freed": (
        {"rules.leftovers:_is_no_worker": YES},
        "members:test_a_worker_that_the_manifest_has_as_a_control_plane_is_not_freed_for_it",
        {},
    ),
    "a disk that may not be mounted is no lost one": (
        {"rules.members:_not_mounted": YES},
        "members:test_a_member_stays_while_the_disk_with_its_data_may_not_be_mounted_yet",
        {},
    ),
    "a Node is no host's": ({"rules.leftovers:_of_no_host": YES}, "members:test_a_node_may_be_that_of_a_host_whose_own_is_not_known", {}),
    "a worker of somebody else's keeps its Node": (
        {"rules.leftovers:_joined_by_us": ()},
        "members:test_a_ready_worker_that_somebody_else_joined_keeps_its_node_though_a_new_host_has_its_name",
        {},
    ),
    "a member leaves before its Node": (
        {"rules.leftovers:_names_in_the_ring": frozenset()},
        "forecast:test_one_to_three_and_three_to_one",
        {},
    ),
    "Pods leave a worker's Node": (
        {"rules.facts:takes_evictions": False},
        "members:test_the_node_of_a_worker_that_left_the_manifest_is_drained_while_its_kubelet_answers",
        {},
    ),
    "a replacement joins first": (
        {"rules.members:_replaced": YES},
        "members:test_a_replacement_joins_before_the_one_that_is_well_leaves",
        {},
    ),
    "others are well while one is mended": (
        {"rules.mend:_others_well": YES},
        "mend:test_nobody_joins_with_a_setting_that_the_manifest_has_corrected_though_what_it_broke_cannot_be_mended_yet",
        {},
    ),
    "workers are repaired first": (
        {"rules.repair:workers_come_first": NOTHING},
        "members:test_a_worker_that_has_yet_to_join_is_repair_too",
        {},
    ),
    "the ring is that of the manifest": ({"rules.repair:_ring_matches": YES}, "upgrade:test_a_member_of_nobody_blocks_it", {}),
    "certificates are of a host that belongs": (
        {"rules.settings:_belongs": YES},
        "upgrade:test_a_host_that_does_not_belong_renews_nothing",
        {},
    ),
    "no minor is skipped": ({"rules.skew:_one_minor": YES}, "forecast:test_an_upgrade_that_would_skip_a_minor_has_no_plan", {}),
    "no version goes back": (
        {"rules.skew:_no_step_back": YES},
        "upgrade:test_the_skew_policy_is_kept_force_or_not",
        {"target": "v1.34.3", "hosts": {}, "name": skew.NO_STEP_BACK, "force": False},
    ),
    "Nodes of no host fit": (
        {"rules.skew:others_allow": YES},
        "upgrade:test_a_node_of_no_host_whose_kubelet_the_new_api_servers_would_not_fit_blocks_it_by_name",
        {"kubelet": "v1.31.9", "said": "to v1.32 or later first"},
    ),
    "no kubelet falls too far behind": (
        {"rules.skew:_kubelets_near": YES},
        "upgrade:test_a_worker_that_cannot_be_reached_counts_for_the_skew",
        {},
    ),
    "no Node is short of anything": ({"rules.upgrade:_nothing_short": YES}, "upgrade:test_a_node_under_pressure_blocks_it", {}),
    "what destroys was shown": (
        {"approval:identities": frozenset()},
        "approval:test_nothing_is_destroyed_that_was_not_shown",
        {"step": RemoveMember(9, "cp-3")},
    ),
    "approval to continue is none to begin": (
        {"approval:identities": frozenset()},
        "approval:test_approval_to_continue_an_initialization_is_none_to_begin_one",
        {},
    ),
    "a start that restarts a member stands behind the gate": (
        {"rules.services:_bears_start": YES},
        "services:test_a_kubelet_that_restarts_etcd_is_not_started_while_the_others_have_no_quorum",
        {},
    ),
    "Nodes are ready": ({"rules.upgrade:nodes_ready": YES}, "upgrade:test_a_node_that_is_not_ready_blocks_it", {}),
}


NOT_GUARDS = {
    "gates:_restart": "asked by restart alone",
    "rules.clocks:clock_fits": "taken away in tests/proof",
    "rules.guard:_unread": "words what keep_the_quorum answers",
    "rules.leftovers:may_be_reset": "asks the others",
    "rules.mend:_at_its_version": "words why nothing is done",
    "rules.repair:_control_plane_well": "asked by repair_comes_first alone",
    "rules.repair:_worker_well": "asked by workers_come_first alone",
    "rules.services:_bears_restart": "asks restart",
    "rules.skew:skew_allows": "asks the others",
    "rules.upgrade:bears_restart": "asks restart",
}
"""Functions that answer with checks and are no guards of their own, with the reason."""


@cache
def searched() -> tuple[Cluster, ...]:
    """The states in which the absence of a guard is looked for, shuffled the same way each time."""
    worlds = [cluster for hosts in (1, 2, 3) for cluster in everything(Build(), hosts)]
    Random(0).shuffle(worlds)
    return tuple(worlds)


@contextmanager
def disabled(places: Mapping[str, object]) -> Iterator[None]:
    """No module of the rules asks these any more."""
    with ExitStack() as stack:
        for place, answer in places.items():
            module, _, name = place.partition(":")
            _disable(stack, vars(importlib.import_module(f"quorate.core.hosts.{module}"))[name], answer)
        yield


def _disable(stack: ExitStack, function: Callable[..., Any], answer: object) -> None:
    def instead(*arguments: Any, **_named: Any) -> Any:
        return {"as it is": arguments[1:2], "the first": arguments[:1]}[answer][0] if isinstance(answer, str) else answer

    for module in [loaded for key, loaded in sys.modules.items() if key.startswith("quorate.core.hosts")]:
        for key in [key for key, value in vars(module).items() if value is function]:
            stack.enter_context(mock.patch.object(module, key, instead))
    rules = tuple((name, instead if rule is function else rule) for name, rule in table.RULES)
    stack.enter_context(mock.patch.object(table, "RULES", rules))


@pytest.mark.parametrize("guard", GUARDS)
def test_without_the_guard_a_decision_does_what_the_oracle_forbids(build: Build, guard: str) -> None:
    with disabled(GUARDS[guard]):
        for cluster in searched():
            step = table.decide(cluster, build.noon).step
            if step is not None and next(objections(cluster, step), None) is not None:
                return
    pytest.fail(f"nothing notices that {', '.join(GUARDS[guard])} is gone")


@pytest.mark.parametrize("guard", TOLD_BY_A_TEST)
def test_without_the_guard_its_own_test_fails(build: Build, guard: str) -> None:
    places, where, arguments = TOLD_BY_A_TEST[guard]
    module, _, name = where.partition(":")
    test = vars(importlib.import_module(f"tests.core.hosts.test_hosts_{module}"))[name]
    run = partial(test, **({"build": build} if "build" in signature(test).parameters else {}), **arguments)
    run()
    with disabled(places), pytest.raises(AssertionError):
        run()


def test_every_check_of_the_rules_is_a_guard_or_says_why_not() -> None:
    named = {place for places in (*GUARDS.values(), *(places for places, _, _ in TOLD_BY_A_TEST.values())) for place in places}
    answering = set(_answering())
    assert answering - named - NOT_GUARDS.keys() == set()
    assert NOT_GUARDS.keys() - answering == set(), "these are gone"


def _answering() -> Iterator[str]:
    """Every function of the gates and the rules that answers with checks."""
    rules = [f"rules.{module.name}" for module in pkgutil.iter_modules(importlib.import_module("quorate.core.hosts.rules").__path__)]
    for place in ("gates", *rules):
        module = importlib.import_module(f"quorate.core.hosts.{place}")
        for name, value in vars(module).items():
            if isfunction(value) and value.__module__ == module.__name__ and "Check" in str(value.__annotations__["return"]):
                yield f"{place}:{name}"
