"""`quorate plan -m`, `status`, `explain -m` and `reset` in words: golden texts of what a person reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest

from quorate.cli import lines
from quorate.cli.hosts.plan import plan_of
from quorate.cli.hosts.reset import as_text as reset_text
from quorate.cli.hosts.status import status_of
from quorate.cli.views import Plan, Step
from quorate.core.health import Finding, Health, Unknown
from quorate.core.hosts.state import Cluster
from quorate.core.versions import Version
from quorate.hosts.run.resetting import Request
from tests.core.hosts.conftest import V135, Build

BUILD = Build()
GOLDEN = Path(__file__).with_name("golden") / "hosts"
DRIFT = ("kube-apiserver flag --v: 2, not set required",)
MISSING = ("package kubeadm", "sysctl net.ipv4.ip_forward")


def bare() -> Cluster:
    hosts = [BUILD.bare(number, lacks=MISSING) for number in (1, 2, 3)]
    return BUILD.new(*hosts, BUILD.bare(1, control_plane=False, lacks=MISSING))


def three_bare() -> Cluster:
    return BUILD.new(*(BUILD.bare(number, lacks=MISSING) for number in (1, 2, 3)))


def one_unreachable() -> Cluster:
    finding = Finding(Health.UNKNOWN, "NoAnswer", "no answer within 15 s")
    return BUILD.cluster(BUILD.host(1), BUILD.host(2, drift=DRIFT), BUILD.unreachable(3, findings=(finding,)), ring="ggb")


def two_lost() -> Cluster:
    return BUILD.cluster(
        BUILD.host(1), BUILD.broken(2), BUILD.broken(3), ring="gbb", api=Finding(Health.BAD, "NoAnswer", "no API server answers")
    )


def replaced() -> Cluster:
    return BUILD.cluster(
        BUILD.host(1),
        BUILD.host(2),
        BUILD.prepared(4),
        orphans=(BUILD.orphan(3, "b", probes=3),),
        lost_nodes=("cp-3",),
        snapshot_taken=False,
    )


def plan(cluster: Cluster) -> str:
    return lines.plan(plan_of(cluster, BUILD.noon))


TEXTS: dict[str, Callable[[], str]] = {
    "plan-install": lambda: plan(bare()),
    "plan-install-three": lambda: plan(three_bare()),
    "plan-nothing": lambda: plan(BUILD.three()),
    "plan-upgrade": lambda: plan(BUILD.cluster(*BUILD.three().hosts, BUILD.worker(1), version=V135, snapshot_taken=False)),
    "plan-upgrade-three": lambda: plan(BUILD.three(version=V135, snapshot_taken=False)),
    "plan-two-minors": lambda: plan(BUILD.three(version=Version.parse("v1.36.0"))),
    "plan-unreachable": lambda: plan(one_unreachable()),
    "plan-quorum-lost": lambda: plan(two_lost()),
    "plan-replaced": lambda: plan(replaced()),
    "plan-locked": lambda: plan(BUILD.three(version=V135, locked_by="jane@desk (`quorate apply`, since 2026-01-01 11:58:00 UTC)")),
    "status-unreachable": lambda: lines.glance(status_of(one_unreachable(), BUILD.noon)),
    "status-well": lambda: lines.glance(status_of(BUILD.three(), BUILD.noon)),
    "explain-unreachable": lambda: lines.explanation(status_of(one_unreachable(), BUILD.noon), BUILD.noon),
    "explain-replaced": lambda: lines.explanation(status_of(replaced(), BUILD.noon), BUILD.noon),
    "reset-one": lambda: reset_text(BUILD.three(snapshot_taken=False), Request(("cp-2",))),
    "reset-all-well": lambda: reset_text(BUILD.three(snapshot_taken=False), Request(("cp-1", "cp-2", "cp-3"), everything=True)),
    "reset-all": lambda: reset_text(replace(one_unreachable(), snapshot_taken=False), Request(("cp-1", "cp-2", "cp-3"), everything=True)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_person_reads(name: str) -> None:
    assert click.unstyle(TEXTS[name]()) == (GOLDEN / f"{name}.txt").read_text()


def test_every_golden_text_is_somebodys() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(TEXTS)


def made(cluster: Cluster) -> Plan:
    return plan_of(cluster, BUILD.noon)


def tolerates(step: Step) -> int | None:
    return step.after.tolerates if step.after else None


def test_each_step_says_whom_it_is_about_and_how_many_failures_the_ring_tolerates_then() -> None:
    steps = made(bare()).steps
    assert [(step.kind, step.machines, tolerates(step)) for step in steps[:2]] == [
        ("Prepare", ("cp-1", "cp-2", "cp-3", "worker-1"), None),
        ("Initialize", ("cp-1",), 0),
    ]
    assert [tolerates(step) for step in steps if step.kind == "Join"] == [0, 1]


def test_there_is_nothing_to_do_only_where_nothing_is_in_the_way_either() -> None:
    assert not made(BUILD.three()).changes
    assert made(two_lost()).changes
    assert made(BUILD.three(version=V135)).changes


def test_a_ring_that_nobody_could_read_is_said_to_be_unknown() -> None:
    assert made(replace(BUILD.three(), ring=Unknown("no member answers"))).status.etcd.summary == "unknown: no member answers"
