"""`quorate plan`: the steps to come with the ring after each, edits and those that are refused, and its own exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from quorate.cli import lines
from quorate.cli.documents import as_json
from quorate.cli.failures import Failure
from quorate.cli.lines import RESOLVES_BY_ITSELF
from quorate.cli.machines import plan as machines_plan
from quorate.cli.views import Plan
from quorate.clusterapi.inspection import Finding as Look
from quorate.clusterapi.observe.observation import ObservedMachine, Outdated
from quorate.core.health import Finding, Health
from quorate.core.machines.state import ControlPlane
from quorate.core.maintenance import Maintenance

from .conftest import NOON, FakeApi, kcp_document

Cli = Callable[..., Result]
Kubeconfig = Callable[[str], str]
MakeLook = Callable[..., Look]
MakeMachine = Callable[..., ObservedMachine]
COMPONENTS = ("APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy")
OLD: dict[str, Any] = {"outdated": ("Version",), "version": "v1.33.7"}
WAYS = (Outdated("Version v1.33.7, v1.34.4 required"), Outdated("kubeadmConfigSpec differs", ("joinConfiguration: a, b required",)))


@pytest.fixture
def seen(look: MakeLook, machine: MakeMachine) -> Callable[..., Look]:
    """A look at three machines that are well; `old` differ from what is desired, `replicas` says what else is known of some, `view` of all."""

    def build(*, old: tuple[str, ...] = (), replicas: dict[str, Any] | None = None, **view: Any) -> Look:
        names = ("cp-1", "cp-2", "cp-3")
        found = look(*(machine(name, outdated=WAYS if name in old else ()) for name in names))
        assert found.observation.view is not None
        well: dict[str, Any] = {
            "component_findings": tuple((kind, Finding(Health.GOOD, "Running")) for kind in COMPONENTS),
            "member_findings": (("EtcdMemberHealthy", Finding(Health.GOOD, "Healthy")),),
        }
        known = tuple(
            replace(
                replica, node=replica.name, **{**well, **(OLD if replica.name in old else {}), **(replicas or {}).get(replica.name, {})}
            )
            for replica in found.observation.view.replicas
        )
        view = {"replicas": known, "endpoint": "10.0.0.1:6443", **view}
        return replace(found, observation=replace(found.observation, view=replace(found.observation.view, **view)))

    return build


def plan_of(found: Look) -> Plan:
    return machines_plan.plan_of(found, NOON)


def text_of(plan: Plan) -> str:
    return click.unstyle(lines.plan(plan))


def steps_of(plan: Plan) -> list[tuple[str, str]]:
    """Each step with the machine that it makes, and the ring after it up to its numbers."""
    return [(f"{step.step} {step.makes}".strip(), lines.short(step.after).partition(",")[0]) for step in plan.steps]


def test_where_all_is_as_desired_there_is_nothing_to_do(seen: Callable[..., Look]) -> None:
    plan = plan_of(seen())
    assert not plan.changes
    assert text_of(plan) == (
        "default/demo at v1.34.4, cluster demo: 3 replicas\n"
        "etcd now: 3 of 3 voters healthy, quorum 2: tolerates 1 more\n"
        "\n"
        "Machine  Role           State  Kubelet  API server  etcd    Node     Version\n"
        "cp-1     control plane  well   -        well        leader  unknown  v1.34.4\n"
        "cp-2     control plane  well   -        well        voter   unknown  v1.34.4\n"
        "cp-3     control plane  well   -        well        voter   unknown  v1.34.4\n"
        "\n"
        "Nothing to do: everything is as the specification says.\n"
    )


def test_a_rolling_replacement_says_who_goes_and_why_in_which_order_and_the_ring_after_each_step(seen: Callable[..., Look]) -> None:
    plan = plan_of(seen(old=("cp-1", "cp-2", "cp-3")))
    one_by_one = [
        [(f"create a machine new-{n}", "4 of 4"), (f"delete cp-{n}", "4 of 4"), (f"remove etcd member {n} of cp-{n}", "3 of 3")]
        for n in (1, 2, 3)
    ]
    assert steps_of(plan) == [step for steps in one_by_one for step in steps]
    assert plan.converges
    text = text_of(plan)
    assert (
        "Differs from the specification\n"
        "  cp-1, cp-2, cp-3: Version v1.33.7, v1.34.4 required\n"
        "  cp-1, cp-2, cp-3: kubeadmConfigSpec differs: joinConfiguration: a, b required\n"
    ) in text
    assert "    1  create a machine: new-1       3 of 3, tolerates 1 -> 4 of 4, tolerates 1\n" in text
    assert text.endswith("\n\nThen everything is as the specification says.\n")


def test_a_step_during_which_another_machine_joins_says_who_does(seen: Callable[..., Look]) -> None:
    text = text_of(plan_of(seen(old=("cp-1",), replicas={"cp-1": {"coredns": Maintenance(pending=True)}})))
    assert (
        "    1  create a machine: new-1                             3 of 3, tolerates 1\n"
        "    2  move CoreDNS off the node of cp-1, which goes next  3 of 3, tolerates 1 -> 4 of 4, tolerates 1 (new-1 joins)\n"
    ) in text


def test_a_machine_that_is_on_its_way_joins_during_the_next_step(seen: Callable[..., Look]) -> None:
    found = plan_of(seen(old=("cp-1",), replicas={"cp-1": {"coredns": Maintenance(pending=True)}}))
    on_its_way = replace(found.status.machines[2], name="cp-4", state="starting", etcd_role="")
    plan = replace(found, status=replace(found.status, machines=(*found.status.machines, on_its_way)), steps=found.steps[1:])
    assert "4 of 4, tolerates 1 (cp-4 joins)\n" in text_of(plan)


def test_a_remediation_shows_the_margin_that_is_gone_meanwhile_and_back_in_the_end(seen: Callable[..., Look]) -> None:
    plan = plan_of(seen(replicas={"cp-2": {"unhealthy": True}}))
    assert steps_of(plan) == [
        ("replace cp-2, which failed", "3 of 3"),
        ("remove etcd member 2 of cp-2", "2 of 2"),
        ("create a machine new-1", "3 of 3"),
    ]
    assert [step.after.tolerates for step in plan.steps if step.after] == [1, 0, 1]
    assert [step.rule for step in plan.steps] == ["remediate", "let leaving Machines go", "scale up"]
    assert [machine.differs for machine in plan.status.machines] == [(), (), ()]


def test_what_a_plan_ends_in_the_way_of_is_named_with_the_way_out(seen: Callable[..., Look]) -> None:
    plan = plan_of(seen(old=("cp-1",), template_problem="DevMachineTemplate default/small does not exist"))
    assert (plan.changes, plan.converges, plan.steps) == (True, False, ())
    text = text_of(plan)
    assert "Nothing can be done now; these checks do not pass:\n" in text
    assert "  the infrastructure template exists: DevMachineTemplate default/small does not exist\n    -> Create the template" in text


def test_what_time_alone_changes_is_said_to_resolve_by_itself(seen: Callable[..., Look]) -> None:
    ill = {"component_findings": (("APIServerPodHealthy", Finding(Health.BAD, "Failed", "crashes")),)}
    text = text_of(plan_of(seen(old=("cp-1",), replicas={"cp-2": ill})))
    assert f"cp-2: APIServerPodHealthy crashes\n    -> {RESOLVES_BY_ITSELF}\n" in text


def test_a_plan_without_steps_says_who_is_on_the_way_and_does_not_call_that_ill(seen: Callable[..., Look]) -> None:
    plan = plan_of(seen())
    leaving = replace(plan.status.machines[2], name="cp-4", state="leaving", wrong=("EtcdMemberHealthy: no member",))
    text = text_of(replace(plan, status=replace(plan.status, machines=(*plan.status.machines, leaving))))
    assert text.endswith("\n\nNothing to do but to wait: cp-4 is leaving. Then everything is as the specification says.\n")
    assert "Not well" not in text


def test_a_plan_that_cannot_know_what_follows_says_so(seen: Callable[..., Look]) -> None:
    plan = replace(plan_of(seen(old=("cp-1",))), converges=False)
    assert text_of(plan).endswith("\n\nWhat follows depends on the result of these steps: plan again after them.\n")


def test_a_plan_that_stops_half_way_shows_the_steps_before_it(seen: Callable[..., Look]) -> None:
    plan = plan_of(seen(old=("cp-1",), has_finalizer=False, paused="Cluster demo"))
    assert steps_of(plan) == [("add the finalizer", "3 of 3")]
    assert (
        "Then it waits; these checks do not pass:\n  nothing is paused: paused by Cluster demo\n    -> Remove the pause to go on.\n"
        in text_of(plan)
    )


def test_json_says_the_same(seen: Callable[..., Look]) -> None:
    plan = plan_of(seen(old=("cp-1",)))
    said = json.loads(as_json(plan))
    assert said["status"]["machines"][0]["differs"][0] == "Version v1.33.7, v1.34.4 required"
    assert said["steps"][0] == {
        "number": 1,
        "step": "create a machine",
        "kind": "CreateReplica",
        "rule": "replace outdated Machines",
        "machines": [],
        "makes": "new-1",
        "before": {"voters": 3, "healthy": 3, "quorum": 2, "tolerates": 1},
        "after": {"voters": 4, "healthy": 4, "quorum": 3, "tolerates": 1},
    }
    assert (said["converges"], said["in_the_way"]) == (True, [])


def test_without_a_cluster_nothing_can_be_planned(look: MakeLook) -> None:
    with pytest.raises(Failure, match="default/demo has no Cluster yet") as caught:
        plan_of(look(view=None))
    assert caught.value.exit_code == 13


# The command line, with a control plane whose cluster waits for its infrastructure: little can be planned, and everything can be edited.


@pytest.fixture
def plan(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> Callable[..., Result]:
    """Runs `quorate plan demo` with these further arguments."""
    document = kcp_document()
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "2"}
    document["metadata"] |= {"ownerReferences": [owner]}
    api.items["kubeadmcontrolplanes"] = [document]
    api.items["clusters"] = [{"metadata": {"name": "demo", "namespace": "default", "uid": "2"}, "spec": {}}]
    return lambda *arguments: cli("plan", "demo", *arguments, "--kubeconfig", kubeconfig(api.url))


def judged(monkeypatch: pytest.MonkeyPatch, change: Callable[[ControlPlane], ControlPlane]) -> None:
    """Has the plan made for another view than what the API server shows."""

    make = machines_plan.plan_of

    def changed(found: Look, now: datetime) -> Plan:
        assert found.observation.view is not None
        return make(replace(found, observation=replace(found.observation, view=change(found.observation.view))), now)

    monkeypatch.setattr("quorate.cli.machines.plan.plan_of", changed)


def test_changes_end_with_2(plan: Callable[..., Result]) -> None:
    result = plan()
    assert result.exit_code == 2, result.output
    assert "    1  add the finalizer\n" in result.stdout
    assert "waiting for Cluster status.initialization.infrastructureProvisioned" in result.stdout
    assert "\x1b" not in result.stdout


def test_nothing_to_do_ends_with_0(plan: Callable[..., Result], seen: Callable[..., Look], monkeypatch: pytest.MonkeyPatch) -> None:
    done = seen().observation.view
    assert done is not None
    judged(monkeypatch, lambda _: done)
    result = plan()
    assert (result.exit_code, "Nothing to do" in result.stdout) == (0, True), result.output


def test_a_control_plane_that_is_not_there_ends_with_12(cli: Cli, api: FakeApi, kubeconfig: Kubeconfig) -> None:
    result = cli("plan", "demo", "-n", "elsewhere", "--kubeconfig", kubeconfig(api.url))
    assert (result.exit_code, result.stdout) == (12, "")


def test_an_edit_shows_in_the_plan(plan: Callable[..., Result]) -> None:
    settings = ("replicas=1", "spec.version=v1.35.1")
    result = plan("-o", "json", *(part for setting in settings for part in ("--set", setting)))
    assert result.exit_code == 2, result.output
    said = json.loads(result.stdout)["status"]
    assert (said["replicas"]["desired"], said["version"]) == (1, "v1.35.1")
    assert "default/demo at v1.35.1, cluster demo: 1 replica\n" in plan("--set", "replicas=1", "--set", "version=v1.35.1").stdout


def test_nested_fields_reach_the_judgement(plan: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[ControlPlane] = []
    judged(monkeypatch, lambda view: views.append(view) or view)  # type: ignore[func-returns-value]
    plan("--set", "rollout.strategy.rollingUpdate.maxSurge=0", "--set", "remediation.maxRetry=3")
    assert (views[0].desired.max_surge, views[0].desired.remediation.max_retry) == (0, 3)


def edited(tmp_path: Path, **changes: Any) -> str:
    """A file with the stored control plane, changed."""
    file = tmp_path / "edited.yaml"
    file.write_text(json.dumps({**kcp_document(), **changes}))
    return str(file)


def test_an_edited_file_is_planned_and_settings_go_on_top_of_it(plan: Callable[..., Result], tmp_path: Path) -> None:
    file = edited(tmp_path, spec={**kcp_document()["spec"], "version": "v1.35.1", "replicas": 5})
    result = plan("-f", file, "--set", "replicas=1", "-o", "json")
    assert result.exit_code == 2, result.output
    said = json.loads(result.stdout)["status"]
    assert (said["replicas"]["desired"], said["version"]) == (1, "v1.35.1")


PAUSED, SKIP_COREDNS = "cluster.x-k8s.io/paused", "controlplane.cluster.x-k8s.io/skip-coredns"
BEGUN = {"quorate.dev/remediating": "{}"}  # a record of the provider's
APPLIED = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"metadata": {"annotations": {PAUSED: ""}}})}
OTHER = {"other": "1"}


@pytest.mark.parametrize(
    ("metadata", "left"),
    [
        pytest.param({}, BEGUN | APPLIED | OTHER, id="a manifest takes away what an earlier one had added"),
        pytest.param({"annotations": {PAUSED: ""}}, {PAUSED: ""} | BEGUN | APPLIED | OTHER, id="a manifest leaves what others added"),
        pytest.param({"annotations": {SKIP_COREDNS: ""}}, {SKIP_COREDNS: ""} | BEGUN | APPLIED | OTHER, id="a manifest adds"),
        pytest.param({"uid": "1", "resourceVersion": "6"}, BEGUN, id="a copy says all, but for the provider's records"),
        pytest.param({"uid": "1", "annotations": {**dict.fromkeys(BEGUN, "old"), SKIP_COREDNS: ""}}, {SKIP_COREDNS: ""} | BEGUN, id="copy"),
        pytest.param({"uid": "1", "resourceVersion": "7", "annotations": OTHER}, OTHER, id="a copy of this very version says all"),
    ],
)
def test_an_edited_file_is_judged_with_its_annotations(
    plan: Callable[..., Result],
    api: FakeApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    metadata: dict[str, Any],
    left: dict[str, str],
) -> None:
    api.items["kubeadmcontrolplanes"][0]["metadata"]["annotations"] = {PAUSED: ""} | BEGUN | APPLIED | OTHER
    found: list[Look] = []
    make = machines_plan.plan_of
    monkeypatch.setattr("quorate.cli.machines.plan.plan_of", lambda look, now: found.append(look) or make(look, now))  # type: ignore[func-returns-value]
    plan("-f", edited(tmp_path, metadata={"name": "demo", **metadata}))
    observation = found[0].observation
    assert observation.kcp.metadata.annotations == left
    assert observation.view is not None
    assert bool(observation.view.paused) == (PAUSED in left)


def test_what_kubectl_applied_last_may_be_unreadable(plan: Callable[..., Result], api: FakeApi, tmp_path: Path) -> None:
    api.items["kubeadmcontrolplanes"][0]["metadata"]["annotations"] = {PAUSED: "", **dict.fromkeys(APPLIED, "{")}
    assert "Remove the pause to go on" in plan("-f", edited(tmp_path, metadata={"name": "demo"})).stdout


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("replicas=2", "spec.replicas: 2 is even"),
        ("version=v1.40.0", "spec.version: cannot go from v1.34.4 to v1.40.0"),
        ("replicas=three", "spec.replicas: must be an integer"),
        ("nosuch=3", "spec.nosuch: cannot be changed"),
    ],
)
def test_an_edit_that_admission_would_refuse_ends_with_64_and_the_field(plan: Callable[..., Result], setting: str, reason: str) -> None:
    result = plan("--set", setting)
    assert (result.exit_code, result.stdout) == (64, "")
    assert f"the edited control plane would be refused: {reason}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--bogus",), "No such option"),
        (("-o", "yaml"), "'yaml' is not one of"),
        (("--set", "replicas"), "write FIELD=VALUE"),
        (("--set", ".version=v1.35.1"), "write FIELD=VALUE"),
        (("--set", "version.minor=3"), "version holds no fields"),
        (("--set", "version={"), "the value is not YAML"),
        (("-f", "/nowhere/edited.yaml"), "No such file"),
    ],
)
def test_a_wrong_command_line_ends_with_64_because_2_says_that_there_are_changes(
    plan: Callable[..., Result], arguments: tuple[str, ...], reason: str
) -> None:
    result = plan(*arguments)
    assert (result.exit_code, result.stdout) == (64, "")
    assert reason in result.stderr


def test_a_missing_name_ends_with_64(cli: Cli) -> None:
    assert cli("plan").exit_code == 64


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "Cluster"}, "does not hold one KubeadmControlPlane with a spec"),
        ({"spec": None}, "does not hold one KubeadmControlPlane with a spec"),
        ({"metadata": {"name": "other"}}, "holds other, not demo"),
        ({"metadata": None}, "holds one without a name, not demo"),
        ({"metadata": {"name": "demo", "annotations": ["one"]}}, "metadata.annotations must hold keys and values"),
        ({"metadata": {"name": "demo", "annotations": {"skip": True}}}, "the edited control plane would be refused"),
        ({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1"}, "write it as controlplane.cluster.x-k8s.io/v1beta2"),
    ],
)
def test_a_file_that_is_not_this_control_plane_ends_with_64(
    plan: Callable[..., Result], tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    result = plan("-f", edited(tmp_path, **changes))
    assert (result.exit_code, reason in result.stderr) == (64, True), result.output


def test_a_file_that_is_not_yaml_ends_with_64(plan: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "edited.yaml").write_text("{ nothing")
    result = plan("-f", str(tmp_path / "edited.yaml"))
    assert (result.exit_code, "is not YAML" in result.stderr) == (64, True), result.output
