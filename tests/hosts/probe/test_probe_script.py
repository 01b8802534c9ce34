"""The probe's script, run by real shells on hosts in folders, and what is read from its answer."""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from quorate.core.health import Absent, Unknown
from quorate.core.versions import Version
from quorate.etcd.log_file import LogIdentity
from quorate.hosts.connect.ssh.scripts import Order
from quorate.hosts.probe.condition import cas, fingerprint
from quorate.hosts.probe.facts import Answer, EtcdData, Family, Kubeconfig, OperatingSystem, Package, Program, StaticPod, Unit
from quorate.hosts.probe.parse import parse
from quorate.hosts.probe.probe import script
from quorate.pki.certificates import read_certificates
from quorate.pki.issue import generate_ca, issue_client, issue_server
from quorate.pki.keys import KeyAlgorithm, KeyPair
from tests.hosts.probe.machine import SHELLS, Folder, ca, client, etcd_log, installed, joined, manifest, units


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def answers() -> dict[str, tuple[int, str]]:
    """What the server answers, by path."""
    return {}


@pytest.fixture
def server(answers: dict[str, tuple[int, str]]) -> Iterator[ThreadingHTTPServer]:
    """An HTTP server on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing to stderr."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that does not speak as the server does is what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def speak_tls(server: ThreadingHTTPServer, path: Path, pair: KeyPair, clients: KeyPair) -> None:
    """Have the server show that certificate, and want one that the CA of clients has signed."""
    (path / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=clients.certificate.decode())
    server.socket = context.wrap_socket(server.socket, server_side=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_tells_the_same_of_a_control_plane_host(folder: Folder, shell: str) -> None:
    joined(folder)
    facts = parse(folder.probe(shell))
    assert facts.operating_system == OperatingSystem(Family.DEBIAN, "debian", "12", "Debian GNU/Linux 12 (bookworm)")
    assert facts.running_for == timedelta(days=1, hours=2, minutes=3, seconds=4)
    assert facts.programs["kubelet"] == Program(str(folder.programs / "kubelet"), Version.parse("v1.34.4"))
    assert facts.programs["kubectl"] == Absent()
    assert facts.packages["kubelet"] == Package("1.34.4-1.1", held=True)
    assert facts.packages["containerd"] == Package("1.6.20~ds1-1+b1", held=False)
    assert facts.packages["kubectl"] == Absent(), "removed, with its configuration left"
    assert facts.units["kubelet"] == Unit("loaded", "active", "running", "enabled", 3)
    assert facts.units["ufw"] == Absent()
    assert facts.etcd_data is EtcdData.MEMBER
    assert facts.kubelet_flags == "--node-ip=10.0.0.1"
    assert (facts.modules["overlay"], facts.modules["br_netfilter"]) == ("loaded", Absent())
    assert facts.keys["ca"] is None
    assert facts.keys["sa"] == Absent()


def test_the_machine_tells_its_names_and_its_architecture_as_packages_call_it(folder: Folder) -> None:
    facts = parse(folder.probe())
    assert (facts.architecture, facts.kernel, facts.hostname, facts.fqdn) == ("arm64", "6.1.0-32-amd64", "cp-1", "cp-1.example.org")


def test_a_static_pod_tells_its_image_and_flags_as_yaml_means_them(folder: Folder) -> None:
    joined(folder)
    facts = parse(folder.probe())
    pod = facts.manifest("kube-apiserver")
    assert isinstance(pod, StaticPod)
    assert pod.version == "v1.34.4"
    assert pod.flags == ("--etcd-servers=https://127.0.0.1:2379", "--oidc-username-prefix=it's: ", '--note=say "hi"')
    scheduler = facts.manifest("kube-scheduler")
    assert isinstance(scheduler, StaticPod)
    assert (scheduler.version, scheduler.flag("leader-elect"), scheduler.flag("leader")) == ("v1.34.4", "true", None)


def test_what_the_kubelet_does_not_read_is_no_static_pod(folder: Folder) -> None:
    folder.file("etc/kubernetes/manifests/.etcd.yaml.XXXX", "half written")
    assert parse(folder.probe()).manifests == {}


def test_certificates_come_with_their_ends_from_files_and_kubeconfigs(folder: Folder) -> None:
    joined(folder)
    facts = parse(folder.probe())
    ours = read_certificates(ca().certificate)
    assert facts.certificates["ca"] == ours
    assert facts.certificates["kubelet"] == read_certificates(client("kubernetes").certificate)
    kubelet, admin = facts.kubeconfigs["kubelet"], facts.kubeconfigs["admin"]
    assert isinstance(kubelet, Kubeconfig)
    assert isinstance(admin, Kubeconfig)
    assert (kubelet.server, kubelet.inline, admin.inline) == ("https://lb:6443", False, True)
    assert cas(facts) == {name: {fingerprint(ours[0])} for name in ("ca.crt", "kubelet.conf", "admin.conf")}


def test_no_key_and_no_environment_leaves_the_host(folder: Folder) -> None:
    joined(folder)
    output = folder.probe()
    for pair in (ca(), client("kubernetes")):
        body = b"".join(pair.key.splitlines()[1:-1])
        assert body not in output
        assert base64.b64encode(pair.key) not in output
    assert b"PRIVATE" not in output
    assert b"hunter2" not in output


def test_a_bare_host_has_everything_absent_and_nothing_unknown_that_decides(folder: Folder) -> None:
    facts = parse(folder.probe())
    assert set(facts.programs.values()) == {Absent()}
    assert set(facts.kubeconfigs.values()) == set(facts.certificates.values()) == {Absent()}
    assert (facts.manifests, facts.etcd_data, facts.kubelet_healthz, facts.etcd_health) == (Absent(), Absent(), Absent(), Absent())
    assert (facts.swap, facts.ports, facts.processes) == (False, frozenset({22}), frozenset())


def test_without_systemd_units_are_unknown_with_its_words(folder: Folder) -> None:
    folder.program("systemctl", "echo 'System has not been booted with systemd' >&2; exit 1")
    assert parse(folder.probe()).units["kubelet"] == Unknown("systemctl failed: System has not been booted with systemd")


def test_a_service_that_keeps_failing_does_not_run(folder: Folder) -> None:
    shown = units("ActiveState=activating\nSubState=auto-restart")
    folder.program("systemctl", f"cat <<'END'\n{shown}\nEND")
    unit = parse(folder.probe()).units["kubelet"]
    assert isinstance(unit, Unit)
    assert (unit.is_running, unit.restarts) == (False, 3)


def test_rpm_packages_are_held_by_versionlock(folder: Folder) -> None:
    (folder.root / "var/lib/dpkg/status").unlink()
    folder.file("usr/lib/os-release", 'ID="rocky"\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\nPRETTY_NAME="Rocky Linux 9.4"\n')
    folder.file("etc/dnf/plugins/versionlock.list", "kubelet-0:1.34.4-150500.1.1.*\n")
    folder.program("rpm", 'case $4 in kubelet|containerd.io) printf %s 1.34.4-1 ;; *) echo "package $4 is not installed"; exit 1 ;; esac')
    facts = parse(folder.probe())
    assert isinstance(facts.operating_system, OperatingSystem)
    assert facts.operating_system.family is Family.RHEL
    assert facts.packages["kubelet"] == Package("1.34.4-1", held=True)
    assert facts.packages["containerd"] == Package("1.34.4-1", held=False), "packed as containerd.io"
    assert facts.packages["kubeadm"] == Absent()


def test_flatcar_has_programs_but_no_packages(folder: Folder) -> None:
    (folder.root / "var/lib/dpkg/status").unlink()
    folder.file("etc/os-release", "ID=flatcar\nVERSION_ID=4152.2.3\nPRETTY_NAME=Flatcar\n")
    folder.program("kubeadm", "echo v1.34.4")
    facts = parse(folder.probe())
    assert isinstance(facts.operating_system, OperatingSystem)
    assert facts.operating_system.family is Family.FLATCAR
    assert isinstance(facts.programs["kubeadm"], Program)
    assert facts.packages["kubeadm"] == Absent()


def test_a_program_that_fails_is_unknown_not_absent(folder: Folder) -> None:
    folder.program("kubelet", "echo 'exec format error' >&2; exit 126")
    fact = parse(folder.probe()).programs["kubelet"]
    assert isinstance(fact, Unknown)
    assert "exec format error" in fact.reason


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((), Absent()),
        (("lost+found",), EtcdData.WITHOUT_LOG),
        (("member/snap/db",), EtcdData.WITHOUT_LOG),
        (("member/snap/db", "member/wal/0.tmp"), EtcdData.WITHOUT_LOG),
        (("member/wal/0-0.wal",), EtcdData.INCOMPLETE),
        (("member/snap/db", "member/wal/0-0.wal"), EtcdData.MEMBER),
    ],
)
def test_etcd_data_without_its_log_is_lost_and_without_its_database_is_not(
    folder: Folder, files: tuple[str, ...], expected: object
) -> None:
    for file in files:
        folder.file(f"var/lib/etcd/{file}", "x")
    assert parse(folder.probe()).etcd_data == expected


def test_a_log_may_be_elsewhere_by_etcds_environment(folder: Folder) -> None:
    """As kubeadm's `extraEnvs` have it. A flag counts where there are both."""
    environment = "    - name: ETCD_WAL_DIR\n      value: /fast/wal\n"
    text = manifest("etcd:3.6.5-0", "--data-dir=/var/lib/etcd").replace("    env:\n", f"    env:\n{environment}")
    folder.file("etc/kubernetes/manifests/etcd.yaml", text)
    folder.file("var/lib/etcd/member/snap/db", "x")
    folder.file("fast/wal/0-0.wal", "x")
    facts = parse(folder.probe())
    assert (facts.etcd_data, facts.etcd_log_folder) == (EtcdData.MEMBER, "/fast/wal")
    folder.file("etc/kubernetes/manifests/etcd.yaml", text.replace("--data-dir", "--wal-dir=/slow/wal\n    - --data-dir"))
    assert parse(folder.probe()).etcd_log_folder == "/slow/wal"


