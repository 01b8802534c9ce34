"""The first replica (row 38, S3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.core.checks import Outcome
from quorate.core.health import Unknown
from quorate.core.machines.rules.initialize import initialize
from quorate.core.machines.steps import CreateReplica
from quorate.core.proposal import NOTHING

if TYPE_CHECKING:
    from tests.core.conftest import Build


def test_row_38_the_first_replica_founds_the_cluster(build: Build) -> None:
    control_plane = build.control_plane(initialized=False, desired=build.desired(3, failure_domains=("b", "a")))
    assert initialize(control_plane, build.noon).step == CreateReplica("a", initialize=True)


def test_an_initialized_cluster_without_machines_is_never_founded_again(build: Build) -> None:
    proposal = initialize(build.control_plane(), build.noon)
    assert (proposal.step, proposal.blocks) == (None, frozenset({CreateReplica}))
    assert "Restore an etcd snapshot" in proposal.checks[0].remedy


def test_what_may_be_initialized_is_not_founded(build: Build) -> None:
    proposal = initialize(build.control_plane(initialized=Unknown("its status is lost")), build.noon)
    assert (proposal.step, proposal.blocks, proposal.checks[0].outcome) == (None, frozenset({CreateReplica}), Outcome.UNKNOWN)


def test_nothing_is_founded_where_no_replica_is_wanted(build: Build) -> None:
    assert initialize(build.control_plane(initialized=False, desired=0), build.noon) == NOTHING


def test_with_any_replica_there_is_nothing_to_found(build: Build) -> None:
    for replica in (build.joining(1), build.leaving(1), build.vanishing(1)):
        assert initialize(build.control_plane(replica, initialized=False), build.noon) == NOTHING


def test_without_a_template_it_waits(build: Build) -> None:
    proposal = initialize(build.control_plane(initialized=False, template_problem="DevMachineTemplate demo is not found"), build.noon)
    assert proposal.step is None
    assert [check.evidence for check in proposal.checks if not check.passed] == ["DevMachineTemplate demo is not found"]
