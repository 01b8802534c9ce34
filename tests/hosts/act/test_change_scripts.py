"""The scripts of steps that change a host, run by this machine's sh in a folder: manifests by the real kubeadm, and stand-ins for containerd and systemd."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from quorate.core.hosts.steps import Reconfigure
from quorate.hosts.act import containers, kubelet, programs, serving_certificate, upgrade
from quorate.hosts.act.component_manifests import _NEW_FOLDER, CONFIGURATION, FOLDER, _take_place
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.kubeadm import LOG
from quorate.hosts.act.reconfigure import _KEEP_KUBELET_CONFIGURATION, _restart_kubelet
from quorate.hosts.render.host_files import HostFile
from quorate.pki.certificates import read_certificates, verify_pair
from quorate.pki.keys import KeyPair
from quorate.workload.static_pods import Component
from tests.hosts.act.running import running, tools
from tests.hosts.act.test_settings import configured
from tests.hosts.act.world import pki_files
from tests.hosts.scripts import FakeHost, parses

KUBEADM = Path(__file__).parents[3] / ".bin" / "kubeadm"
MANIFESTS = "/etc/kubernetes/manifests"
CTR = """\
case "$*" in
    *"tasks ls"*) printf 'TASK PID STATUS\\naaa 11 RUNNING\\nbbb 12 STOPPED\\nccc 13 RUNNING\\n' ;;
    *"containers ls"*) printf 'aaa\\nbbb\\n' ;;
esac"""
CONFIGURATION_DOCUMENTS = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 10.0.0.2}
nodeRegistration: {name: h2, criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.34.4
apiServer: {extraArgs: [{name: profiling, value: "false"}]}
"""


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    made = FakeHost(tmp_path / "root", tmp_path / "programs")
    made.root.mkdir()
    (made.root / "run").mkdir()
    made.program("ctr", CTR)
    made.program("systemctl")
    return made


def run(host: FakeHost, script: str) -> subprocess.CompletedProcess[str]:
    for folder in ("/var/", "/run/"):
        script = script.replace(folder, f"{host.root}{folder}")
    done = host.run(script)
    assert done.returncode == 0, done.stderr
    return done


# Containers.


def test_only_containers_of_the_component_that_run_are_told(host: FakeHost) -> None:
    assert run(host, containers.listing("h2", Component.ETCD)).stdout == "aaa\n"
    asked = next(call for call in host.calls if "containers ls" in call)
    assert 'labels."io.kubernetes.pod.name"==etcd-h2' in asked
    assert 'labels."io.kubernetes.pod.namespace"==kube-system' in asked


def test_only_containers_that_run_are_ended(host: FakeHost) -> None:
    run(host, containers.ending("h2", Component.ETCD))
    assert [call for call in host.calls if "kill" in call] == ["ctr -n k8s.io tasks kill --signal SIGTERM aaa"]


def ends_by_force(host: FakeHost, ids: set[str], *, silent: bool, gone_is_enough: bool = True) -> list[str]:
    host.program("curl", "exit 7" if silent else "")
    host.program("sleep")
    run(host, containers.ending_once_quiet(ids, gone_is_enough=gone_is_enough))
    return [call.split()[-1] for call in host.calls if "SIGKILL" in call]


def test_an_old_api_server_is_ended_by_force_once_it_is_silent(host: FakeHost) -> None:
    assert ends_by_force(host, {"aaa"}, silent=True) == ["aaa"]
    assert sum(call.startswith("curl") for call in host.calls) == containers.QUIET_SECONDS * containers.LOOKS_A_SECOND


def test_one_that_still_serves_is_not_ended_by_force_however_long_it_does(host: FakeHost) -> None:
    assert ends_by_force(host, {"aaa"}, silent=False) == []


def test_one_that_has_ended_is_not_waited_for(host: FakeHost) -> None:
    assert ends_by_force(host, {"bbb", "ddd"}, silent=True) == []
    assert not any(call.startswith("curl") for call in host.calls)


def test_where_load_balancers_have_to_notice_nobody_listens_for_as_long_although_it_has_ended(host: FakeHost) -> None:
    ends_by_force(host, {"bbb"}, silent=True, gone_is_enough=False)
    assert sum(call.startswith("curl") for call in host.calls) == containers.QUIET_SECONDS * containers.LOOKS_A_SECOND


