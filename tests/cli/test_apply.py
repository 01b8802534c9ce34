"""`quorate apply` and its kin as commands: what is asked, what is refused, how they end, and what they leave behind."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from quorate.cli.hosts import access as hosts_access
from quorate.cli.hosts import run as hosts_run
from quorate.cli.main import quorate
from quorate.core.health import Finding, Health, Unknown
from quorate.core.hosts.state import KUBEADM_RUNS, Cluster
from quorate.core.hosts.steps import DeleteNode, Join, Prepare, RemoveMember, RenewCertificates, Reset, Step, TakeSnapshot
from quorate.core.ring import Ring
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.run import records
from quorate.hosts.run.events import Ended, Outcome
from quorate.hosts.run.operator import Holder
from tests.core.hosts.conftest import V135
from tests.hosts.manifests import SMALLEST
from tests.hosts.probe.machine import ca

from .hosts import BUILD, FakeHost, HostsWorld, world

__all__ = ["world"]

Cli = Callable[..., Result]
KUBECONFIG = {
    "current-context": "admin@demo",
    "contexts": [{"name": "admin@demo", "context": {"cluster": "demo", "user": "admin"}}],
    "clusters": [
        {
            "name": "demo",
            "cluster": {"server": "https://lb:6443", "certificate-authority-data": base64.b64encode(ca().certificate).decode()},
        }
    ],
}
UPGRADE = BUILD.three(version=V135, snapshot_taken=False)


def one_missing() -> Any:
    return BUILD.cluster(BUILD.host(1), BUILD.host(2), BUILD.prepared(3), snapshot_taken=False)


@pytest.fixture
def apply(cli: Cli, world: HostsWorld) -> Cli:
    return lambda *arguments: cli("apply", "-m", str(world.manifest), *arguments)


def test_where_there_is_nothing_to_do_nobody_is_asked_and_one_look_is_enough(apply: Cli, world: HostsWorld) -> None:
    result = apply()
    assert (result.exit_code, world.looks, world.steps) == (0, 1, [])
    assert "Nothing to do: everything is as the manifest says." in result.stdout
    assert not world.runs.exists()


def test_the_plan_is_shown_carried_out_and_recorded(apply: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    result = apply("-y")
    assert result.exit_code == 0, result.output
    assert world.steps[-1] == Join("cp-3")
    assert "2  join cp-3 as a control plane" in result.stdout
    assert "step 2: join cp-3 as a control plane" in result.stdout
    assert "converged: everything is as the manifest says" in result.stdout
    last = records.read(records.newest(world.runs))[-1]
    assert isinstance(last, Ended)
    assert (last.outcome, last.steps) == (Outcome.CONVERGED, 2)
    assert world.settled == 1


def test_a_second_apply_has_nothing_to_do(apply: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    apply("-y")
    steps = list(world.steps)
    assert apply("-y").exit_code == 0
    assert world.steps == steps


def test_without_a_terminal_nobody_can_be_asked(apply: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    result = apply()
    assert (result.exit_code, world.steps) == (64, [])
    assert "give -y" in result.stderr


@pytest.mark.parametrize(("answer", "steps"), [("yes", 2), ("y", 0), ("", 0), ("no", 0)])
def test_only_the_word_yes_is_a_yes(world: HostsWorld, monkeypatch: pytest.MonkeyPatch, answer: str, steps: int) -> None:
    world.cluster = one_missing()
    monkeypatch.setattr(hosts_run, "at_a_terminal", lambda: True)
    result = CliRunner().invoke(quorate, ["apply", "-m", str(world.manifest), "--plain"], input=f"{answer}\n")
    assert (result.exit_code, len(world.steps)) == (0, steps), result.output
    assert ("canceled; nothing was changed" in result.output) is (steps == 0)


def test_what_cannot_be_done_ends_with_its_reason(apply: Cli, world: HostsWorld) -> None:
    world.cluster = BUILD.cluster(BUILD.host(1), BUILD.broken(2), BUILD.broken(3), ring="gbb")
    result = apply("-y")
    assert (result.exit_code, world.steps) == (13, [])
    assert "1 of 3 voters take part" in result.stdout


def test_a_step_that_fails_is_told_with_the_way_out(apply: Cli, world: HostsWorld) -> None:
    world.cluster, world.failing = one_missing(), StepFailed("cp-3", "port 2380 is taken", "Free it")
    result = apply("-y")
    assert result.exit_code == 15
    assert "cp-3: port 2380 is taken -> Free it" in result.stdout


def test_a_step_that_fails_because_the_lock_was_lost_ends_as_one_that_somebody_else_has(
    apply: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped for minutes finds its requests dead when it goes on, before it has asked for its lock."""

    async def stopped(_step: Step, _seen: object) -> None:
        for host in world.access.states.values():
            host.holder = Holder("1", "john@couch", "apply", BUILD.noon).encode()
        raise StepFailed("etcd", "the ring cannot be read: no answer within 15 s")

    world.cluster = one_missing()
    monkeypatch.setattr(world, "carry_out", stopped)
    result = apply("-y")
    assert result.exit_code == 16
    assert "john@couch" in result.output