@pytest.mark.parametrize(("there", "expected"), [(True, EtcdData.MEMBER), (False, EtcdData.INCOMPLETE)])
def test_a_log_that_is_kept_elsewhere_is_looked_for_there_and_not_called_lost(folder: Folder, there: bool, expected: EtcdData) -> None:
    folder.file("etc/kubernetes/manifests/etcd.yaml", manifest("etcd:3.6.5-0", "--data-dir=/var/lib/etcd", "--wal-dir=/fast/wal"))
    folder.file("var/lib/etcd/member/snap/db", "x")
    if there:
        folder.file("fast/wal/0-0.wal", "x")
    facts = parse(folder.probe())
    assert (facts.etcd_data, facts.etcd_log_folder) == (expected, "/fast/wal")


READY = '{"level":"info","msg":"ready to serve client requests"}\n'
OTHERS = '{"level":"fatal","msg":"discovery failed","error":"error validating peerURLs {ClusterID:1}: member count is unequal"}\n'
LOST = '{"level":"panic","msg":"tocommit(34) is out of range [lastIndex(0)]. Was the raft log corrupted, truncated, or lost?"}\n'


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ((READY, LOST), EtcdData.BEGUN_ANEW),
        ((READY, OTHERS), EtcdData.BEGUN_ANEW),
        ((READY, LOST, "starts again\n"), EtcdData.BEGUN_ANEW),
        ((LOST, READY), EtcdData.MEMBER),
        ((READY,), EtcdData.MEMBER),
    ],
)
def test_etcd_data_is_begun_anew_where_etcd_says_that_its_log_was_lost_and_never_served_since(
    folder: Folder, shell: str, logs: tuple[str, ...], expected: EtcdData
) -> None:
    joined(folder)
    for number, log in enumerate(logs):
        path = f"var/log/pods/kube-system_etcd-cp-1_2f1a/etcd/{number}.log"
        folder.file(path, log)
        os.utime(folder.root / path, (number, number))
    assert parse(folder.probe(shell)).etcd_data is expected


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "words",
    [
        "Was the raft log corrupted, truncated, or lost",
        "error validating peerURLs",
        r"{\"level\":\"panic\",\"msg\":\"tocommit(1) is out of range. Was the raft log corrupted, truncated, or lost",
    ],
)
def test_what_somebody_has_etcd_log_by_a_name_of_an_object_is_not_taken_for_etcds_own_words(folder: Folder, shell: str, words: str) -> None:
    joined(folder)
    slow = '2026-03-01T11:00:00Z stderr F {"level":"warn","msg":"apply request took too long","request":"key:\\"/registry/configmaps/team-a/%s\\""}\n'
    path = "var/log/pods/kube-system_etcd-cp-1_2f1a/etcd/0.log"
    folder.file(path, f"2026-03-01T10:00:00Z stderr F {READY}{slow % words}")
    assert parse(folder.probe(shell)).etcd_data is EtcdData.MEMBER
    folder.file(path, f"2026-03-01T10:00:00Z stderr F {LOST}{slow % 'ready to serve client requests'}")
    assert parse(folder.probe(shell)).etcd_data is EtcdData.BEGUN_ANEW


