"""CAs and the kubeconfig (rows 14 and 16)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Unknown
from quorate.core.machines.rules.certificates import provide_certificates, provide_the_kubeconfig
from quorate.core.machines.state import Certificates, Kubeconfig
from quorate.core.machines.steps import GROWS, CreateReplica, EnsureCertificates, WriteKubeconfig
from quorate.core.proposal import Proposal

if TYPE_CHECKING:
    from tests.core.conftest import Build

BLOCKED = frozenset({CreateReplica, WriteKubeconfig})


def test_missing_cas_are_generated_before_initialization(build: Build) -> None:
    control_plane = build.control_plane(initialized=False, certificates=Certificates(missing=("ca", "etcd")))
    assert provide_certificates(control_plane, build.noon) == Proposal(EnsureCertificates(("ca", "etcd")))


def test_nothing_is_generated_once_a_machine_may_have_been_given_what_was_there(build: Build) -> None:
    """kubeadm may just be founding the cluster with it."""
    plane = build.control_plane(build.replica(1), initialized=False, certificates=Certificates(missing=("ca",)))
    proposal = provide_certificates(plane, build.noon)
    assert (proposal.step, proposal.blocks) == (None, BLOCKED)
    assert proposal.checks[0].evidence == f"missing, and {plane.replicas[0].name} may have been given those that were there: ca"
    assert f"or delete Machine {plane.replicas[0].name}" in proposal.checks[0].remedy


def test_where_initialization_is_not_known_nothing_is_generated(build: Build) -> None:
    plane = build.control_plane(initialized=Unknown("its status is lost"), certificates=Certificates(missing=("etcd",)))
    proposal = provide_certificates(plane, build.noon)
    assert (proposal.step, proposal.checks[0].outcome) == (None, Outcome.UNKNOWN)


def test_after_initialization_nothing_is_generated_and_nothing_signed(build: Build) -> None:
    proposal = provide_certificates(build.three(certificates=Certificates(missing=("ca",))), build.noon)
    assert (proposal.step, proposal.blocks) == (None, BLOCKED)
    assert proposal.checks[0].evidence == "missing after initialization: ca"
    assert proposal.checks[0].remedy


def test_what_the_user_is_to_supply_is_waited_for(build: Build) -> None:
    proposal = provide_certificates(
        build.control_plane(initialized=False, certificates=Certificates(missing=("ca",), generatable=False)), build.noon
    )
    assert (proposal.step, proposal.blocks) == (None, BLOCKED)
    assert proposal.checks[0].evidence == "not supplied yet: ca"


def test_row_14_unreadable_cas_are_never_replaced(build: Build) -> None:
    broken = Certificates(missing=("ca",), problem="Secret demo-ca holds no certificate")
    proposal = provide_certificates(build.control_plane(initialized=False, certificates=broken), build.noon)
    assert (proposal.step, proposal.blocks) == (None, BLOCKED)
    assert proposal.checks[0].outcome is Outcome.UNKNOWN


def test_complete_cas_bar_nothing(build: Build) -> None:
    proposal = provide_certificates(build.three(), build.noon)
    assert (proposal.step, proposal.blocks, proposal.checks[0].passed) == (None, frozenset(), True)


def test_row_16_the_first_kubeconfig_is_written(build: Build) -> None:
    assert provide_the_kubeconfig(build.three(kubeconfig=Kubeconfig(exists=False)), build.noon).step == WriteKubeconfig(rotate=False)


@pytest.mark.parametrize("seconds", [0, 1])
def test_it_rotates_at_the_moment_and_after(build: Build, seconds: int) -> None:
    due = Kubeconfig(exists=True, rotates_at=build.noon - timedelta(seconds=seconds))
    assert provide_the_kubeconfig(build.three(kubeconfig=due), build.noon).step == WriteKubeconfig(rotate=True)


def test_before_that_it_wakes_exactly_then(build: Build) -> None:
    later = build.noon + timedelta(seconds=1)
    proposal = provide_the_kubeconfig(build.three(kubeconfig=Kubeconfig(exists=True, rotates_at=later)), build.noon)
    assert (proposal.step, proposal.wake_at, proposal.checks[0].passed) == (None, later, True)


def test_a_users_own_is_never_touched(build: Build) -> None:
    own = Kubeconfig(exists=True, ours=False, rotates_at=build.noon - timedelta(days=1))
    proposal = provide_the_kubeconfig(build.three(kubeconfig=own), build.noon)
    assert (proposal.step, proposal.wake_at, proposal.checks[0].evidence) == (None, None, "supplied by the user")


def test_a_broken_one_is_told_and_left(build: Build) -> None:
    proposal = provide_the_kubeconfig(build.three(kubeconfig=Kubeconfig(exists=False, problem="not YAML")), build.noon)
    assert (proposal.step, proposal.blocks, proposal.checks[0].outcome) == (None, frozenset(), Outcome.FAIL)


@pytest.mark.parametrize("kubeconfig", [Kubeconfig(exists=False), Kubeconfig(exists=True, rotates_at=datetime(2026, 1, 1, tzinfo=UTC))])
def test_one_that_cannot_be_written_waits_for_its_next_attempt_and_holds_up_nothing_that_lives(
    build: Build, kubeconfig: Kubeconfig
) -> None:
    later = build.noon + timedelta(seconds=5)
    failing = replace(kubeconfig, write_problem="create secrets: forbidden", retry_at=later)
    proposal = provide_the_kubeconfig(build.three(kubeconfig=failing), build.noon)
    assert (proposal.step, proposal.blocks, proposal.wake_at) == (None, frozenset(), later)
    assert proposal.checks[0].evidence == "it could not be written: create secrets: forbidden"
    assert proposal.checks[0].remedy
    assert isinstance(provide_the_kubeconfig(build.three(kubeconfig=failing), later).step, WriteKubeconfig)


def test_the_first_replica_waits_for_a_kubeconfig_that_cannot_be_written(build: Build) -> None:
    failing = Kubeconfig(exists=False, write_problem="forbidden", retry_at=build.noon + timedelta(seconds=5))
    proposal = provide_the_kubeconfig(build.control_plane(initialized=False, kubeconfig=failing), build.noon)
    assert proposal.blocks == GROWS