def test_json_lines_are_all_there_is_on_stdout(apply: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    result = apply("-y", "-o", "json")
    kinds = [json.loads(line)["event"] for line in result.stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("Started", "Ended")
    assert "Steps, and etcd" in result.stderr


def test_the_second_operator_is_refused_by_name(apply: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    world.access.states["cp-2"] = FakeHost("cp-2", Holder("1", "john@couch", "apply", BUILD.noon).encode())
    result = apply("-y")
    assert (result.exit_code, world.steps) == (16, [])
    assert "nobody else works on these hosts: john@couch" in result.stdout


def becoming(world: HostsWorld, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third look finds this cluster, and no time passes before it."""
    observed = hosts_access.observed

    async def look(*arguments: Any) -> Any:
        if world.looks == 2:
            world.cluster = cluster
        return await observed(*arguments)

    monkeypatch.setattr(hosts_access, "observed", look)
    monkeypatch.setattr("quorate.core.hosts.rules.guard.LOOK_AGAIN", timedelta(0))
    monkeypatch.setattr("quorate.hosts.run.wait_policy.FIRST_PAUSE", 0.0)


def test_a_kubeadm_that_an_interrupted_run_left_is_waited_for(apply: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Finding(Health.UNKNOWN, KUBEADM_RUNS, "kubeadm runs on it now")
    ended = one_missing()
    world.cluster = replace(ended, hosts=(*ended.hosts[:2], replace(ended.hosts[2], findings=(busy,))))
    becoming(world, ended, monkeypatch)
    result = apply("-y")
    assert (result.exit_code, world.steps) == (0, [TakeSnapshot(), Join("cp-3")])
    assert result.stderr.count("waiting, because") == 1
    assert "kubeadm runs on cp-3" in result.stderr


def test_hosts_that_were_just_switched_on_are_waited_for(apply: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.cluster = replace(BUILD.cluster(BUILD.broken(1), BUILD.broken(2), BUILD.broken(3)), ring=Unknown("cp-1 knows no leader"))
    becoming(world, one_missing(), monkeypatch)
    result = apply("-y")
    assert (result.exit_code, world.steps) == (0, [TakeSnapshot(), Join("cp-3")])
    assert result.stderr.count("waiting, because") == 1
    assert "etcd has its quorum: the ring could not be read: cp-1 knows no leader" in result.stderr


def test_one_who_comes_between_the_plan_and_the_work_is_not_overrun(apply: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.cluster = one_missing()
    plan = hosts_run.confirm

    def confirm(question: str, *, yes: bool) -> None:
        world.access.states["cp-2"].holder = Holder("1", "john@couch", "apply", BUILD.noon).encode()
        plan(question, yes=yes)

    monkeypatch.setattr(hosts_run, "confirm", confirm)
    result = apply("-y")
    assert (result.exit_code, world.steps) == (16, [])
    assert "host cp-2 is locked by john@couch" in result.stderr


def test_hosts_are_only_prepared_where_that_is_asked_for(apply: Cli, world: HostsWorld) -> None:
    world.cluster = BUILD.new(BUILD.bare(1), BUILD.bare(2), BUILD.bare(3))
    result = apply("-y", "--no-init")
    assert (result.exit_code, world.steps) == (0, [Prepare(("cp-1", "cp-2", "cp-3"))])
    assert "run the same command without --no-init" in result.stdout


def test_an_interrupted_run_says_that_the_same_command_goes_on(apply: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    async def hang(_step: Any, _seen: Any) -> None:
        threading.Timer(0.05, signal.raise_signal, (signal.SIGTERM,)).start()
        await asyncio.Event().wait()

    world.cluster = one_missing()
    monkeypatch.setattr(world, "carry_out", hang)
    result = apply("-y")
    assert result.exit_code == 130
    assert "run the same command again to continue from there" in result.stdout
    assert isinstance(records.read(records.newest(world.runs))[-1], Ended)


# Plans that were kept.


def test_a_plan_that_was_kept_is_carried_out(cli: Cli, world: HostsWorld, tmp_path: Path) -> None:
    world.cluster = one_missing()
    kept = str(tmp_path / "plan.json")
    assert cli("plan", "-m", str(world.manifest), "--out", kept).exit_code == 2
    assert world.steps == []
    assert cli("apply", kept, "-y").exit_code == 0
    assert world.steps[-1] == Join("cp-3")


def test_a_stale_plan_is_refused(cli: Cli, world: HostsWorld, tmp_path: Path) -> None:
    world.cluster = one_missing()
    kept = str(tmp_path / "plan.json")
    cli("plan", "-m", str(world.manifest), "--out", kept)
    world.cluster = BUILD.cluster(BUILD.host(1), BUILD.broken(2), BUILD.prepared(3), ring="gb")
    result = cli("apply", kept, "-y")
    assert (result.exit_code, world.steps) == (17, [])
    assert "hosts.cp-2.kind: member then, broken now" in result.stderr


def test_a_plan_is_refused_where_the_manifest_is_another(cli: Cli, world: HostsWorld, tmp_path: Path) -> None:
    world.cluster = one_missing()
    kept = str(tmp_path / "plan.json")
    cli("plan", "-m", str(world.manifest), "--out", kept)
    world.manifest.write_text(world.manifest.read_text() + "# edited\n")
    result = cli("apply", kept, "-y")
    assert result.exit_code == 17
    assert "manifest kubeone.yaml has changed" in result.stderr


@pytest.mark.parametrize("place", ["tf.json", "terraform"])
def test_a_plan_finds_its_files_from_another_folder(
    cli: Cli, world: HostsWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    world.cluster = one_missing()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "terraform").mkdir()
    outputs = {"kubeone_api": {"value": {"endpoint": "api.example.com"}}}
    (tmp_path / "tf.json").write_text(json.dumps(outputs))
    (tmp_path / "terraform" / "terraform.tfstate").write_text(json.dumps({"outputs": outputs}))
    monkeypatch.chdir(tmp_path)
    assert cli("plan", "-m", world.manifest.name, "-t", place, "--out", "plan.json").exit_code == 2
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = cli("apply", "../plan.json", "-y")
    assert (result.exit_code, world.steps[-1]) == (0, Join("cp-3")), result.output


@pytest.mark.parametrize("changed", ["policy.yaml", "limits.yaml", "selectors.yaml", "CAs.pem"])
def test_a_plan_is_refused_where_a_file_beside_the_manifest_is_another(cli: Cli, world: HostsWorld, tmp_path: Path, changed: str) -> None:
    world.cluster = one_missing()
    features = {
        "staticAuditLog": {"enable": True, "config": {"policyFilePath": "policy.yaml"}},
        "eventRateLimit": {"enable": True, "config": {"configFilePath": "limits.yaml"}},
        "podNodeSelector": {"enable": True, "config": {"configFilePath": "selectors.yaml"}},
    }
    document = SMALLEST | {"features": SMALLEST["features"] | features, "certificateAuthority": {"file": "CAs.pem"}}
    world.manifest.write_text(yaml.safe_dump(document))
    for name in ("policy.yaml", "limits.yaml", "selectors.yaml"):
        (tmp_path / name).write_text("{}\n")
    (tmp_path / "CAs.pem").write_bytes(ca("one").certificate)
    kept = str(tmp_path / "plan.json")
    assert cli("plan", "-m", str(world.manifest), "--out", kept).exit_code == 2
    (tmp_path / changed).write_bytes(ca("two").certificate)
    result = cli("apply", kept, "-y")
    assert (result.exit_code, world.steps) == (17, []), result.output
    assert "has changed" in result.stderr


@pytest.mark.parametrize("place", ["/nowhere/\x1b[2J", "/nowhere/\0", "/nowhere/\ud800"])
def test_a_plan_whose_manifest_cannot_be_printed_is_refused(cli: Cli, world: HostsWorld, tmp_path: Path, place: str) -> None:
    world.cluster = one_missing()
    kept = tmp_path / "plan.json"
    cli("plan", "-m", str(world.manifest), "--out", str(kept))
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"manifest": place}))
    result = cli("apply", str(kept), "-y")
    assert (result.exit_code, world.steps) == (15, [])
    assert all(line.isprintable() for line in result.stderr.splitlines())


@pytest.mark.parametrize(
    "flag",
    [
        ("-t", "tf.json"),
        ("-m", "other.yaml"),
        ("--ignore-unsupported",),
        ("--no-init",),
        ("--force-upgrade",),
        ("--rotate-encryption-key",),
        ("--without", "cp-3"),
        ("--keep-firewall",),
        ("--parallel-workers", "2"),
        ("--remove-hosts", "2"),
    ],
)
def test_what_a_kept_plan_says_is_not_said_otherwise(cli: Cli, world: HostsWorld, tmp_path: Path, flag: tuple[str, ...]) -> None:
    world.cluster = one_missing()
    kept = str(tmp_path / "plan.json")
    cli("plan", "-m", str(world.manifest), "--out", kept)
    result = cli("apply", kept, "-y", *flag)
    assert (result.exit_code, world.steps) == (2, [])
    assert "PLAN has its own --" in result.stderr


def test_how_many_hosts_may_leave_is_kept_with_a_plan(cli: Cli, world: HostsWorld, tmp_path: Path) -> None:
    world.cluster = BUILD.three(lost_nodes=("worker-8", "worker-9"), snapshot_taken=False)
    kept = tmp_path / "plan.json"
    assert cli("apply", "-m", str(world.manifest), "-y").exit_code == 13
    assert cli("plan", "-m", str(world.manifest), "--remove-hosts", "2", "--out", str(kept)).exit_code == 2
    assert json.loads(kept.read_text())["options"]["remove_hosts"] == 2
    assert cli("apply", str(kept), "-y").exit_code == 0
    assert world.steps == [DeleteNode("worker-8"), DeleteNode("worker-9")]


def with_an_orphan(world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first step a member of no host is in the ring, and dead."""
    carry_out = world.carry_out

    async def then(step: Any, seen: Any) -> None:
        await carry_out(step, seen)
        orphan = BUILD.orphan(9, "b", probes=3)
        ring = world.cluster.ring
        assert isinstance(ring, Ring)
        world.cluster = replace(world.cluster, ring=Ring((*ring.members, orphan.member), ring.leader), orphans=(orphan,))
        monkeypatch.setattr(world, "carry_out", carry_out)

    monkeypatch.setattr(world, "carry_out", then)


def test_a_kept_plan_of_certificates_does_nothing_else_where_a_member_appears(
    cli: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    soon = BUILD.noon + timedelta(days=7)
    world.cluster = BUILD.cluster(*(BUILD.host(number, certificates_expire=soon) for number in (1, 2, 3)))
    kept = str(tmp_path / "plan.json")
    assert cli("plan", "-m", str(world.manifest), "--out", kept).exit_code == 2
    with_an_orphan(world, monkeypatch)
    result = cli("apply", kept, "-y")
    assert (result.exit_code, world.steps) == (17, [RenewCertificates("cp-2")])
    assert "moved: the cluster changed since the plan was approved, and this step was not in it: take a snapshot of etcd" in result.stdout
    assert "(next: remove etcd member 9 of cp-9)" in result.stdout
    assert "orphans.cp-9: nothing then, orphanmember now" in result.stdout


def test_what_yes_agrees_to_is_the_plan_that_was_shown(apply: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.cluster = UPGRADE
    with_an_orphan(world, monkeypatch)
    result = apply("-y")
    assert (result.exit_code, world.steps) == (17, [TakeSnapshot()])
    assert "the plan lacks this step: remove etcd member 9 of cp-9" in result.stdout


def test_a_reset_removes_no_member_that_was_not_shown(cli: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring((BUILD.member(1), BUILD.member(3), BUILD.member(8, name="cp-2")), 1)
    joined_again = BUILD.cluster(BUILD.host(1), BUILD.host(2, member=8), BUILD.host(3), ring=ring)

    async def other_member(step: Any, _seen: Any) -> None:
        world.steps.append(step)
        if isinstance(step, RemoveMember):
            world.cluster = joined_again

    monkeypatch.setattr(world, "carry_out", other_member)
    world.cluster = BUILD.three(snapshot_taken=False)
    result = cli("reset", "-y", "-m", str(world.manifest), "cp-2")
    assert (result.exit_code, world.steps[-1]) == (17, RemoveMember(2, "cp-2")), result.output
    assert "the plan lacks this step: remove etcd member 8 of cp-2" in result.stdout


# The others.


def test_plan_ends_with_0_for_nothing_to_do_and_2_for_changes(cli: Cli, world: HostsWorld) -> None:
    assert cli("plan", "-m", str(world.manifest)).exit_code == 0
    world.cluster = UPGRADE
    result = cli("plan", "-m", str(world.manifest), "-o", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["steps"][1]["kind"] == "UpgradeControlPlane"


@pytest.mark.parametrize(
    "arguments", [("demo", "-m", "kubeone.yaml"), ("-m", "kubeone.yaml", "--set", "version=v1.35.4"), (), ("demo", "--out", "x")]
)
def test_the_two_modes_of_plan_are_not_mixed(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("plan", *arguments).exit_code == 64


def test_a_mistake_in_the_manifest_is_told_with_its_line_and_the_nearest_key(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "kubeone.yaml"
    path.write_text(yaml.safe_dump({**SMALLEST, "controlPlan": {}}))
    for command in (("plan", "-m"), ("apply", "-y", "-m"), ("status", "-m")):
        result = cli(*command, str(path))
        assert result.exit_code == 10
        assert "controlPlan" in result.stderr
        assert "controlPlane" in result.stderr


def test_a_manifest_that_is_missing_is_named(cli: Cli, tmp_path: Path) -> None:
    result = cli("status", "-m", str(tmp_path / "nowhere.yaml"))
    assert result.exit_code == 10
    assert "nowhere.yaml" in result.stderr


def test_status_and_explain_end_with_13_where_something_waits_for_somebody(cli: Cli, world: HostsWorld) -> None:
    assert cli("status", "-m", str(world.manifest)).exit_code == 0
    assert cli("explain", "-m", str(world.manifest)).exit_code == 0
    world.cluster = BUILD.cluster(BUILD.host(1), BUILD.broken(2), BUILD.broken(3), ring="gbb")
    assert cli("status", "-m", str(world.manifest)).exit_code == 13
    assert cli("explain", "-m", str(world.manifest)).exit_code == 13
    assert json.loads(cli("status", "-m", str(world.manifest), "-o", "json").stdout)["standing"] == "stalled"


def test_one_host_is_explained_and_a_stranger_named(cli: Cli, world: HostsWorld) -> None:
    result = cli("explain", "-m", str(world.manifest), "cp-2")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "cp-2, control plane: well, etcd voter, Node ready, v1.34.4, kubelet v1.34.4",
    )
    result = cli("explain", "-m", str(world.manifest), "cp-9")
    assert result.exit_code == 12
    assert "it has cp-1, cp-2, cp-3" in result.stderr


def test_an_earlier_run_is_explained_with_the_checks_behind_each_step(apply: Cli, cli: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    apply("-y")
    newest = cli("explain", "-m", str(world.manifest), "--run")
    assert newest.exit_code == 0, newest.output
    assert "step 2: join cp-3 as a control plane" in newest.stdout
    assert "rule: join control planes" in newest.stdout
    assert "pass    quorum survives an addition" in newest.stdout
    path = str(records.newest(world.runs))
    assert cli("explain", "--run", path).stdout == newest.stdout
    assert cli("explain", "--run", path, "-o", "json").stdout == Path(path).read_text()


def test_a_record_from_elsewhere_sends_a_terminal_nothing(apply: Cli, cli: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    apply("-y")
    path = records.newest(world.runs)
    path.write_text(path.read_text().replace("cp-3", r"cp\u001b[2J-\u202e3" + "\x9b"))
    for arguments in ((), ("-o", "json")):
        result = cli("explain", "--run", str(path), *arguments)
        assert result.exit_code == 0
        assert all(line.isprintable() for line in result.stdout.split("\n"))


def test_a_run_that_was_killed_is_said_to_have_no_end(apply: Cli, cli: Cli, world: HostsWorld) -> None:
    world.cluster = one_missing()
    apply("-y")
    path = records.newest(world.runs)
    path.write_text("\n".join(path.read_text().splitlines()[:4]) + "\n")
    assert "the run was killed, or goes on" in cli("explain", "--run", str(path)).stdout


def test_etcd_members_are_shown_and_the_exit_code_says_whether_there_is_quorum(cli: Cli, world: HostsWorld) -> None:
    result = cli("etcd", "members", "-m", str(world.manifest))
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "  good    cp-1 leader 1")
    world.cluster = BUILD.three(ring="gbb")
    assert cli("etcd", "members", "-m", str(world.manifest)).exit_code == 13


def test_the_kubeconfig_comes_from_the_first_host_whose_own_can_be_used_and_holds_nothing_but_what_is_known(
    cli: Cli, world: HostsWorld
) -> None:
    usable = KUBECONFIG | {
        "users": [{"name": "admin", "user": {"token": "t", "new-in-2030": {"command": "sh"}}}],
        "extensions": [{"a": "b"}],
    }
    running = KUBECONFIG | {"users": [{"name": "admin", "user": {"exec": {"command": "sh"}}}]}
    for name, document in (("cp-1", running), ("cp-2", usable)):
        world.access.states[name].files["/etc/kubernetes/admin.conf"] = yaml.safe_dump(document).encode()
    result = cli("kubeconfig", "-m", str(world.manifest))
    assert result.exit_code == 0, result.output
    assert yaml.safe_load(result.stdout) == KUBECONFIG | {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": "admin", "user": {"token": "t"}}],
    }


def test_a_kubeconfig_that_would_run_a_program_is_refused_with_its_host(cli: Cli, world: HostsWorld) -> None:
    for host in world.access.states.values():
        document = KUBECONFIG | {"users": [{"name": "admin", "user": {"tokenFile": "/root/.ssh/id_ed25519"}}]}
        host.files["/etc/kubernetes/admin.conf"] = yaml.safe_dump(document).encode()
    result = cli("kubeconfig", "-m", str(world.manifest))
    assert (result.exit_code, result.stdout) == (14, "")
    assert "/etc/kubernetes/admin.conf of host cp-2: user 'admin' uses tokenFile" in result.stderr


def test_certificates_are_renewed_host_by_host_and_nothing_else_is_done(cli: Cli, world: HostsWorld) -> None:
    result = cli("certificates", "renew", "-y", "-m", str(world.manifest))
    assert result.exit_code == 0, result.output
    assert world.steps == [RenewCertificates("cp-2"), RenewCertificates("cp-3"), RenewCertificates("cp-1")]


def test_certificates_are_not_renewed_past_what_comes_first(cli: Cli, world: HostsWorld) -> None:
    world.cluster = UPGRADE
    result = cli("certificates", "renew", "-y", "-m", str(world.manifest))
    assert (result.exit_code, world.steps) == (13, [])
    assert "first carry out the plan" in result.stderr


def test_a_host_is_reset_behind_the_gate(cli: Cli, world: HostsWorld) -> None:
    world.cluster = BUILD.three(snapshot_taken=False)
    result = cli("reset", "-y", "-m", str(world.manifest), "cp-2")
    assert result.exit_code == 0, result.output
    assert world.steps[:2] == [TakeSnapshot(), RemoveMember(2, "cp-2")]
    assert world.steps[-1] == Reset("cp-2")


def test_a_reset_that_would_take_the_quorum_along_is_refused(cli: Cli, world: HostsWorld) -> None:
    world.cluster = BUILD.cluster(BUILD.host(1), BUILD.host(2), BUILD.broken(3), ring="ggb")
    result = cli("reset", "-y", "-m", str(world.manifest), "cp-2")
    assert (result.exit_code, world.steps) == (13, [])
    assert "1 short of quorum" in result.stdout


def test_the_whole_cluster_is_reset_without_asking_its_ring(cli: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned: list[str] = []

    async def clean(_tools: Any, host: str, _observation: Any) -> None:
        cleaned.append(host)
        hosts = tuple(BUILD.prepared(int(each.name[-1])) if each.name == host else each for each in world.cluster.hosts)
        world.cluster = replace(world.cluster, hosts=hosts)

    monkeypatch.setattr("quorate.hosts.act.reset.clean", clean)
    world.cluster = BUILD.three(snapshot_taken=False)
    result = cli("reset", "--all", "--confirm", "demo", "-m", str(world.manifest))
    assert result.exit_code == 0, result.output
    assert (sorted(cleaned), world.steps) == (["cp-1", "cp-2", "cp-3"], [TakeSnapshot()])
    assert "the cluster is destroyed, and its data is lost" in result.stdout


def test_the_last_host_of_a_cluster_is_reset_once_its_owner_vouches_for_those_that_are_gone(
    cli: Cli, world: HostsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def clean(tools: Any, host: str, _observation: Any) -> None:
        await tools.access.ssh(host).change("true", deadline=20)
        world.cluster = replace(world.cluster, hosts=tuple(map(BUILD.prepared, (1, 2, 3))))

    monkeypatch.setattr("quorate.hosts.act.reset.clean", clean)
    world.cluster = BUILD.cluster(BUILD.host(1), BUILD.unreachable(2), BUILD.unreachable(3), ring=Unknown("nobody answers"))
    for name in ("cp-2", "cp-3"):
        world.access.states[name] = Unreachable(name, "NoAnswer", "no answer", "")
    command = ("reset", "--all", "--no-snapshot", "--confirm", "demo", "-m", str(world.manifest))
    result = cli(*command)
    assert result.exit_code == 15, result.output
    assert "it may not be the only one" in result.stdout
    assert "--without HOST" in result.stdout
    shutil.rmtree(world.runs)  # in which a record has this very second
    result = cli(*command, "--without", "cp-2", "--without", "cp-3")
    assert result.exit_code == 0, result.output
    assert cli(*command, "--without", "cp-9").exit_code == 12


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("-y",), 2, "name the hosts to reset, or give --all"),
        (("-y", ""), 64, "an argument is empty"),
        (("-y", "cp-2", "--all"), 2, "not both"),
        (("-y", "cp-1", "cp-2", "cp-3"), 2, "these are all control-plane hosts of demo"),
        (("-y", "--all"), 64, "give --confirm demo"),
        (("-y", "--all", "--confirm", "prod"), 2, "which is called demo"),
        (("-y", "cp-2", "--confirm", "demo"), 2, "--confirm goes with --all"),
    ],
)
def test_a_cluster_does_not_end_by_what_is_left_out(cli: Cli, world: HostsWorld, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = cli("reset", "-m", str(world.manifest), *arguments)
    assert (result.exit_code, world.steps) == (code, []), result.output
    assert said in result.stderr


@pytest.mark.parametrize(("typed", "done"), [("demo", True), ("yes", False), ("", False)])
def test_the_name_of_a_cluster_is_typed_before_it_ends(
    world: HostsWorld, monkeypatch: pytest.MonkeyPatch, typed: str, *, done: bool
) -> None:
    world.cluster = BUILD.three(snapshot_taken=False)
    world.failing = StepFailed("cp-1", "no space left", "Free some")
    monkeypatch.setattr(hosts_run, "at_a_terminal", lambda: True)
    result = CliRunner().invoke(quorate, ["reset", "-y", "--all", "-m", str(world.manifest), "--plain"], input=f"{typed}\n")
    assert ("to take a snapshot of etcd failed" in result.output) is done, result.output
    assert ("canceled; nothing was changed" in result.output) is not done


def test_machine_deployments_are_printed_without_asking_a_host(cli: Cli, tmp_path: Path) -> None:
    worker = {"name": "pool", "replicas": 2, "providerSpec": {"operatingSystem": "ubuntu", "cloudProviderSpec": {"instanceType": "t3"}}}
    document = {**SMALLEST, "cloudProvider": {"aws": {}, "external": True}, "dynamicWorkers": [worker]}
    path = tmp_path / "kubeone.yaml"
    path.write_text(yaml.safe_dump(document))
    result = cli("config", "machinedeployments", "--ignore-unsupported", "-m", str(path))
    assert result.exit_code == 0, result.output
    (made,) = yaml.safe_load_all(result.stdout)
    assert (made["kind"], made["metadata"]["name"], made["spec"]["replicas"]) == ("MachineDeployment", "pool", 2)