def test_a_log_that_was_put_aside_is_that_of_an_etcd_that_served(folder: Folder) -> None:
    joined(folder)
    for number, (name, log) in enumerate((("0.log", LOST), ("1.log.20260301-110000", READY), ("1.log", "compacted\n"))):
        path = f"var/log/pods/kube-system_etcd-cp-1_2f1a/etcd/{name}"
        folder.file(path, log)
        os.utime(folder.root / path, (number, number))
    assert parse(folder.probe()).etcd_data is EtcdData.MEMBER


@pytest.mark.parametrize("shell", SHELLS)
def test_whose_the_etcd_data_are_is_read_from_the_log_without_a_word_of_what_is_stored(folder: Folder, shell: str) -> None:
    joined(folder, member=0xC0FFEE, cluster=0xFEDCBA9876543210)
    told = folder.probe(shell)
    assert parse(told).etcd_identity == LogIdentity(0xC0FFEE, 0xFEDCBA9876543210)
    head = next(line for line in told.splitlines() if line.startswith(b"etcd_identity")).split(b"\t")[2]
    assert len(base64.b64decode(head)) <= 56
    shutil.rmtree(folder.root / "var/lib/etcd/member/wal")
    assert parse(folder.probe(shell)).etcd_identity == Absent()


INTERFACES = """1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever preferred_lft forever
2: eth0    inet6 fd00::1/64 scope global \\       valid_lft forever preferred_lft forever
7: kube-ipvs0    inet 10.96.0.1/32 scope global kube-ipvs0\\       valid_lft forever preferred_lft forever
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_by_what_a_machine_is_told_from_others(folder: Folder, shell: str) -> None:
    folder.file("etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAAC3Nz root@cp-1\n")
    folder.file("sys/class/dmi/id/product_uuid", "4c4c4544-0031\n")
    folder.program("ip", f"cat <<'END'\n{INTERFACES}END")
    facts = parse(folder.probe(shell))
    assert (facts.ssh_host_key, facts.product_uuid) == ("AAAAC3Nz", "4c4c4544-0031")
    assert facts.addresses == frozenset({"127.0.0.1", "10.0.0.1", "fd00::1"})
    folder.program("ip", "exit 1")
    assert isinstance(parse(folder.probe(shell)).addresses, Unknown)


MOUNTED = """apiVersion: v1
kind: Pod
spec:
  containers:
  - command:
    - etcd
    - --data-dir=/var/lib/etcd
    - --wal-dir=/fast/wal
    livenessProbe:
      httpGet:
        path: /livez
    name: etcd
    volumeMounts:
    - mountPath: /var/lib/etcd
      name: etcd-data
    - name: fast
      mountPath: "/fast"
  volumes:
  - hostPath:
      path: /srv/data/etcd
      type: DirectoryOrCreate
    name: etcd-data
  - name: fast
    hostPath: {path: /ignored}
  - name: fast
    hostPath:
      path: /mnt/nvme
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_etcd_data_is_looked_for_where_its_manifest_mounts_it_from(folder: Folder, shell: str) -> None:
    joined(folder)
    folder.file("etc/kubernetes/manifests/etcd.yaml", MOUNTED)
    folder.file("srv/data/etcd/member/snap/db", "x")
    folder.file("mnt/nvme/wal/0-0.wal", etcd_log(5))
    facts = parse(folder.probe(shell))
    assert (facts.etcd_folder, facts.etcd_data, facts.etcd_identity) == ("/srv/data/etcd", EtcdData.MEMBER, LogIdentity(5, 77))


