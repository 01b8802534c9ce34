"""A saved plan is refused once the cluster has changed, and each change is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quorate.core.health import Finding, Health, Unknown
from quorate.core.hosts.state import Cluster, Kind, RunOptions
from quorate.hosts.run import plan_file
from quorate.hosts.run.plan_file import Kept, PlanError, StalePlan, facts, moved
from tests.core.hosts.conftest import V135, Build

BUILD = Build()
STEPS = ("take a snapshot of etcd", "upgrade the control plane of cp-1 to v1.35.4")


def kept(cluster: Cluster, **changes: Any) -> Kept:
    made = Kept(
        plan_file.FORMAT, BUILD.noon, "/manifests/kubeone.yaml", "", {"manifest": "abc"}, False, RunOptions(), facts(cluster), STEPS
    )
    return replace(made, **changes)


def differences(before: Cluster, after: Cluster) -> tuple[str, ...]:
    return moved(kept(before), facts(after), {"manifest": "abc"}, STEPS)


def with_first(cluster: Cluster, **changes: Any) -> Cluster:
    return replace(cluster, hosts=(replace(cluster.hosts[0], **changes), *cluster.hosts[1:]))


def test_an_unchanged_cluster_leaves_the_plan_valid() -> None:
    assert differences(BUILD.three(), BUILD.three()) == ()


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (with_first(BUILD.three(), kubelet=V135), "hosts.cp-1.kubelet: v1.34.4 then, v1.35.4 now"),
        (with_first(BUILD.three(), kind=Kind.BROKEN), "hosts.cp-1.kind: member then, broken now"),
        (BUILD.three(ring="gbg"), "ring.members.cp-2.health: good then, bad now"),
        (BUILD.three(ring=Unknown("nobody answers")), "ring: ring then, unknown now"),
        (with_first(BUILD.three(), drift=("apiServer flag v",)), "hosts.cp-1.drift.0: nothing then, apiServer flag v now"),
        (with_first(BUILD.three(), findings=(Finding(Health.BAD, "Seen"),)), "hosts.cp-1.findings.Seen.health: good then, bad now"),
        (BUILD.three(version=V135), "version: v1.34.4 then, v1.35.4 now"),
        (BUILD.three(lost_nodes=("cp-9",)), "lost_nodes.0: nothing then, cp-9 now"),
        (BUILD.three(orphans=(BUILD.orphan(9),)), "orphans.cp-9: nothing then, orphanmember now"),
    ],
    ids=str,
)
def test_what_has_moved_is_named_with_both_values(after: Cluster, said: str) -> None:
    assert said in differences(BUILD.three(), after)


@pytest.mark.parametrize(
    "after",
    [
        BUILD.three(ring=BUILD.ring("ggg", leader=2)),
        with_first(BUILD.three(), findings=(Finding(Health.GOOD, "Seen", "other words"),)),
        BUILD.three(snapshot_taken=False, locked_by="jane"),
    ],
)
def test_what_decides_nothing_may_change(after: Cluster) -> None:
    assert differences(BUILD.three(), after) == ()


def test_a_probe_more_of_a_silent_host_is_no_move() -> None:
    one, three = BUILD.cluster(BUILD.unreachable(1)), BUILD.cluster(replace(BUILD.unreachable(1), missed_probes=BUILD.silent(3)))
    assert differences(one, three) == ()


def test_another_manifest_and_other_steps_are_moves() -> None:
    plan = kept(BUILD.three())
    assert moved(plan, plan.facts, {"manifest": "other"}, STEPS) == ("manifest has changed",)
    assert "the steps, their order or the checks" in moved(plan, plan.facts, plan.inputs, STEPS[:1])[0]


def test_many_moves_are_told_in_a_few_lines() -> None:
    text = str(StalePlan(tuple(f"place {number}" for number in range(30))))
    assert "and 18 more" in text
    assert text.count("\n") == 13


def test_a_plan_comes_back_from_its_file_which_only_its_owner_can_read(tmp_path: Path) -> None:
    path, plan = tmp_path / "plan.json", kept(BUILD.three(), options=RunOptions(without=("cp-3",)))
    plan_file.write(path, plan)
    assert plan_file.read(path) == plan
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_a_file_that_is_no_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        plan_file.read(tmp_path / "nowhere")
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(PlanError, match="is not a plan"):
        plan_file.read(tmp_path / "plan.json")
    plan_file.write(tmp_path / "old.json", kept(BUILD.three(), format=0))
    with pytest.raises(PlanError, match="another version of quorate"):
        plan_file.read(tmp_path / "old.json")
    with pytest.raises(PlanError, match="cannot be written"):
        plan_file.write(tmp_path / "nowhere" / "plan.json", kept(BUILD.three()))
