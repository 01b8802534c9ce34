"""What is stopped and started again: a start that ends a member of etcd which runs is a restart, and stands behind its gate; every other start only adds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Absent, Unknown
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.gates import TOO_SMALL
from quorate.core.hosts.rules import services
from quorate.core.hosts.state import Cluster, Host, Node
from quorate.core.hosts.steps import StartServices, Uncordon
from quorate.core.quorum import QUORUM_SURVIVES_RESTART
from quorate.core.ring import Ring

from .conftest import BAD, GOOD, V134, V135, Build

KUBELET = ("kubelet.service",)
START = StartServices("cp-1", KUBELET)
AT_V135 = {"components": V135, "kubelet": V135, "kubeadm": V135, "node": Node("", GOOD, kubelet=V135, control_plane=True)}


def stopped(build: Build, number: int = 1, **changes: Any) -> Host:
    """Its kubelet was exchanged for one of the next minor version and is stopped; what it started runs on."""
    return build.broken(
        number, **{"stopped": KUBELET, "etcd_runs": True, "member_health": build.host(number).member_health, "kubelet": V135, **changes}
    )


def beside(build: Build, host: Host, ring: str, **changes: Any) -> Cluster:
    return build.cluster(host, build.host(2), build.unreachable(3), ring=ring, **changes)


def test_a_kubelet_that_restarts_etcd_is_not_started_while_the_others_have_no_quorum(build: Build) -> None:
    cluster = beside(build, stopped(build), "ggb")
    assert build.step(cluster) is None
    (refused,) = [check for check in build.decide(cluster).refusals if check.name == QUORUM_SURVIVES_RESTART]
    assert refused.outcome is Outcome.FAIL
    assert refused.evidence.startswith(
        "the kubelet of cp-1 is of v1.35.4, the one before was of v1.34.4, and it restarts etcd; while cp-1 is down: "
    )
    assert "Bring the failed members back first" in refused.remedy


def test_with_quorum_beside_it_it_is_started(build: Build) -> None:
    decision = build.decide(build.cluster(stopped(build), build.host(2), build.host(3)))
    assert decision.step == START
    assert decision.checks[-1].name == QUORUM_SURVIVES_RESTART


def test_the_only_host_is_started_as_it_is_restarted(build: Build) -> None:
    decision = build.decide(build.cluster(stopped(build)))
    assert (decision.step, decision.checks[-1].name) == (START, TOO_SMALL)


@pytest.mark.parametrize(
    ("how", "exempt"),
    [
        ({"kubelet": V134}, services.MEMBER_RUNS_ON),
        ({"kubelet": replace(V134, patch=9)}, services.MEMBER_RUNS_ON),
        ({"etcd_runs": False, "member_health": BAD}, services.NO_MEMBER_RUNS),
        ({"member": Absent()}, services.NO_MEMBER_RUNS),
    ],
)
def test_what_restarts_no_member_is_started_beside_whatever_is_missing_and_says_so(build: Build, how: dict[str, Any], exempt: str) -> None:
    decision = build.decide(beside(build, stopped(build, **how), "ggb"))
    assert (decision.step, decision.checks[-1].name) == (START, exempt)


def test_what_a_lost_quorum_lacks_is_started_though_nobody_can_be_asked(build: Build) -> None:
    hosts = (
        stopped(build, etcd_runs=False, member=Unknown("timeout"), node=Unknown("timeout")),
        build.unreachable(2),
        build.unreachable(3),
    )
    assert build.step(build.cluster(*hosts, ring=Unknown("timeout"), api=BAD)) == START


@pytest.mark.parametrize("how", [{"node": Unknown("no API server answers")}, {"node": Absent()}, {"kubelet": None}])
def test_a_kubelet_that_may_restart_etcd_stands_behind_the_gate_too(build: Build, how: dict[str, Any]) -> None:
    assert build.step(beside(build, stopped(build, **how), "ggb")) is None
    assert "of which version the kubelet of cp-1 was is not known" in build.said(beside(build, stopped(build, **how), "ggb"))
    assert build.step(build.cluster(stopped(build, **how), build.host(2), build.host(3))) == START


@pytest.mark.parametrize("member", [1, Unknown("timeout", "Look at etcd.")])
def test_a_member_that_runs_is_not_restarted_by_what_nobody_knows_of_the_ring(build: Build, member: int | Unknown) -> None:
    cluster = build.cluster(stopped(build, member=member), build.host(2), build.host(3), ring=Unknown("timeout", "Look at etcd."))
    assert build.step(cluster) is None
    (refused,) = [check for check in build.decide(cluster).refusals if check.name == QUORUM_SURVIVES_RESTART]
    assert (refused.outcome, refused.remedy) == (Outcome.UNKNOWN, "Look at etcd.")


def test_a_plan_hands_leadership_over_before_and_has_the_kubelet_that_is_installed_after(build: Build) -> None:
    """Of an upgrade that was cut short nothing but to let Pods return is left."""
    left = Node("cp-1", BAD, kubelet=V134, control_plane=True, unschedulable=True, cordoned_by_us=True)
    others = (build.host(number, **AT_V135) for number in (2, 3))
    cluster = build.cluster(stopped(build, node=left, components=V135, kubeadm=V135), *others, version=V135, running=V135)
    foreseen = forecast(cluster, build.noon)
    assert [each.step for each in foreseen.steps] == [START, Uncordon("cp-1")]
    assert isinstance(foreseen.end.ring, Ring)
    assert foreseen.end.ring.leader == 2


def test_one_that_may_not_be_started_keeps_no_other_from_it(build: Build) -> None:
    fallen = stopped(build, 3, etcd_runs=False, member_health=BAD)
    cluster = build.cluster(stopped(build), build.host(2), fallen, ring="ggb")
    assert build.step(cluster) == StartServices("cp-3", KUBELET)


def test_a_worker_is_started_whatever_its_kubelet_was(build: Build) -> None:
    worker = build.worker(1, stopped=KUBELET, etcd_runs=True, kubelet=V135)
    assert build.step(build.cluster(build.host(1), build.host(2), build.unreachable(3), worker, ring="ggb")) == StartServices(
        "worker-1", KUBELET
    )
