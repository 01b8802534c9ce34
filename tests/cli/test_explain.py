"""`quorate explain`: the decision with its grounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import click
from click.testing import Result

from quorate.cli.documents import as_json
from quorate.cli.lines import RESOLVES_BY_ITSELF
from quorate.cli.machines.explain import as_text, explanation
from quorate.clusterapi.inspection import Finding as Look
from quorate.clusterapi.observe.observation import ObservedMachine, Outdated
from quorate.core.checks import failed, passed, unknown
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.decide import Decision

from .conftest import FakeApi, kcp_document

Cli = Callable[..., Result]
Kubeconfig = Callable[[str], str]
MakeLook = Callable[..., Look]


def text_of(finding: Look) -> str:
    return click.unstyle(as_text(explanation(finding)))


def test_each_check_has_its_outcome_its_evidence_and_what_would_change_it(look: MakeLook, noon: datetime) -> None:
    checks = (passed("room", "two are there"), failed("nobody leaves", "cp-1 is going"), unknown("ring", "no answer", "Restore it."))
    text = text_of(look(decision=Decision("scale up", None, checks, noon)))
    assert "pass    room: two are there\n" in text
    assert f"fail    nobody leaves: cp-1 is going\n          -> {RESOLVES_BY_ITSELF}\n" in text
    assert "unknown ring: no answer\n          -> Restore it.\n" in text
    assert "Again at  2026-01-01 12:00:00 UTC" in text
    assert "Rule      scale up" in text


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
        finding, observation=replace(finding.observation, strays=("etcd member old has no Machine",), alarms=("NOSPACE of 9",))
    )
    assert "  stray: etcd member old has no Machine\n  alarm: NOSPACE of 9\n" in text_of(finding)


def test_a_machine_shows_what_is_wrong_with_it_and_nothing_that_is_right(look: MakeLook, machine: Callable[..., ObservedMachine]) -> None:
    findings = {"EtcdPodHealthy": Finding(Health.BAD, "Failed", "crashes"), "APIServerPodHealthy": Finding(Health.GOOD, "Running")}
    one = machine("cp-1", findings=findings, outdated=(Outdated("Version v1.33.0, v1.34.4 required"),))
    text = text_of(look(one))
    assert "bad     cp-1 v1.34.4, node cp-1, etcd leader: waits for EtcdPodHealthy: crashes" in text
    assert "EtcdPodHealthy: bad, crashes" in text
    assert "outdated: Version v1.33.0, v1.34.4 required" in text
    assert "APIServerPodHealthy" not in text


def test_a_machine_says_why_it_goes(look: MakeLook, machine: Callable[..., ObservedMachine]) -> None:
    finding = look(machine("cp-1", outdated=(Outdated("Version v1.33.0, v1.34.4 required"),)), replicas={"outdated": ("old",)})
    assert "good    cp-1 v1.34.4, node cp-1, etcd leader: ready; outdated, to be replaced\n" in text_of(finding)
    assert explanation(finding).machines[0].fate == "outdated, to be replaced"


def test_json_says_the_same(look: MakeLook) -> None:
    said = json.loads(as_json(explanation(look())))
    assert (said["standing"], said["counts"]["ready"], said["members"][0]["role"]) == ("converged", 3, "leader")


def test_a_stalled_control_plane_ends_with_13(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.items["kubeadmcontrolplanes"] = [kcp_document()]
    result = cli("explain", "demo", "--kubeconfig", kubeconfig(api.url))
    assert result.exit_code == 13, result.output
    assert "default/demo, cluster -, v1.34.4: stalled" in result.stdout
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
    assert (said["standing"], said["checks"][-1]["outcome"]) == ("progressing", "fail")


def test_a_control_plane_that_is_not_there_ends_with_12(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    result = cli("explain", "demo", "-n", "elsewhere", "--kubeconfig", kubeconfig(api.url))
    assert (result.exit_code, result.stdout) == (12, "")
    assert "no KubeadmControlPlane elsewhere/demo" in result.stderr
