"""`quorate takeover` and `quorate handback` as their user meets them: what is shown, what is asked, and how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from quorate.cli import questions
from quorate.cli.failures import ExitCode
from quorate.cli.machines import takeover
from quorate.cli.machines.change import change_of, ended_text, text
from quorate.cli.main import quorate as command
from quorate.clusterapi.takeover.lock import AlreadyRunning
from quorate.clusterapi.takeover.observe import Observation
from quorate.clusterapi.takeover.session import Ended
from quorate.core import documents
from quorate.core.takeover.decide import decide
from quorate.core.takeover.state import Side
from quorate.kubernetes.leader import LeadershipLost
from quorate.simulation.engine.clock import VirtualTimeLoop
from quorate.simulation.engine.world import EPOCH
from tests.clusterapi.takeover.manifests import THEIR_DEPLOYMENT, given, quorate
from tests.clusterapi.takeover.stage import Stage, with_upstream

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: x}}]
"""


def played(look: Callable[[], Any]) -> Any:
    """The outcome of a scene in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(look())


async def before() -> Observation:
    stage = await with_upstream()
    return await stage.look(Side.QUORATE, given())


async def not_fitting() -> Observation:
    stage = await with_upstream("--watch-filter=a")
    return await stage.look(Side.QUORATE, given())


async def afterwards() -> Observation:
    stage = await with_upstream()
    await stage.command(Side.QUORATE, given())
    return await stage.look(Side.QUORATE)


async def put_back() -> Ended:
    stage = await with_upstream(starts=lambda name: name == THEIR_DEPLOYMENT)
    ended = await stage.command(Side.QUORATE, given(), limit=30.0)
    assert ended is not None
    return ended


async def halfway(stage: Stage) -> Observation:
    await stage.command(Side.QUORATE, given(), killed_after=12)
    return await stage.look(Side.QUORATE)


class Cli:
    """The commands with a look that was made before; `carried_out` has what was to be done, `ends` how that ends."""

    def __init__(self, folder: Path) -> None:
        self.components = folder / "quorate.yaml"
        self.components.write_text(documents.dump_all(quorate()))
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(KUBECONFIG)
        self.seen: Observation | None = None
        self.carried_out: list[Side] = []
        self.ends: ExitCode | Exception = ExitCode.OK

    def __call__(self, name: str, *arguments: str) -> Result:
        flags = [f"--kubeconfig={self.kubeconfig}", *([f"--components={self.components}"] if name == "takeover" else [])]
        return CliRunner().invoke(command, [name, *flags, *arguments])


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    made = Cli(tmp_path)

    async def looked(*_: Any) -> Observation:
        assert made.seen is not None
        return made.seen

    async def carried_out(_config: Any, _access: Any, options: Any, _flags: Any) -> ExitCode:
        made.carried_out.append(options.goal)
        if isinstance(made.ends, Exception):
            raise made.ends
        return made.ends

    monkeypatch.setattr(takeover, "_now", lambda: EPOCH + timedelta(seconds=10))
    monkeypatch.setattr(takeover, "_looked", looked)
    monkeypatch.setattr(takeover, "_carried_out", carried_out)
    return made


def test_a_dry_run_shows_checks_objects_and_steps_and_changes_nothing(cli: Cli) -> None:
    cli.seen = played(before)
    result = cli("takeover", "--dry-run")
    assert result.exit_code == ExitCode.CHANGES, result.output
    assert "both elect their leader by one Lease" in result.stdout
    assert "  Service capi-kubeadm-control-plane-system/capi-kubeadm-control-plane-webhook-service: changes\n" in result.stdout
    assert "    spec.selector.cluster.x-k8s.io/provider: 'control-plane-kubeadm' -> 'control-plane-quorate'\n" in result.stdout
    assert "  Deployment capi-kubeadm-control-plane-system/quorate-controller-manager: is made\n" in result.stdout
    assert f"  Deployment capi-kubeadm-control-plane-system/{THEIR_DEPLOYMENT}: is deleted\n" in result.stdout
    assert "    1  save both installations in the management cluster\n" in result.stdout
    assert not cli.carried_out


def test_a_dry_run_for_programs_has_the_same(cli: Cli) -> None:
    cli.seen = played(before)
    result = cli("takeover", "--dry-run", "-o", "json")
    found = json.loads(result.stdout)
    assert (found["goal"], found["done"], found["under_way"], found["in_the_way"]) == ("quorate", False, False, [])
    assert found["steps"][-1] == "write down that the change is over"
    assert {"is made", "is deleted", "changes"} <= {each["fate"] for each in found["objects"]}


def test_what_does_not_fit_is_refused_with_the_way_out(cli: Cli) -> None:
    cli.seen = played(not_fitting)
    result = cli("takeover", "--yes")
    assert result.exit_code == ExitCode.STALLED
    assert "-> Set --namespace and --watch-filter of Deployment" in result.stdout
    assert not cli.carried_out


def test_nothing_is_done_unasked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.seen = played(before)
    refused = cli("takeover")
    assert refused.exit_code == ExitCode.WRONG_COMMAND_LINE
    assert "give -y" in refused.stderr
    monkeypatch.setattr(questions, "at_a_terminal", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "no")
    assert cli("takeover").exit_code == ExitCode.OK
    assert not cli.carried_out
    assert cli("takeover", "-y").exit_code == ExitCode.OK
    assert cli.carried_out == [Side.QUORATE]


def test_a_goal_that_is_reached_needs_nothing(cli: Cli) -> None:
    cli.seen = played(afterwards)
    result = cli("takeover")
    assert (result.exit_code, result.stdout) == (ExitCode.OK, "Nothing to do: quorate answers for the control planes.\n")


@pytest.mark.parametrize("error", [AlreadyRunning("another run has the Lease a/b: me"), LeadershipLost("lost")])
def test_two_at_once_are_kept_apart_by_an_exit_code_of_their_own(cli: Cli, error: Exception) -> None:
    cli.seen, cli.ends = played(before), error
    result = cli("takeover", "-y")
    assert result.exit_code == ExitCode.LOCKED
    assert str(error) in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--accept", "demo"], "--accept takes NAMESPACE/NAME"), (["--timeout", "soon"], "is not a duration")]
)
def test_a_wrong_command_line_is_no_finding(cli: Cli, arguments: list[str], said: str) -> None:
    result = cli("takeover", *arguments)
    assert result.exit_code == ExitCode.WRONG_COMMAND_LINE
    assert said in result.stderr


def test_a_run_that_was_interrupted_says_what_is_left() -> None:
    async def scene() -> Observation:
        return await halfway(await with_upstream())

    change = change_of(played(scene), EPOCH)
    assert change.under_way
    assert change.steps[0].startswith("write ")
    assert "save both installations" not in text(change)


def test_everything_that_was_put_back_says_why() -> None:
    said = ended_text(played(put_back), Side.QUORATE)
    assert said.startswith(
        "Everything is back with upstream's provider: the change comes to its end in time: not over after 30 s; 0 of 2 Pods"
    )


def test_what_stands_in_the_way_at_the_end_says_what_helps() -> None:
    seen = played(not_fitting)
    said = ended_text(Ended(seen, decide(seen.view, EPOCH)), Side.QUORATE)
    assert "-> Set --namespace" in said
