"""Clocks: whose is wrong, and what waits for it to be set, which is nothing that does not depend on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.clocks import APART, CLOCK, clock_fits
from quorate.core.hosts.state import Cluster, Node, RunOptions
from quorate.core.hosts.steps import Initialize, Join, JoinWorkers, RemoveMember, RenewCertificates, UpgradeControlPlane

from .conftest import BAD, V134, V135, Build

ZERO, FAR = timedelta(), timedelta(minutes=5)


def ticking(cluster: Cluster, **ahead: timedelta) -> Cluster:
    """Every clock is the operator's, but these, by names such as cp_2."""
    return replace(cluster, hosts=tuple(replace(host, clock_ahead=ahead.get(host.name.replace("-", "_"), ZERO)) for host in cluster.hosts))


def refused(build: Build, cluster: Cluster) -> list[str]:
    return [check.evidence for check in build.decide(cluster).refusals if check.name == CLOCK]


@pytest.mark.parametrize(("ahead", "word"), [(FAR, "ahead of"), (-FAR, "behind")])
def test_who_is_apart_from_most_of_the_control_plane_is_named(build: Build, ahead: timedelta, word: str) -> None:
    check = clock_fits(ticking(build.three(), cp_2=ahead), build.host(2, clock_ahead=ahead))
    assert (check.passed, check.evidence) == (False, f"the clock of cp-2 is 300 s {word} cp-1's")


def test_a_minute_is_borne_and_an_unknown_clock_is_no_reason(build: Build) -> None:
    cluster = ticking(build.three(), cp_2=APART)
    assert all(clock_fits(cluster, host).passed for host in cluster.hosts)
    assert clock_fits(cluster, build.host(3)).passed
    assert clock_fits(build.three(), build.host(1, clock_ahead=FAR)).passed


def test_the_operators_own_clock_is_compared_with_nobodys(build: Build) -> None:
    cluster = ticking(build.three(version=V135), cp_1=FAR, cp_2=FAR, cp_3=FAR)
    assert isinstance(build.decide(cluster).step, UpgradeControlPlane)


def test_a_worker_that_is_apart_keeps_nobody_else_from_anything(build: Build) -> None:
    workers = (build.prepared(1, control_plane=False), build.prepared(2, control_plane=False))
    lost = ticking(build.cluster(build.host(1), build.host(2), build.prepared(3), *workers), worker_1=FAR)
    assert build.decide(lost).step == Join("cp-3")
    cluster = ticking(build.cluster(build.host(1), build.host(2), build.host(3), *workers), worker_1=FAR)
    assert build.decide(cluster).step == JoinWorkers(("worker-2",))
    only = ticking(build.cluster(build.host(1), build.host(2), build.host(3), workers[0]), worker_1=FAR)
    assert build.decide(only).step is None
    assert refused(build, only) == ["the clock of worker-1 is 300 s ahead of cp-1's"]


def test_a_control_plane_host_that_is_apart_does_not_join_and_the_next_one_does(build: Build) -> None:
    cluster = ticking(build.cluster(build.host(1), build.host(2), build.host(3), build.prepared(4), build.prepared(5)), cp_4=FAR)
    assert build.decide(cluster).step == Join("cp-5")


def test_members_that_are_apart_bar_certificates_and_no_repair(build: Build) -> None:
    cluster = ticking(build.three(version=V135), cp_2=FAR)
    assert build.decide(cluster).step is None
    assert refused(build, cluster) == ["the clock of cp-2 is 300 s ahead of cp-1's"]
    renewing = ticking(build.three(options=RunOptions(renew_certificates=True)), cp_2=FAR)
    assert build.decide(renewing).step is None
    dead = build.cluster(
        build.host(1), build.host(2), build.host(3), orphans=(build.orphan(4, "b", probes=3),), members_missed_probes=(), ring="gggb"
    )
    assert build.decide(ticking(dead, cp_2=FAR)).step == RemoveMember(4, "cp-4")


def test_the_host_that_founds_the_cluster_has_the_time_of_most(build: Build) -> None:
    hosts = (build.prepared(1), build.prepared(2), build.prepared(3))
    assert build.decide(ticking(build.new(*hosts), cp_3=FAR)).step == Initialize("cp-1")
    cluster = ticking(build.new(*hosts), cp_1=FAR)
    assert build.decide(cluster).step is None
    assert refused(build, cluster) == ["the clock of cp-1 is 300 s ahead of cp-2's"]


def test_certificates_expire_by_the_clock_of_their_host(build: Build) -> None:
    soon = build.noon + timedelta(days=31)
    hosts = (build.host(1, certificates_expire=soon), build.host(2, certificates_expire=soon), build.host(3, certificates_expire=soon))
    assert build.decide(ticking(build.cluster(*hosts))).step is None
    ahead = ticking(build.cluster(*hosts), cp_1=timedelta(days=2), cp_2=timedelta(days=2), cp_3=timedelta(days=2))
    assert isinstance(build.decide(ahead).step, RenewCertificates)


@pytest.mark.parametrize("ahead", [ZERO, timedelta(hours=1), timedelta(hours=-1)])
def test_a_node_has_its_time_to_get_ready_by_the_clock_of_its_host(build: Build, ahead: timedelta) -> None:
    def waits(since: timedelta) -> bool:
        unready = Node("cp-3", BAD, kubelet=V134, ready_since=build.noon + ahead - since)
        hosts = (build.host(1), build.host(2), build.host(3, node=unready))
        return build.decide(ticking(build.cluster(*hosts, version=V135), cp_1=ahead, cp_2=ahead, cp_3=ahead)).wake_at is not None

    assert waits(timedelta(minutes=2))
    assert not waits(timedelta(minutes=4))


def test_certificates_that_are_foreseen_last_by_the_clock_of_their_host(build: Build) -> None:
    """Those of hosts whose clocks are a year ahead of the operator's are not foreseen to be renewed for ever."""
    years = timedelta(days=400)
    hosts = [build.host(number, certificates_expire=build.noon + years) for number in (1, 2, 3)]
    cluster = ticking(build.cluster(*hosts), cp_1=years, cp_2=years, cp_3=years)
    assert sorted(str(each.step) for each in forecast(cluster, build.noon).steps) == [
        f"renew the certificates of cp-{n}" for n in (1, 2, 3)
    ]
