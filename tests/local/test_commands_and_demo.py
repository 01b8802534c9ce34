"""Command lines, certificates and the demo cluster: the facts that the real programs insist on."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from quorate.kubernetes import kubeconfig
from quorate.local import commands
from quorate.local.certificates import CertificateFiles, write_certificates
from quorate.local.commands import Command, ManagerPorts
from quorate.local.demo import DemoCluster
from quorate.local.folder import RunFolder, State
from quorate.local.manifests import CAPD
from quorate.pki import read_certificates

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PORTS = ManagerPorts(webhook=1, health=2, diagnostics=3)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    made = tmp_path / "programs"
    made.mkdir()
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "capi-capd"):
        (made / name).touch()
    return made


@pytest.fixture
def files(folder: RunFolder, starting: State) -> CertificateFiles:
    folder.reset(starting)
    return write_certificates(folder.pki, folder.kubeconfig, "https://127.0.0.1:25002", now=NOON)


def test_the_api_server_needs_no_default_route_and_writes_its_audit_log_before_it_answers(
    programs: Path, folder: RunFolder, files: CertificateFiles
) -> None:
    command = commands.api_server(programs, folder, files, port=25002, etcd_port=25000)
    assert {"--advertise-address=127.0.0.1", "--audit-log-mode=blocking", f"--audit-log-path={folder.audit_log}"} <= set(command.arguments)
    policy = yaml.safe_load((folder.path / "audit-policy.yaml").read_text())
    assert policy["omitStages"] == ["RequestReceived"]
    assert policy["rules"] == [{"level": "Metadata"}]


def test_a_cluster_api_manager_is_told_all_its_ports(programs: Path, folder: RunFolder, files: CertificateFiles) -> None:
    command = commands.cluster_api_manager(CAPD, programs, folder, files, PORTS)
    assert {"--webhook-port=1", "--health-addr=127.0.0.1:2", "--diagnostics-address=127.0.0.1:3", "--insecure-diagnostics"} <= set(
        command.arguments
    )
    assert command.ready_url == "http://127.0.0.1:2/readyz"
    assert commands.environment(command)["POD_IP"] == "127.0.0.1"


def test_programs_do_not_inherit_a_kubeconfig_or_a_pod_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "POD_NAME", "POD_NAMESPACE", "POD_UID", "SOMETHING_ELSE"):
        monkeypatch.setenv(name, "x")
    given = commands.environment(Command("capi-core", ("capi-core",)))
    assert "SOMETHING_ELSE" in given
    assert not {"KUBECONFIG", "POD_NAME", "POD_NAMESPACE", "POD_UID"} & set(given)


def test_our_manager_takes_further_flags_and_serves_webhooks(folder: RunFolder, files: CertificateFiles) -> None:
    command = commands.quorate_manager(folder, files, PORTS, ("--feature-gates=A=true",))
    assert command.arguments[1:4] == ("-m", "quorate", "manager")
    assert "--etcd-dialer=in-memory" in command.arguments
    assert command.arguments[-1] == "--feature-gates=A=true"
    assert {"--webhook-port=1", f"--webhook-cert-dir={files.serving}"} <= set(command.arguments)


def test_the_kubeconfig_works_with_our_own_client_and_every_key_is_private(folder: RunFolder, files: CertificateFiles) -> None:
    config = kubeconfig.load(str(folder.kubeconfig))
    assert config.server == "https://127.0.0.1:25002"
    assert config.ca == files.ca_data
    for path in (folder.kubeconfig, files.service_account, files.serving / "tls.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_certificates_are_valid_now_and_for_most_of_a_year_within_their_ca_s_time(files: CertificateFiles) -> None:
    (ca,) = read_certificates(files.ca_data)
    (serving,) = read_certificates((files.serving / "tls.crt").read_bytes())
    assert ca.not_before <= serving.not_before <= NOON
    assert NOON + timedelta(days=300) < serving.not_after <= ca.not_after
    assert serving.subject != ca.subject  # a leaf whose issuer has its name counts as self-signed


def test_the_demo_cluster_refers_to_its_own_objects() -> None:
    cluster, infrastructure, template, control_plane = DemoCluster(name="c", namespace="n", replicas=5, version="v1.35.0").objects()
    assert cluster["spec"]["infrastructureRef"]["kind"] == infrastructure["kind"]
    assert cluster["spec"]["controlPlaneRef"]["kind"] == control_plane["kind"]
    assert control_plane["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["kind"] == template["kind"]
    assert (control_plane["spec"]["replicas"], control_plane["spec"]["version"]) == (5, "v1.35.0")
    assert {(item["metadata"]["name"], item["metadata"]["namespace"]) for item in (cluster, infrastructure, template, control_plane)} == {
        ("c", "n")
    }


def test_the_dev_cluster_has_an_annotation_for_capd_panics_without_one() -> None:
    assert DemoCluster().objects()[1]["metadata"]["annotations"]


@pytest.mark.parametrize(("seconds", "duration"), [(2.0, "2000ms"), (0.0, "0ms"), (0.25, "250ms")])
def test_every_phase_of_a_machine_takes_as_long_as_asked(seconds: float, duration: str) -> None:
    backend = DemoCluster(phase_seconds=seconds).objects()[2]["spec"]["template"]["spec"]["backend"]["inMemory"]
    assert {phase: value["provisioning"]["startupDuration"] for phase, value in backend.items()} == dict.fromkeys(
        ("vm", "node", "apiServer", "etcd"), duration
    )


def test_names_that_yaml_takes_for_booleans_survive_the_manifests() -> None:
    assert [item["metadata"]["name"] for item in yaml.safe_load_all(DemoCluster(name="on").manifests())] == ["on"] * 4