LISTENING = """\
if [ -e {root}/ends ] && echo . >>{root}/looks && [ "$(wc -l <{root}/looks)" -gt 3 ]; then exit 7; fi"""
"""An API server that listens until it was told to end, and was looked at three times since."""


def listens(host: FakeHost) -> None:
    host.program("curl", LISTENING.format(root=host.root))
    host.program("ctr", f'{CTR}\ncase "$*" in *"kill --signal SIGTERM"*) touch {host.root}/ends ;; esac')
    host.program("sleep")


def test_an_api_server_that_makes_way_for_etcd_is_waited_for_until_it_listens_no_more(host: FakeHost) -> None:
    listens(host)
    run(host, containers.ending_to_listen("h2"))
    assert [call for call in host.calls if "kill" in call] == ["ctr -n k8s.io tasks kill --signal SIGTERM aaa"]
    assert sum(call.startswith("curl") for call in host.calls) == 4


def test_one_that_listens_on_is_not_waited_for_forever(host: FakeHost) -> None:
    host.program("curl")
    host.program("sleep")
    run(host, containers.ending_to_listen("h2"))


# Manifests.


def generate(host: FakeHost, component: Component, files: tuple[HostFile, ...] = ()) -> None:
    """What a step runs on a host for one component, around the real kubeadm."""
    phase = {Component.ETCD: "etcd local", Component.API_SERVER: "control-plane apiserver"}[component]
    if not KUBEADM.exists():
        pytest.skip(f"{KUBEADM} is missing: make programs")
    host.file(CONFIGURATION, CONFIGURATION_DOCUMENTS)
    kubeadm = f"{KUBEADM} init phase {phase} --dry-run --config {CONFIGURATION} >/dev/null"
    run(host, f"{_NEW_FOLDER}\n{kubeadm}\n{_take_place('h2', component, files)}")


def changed(host: FakeHost, component: Component) -> bool:
    return (host.root / FOLDER.lstrip("/") / f"{component}.before").exists()


def test_a_manifest_that_differs_takes_the_old_ones_place_and_the_old_one_is_kept(host: FakeHost) -> None:
    old = host.file(f"{MANIFESTS}/kube-apiserver.yaml", "old\n")
    generate(host, Component.API_SERVER)
    assert "--profiling=false" in old.read_text()
    assert old.stat().st_mode & 0o777 == 0o600
    kept = host.root / FOLDER.lstrip("/")
    assert (kept / "kube-apiserver.before").read_text() == "old\n"
    assert (kept / "kube-apiserver.containers").read_text() == "aaa\n"
    assert sorted(path.name for path in old.parent.iterdir()) == ["kube-apiserver.yaml"]


def test_a_manifest_that_is_right_is_left_alone(host: FakeHost) -> None:
    host.file(f"{MANIFESTS}/kube-apiserver.yaml", "old\n")
    generate(host, Component.API_SERVER)
    (host.root / FOLDER.lstrip("/") / "kube-apiserver.before").unlink()
    before = (host.root / MANIFESTS.lstrip("/") / "kube-apiserver.yaml").stat()
    generate(host, Component.API_SERVER)
    assert not changed(host, Component.API_SERVER)
    assert (host.root / MANIFESTS.lstrip("/") / "kube-apiserver.yaml").stat().st_ino == before.st_ino


@pytest.mark.parametrize("joined", [True, False], ids=["one that joined", "the founder"])
def test_etcds_manifest_keeps_the_members_that_it_was_started_with(host: FakeHost, joined: bool) -> None:
    first = host.file(f"{MANIFESTS}/etcd.yaml", "")
    generate(host, Component.ETCD)
    fresh = first.read_text()
    assert "--initial-cluster=h2=https://10.0.0.2:2380" in fresh
    own = "    - --initial-cluster=h2=https://10.0.0.2:2380\n"
    members = "    - --initial-cluster=h1=https://10.0.0.1:2380,h2=https://10.0.0.2:2380\n    - --initial-cluster-state=existing\n"
    as_it_was = fresh.replace(own, members) if joined else fresh
    first.write_text(as_it_was)
    (host.root / FOLDER.lstrip("/") / "etcd.before").unlink()
    generate(host, Component.ETCD)
    assert first.read_text() == as_it_was
    assert not changed(host, Component.ETCD)
    upgraded = as_it_was.replace("    - --snapshot-count=10000\n", "").replace("    image:", "    - --snapshot-count=10000\n    image:")
    first.write_text(upgraded)
    generate(host, Component.ETCD)
    assert first.read_text() == upgraded, "another order is no difference"
    first.write_text(as_it_was.replace("--snapshot-count=10000", "--snapshot-count=9"))
    generate(host, Component.ETCD)
    assert first.read_text() == as_it_was


