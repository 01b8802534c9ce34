"""Maintenance of the workload cluster (rows 42 and 43): configuration before anybody joins, add-ons and expiries once all have."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from quorate.core.health import Absent, Finding, Health
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.maintenance import (
    ADDONS,
    COREDNS,
    EXPIRIES,
    PREPARED,
    move_coredns,
    prepare_the_workload,
    record_expiries,
    update_addons,
)
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.machines.steps import CreateReplica, DeleteReplica, MoveCoreDNS, PrepareWorkload, RecordExpiries, UpdateAddons
from quorate.core.maintenance import Maintenance
from quorate.core.proposal import NOTHING
from quorate.core.versions import Version

if TYPE_CHECKING:
    from tests.core.conftest import Build

PENDING = Maintenance(pending=True)
DOWN = Finding(Health.BAD, "ConnectionDown", "no answer")


def failing(build: Build, seconds: int = 30) -> Maintenance:
    """One that failed and is tried again so many seconds after noon."""
    return Maintenance(pending=True, problem="no ConfigMap kubeadm-config", retry_at=build.noon + timedelta(seconds=seconds))


def two(build: Build, **changes: Any) -> ControlPlane:
    """Two of three, whose next one is about to be created."""
    return build.control_plane(build.replica(1), build.replica(2), **{"preparation": PENDING, **changes})


# Before anybody joins


def test_i18_the_configuration_is_prepared_before_the_replica_that_reads_it(build: Build) -> None:
    assert decide(two(build), build.noon).step == PrepareWorkload()
    assert decide(two(build, preparation=Maintenance()), build.noon).step == CreateReplica("", initialize=False)


def test_a_rollout_begins_with_the_configuration(build: Build) -> None:
    outdated = build.control_plane(*(build.replica(number, outdated=("Version",)) for number in (1, 2, 3)), preparation=PENDING)
    assert decide(outdated, build.noon).step == PrepareWorkload()


def test_where_nobody_is_about_to_join_nothing_is_prepared(build: Build) -> None:
    assert prepare_the_workload(build.three(preparation=PENDING), build.noon) == NOTHING


@pytest.mark.parametrize("changes", [{"initialized": False}, {"workload": DOWN}])
def test_nothing_is_prepared_where_there_is_nobody_to_ask(build: Build, changes: dict[str, Any]) -> None:
    assert prepare_the_workload(two(build, **changes), build.noon) == NOTHING


def test_g18_nothing_is_prepared_for_a_version_that_no_replica_may_have(build: Build) -> None:
    too_far = build.desired(3, version=Version.parse("v1.36.0"))
    assert prepare_the_workload(two(build, desired=too_far), build.noon) == NOTHING
    assert decide(two(build, desired=too_far), build.noon).step is None


def test_i18_where_preparation_failed_nobody_joins_until_it_succeeds(build: Build) -> None:
    control_plane = two(build, preparation=failing(build))
    proposal = prepare_the_workload(control_plane, build.noon)
    assert [(check.name, check.passed) for check in proposal.checks] == [(PREPARED, False)]
    assert "no ConfigMap kubeadm-config" in proposal.checks[0].evidence
    assert proposal.blocks == frozenset({CreateReplica})
    decision = decide(control_plane, build.noon)
    assert decision.step is None
    assert decision.wake_at == build.noon + timedelta(seconds=30)
    assert decide(control_plane, build.noon + timedelta(seconds=30)).step == PrepareWorkload()


# While the surge of a rollout joins


def outdated(build: Build, number: int, **changes: Any) -> Replica:
    """One that is to be replaced, and whose Node nobody has asked yet."""
    return build.replica(number, **{"outdated": ("Version",), "coredns": PENDING, **changes})


def surging(build: Build, *replicas: Replica, **changes: Any) -> ControlPlane:
    """Three outdated ones, of which `replicas` take the place of the first, and a fourth that joins."""
    rest = tuple(outdated(build, number) for number in range(len(replicas) + 1, 4))
    return build.control_plane(*replicas, *rest, build.joining(4), **changes)


def test_while_one_joins_coredns_leaves_the_node_that_goes_next(build: Build) -> None:
    assert decide(surging(build), build.noon).step == MoveCoreDNS("cp-1")
    assert decide(surging(build, outdated(build, 1, coredns=Maintenance())), build.noon).step is None


def test_the_one_that_coredns_leaves_is_the_one_that_then_goes(build: Build) -> None:
    marked = surging(build, outdated(build, 1), outdated(build, 2, delete_first=True))
    assert decide(marked, build.noon).step == MoveCoreDNS("cp-2")
    joined = replace(marked, replicas=(*marked.replicas[:3], build.replica(4)), ring=build.ring("gggg"))
    assert decide(joined, build.noon).step == DeleteReplica("cp-2")


def test_coredns_stays_where_nobody_is_about_to_go(build: Build) -> None:
    before = build.control_plane(*(outdated(build, number) for number in (1, 2, 3)))
    leaving = build.control_plane(
        *(outdated(build, number) for number in (1, 2)), build.leaving(3, outdated=("Version",)), build.replica(4)
    )
    scaling_down = build.control_plane(*(build.replica(number, coredns=PENDING) for number in (1, 2, 3, 4)))
    for control_plane in (before, leaving, scaling_down):
        assert move_coredns(control_plane, build.noon) == NOTHING


def test_coredns_stays_on_a_node_that_may_not_end_it_and_where_nobody_can_be_asked(build: Build) -> None:
    ill = build.ill(1, outdated=("Version",), coredns=PENDING)
    gone = build.joining(1, outdated=("Version",), coredns=PENDING)
    for control_plane in (surging(build, ill), surging(build, gone), surging(build, workload=DOWN)):
        assert move_coredns(control_plane, build.noon) == NOTHING


def test_coredns_stays_where_there_is_no_other_node_yet(build: Build) -> None:
    alone = build.control_plane(outdated(build, 1), build.joining(2), desired=1)
    assert move_coredns(alone, build.noon) == NOTHING
    registered = replace(alone, replicas=(alone.replicas[0], build.joining(2, node="cp-2")))
    assert move_coredns(registered, build.noon).step == MoveCoreDNS("cp-1")


def test_coredns_that_has_not_left_is_told_asked_again_in_time_and_holds_nothing_up(build: Build) -> None:
    proposal = move_coredns(surging(build, outdated(build, 1, coredns=failing(build))), build.noon)
    assert [check.name for check in proposal.checks] == [COREDNS]
    assert proposal.blocks == frozenset()
    assert proposal.wake_at == build.noon + timedelta(seconds=30)
    assert move_coredns(surging(build, outdated(build, 1, coredns=failing(build, 0))), build.noon).step == MoveCoreDNS("cp-1")


# Once all have joined


def test_row_43_converged_add_ons_are_brought_up_to_date(build: Build) -> None:
    assert decide(build.three(addons=PENDING), build.noon).step == UpdateAddons()


def test_row_43_what_is_up_to_date_is_left_alone(build: Build) -> None:
    assert decide(build.three(), build.noon).step is None


def test_row_42_before_initialization_and_without_connection_nobody_is_asked(build: Build) -> None:
    one = build.control_plane(build.replica(1, expiry_known=False), desired=1, addons=PENDING, initialized=False)
    down = build.three(addons=PENDING, workload=DOWN)
    assert update_addons(one, build.noon) == record_expiries(one, build.noon) == update_addons(down, build.noon) == NOTHING


def test_add_ons_wait_until_the_rollout_is_over_and_everybody_stays_and_has_joined(build: Build) -> None:
    rest = build.replica(1), build.replica(2)
    for third in (
        build.replica(3, outdated=("Version",)),
        build.leaving(3),
        build.vanishing(3, member=Absent()),
        build.joining(3),
        build.replica(3, member=Absent()),
    ):
        assert update_addons(build.control_plane(*rest, third, addons=PENDING), build.noon) == NOTHING
    assert update_addons(build.control_plane(*rest, addons=PENDING), build.noon) == NOTHING
    assert update_addons(build.three(desired=build.desired(1), addons=PENDING), build.noon) == NOTHING


def test_g17_without_surge_add_ons_wait_for_the_last_new_machine_to_join(build: Build) -> None:
    desired = build.desired(3, max_surge=0)
    replicas = build.replica(1), build.replica(2)
    assert update_addons(build.control_plane(*replicas, build.joining(3), desired=desired, addons=PENDING), build.noon) == NOTHING
    assert update_addons(build.three(desired=desired, addons=PENDING), build.noon).step == UpdateAddons()


def test_with_external_etcd_nobody_needs_a_member_to_have_joined(build: Build) -> None:
    replicas = [build.replica(number, member=Absent()) for number in (1, 2, 3)]
    external = build.control_plane(*replicas, desired=build.desired(3, etcd_managed=False), addons=PENDING)
    assert update_addons(external, build.noon).step == UpdateAddons()


def test_a_failure_of_the_add_ons_is_said_tried_again_in_time_and_holds_nothing_up(build: Build) -> None:
    proposal = update_addons(build.three(addons=failing(build)), build.noon)
    assert [check.name for check in proposal.checks] == [ADDONS]
    assert proposal.blocks == frozenset()
    assert proposal.wake_at == build.noon + timedelta(seconds=30)
    assert update_addons(build.three(addons=failing(build, 0)), build.noon).step == UpdateAddons()


# When certificates expire


def test_row_43_expiries_are_recorded_of_every_api_server_that_is_well(build: Build) -> None:
    unrecorded = {"expiry_known": False}
    control_plane = build.control_plane(build.replica(2, **unrecorded), build.replica(1, **unrecorded), build.replica(3))
    assert decide(control_plane, build.noon).step == RecordExpiries(("cp-1", "cp-2"))


def test_nobody_asks_an_api_server_that_is_ill_leaving_or_has_no_node(build: Build) -> None:
    for replica in (build.ill(1, expiry_known=False), build.leaving(1, expiry_known=False), build.joining(1, expiry_known=False)):
        assert record_expiries(build.control_plane(replica, build.replica(2)), build.noon) == NOTHING


def test_a_failure_to_ask_is_said_tried_again_in_time_and_holds_nothing_up(build: Build) -> None:
    replicas = build.replica(1, expiry_known=False), build.replica(2), build.replica(3)
    proposal = record_expiries(build.control_plane(*replicas, expiries=failing(build)), build.noon)
    assert [check.name for check in proposal.checks] == [EXPIRIES]
    assert proposal.blocks == frozenset()
    assert proposal.wake_at == build.noon + timedelta(seconds=30)
