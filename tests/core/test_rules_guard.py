"""The guards: what has to hold before anything is done (rows 4, 5, 7, 13, 15, 18 of docs/testing.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Finding, Health
from quorate.core.machines.rules import guard
from quorate.core.machines.state import Deletion
from quorate.core.machines.steps import (
    EVERYTHING,
    AbandonCreation,
    AddFinalizer,
    CreateReplica,
    DeleteReplica,
    ReleaseHook,
    Remediate,
    RemoveMember,
    RemoveOrphan,
    UpdateInPlace,
    WriteKubeconfig,
)
from quorate.core.proposal import NOTHING

if TYPE_CHECKING:
    from tests.core.conftest import Build

CHANGES = frozenset({CreateReplica, DeleteReplica, RemoveMember, ReleaseHook, RemoveOrphan, Remediate, UpdateInPlace})


def test_row_4_a_living_control_plane_gets_its_finalizer_even_while_paused(build: Build) -> None:
    control_plane = build.three(has_finalizer=False, paused="spec.paused")
    assert guard.keep_the_finalizer(control_plane, build.noon).step == AddFinalizer()


def test_no_finalizer_is_added_twice_or_to_what_is_being_deleted(build: Build) -> None:
    deleted = build.three(has_finalizer=False, deletion=Deletion(build.noon))
    assert guard.keep_the_finalizer(build.three(), build.noon) == NOTHING
    assert guard.keep_the_finalizer(deleted, build.noon) == NOTHING


def test_row_5_paused_means_paused(build: Build) -> None:
    proposal = guard.respect_a_pause(build.three(paused="Cluster spec.paused"), build.noon)
    assert proposal.blocks == EVERYTHING
    assert [check.evidence for check in proposal.checks] == ["paused by Cluster spec.paused"]
    assert guard.respect_a_pause(build.three(), build.noon) == NOTHING


def test_what_is_invalid_and_what_is_not_supported_each_say_so(build: Build) -> None:
    proposal = guard.refuse_what_is_invalid(build.three(invalid=("replicas: even",), unsupported=("external etcd",)), build.noon)
    assert proposal.blocks == EVERYTHING
    assert [check.evidence for check in proposal.checks] == ["replicas: even", "external etcd"]
    assert guard.refuse_what_is_invalid(build.three(), build.noon) == NOTHING


def test_row_7_somebody_elses_machines_stop_everything_by_name(build: Build) -> None:
    proposal = guard.leave_others_machines_alone(build.three(foreign=("a", "b")), build.noon)
    assert proposal.blocks == EVERYTHING
    assert proposal.checks[0].evidence.endswith("a, b")
    assert guard.leave_others_machines_alone(build.three(), build.noon) == NOTHING


def test_beside_the_one_that_the_cluster_names_nothing_is_made(build: Build) -> None:
    proposal = guard.be_the_one_that_the_cluster_names(build.three(not_the_clusters="it names b"), build.noon)
    assert proposal.blocks == EVERYTHING
    assert [check.evidence for check in proposal.checks] == ["it names b"]
    assert guard.be_the_one_that_the_cluster_names(build.three(), build.noon) == NOTHING


@pytest.mark.parametrize(("ready", "blocks"), [(True, frozenset()), (False, EVERYTHING)])
def test_row_13_nothing_is_made_before_the_infrastructure(build: Build, ready: bool, blocks: frozenset[type]) -> None:
    proposal = guard.wait_for_infrastructure(build.three(infrastructure_ready=ready), build.noon)
    assert proposal.blocks == blocks
    assert proposal.checks[0].passed is ready


def test_row_15_without_an_endpoint_no_machine_moves_and_no_kubeconfig_is_written(build: Build) -> None:
    proposal = guard.wait_for_the_endpoint(build.three(endpoint=""), build.noon)
    assert proposal.blocks == CHANGES | {WriteKubeconfig}
    assert guard.wait_for_the_endpoint(build.three(), build.noon).checks[0].evidence == "10.0.0.1:6443"


@pytest.mark.parametrize(("health", "outcome"), [(Health.BAD, Outcome.FAIL), (Health.UNKNOWN, Outcome.UNKNOWN)])
def test_row_18_an_initialized_cluster_that_does_not_answer_is_left_alone(build: Build, health: Health, outcome: Outcome) -> None:
    silent = build.three(workload=Finding(health, "ConnectionDown", "dial timeout"))
    proposal = guard.wait_for_the_workload_cluster(silent, build.noon)
    assert proposal.blocks == CHANGES | {AbandonCreation}
    assert [(check.outcome, check.evidence) for check in proposal.checks] == [(outcome, "dial timeout")]
    assert bool(proposal.checks[0].remedy) is (health is Health.BAD)
    assert guard.wait_for_the_workload_cluster(replace(silent, initialized=False), build.noon) == NOTHING


@pytest.mark.parametrize("health", list(Health))
def test_a_finding_without_a_message_is_told_by_its_reason(build: Build, health: Health) -> None:
    proposal = guard.wait_for_the_workload_cluster(build.three(workload=Finding(health, "Connected")), build.noon)
    assert proposal.checks[0].evidence == "Connected"
    assert bool(proposal.blocks) is (health is not Health.GOOD)
