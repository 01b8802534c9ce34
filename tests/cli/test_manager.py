"""`quorate manager`: upstream's flags, as far as they mean something."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result

from quorate.clusterapi.connect.workloads import EtcdDialer
from quorate.clusterapi.manager import Options
from quorate.kubernetes.config import ConfigError

Cli = Callable[..., Result]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """The options that a manager was started with; none is really started."""
    started: list[Options] = []

    async def run(options: Options, _stopping: asyncio.Event, webhooks: object) -> None:
        started.append(options)
        assert (webhooks is None) == (options.webhook_port == 0)

    @contextmanager
    def beside(_serve: object) -> Iterator[socket.socket]:
        with socket.socket() as channel:
            yield channel

    monkeypatch.setattr("quorate.clusterapi.manager.run", run)
    monkeypatch.setattr("quorate.clusterapi.webhooks.process.beside", beside)
    monkeypatch.setattr("quorate.kubernetes.serving_pairs.CertificateFiles.read", lambda _: None)
    return started


def test_without_flags_the_options_have_their_defaults(cli: Cli, given: list[Options]) -> None:
    assert cli("manager").exit_code == 0
    assert given == [Options()]


def test_flags_become_options(cli: Cli, given: list[Options]) -> None:
    flags = "--leader-elect --leader-elect-lease-duration=1m30s --namespace=a --watch-filter=b --kubeadmcontrolplane-concurrency=7"
    flags += " --leader-elect-resource-name=of-b"
    webhooks = "--webhook-port=9 --webhook-cert-dir=/c --webhook-cert-name=d --webhook-key-name=e"
    more = "--kube-api-qps=5 --clustercache-client-burst=9 --insecure-diagnostics=true --etcd-dialer=in-memory --health-addr=0"
    assert cli("manager", *flags.split(), *webhooks.split(), *more.split()).exit_code == 0
    assert given == [
        Options(
            leader_elect=True,
            leader_elect_lease_duration=90.0,
            leader_elect_resource_name="of-b",
            namespace="a",
            watch_filter="b",
            concurrency=7,
            kube_api_qps=5.0,
            workload_burst=9,
            insecure_diagnostics=True,
            etcd_dialer=EtcdDialer.IN_MEMORY,
            health_addr="0",
            webhook_port=9,
            webhook_cert_dir="/c",
            webhook_cert_name="d",
            webhook_key_name="e",
        )
    ]


def test_at_port_0_no_webhooks_are_served(cli: Cli, given: list[Options]) -> None:
    assert cli("manager", "--webhook-port=0").exit_code == 0
    assert given == [Options(webhook_port=0)]


def test_webhooks_without_a_certificate_are_an_error_with_both_ways_out(cli: Cli, tmp_path: Path) -> None:
    result = cli("manager", f"--webhook-cert-dir={tmp_path}")
    assert result.exit_code == 10
    assert f"No such file or directory: '{tmp_path}/tls.crt'" in result.stderr
    assert "give it in --webhook-cert-dir, or serve no webhooks with --webhook-port=0" in result.stderr


@pytest.mark.parametrize("flag", ["--leader-elect=false", "--leader_elect=false", "--insecure-diagnostics=false"])
def test_switches_can_be_turned_off_as_in_go(cli: Cli, given: list[Options], flag: str) -> None:
    assert cli("manager", flag).exit_code == 0
    assert given == [Options()]


@pytest.mark.parametrize("flag", ["--sync-period=10m", "--sync_period=10m", "--contention-profiling"])
def test_a_flag_without_a_meaning_is_accepted_with_a_warning(cli: Cli, given: list[Options], flag: str) -> None:
    result = cli("manager", flag)
    assert result.exit_code == 0
    assert given == [Options()]
    (logged,) = map(json.loads, result.stderr.splitlines())
    assert (logged["level"], logged["msg"]) == ("warning", "flag ignored")
    assert logged["flag"] == flag.partition("=")[0].replace("_", "-")


def test_every_flag_of_the_deployment_that_upstream_ships_is_accepted(cli: Cli, given: list[Options]) -> None:
    flags = "--leader-elect --diagnostics-address=:8443 --insecure-diagnostics=false"
    gates = "--feature-gates=MachinePool=true,ClusterTopology=false,KubeadmBootstrapFormatIgnition=false,PriorityQueue=true"
    assert cli("manager", *flags.split(), gates).exit_code == 0
    assert given == [Options(leader_elect=True, feature_gates=frozenset({"MachinePool", "PriorityQueue"}))]


def test_the_gates_reach_the_manager(cli: Cli, given: list[Options]) -> None:
    assert cli("manager", "--feature-gates=MachineTaintPropagation=true,MachinePool=false").exit_code == 0
    assert given == [Options(feature_gates=frozenset({"MachineTaintPropagation"}))]


def test_a_gate_that_is_not_built_is_accepted_with_a_warning(cli: Cli, given: list[Options]) -> None:
    result = cli("manager", "--feature-gates=InPlaceUpdates=true")
    assert len(given) == 1
    assert json.loads(result.stderr)["featureGate"] == "InPlaceUpdates"


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--feature-gates=Unheard=true", "not a feature gate"),
        ("--feature-gates=MachinePool=perhaps", "true or false"),
        ("--leader-elect-resource-name=Of_B", "must be a name as Kubernetes takes it"),
        ("--watch-filter==a", "must be the value of a label"),
        ("--leader-elect-lease-duration=60", "is not a duration"),
        ("--remote-conditions-grace-period=1m", "at least 120s"),
        ("--etcd-dialer=carrier-pigeon", "carrier-pigeon"),
        ("--tls-min-version=VersionTLS13", "VersionTLS13"),
        ("--unheard", "No such option"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(cli: Cli, given: list[Options], flag: str, text: str) -> None:
    result = cli("manager", flag)
    assert (result.exit_code, given) == (2, [])
    assert text in result.stderr


def test_a_missing_kubeconfig_ends_with_10_and_one_line(cli: Cli, tmp_path: Path) -> None:
    result = cli("manager", "--kubeconfig", str(tmp_path / "nowhere"), "--health-addr=0", "--diagnostics-address=0", "--webhook-port=0")
    assert result.exit_code == 10
    assert result.stderr == f"Error: cannot read {tmp_path}/nowhere: No such file or directory\n"


def test_an_error_that_nobody_foresaw_is_logged_with_its_stack(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_options: Options, _stopping: asyncio.Event, _webhooks: None) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr("quorate.clusterapi.manager.run", run)
    result = cli("manager", "--webhook-port=0")
    logged, told = result.stderr.splitlines()
    assert result.exit_code == 1
    assert json.loads(logged)["error"] == "RuntimeError: surprise"
    assert "test_manager.py" in json.loads(logged)["stacktrace"]
    assert told.startswith("Error: surprise")


def test_an_error_in_the_configuration_is_not(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_options: Options, _stopping: asyncio.Event, _webhooks: None) -> None:
        raise ConfigError("no kubeconfig")

    monkeypatch.setattr("quorate.clusterapi.manager.run", run)
    assert cli("manager", "--webhook-port=0").stderr == "Error: no kubeconfig\n"


def test_logs_are_text_where_asked(cli: Cli, given: list[Options]) -> None:
    result = cli("manager", "--logging-format=text", "--sync-period=1m")
    assert len(given) == 1
    assert "flag ignored" in result.stderr
    assert not result.stderr.startswith("{")