def test_the_api_server_listens_no_more_when_etcds_manifest_is_replaced(host: FakeHost) -> None:
    listens(host)
    old = host.file(f"{MANIFESTS}/etcd.yaml", "old\n")
    noted = f'case "$*" in *SIGTERM*) cp {old} {host.root}/then ;; esac'
    host.program("ctr", f"{CTR}\n{noted}\ntouch {host.root}/ends")
    generate(host, Component.ETCD)
    assert (host.root / "then").read_text() == "old\n", "it is told to end before"
    assert (host.root / "looks").read_text().count(".") == 4
    assert "--name=h2" in old.read_text()
    assert (host.root / FOLDER.lstrip("/") / "etcd.containers").read_text().split() == ["aaa", "aaa"], "etcd's, and the API server's"
    (host.root / FOLDER.lstrip("/") / "etcd.before").unlink()
    (host.root / "then").unlink()
    generate(host, Component.ETCD)
    assert not (host.root / "then").exists(), "what stays ends nothing"


@pytest.mark.parametrize("folder", ["/srv/etcd", "/var/lib/etcd"])
def test_etcds_manifest_is_not_replaced_by_one_that_looks_for_its_data_elsewhere(host: FakeHost, folder: str) -> None:
    old = host.file(f"{MANIFESTS}/etcd.yaml", f"    - --data-dir={folder}\n    - --name=h2\n")
    host.file(f"{FOLDER}/new/etcd.yaml", "    - --data-dir=/var/lib/etcd\n    - --name=h2\n    - --quota-backend-bytes=9\n")
    done = host.run(_take_place("h2", Component.ETCD, ()))
    moves = folder != "/var/lib/etcd"
    assert (done.returncode != 0) is moves
    assert ("--quota-backend-bytes" in old.read_text()) is not moves
    assert ("the --data-dir of etcd is /srv/etcd, and /var/lib/etcd in its new manifest" in done.stderr) is moves


@pytest.mark.parametrize(
    ("component", "found", "wanted"),
    [
        (Component.ETCD, "--wal-dir=/var/lib/etcd/wal", ""),
        (Component.ETCD, "", "--wal-dir=/fast"),
        (Component.API_SERVER, "'--etcd-prefix=/k8s'", "--etcd-prefix=/registry"),
        (Component.API_SERVER, "--etcd_prefix=/k8s", ""),
        (Component.API_SERVER, "--etcd-servers-overrides=/events#https://10.0.0.9:2379", ""),
    ],
)
def test_no_manifest_is_replaced_by_one_that_looks_elsewhere_for_what_is_stored(
    host: FakeHost, component: Component, found: str, wanted: str
) -> None:
    def text(flag: str) -> str:
        return "    - --data-dir=/var/lib/etcd\n" + (f"    - {flag}\n" if flag else "")

    old = host.file(f"{MANIFESTS}/{component}.yaml", text(found))
    host.file(f"{FOLDER}/new/{component}.yaml", text(wanted))
    done = host.run(_take_place("h2", component, ()))
    assert (done.returncode, old.read_text()) == (1, text(found))
    flag = (found or wanted).strip("'").partition("=")[0].replace("_", "-")
    assert f"the {flag} of {component} is" in done.stderr
    host.file(f"{FOLDER}/new/{component}.yaml", text(found.strip("'")))
    assert host.run(_take_place("h2", component, ())).returncode == 0


PS = """\
case "$*" in
    *"-p 1"*) echo '        11' ;;
    *) printf '%s\\n' '        11     100' '4026532777   86400' ;;
esac"""
"""The host's own API server runs for 100 s, and one of another cluster, in a Pod, for a day."""