def test_etcd_data_is_looked_for_where_its_manifest_says(folder: Folder) -> None:
    folder.file("etc/kubernetes/manifests/etcd.yaml", manifest("etcd:3.6.5-0", "--data-dir=/data/etcd"))
    (folder.root / "data/etcd").mkdir(parents=True)
    assert parse(folder.probe()).etcd_data is EtcdData.EMPTY


def test_endpoints_are_asked_where_the_configuration_says(
    folder: Folder, server: ThreadingHTTPServer, answers: dict[str, tuple[int, str]]
) -> None:
    port = server.server_port
    answers["/healthz"] = (200, "ok")
    answers["/health"] = (503, '{"health":"false","reason":"RAFT NO LEADER"}')
    folder.listen(port)
    folder.file("var/lib/kubelet/config.yaml", f"healthzBindAddress: 127.0.0.1\nhealthzPort: {port}\n")
    folder.file("etc/kubernetes/manifests/etcd.yaml", manifest("etcd:3.6.5-0", f"--listen-metrics-urls=http://127.0.0.1:{port}"))
    folder.file("etc/kubernetes/manifests/kube-apiserver.yaml", manifest("kube-apiserver:v1.34.4", f"--secure-port={port}"))
    facts = parse(folder.probe())
    assert facts.kubelet_healthz == Answer(200, "ok")
    assert facts.etcd_health == Answer(503, '{"health":"false","reason":"RAFT NO LEADER"}')
    assert isinstance(facts.api_server_livez, Unknown), "it does not speak TLS"


