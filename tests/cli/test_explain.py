"""`quorate explain`: the decision with its grounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import click
import pytest
from click.testing import Result

from quorate.cli.documents import as_json
from quorate.cli.lines import RESOLVES_BY_ITSELF, explanation
from quorate.cli.machines.status import status_of
from quorate.clusterapi.inspection import Finding as Look
from quorate.clusterapi.observe.observation import ObservedMachine, Outdated
from quorate.core.checks import failed, passed, unknown
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.decide import Decision
from quorate.core.ring import Member

from .conftest import NOON, FakeApi, kcp_document

Cli = Callable[..., Result]
Kubeconfig = Callable[[str], str]
MakeLook = Callable[..., Look]


def text_of(finding: Look) -> str:
    return click.unstyle(explanation(status_of(finding, NOON), NOON))


def test_each_check_has_its_outcome_its_evidence_and_what_would_change_it(look: MakeLook, noon: datetime) -> None:
    checks = (passed("room", "two are there"), failed("nobody leaves", "cp-1 is going"), unknown("ring", "no answer", "Restore it."))
    text = text_of(look(decision=Decision("scale up", None, checks, noon)))
    assert "pass    room: two are there\n" in text
    assert f"fail    nobody leaves: cp-1 is going\n          -> {RESOLVES_BY_ITSELF}\n" in text
    assert "unknown ring: no answer\n          -> Restore it.\n" in text
    assert "Rule      scale up" in text


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (timedelta(seconds=20), "Again at  2026-01-01 12:00:20 UTC, in 20s, if nothing happens before\n"),
        (timedelta(hours=20), "Again at  2026-01-02 08:00:00 UTC, in 20h, if nothing happens before\n"),
        (timedelta(seconds=-1), "Again at  2026-01-01 11:59:59 UTC, in 0s, if nothing happens before\n"),
        (timedelta(days=182), ""),
        (None, ""),
    ],
)
def test_when_it_is_decided_again_is_said_where_that_is_worth_waiting_for(look: MakeLook, until: timedelta | None, said: str) -> None:
    decision = Decision("scale up", None, (failed("nobody leaves", "cp-1 is going"),), None if until is None else NOON + until)
    assert text_of(look(decision=decision)).partition("Rule      scale up\n")[2].startswith(f"{said}Checks\n")


def test_the_ring_is_shown_with_its_numbers_and_members(look: MakeLook) -> None:
    text = text_of(look())
    assert "3 of 3 voters healthy, quorum 2: tolerates 1 more" in text
    assert "good    cp-1 leader 1\n" in text
    assert "good    cp-2 voter 2\n" in text


def test_a_ring_that_nobody_read_says_why(look: MakeLook) -> None:
    assert "etcd      unknown: no node to ask" in text_of(look(ring=Unknown("no node to ask")))


def test_what_is_nobodys_is_shown_with_the_ring(look: MakeLook) -> None:
    finding = look()
    finding = replace(
        finding,
        observation=replace(finding.observation, orphans=(Member(9, "old", Health.GOOD),), lost_nodes=("cp-9",), alarms=("NOSPACE of 9",)),
    )
    assert "  orphan: old (9)\n  alarm: NOSPACE of 9\n  Node without a Machine: cp-9\n" in text_of(finding)


def test_a_machine_shows_what_is_wrong_with_it_and_nothing_that_is_right(look: MakeLook, machine: Callable[..., ObservedMachine]) -> None:
    findings = {"EtcdPodHealthy": Finding(Health.BAD, "Failed", "crashes"), "APIServerPodHealthy": Finding(Health.GOOD, "Running")}
    one = machine("cp-1", findings=findings, outdated=(Outdated("Version v1.33.0, v1.34.4 required"),))
    text = text_of(look(one))
    assert (
        "cp-1, control plane: starting, etcd leader, Node unknown, v1.34.4, kubelet -\n"
        "  waits for EtcdPodHealthy: crashes\n"
        "  bad     EtcdPodHealthy: crashes\n"
        "  differs: Version v1.33.0, v1.34.4 required\n"
    ) in text
    assert "APIServerPodHealthy" not in text


def test_what_is_true_of_several_parts_of_a_machine_is_said_once(look: MakeLook, machine: Callable[..., ObservedMachine]) -> None:
    waits, fails = Finding(Health.UNKNOWN, "Waiting", "no Node yet"), Finding(Health.BAD, "Failed", "crashes")
    findings = {"APIServerPodHealthy": waits, "EtcdMemberHealthy": fails, "EtcdPodHealthy": waits}
    status = status_of(look(machine("cp-1", findings=findings)), NOON)
    text = click.unstyle(explanation(status, NOON))
    assert "  unknown APIServerPodHealthy, EtcdPodHealthy: no Node yet\n  bad     EtcdMemberHealthy: crashes\n" in text
    assert status.machines[0].wrong == ("APIServerPodHealthy, EtcdPodHealthy: no Node yet", "EtcdMemberHealthy: crashes")


def test_a_machine_says_why_it_goes(look: MakeLook, machine: Callable[..., ObservedMachine]) -> None:
    finding = look(machine("cp-1", outdated=(Outdated("Version v1.33.0, v1.34.4 required"),)), replicas={"outdated": ("old",)})
    assert "cp-1, control plane: well, etcd leader, Node unknown, v1.34.4, kubelet -\n  outdated, to be replaced\n" in text_of(finding)
    assert status_of(finding, NOON).machines[0].fate == "outdated, to be replaced"


def test_json_says_the_same(look: MakeLook) -> None:
    said = json.loads(as_json(status_of(look(), NOON)))
    assert (said["standing"], said["replicas"]["ready"], said["etcd"]["members"][0]["role"]) == ("converged", 3, "leader")


def test_a_stalled_control_plane_ends_with_13(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.items["kubeadmcontrolplanes"] = [kcp_document()]
    result = cli("explain", "demo", "--kubeconfig", kubeconfig(api.url))
    assert result.exit_code == 13, result.output
    assert "default/demo at v1.34.4, cluster -: stalled" in result.stdout
    assert "Create a Cluster whose spec.controlPlaneRef names demo" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_control_plane_on_its_way_ends_with_0(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    document = kcp_document()
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "2"}
    document["metadata"] |= {"ownerReferences": [owner], "finalizers": ["kubeadm.controlplane.cluster.x-k8s.io"]}
    api.items["kubeadmcontrolplanes"] = [document]
    api.items["clusters"] = [{"metadata": {"name": "demo", "namespace": "default", "uid": "2"}, "spec": {}}]
    result = cli("explain", "demo", "-o", "json", "--kubeconfig", kubeconfig(api.url))
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["standing"], said["decision"]["checks"][-1]["outcome"]) == ("progressing", "fail")


def test_a_control_plane_that_is_not_there_ends_with_12(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    result = cli("explain", "demo", "-n", "elsewhere", "--kubeconfig", kubeconfig(api.url))
    assert (result.exit_code, result.stdout) == (12, "")
    assert "no KubeadmControlPlane elsewhere/demo" in result.stderr