def test_the_api_server_restarts_for_a_file_that_is_younger_than_it_and_for_no_other(host: FakeHost) -> None:
    policy = HostFile("/etc/kubernetes/audit/policy.yaml", b"rules: []")
    provider = HostFile("/etc/kubernetes/encryption-providers/encryption-providers.yaml", b"keys")
    placed = host.place(policy)
    long_ago = placed.stat().st_mtime - 1000
    os.utime(host.place(provider), (long_ago, long_ago))
    host.program("ps", PS)
    host.file(f"{MANIFESTS}/kube-apiserver.yaml", "old\n")
    generate(host, Component.API_SERVER)
    (host.root / FOLDER.lstrip("/") / "kube-apiserver.before").unlink()
    for file in (placed, host.root / MANIFESTS.lstrip("/") / "kube-apiserver.yaml"):
        os.utime(file, (long_ago, long_ago))
    generate(host, Component.API_SERVER, (policy, provider))
    assert not changed(host, Component.API_SERVER)
    placed.touch()
    generate(host, Component.API_SERVER, (policy, provider))
    assert changed(host, Component.API_SERVER)
    assert any("kill" in call for call in host.calls)


# The API server's certificate.


@pytest.mark.parametrize("full", [True, False], ids=["the disk is full", "kubeadm has room"])
def test_the_certificate_that_serves_stays_until_kubeadm_has_made_the_next(host: FakeHost, full: bool) -> None:
    if not KUBEADM.exists():
        pytest.skip(f"{KUBEADM} is missing: make programs")
    pki = host.root / "etc/kubernetes/pki"
    folder = f"{host.root}{serving_certificate.FOLDER}"
    for path, content in pki_files().items():
        host.file(path, content.decode())
    old = {name: host.file(f"/etc/kubernetes/pki/{name}", "old").stat().st_ino for name in ("apiserver.crt", "apiserver.key")}
    configuration = host.file(
        serving_certificate.CONFIGURATION,
        f"{CONFIGURATION_DOCUMENTS.replace('apiServer: {', 'apiServer: {certSANs: [new.example.com], ')}certificatesDir: {folder}\n",
    )
    run(host, serving_certificate._BESIDE)
    made = subprocess.run(
        [KUBEADM, "init", "phase", "certs", "apiserver", "--config", str(configuration)], capture_output=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert {name: (pki / name).stat().st_ino for name in old} == old, "kubeadm has made the next one beside"
    if full:
        (host.root / serving_certificate.FOLDER.lstrip("/") / "apiserver.crt").unlink()
        assert host.run(serving_certificate._TAKE_PLACE).returncode != 0
        assert {name: (pki / name).stat().st_ino for name in old} == old
        return
    run(host, serving_certificate._TAKE_PLACE)
    certificate = read_certificates((pki / "apiserver.crt").read_bytes())[0]
    assert "new.example.com" in certificate.names
    verify_pair(KeyPair((pki / "apiserver.crt").read_bytes(), (pki / "apiserver.key").read_bytes()))
    assert (pki / "apiserver.key").stat().st_mode & 0o777 == 0o600
    assert not (host.root / serving_certificate.FOLDER.lstrip("/")).exists()
    assert (pki / "ca.key").read_bytes() == pki_files()["/etc/kubernetes/pki/ca.key"], "the CA is as it was"


# The kubelet.


@pytest.mark.parametrize(("after", "restarts"), [("maxPods: 110\n", False), ("maxPods: 200\n", True)])
def test_the_kubelet_restarts_only_with_another_configuration(host: FakeHost, after: str, restarts: bool) -> None:
    config = host.file("/var/lib/kubelet/config.yaml", "maxPods: 110\n")
    run(host, f"{_KEEP_KUBELET_CONFIGURATION}\nprintf '%s' '{after}' >/var/lib/kubelet/config.yaml\n{_restart_kubelet(('max-pods',))}")
    assert (("systemctl restart kubelet" in host.calls), config.read_text()) == (restarts, after)
    assert list((host.root / "run").iterdir()) == []


FLAGS = 'KUBELET_KUBEADM_ARGS="{}--node-ip=10.0.0.1 --v=2"\n'


@pytest.mark.parametrize("found", ["--max-pods=50 ", "--eviction-hard=memory.available<100Mi,nodefs.available<5% --max-pods=50 "])
def test_flags_that_overrule_the_kubelets_configuration_go_and_others_stay(host: FakeHost, found: str) -> None:
    host.file("/var/lib/kubelet/config.yaml", "maxPods: 110\n")
    flags = host.file("/var/lib/kubelet/kubeadm-flags.env", FLAGS.format(found))
    for _ in range(2):
        run(host, f"{_KEEP_KUBELET_CONFIGURATION}\n{_restart_kubelet(('eviction-hard', 'max-pods'))}")
    assert flags.read_text().replace('"', " ").split() == FLAGS.format("").replace('"', " ").split()
    assert host.calls == ["systemctl restart kubelet"]
    assert list((host.root / "run").iterdir()) == []


def restarts(host: FakeHost, curl: str) -> int:
    """Run what restarts a kubelet of another minor version, for its exit status; `curl` answers for the API server, and then for the kubelet."""
    host.program("curl", curl)
    host.program("sleep")
    host.file("/var/lib/kubelet/config.yaml")
    script = kubelet.restarting_with_static_pods("h2", frozenset({"aaa"})).replace("/var/", f"{host.root}/var/")
    return host.run(script).returncode


def acts(host: FakeHost) -> list[str]:
    return [call.removeprefix("ctr -n k8s.io tasks ") for call in host.calls if call.startswith("systemctl") or "kill" in call]


STARTED = ["systemctl daemon-reload", "systemctl restart kubelet"]


def test_no_kubelet_runs_that_would_start_another_api_server_and_other_pods_end_when_the_new_one_answers(host: FakeHost) -> None:
    assert restarts(host, 'case "$*" in *healthz*) ;; *) exit 7 ;; esac') == 0
    ended = ["systemctl stop kubelet", "kill --signal SIGTERM aaa", "kill --signal SIGKILL aaa"]
    assert acts(host) == [*ended, *STARTED, *["kill --signal SIGTERM aaa"] * 3]  # the stand-in has the same for each component


def test_a_kubelet_that_does_not_start_leaves_the_other_static_pods_running(host: FakeHost) -> None:
    assert restarts(host, "exit 7") == 0
    assert acts(host)[-2:] == STARTED


def test_the_kubelet_runs_again_where_that_is_cut_short(host: FakeHost) -> None:
    assert restarts(host, "kill $PPID") == 1
    assert acts(host)[-1] == "systemctl restart kubelet"


@pytest.mark.parametrize(
    ("log", "crictl", "told"),
    [
        ("[preflight] Pulling images", "", ""),
        (
            "\t[WARNING ImagePull]: failed to pull image a/etcd:1: no such host",
            "",
            "[ERROR ImagePull]: failed to pull image a/etcd:1: no such host\n",
        ),
        ("", "case $1 in inspecti) exit 1 ;; esac", ""),
        ("", "echo trying; echo 'no such host'; exit 1", "[ERROR ImagePull]: no such host\n"),
    ],
    ids=["all are there", "kubeadm lacks one", "that of the sandbox is pulled", "that of the sandbox is not to be had"],
)
def test_images_that_cannot_be_had_are_refused_with_the_reason(host: FakeHost, log: str, crictl: str, told: str) -> None:
    host.file(LOG, f"{log}\n")
    host.program("crictl", crictl)
    done = host.run(programs._REFUSING.format(log=f"{host.root}{LOG}", image="'a/pause:3'"))
    assert (bool(done.returncode), done.stderr) == (bool(told), told)


# What kubeadm leaves.


def test_the_last_copy_of_etcds_data_is_kept_and_unfinished_manifests_are_not(host: FakeHost) -> None:
    folder = host.root / "etc/kubernetes/tmp"
    for name in (
        "kubeadm-backup-etcd-2026-01-01-10-00-00",
        "kubeadm-backup-etcd-2026-02-01-10-00-00",
        "kubeadm-upgraded-manifests12",
        "quorate",
    ):
        (folder / name).mkdir(parents=True)
    run(host, upgrade._CLEAN)
    assert sorted(path.name for path in folder.iterdir()) == ["kubeadm-backup-etcd-2026-02-01-10-00-00", "quorate"]
    run(host, upgrade._CLEAN)


async def test_every_script_of_a_reconfiguration_can_be_read_by_sh_and_shows_nothing_in_quotes_that_end_early() -> None:
    world = configured()
    running(world, "h1").drifting = {Component.ETCD, Component.API_SERVER}
    await Executor(tools(world)).carry_out(Reconfigure("h1"), world.observed())
    for script in running(world, "h1").scripts:
        parses(script)
        assert not re.search(r"\{[a-z_]+\}", re.sub(r"\$\{[^}]*\}|printf %s '[^']*'", "", script)), script