@pytest.mark.parametrize("trusted", [True, False])
def test_the_api_server_is_asked_by_its_name_with_certificates_checked_both_ways(
    folder: Folder, server: ThreadingHTTPServer, answers: dict[str, tuple[int, str]], trusted: bool, tmp_path: Path
) -> None:
    now = datetime.now(UTC)  # curl and the server look at the clock
    ours, another = (generate_ca(KeyAlgorithm.ECDSA_P256, now=now) for _ in range(2))
    valid: dict[str, Any] = {
        "algorithm": KeyAlgorithm.ECDSA_P256,
        "not_before": now - timedelta(hours=1),
        "not_after": now + timedelta(hours=1),
    }
    prober = issue_client(ours, common_name="kube-apiserver-kubelet-client", **valid)
    shown = issue_server(ours if trusted else another, common_name="kube-apiserver", dns_names=["kubernetes"], **valid)
    speak_tls(server, tmp_path, shown, ours)
    answers["/livez"] = (200, "ok")
    answers["/readyz"] = (500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed")
    folder.listen(server.server_port)
    folder.file("etc/kubernetes/pki/ca.crt", ours.certificate)
    folder.file("etc/kubernetes/pki/apiserver-kubelet-client.crt", prober.certificate)
    folder.file("etc/kubernetes/pki/apiserver-kubelet-client.key", prober.key)
    folder.file("etc/kubernetes/manifests/kube-apiserver.yaml", manifest("kube-apiserver:v1.34.4", f"--secure-port={server.server_port}"))
    facts = parse(folder.probe())
    if trusted:
        assert facts.api_server_livez == Answer(200, "ok")
        assert facts.api_server_readyz == Answer(500, "[-]etcd failed: reason withheld readyz check failed")
    else:
        assert isinstance(facts.api_server_livez, Unknown), "somebody else's API server says nothing of this host"


def test_an_endpoint_without_curl_is_unknown_only_where_something_listens(folder: Folder) -> None:
    (folder.programs / "curl").unlink()
    folder.listen(10248)
    folder.file("etc/kubernetes/manifests/kube-apiserver.yaml", manifest("kube-apiserver:v1.34.4"))
    facts = parse(folder.probe())
    assert facts.kubelet_healthz == Unknown("there is no curl on the host")
    assert facts.api_server_readyz == Absent()


def test_processes_are_found_in_containers_too_by_the_name_the_kernel_keeps(folder: Folder) -> None:
    folder.file("proc/712/comm", "kube-controller\n")
    folder.file("proc/713/comm", "kubeadm\n")
    assert parse(folder.probe()).processes == frozenset({"kube-controller-manager", "kubeadm"})


def test_an_interrupted_upgrade_is_seen_by_what_it_left(folder: Folder) -> None:
    (folder.root / "etc/kubernetes/tmp/kubeadm-upgraded-manifests123").mkdir(parents=True)
    assert parse(folder.probe()).kubeadm_leftovers == ("kubeadm-upgraded-manifests123",)


def test_who_is_not_root_is_told_so_and_gets_no_facts(folder: Folder) -> None:
    folder.program("id", "echo 1000")
    outcome = folder.run()
    assert (outcome.returncode, outcome.stdout) == (77, b"")
    assert b"needs root" in outcome.stderr


def test_a_second_probe_tells_the_same_and_leaves_no_file(folder: Folder) -> None:
    installed(folder)
    folder.program("date", "echo 1")
    before = sorted(folder.root.rglob("*"))
    first = sorted(folder.probe().splitlines())
    assert sorted(folder.probe().splitlines()) == first
    assert sorted(folder.root.rglob("*")) == before


def test_the_script_runs_as_it_is_sent_over_ssh(folder: Folder) -> None:
    joined(folder)
    payload = Order(script(), b"", 30, 8, sudo=False).payload
    outcome = subprocess.run(
        ["/bin/sh", "-s", str(folder.root)], input=payload, env={"PATH": str(folder.programs)}, capture_output=True, timeout=50, check=True
    )
    assert parse(outcome.stdout).etcd_data is EtcdData.MEMBER
