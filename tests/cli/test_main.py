"""The command as a whole: help that comes fast, and errors as one line with a documented exit code."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from quorate.cli import exit_codes, failures, main
from quorate.cli.failures import Failure, failure_of
from quorate.clusterapi.inspection import NotAnswering
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.errors import NoAnswer
from quorate.hosts.manifest import ManifestError, Problem
from quorate.hosts.manifest.findings import Mark
from quorate.hosts.manifest.terraform import TerraformError
from quorate.hosts.run.lock_refused import Locked
from quorate.hosts.run.plan_file import PlanError, StalePlan
from quorate.hosts.run.records import RecordError
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ConnectionFailed, Forbidden
from quorate.local.errors import LocalError, MissingTool

from .conftest import FakeApi

Cli = Callable[..., Result]
Kubeconfig = Callable[[str], str]
DOCUMENT = Path(__file__).parents[2] / "docs" / "exit-codes.md"


@pytest.mark.parametrize(
    "arguments",
    [
        ("reset", "-m", "kubeone.yaml", "-y", ""),
        ("apply", "-m", ""),
        ("apply", ""),
        ("apply", "-t", ""),
        ("apply", "--tfjson="),
        ("plan", "-m", "kubeone.yaml", "--without", ""),
        ("explain", "-m", "kubeone.yaml", ""),
        ("certificates", "renew", "--snapshot-dir", ""),
        ("etcd", "snapshot", ""),
        ("plan", ""),
    ],
    ids=" ".join,
)
def test_nothing_that_commands_take_is_empty(cli: Cli, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)
    assert result.exit_code == 64, result.output
    assert "is a variable of your shell not set?" in result.stderr


def test_upstreams_flags_may_be_empty(cli: Cli) -> None:
    assert "an argument is empty" not in cli("manager", "--namespace=", "--no-such-flag").stderr


def test_help_comes_within_150_ms() -> None:
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "quorate", "--help"], check=True, capture_output=True, timeout=20)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert min(once() for _ in range(5)) < 0.150  # of its own CPU, the best of five: other work on the machine is not what is measured


def test_help_imports_no_library_but_click() -> None:
    code = "import sys; from quorate.cli.main import quorate; quorate(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=20)
    loaded = set(re.findall(r"'(\w+)'", done.stdout))
    assert "click" in loaded
    assert not loaded & {"aiohttp", "asyncio", "msgspec", "rich", "structlog", "yaml", "cryptography"}


def test_every_command_has_help(cli: Cli) -> None:
    for name in main.COMMANDS:
        result = cli(name, "--help")
        assert result.exit_code == 0, result.output
        assert f"Usage: quorate {name}" in result.output


def test_an_unknown_command_is_a_usage_error(cli: Cli) -> None:
    assert cli("destroy").exit_code == 2


def test_the_version_is_shown(cli: Cli) -> None:
    assert re.fullmatch(r"quorate \d+\.\d+\.\d+\S*\n", cli("--version").output)


@pytest.mark.parametrize("arguments", [["--help"], ["get", "--help"], ["simulate", "--seed", "1", "--calm", "--trace"]], ids=str)
def test_a_command_whose_output_nobody_reads_ends_quietly(arguments: list[str]) -> None:
    command = [sys.executable, "-c", "from quorate.cli.main import main; main()", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(60), said) == (141, b"")


def test_every_code_is_in_the_table_and_the_help_and_the_document_are_made_from_it(cli: Cli) -> None:
    table = {row.code for row in exit_codes.TABLE}
    assert table >= {int(code) for code in failures.ExitCode}
    assert table >= {kind.exit_code for kind in LocalError.__subclasses__()}
    assert {int(code) for code in re.findall(r"^ +(\d+)  \w", cli("--help").output, re.MULTILINE)} == table
    assert DOCUMENT.read_text() == exit_codes.page(), "run `make rules` and commit the result"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("no kubeconfig"), 10),
        (ConnectionFailed("list machines: no route"), 11),
        (Forbidden("list machines: no"), 11),
        (NotAnswering("did not answer"), 11),
        (MissingTool("no Go"), 3),
        (ExceptionGroup("", [ExceptionGroup("", [ConfigError("inside")])]), 10),
        (ManifestError((Problem("name", "is missing", Mark("kubeone.yaml", 3)),)), 10),
        (TerraformError("tf.json: is not JSON"), 10),
        (NoAnswer("host cp-1", "no answer"), 14),
        (AccessFailed("no API server answers"), 14),
        (StepFailed("cp-1", "the reset failed"), 15),
        (RecordError("demo-runs: cannot be written"), 15),
        (PlanError("plan.json: is no plan"), 15),
        (Locked("host cp-1", None), 16),
        (StalePlan(("hosts.cp-1.kind: member then, broken now",)), 17),
        (ValueError("surprise"), 1),
        (Failure("already told", 12), 12),
    ],
)
def test_each_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert failure_of(error).exit_code == code


def test_of_several_errors_at_once_the_first_is_told() -> None:
    failure = failure_of(ExceptionGroup("", [MissingTool("no Go"), ConfigError("no kubeconfig")]))
    assert (failure.exit_code, failure.message) == (3, "no Go")


def test_a_surprise_is_one_line_and_with_debug_the_error_itself(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def command() -> None:
        raise ValueError("surprise")

    monkeypatch.setattr("quorate.cli.machines.get.command", command)
    result = cli("get")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: surprise (ValueError; `quorate --debug` shows where)\n"
    assert isinstance(cli("--debug", "get").exception, ValueError)


@pytest.mark.parametrize("command", [("get",), ("explain", "demo")])
class TestAManagementClusterThatCannotBeUsed:
    def test_a_missing_kubeconfig_is_named(self, cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
        result = cli(*command, "--kubeconfig", str(tmp_path / "nowhere"))
        assert result.exit_code == 10
        assert str(tmp_path / "nowhere") in one_line(result)

    def test_a_malformed_kubeconfig_is_named(self, cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
        (tmp_path / "bad").write_text("{ nothing")
        result = cli(*command, "--kubeconfig", str(tmp_path / "bad"))
        assert result.exit_code == 10
        assert "is not YAML" in result.stderr

    def test_an_unknown_context_names_those_there_are(self, cli: Cli, kubeconfig: Kubeconfig, command: tuple[str, ...]) -> None:
        result = cli(*command, "--kubeconfig", kubeconfig("http://127.0.0.1:1"), "--context", "b")
        assert result.exit_code == 10
        assert "there are: a" in one_line(result)

    def test_malformed_certificates_are_a_configuration_error(self, cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
        user = "{name: u, user: {client-certificate-data: bm9uc2Vuc2U=, client-key-data: bm9uc2Vuc2U=}}"
        lines = ["current-context: a", "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]"]
        lines += [f"users: [{user}]", "contexts: [{name: a, context: {cluster: a, user: u}}]"]
        (tmp_path / "bad").write_text("\n".join(lines))
        assert cli(*command, "--kubeconfig", str(tmp_path / "bad")).exit_code == 10

    def test_an_unreachable_server_is_said_at_once(self, cli: Cli, kubeconfig: Kubeconfig, command: tuple[str, ...]) -> None:
        result = cli(*command, "--kubeconfig", kubeconfig("http://127.0.0.1:1"))
        assert result.exit_code == 11
        assert "does not answer" in one_line(result)

    def test_credentials_that_are_refused_are_said(self, cli: Cli, api: FakeApi, kubeconfig: Kubeconfig, command: tuple[str, ...]) -> None:
        api.refusal = 401
        result = cli(*command, "--kubeconfig", kubeconfig(api.url))
        assert result.exit_code == 11
        assert "does not accept these credentials" in one_line(result)

    def test_what_is_forbidden_is_named_by_verb_and_resource(
        self, cli: Cli, api: FakeApi, kubeconfig: Kubeconfig, command: tuple[str, ...]
    ) -> None:
        api.forbidden = "secrets"
        result = cli(*command, "--kubeconfig", kubeconfig(api.url))
        assert result.exit_code == 11
        assert "list secrets" in one_line(result)
        assert "cannot list resource" in result.stderr


def one_line(result: Result) -> str:
    """What was told on stderr, which has to be one line, and nothing on stdout."""
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
