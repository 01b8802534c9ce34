"""The scripts of the steps, run by this machine's sh in a folder, with stand-ins for kubeadm and systemctl."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from quorate.core.hosts.encryption import IDENTITY, SECRETS, Configuration
from quorate.core.versions import Version
from quorate.hosts.act import kubeadm, reset
from quorate.hosts.act.keys import _READ
from quorate.hosts.act.placing import placing
from quorate.hosts.act.prepare import _RESTART, _UNTOUCHED, packages, preflight_documents
from quorate.hosts.act.services import _STATES
from quorate.hosts.act.tokens import new_token
from quorate.hosts.manifest.encryption import problems_of
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.kubeadm_configuration import Machine
from quorate.hosts.render.provider_files import generated, read, written
from tests.hosts.act.world import World, drawn, pki_files, tools_for
from tests.hosts.manifests import document, load
from tests.hosts.scripts import FakeHost, parses

KUBEADM = Path(__file__).parents[3] / ".bin" / "kubeadm"
V = Version.parse("v1.34.4")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host on which files belong to whoever runs the tests."""
    made = FakeHost(tmp_path / "root", tmp_path / "programs")
    made.root.mkdir()
    for name in ("systemctl", "ip", "nft", "ipvsadm", "iptables-save", "ip6tables-save", "iptables-restore", "ip6tables-restore"):
        made.program(name)
    return made


def run(host: FakeHost, script: str) -> subprocess.CompletedProcess[str]:
    """With the folders that only these scripts use below the root too."""
    for folder in ("/var/", "/run/"):
        script = script.replace(folder, f"{host.root}{folder}")
    (host.root / "run").mkdir(exist_ok=True)
    return host.run(script)


def mine(path: str, content: bytes, mode: int = 0o600) -> HostFile:
    return HostFile(path, content, mode, f"{pwd.getpwuid(os.geteuid()).pw_name}:{grp.getgrgid(os.getegid()).gr_name}")


# Files.


def test_files_are_placed_with_mode_and_content_and_not_again(host: FakeHost) -> None:
    files = [mine("/etc/kubernetes/pki/ca.key", b"\x00secret\n'quote'", 0o600), mine("/etc/a b/it's", b"", 0o644)]
    done = run(host, placing(files))
    assert done.returncode == 0, done.stderr
    key = host.root / "etc/kubernetes/pki/ca.key"
    assert key.read_bytes() == b"\x00secret\n'quote'"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert (host.root / "etc/a b/it's").read_bytes() == b""
    assert len(done.stdout.splitlines()) == 2
    inode = key.stat().st_ino
    assert run(host, placing(files)).stdout == ""
    assert key.stat().st_ino == inode


def test_another_mode_or_content_is_a_change_and_nothing_temporary_stays(host: FakeHost) -> None:
    run(host, placing([mine("/etc/x", b"old", 0o644)]))
    assert run(host, placing([mine("/etc/x", b"old", 0o600)])).stdout.startswith("changed file")
    assert run(host, placing([mine("/etc/x", b"new", 0o600)])).stdout.startswith("changed file")
    assert [path.name for path in (host.root / "etc").iterdir()] == ["x"]


def test_a_file_that_cannot_be_placed_ends_the_script(host: FakeHost) -> None:
    host.file("/etc/x/in-the-way")
    done = run(host, f"{placing([mine('/etc/x', b'1'), mine('/etc/y', b'2')])}\necho reached")
    assert done.returncode != 0
    assert "reached" not in done.stdout
    assert not (host.root / "etc/y").exists()


@pytest.mark.parametrize("failing", ["mktemp", "base64", "chown", "chmod", "sync", "mv"])
def test_a_file_keeps_its_old_content_whatever_fails_on_the_way_to_the_new(host: FakeHost, failing: str) -> None:
    run(host, placing([mine("/etc/x", b"old", 0o600)]))
    host.program(failing, "echo No space left on device >&2; exit 1")
    done = run(host, f"{placing([mine('/etc/x', b'new', 0o644)])}\necho reached")
    assert done.returncode != 0
    assert "reached" not in done.stdout
    assert [(path.name, path.read_bytes()) for path in (host.root / "etc").iterdir()] == [("x", b"old")]


def test_content_that_arrives_in_part_is_not_put_in_place(host: FakeHost) -> None:
    host.program("base64", "printf ne")
    done = run(host, placing([mine("/etc/x", b"new")]))
    assert "did not arrive as a whole" in done.stderr
    assert list((host.root / "etc").iterdir()) == []


def test_nobody_else_can_read_a_file_before_it_has_its_mode(host: FakeHost) -> None:
    host.program("chown", 'stat -c %a -- "$3" >&2; exit 1')
    assert run(host, placing([mine("/etc/x", b"secret", 0o600)])).stderr.splitlines()[0] == "600"


def test_a_link_is_replaced_and_what_it_led_to_is_left_alone(host: FakeHost) -> None:
    target = host.file("/etc/target", "old")
    (host.root / "etc/link").symlink_to(target)
    run(host, placing([mine("/etc/link", b"new")]))
    link = host.root / "etc/link"
    assert (link.read_text(), target.read_text(), link.is_symlink()) == ("new", "old", False)


@pytest.mark.parametrize("owner", ["", "root:", "root; reboot", "$(reboot)"])
def test_an_owner_that_is_none_is_refused(owner: str) -> None:
    with pytest.raises(ValueError, match="is not an owner"):
        placing([HostFile("/etc/x", b"", 0o600, owner)])


# kubeadm.


@pytest.fixture
def tools() -> Any:
    return tools_for(World(load(document())))


def test_kubeadms_words_go_to_a_log_that_root_alone_reads(host: FakeHost, tools: Any) -> None:
    host.program("kubeadm", "echo '[init] words'; echo more >&2")
    done = run(host, kubeadm.script(tools, kubeadm.Command("init --config x", "it")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    log = host.root / kubeadm.LOG.lstrip("/")
    assert log.read_text() == "[init] words\nmore\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert host.calls == ["kubeadm init --config x"]


def test_what_comes_after_is_done_whatever_kubeadm_does(host: FakeHost, tools: Any) -> None:
    host.program("kubeadm", f'cat "{host.root}/etc/token" >/dev/null && echo "error execution phase x: no" && exit 3')
    command = kubeadm.Command("join", "it", before=placing([mine("/etc/token", b"secret")]), after="rm -f -- /etc/token")
    done = run(host, kubeadm.script(tools, command))
    assert done.returncode == 3
    assert "error execution phase x: no" in done.stderr
    assert not (host.root / "etc/token").exists()


# What kubeadm waits for by itself, in minutes, and how often (kubeadm 1.34 and 1.35, cmd/kubeadm/app/constants/constants.go).
API, ETCD, HEALTH, FIND, BOOTSTRAP, MANIFEST = 1, 2, 4, 5, 5, 5
WAITS = {
    "init": 2 * HEALTH + 35 * API,  # the kubelet, and all components at once; roles, configurations, add-ons
    "join": 2 * FIND + 2 * HEALTH + BOOTSTRAP + 7 * API + 7 * ETCD + 8 * ETCD + 7 * 5 / 60,  # etcd is tried 8 times, 5 s apart
    "upgrade": 3 / 4 + 12 * MANIFEST + 32 * API + 3 * ETCD + 10 * ETCD + 9 * 15 / 60,  # three static Pods, etcd's; 10 times, 15 s apart
}


@pytest.mark.parametrize("command", WAITS)
def test_kubeadm_is_never_ended_while_it_may_still_wait_for_something(command: str) -> None:
    assert WAITS[command] * 60 < kubeadm.DEADLINE


def test_kubeadm_reads_what_it_is_given_on_stdin(host: FakeHost, tools: Any) -> None:
    host.program("kubeadm", f'cat >"{host.root}/given"')
    script = kubeadm.script(tools, kubeadm.Command("init phase preflight --config /dev/stdin", "it"))
    run(host, f"printf configuration | {{\n{script}\n}}")
    assert (host.root / "given").read_text() == "configuration"


def test_a_second_kubeadm_waits_for_the_first(host: FakeHost, tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeadm, "TIMEOUT", 0)
    host.program(
        "kubeadm", f'[ ! -e "{host.root}/second" ]; touch "{host.root}/started"; while [ ! -e "{host.root}/go" ]; do sleep 0.05; done'
    )
    script = (
        kubeadm.script(tools, kubeadm.Command("join", "it")).replace("/var/", f"{host.root}/var/").replace("/run/", f"{host.root}/run/")
    )
    (host.root / "run").mkdir()
    environment = {"PATH": f"{host.programs}:{os.environ['PATH']}"}
    with subprocess.Popen(["sh", "-c", f"set -eu\n{script}"], env=environment) as first:
        deadline = time.monotonic() + 10
        while not (host.root / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        second = subprocess.run(["sh", "-c", f"set -eu\n{script}"], env=environment, timeout=20, check=False)
        (host.root / "go").touch()
        assert first.wait(10) == 0
    assert second.returncode == kubeadm.BUSY
    assert host.calls == ["kubeadm join"]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (
            ("a", "error execution phase certs: no space", "To see the stack trace of this error execute with --v=5 or higher"),
            "error execution phase certs: no space",
        ),
        (("error: timed out",), "timed out"),
        (("something else",), "something else"),
        ((), "kubeadm gave no reason"),
    ],
)
def test_the_complaint_is_found_in_the_log(words: tuple[str, ...], cause: str) -> None:
    assert kubeadm.explanation(words)[0] == cause


# Reset.


def test_reset_never_lets_kubeadm_touch_etcd_and_leaves_what_is_not_the_clusters(host: FakeHost) -> None:
    host.program("kubeadm")
    host.program("iptables-save", "printf '%s\\n' '*nat' ':KUBE-SERVICES - [0:0]' '-A OUTPUT -j KUBE-SERVICES' '-A OUTPUT -j MINE' COMMIT")
    host.program("iptables-restore", f'cat >"{host.root}/rules"')
    for path in (
        "pki/ca.key",
        "quorate/join.yaml",
        "encryption-providers/encryption-providers.yaml",
        "kubelet.conf",
        "manifests/etcd.yaml",
    ):
        host.file(f"/etc/kubernetes/{path}", "x")
    host.file("/var/lib/etcd/member/snap/db", "data")
    mine_ = [host.file("/etc/cni/net.d/10-mine.conflist"), host.file("/var/lib/other"), host.file("/etc/containerd/config.toml")]
    done = run(host, reset.script("/var/lib/etcd"))
    assert done.returncode == 0, done.stderr
    call = next(call for call in host.calls if call.startswith("kubeadm"))
    assert "--skip-phases=remove-etcd-member" in call
    assert not (host.root / "var/lib/etcd/member").exists()
    left = {str(path.relative_to(host.root)) for path in (host.root / "etc/kubernetes").rglob("*") if path.is_file()}
    assert left == set()
    assert all(path.exists() for path in mine_)
    assert (host.root / "rules").read_text() == "*nat\n-A OUTPUT -j MINE\nCOMMIT\n"
    assert run(host, reset.script("/var/lib/etcd")).returncode == 0, "a second reset finds nothing to do"


def test_reset_empties_the_folder_that_the_host_has_its_data_in(host: FakeHost) -> None:
    host.program("kubeadm")
    elsewhere, usual = host.file("/var/lib/own/etcd/member/snap/db"), host.file("/var/lib/etcd/member/snap/db")
    assert run(host, reset.script("/var/lib/own/etcd")).returncode == 0
    assert (elsewhere.exists(), usual.exists()) == (False, True)


@pytest.mark.parametrize("cut", [False, True])
def test_reset_empties_the_folder_of_the_log_and_of_nothing_else_in_it(host: FakeHost, cut: bool) -> None:
    host.program("kubeadm", "exit 1" if cut else "")
    for path in ("/var/lib/etcd/member/snap/db", "/var/lib/etcd/wal/0.wal", "/var/lib/etcd/wal/1.tmp"):
        host.file(path)
    script = reset.script("/var/lib/etcd", f"{host.root}/var/lib/etcd/wal").replace(f"{host.root}", "")
    if cut:
        assert run(host, script).returncode != 0
        host.program("kubeadm")
        script = reset.script("/var/lib/etcd")  # its manifest, which told of it, is gone
    assert run(host, script).returncode == 0
    assert list((host.root / "var/lib/etcd").iterdir()) == []
    mine_ = host.file("/var/lib/fast/mine")
    host.file("/var/lib/fast/0.wal")
    assert run(host, reset.script("/var/lib/etcd", "/var/lib/fast")).returncode == 0
    assert list(mine_.parent.iterdir()) == [mine_]


def test_a_reset_that_kubeadm_refuses_deletes_no_data(host: FakeHost) -> None:
    host.program("kubeadm", "echo cannot unmount; exit 1")
    data = host.file("/var/lib/etcd/member/snap/db")
    done = run(host, reset.script("/var/lib/etcd"))
    assert done.returncode != 0
    assert "cannot unmount" in done.stderr
    assert data.exists()


# Preparation.


@pytest.mark.parametrize("path", ["kubelet.conf", "admin.conf", "manifests/etcd.yaml", "manifests/kube-apiserver.yaml"])
def test_a_host_that_belongs_to_a_cluster_by_now_is_not_prepared(host: FakeHost, path: str) -> None:
    host.file(f"/etc/kubernetes/{path}")
    done = run(host, f"{_UNTOUCHED}\necho reached")
    assert (done.stdout, done.returncode) == ("", 76)
    assert "belongs to a cluster" in done.stderr


def test_containerd_is_started_anew_only_for_a_configuration_that_it_has_not_read(host: FakeHost) -> None:
    script = _RESTART.format(configuration="/etc/containerd/config.toml", placing="", stale="")
    host.file("/etc/containerd/config.toml")
    for since, restarts in (("2000-01-01 00:00:00 UTC", True), ("2100-01-01 00:00:00 UTC", False)):
        host.program("systemctl", f'case "$1" in show) echo "{since}" ;; esac')
        (host.root / "calls").unlink(missing_ok=True)
        changes = host.changes(script)
        assert ("systemctl restart containerd" in host.calls) is restarts
        assert changes == (["changed unit containerd: restarted"] if restarts else [])


@pytest.mark.parametrize("system", [each for each in OperatingSystem if each not in (OperatingSystem.UNKNOWN, OperatingSystem.FLATCAR)])
@pytest.mark.parametrize("configure", [True, False])
def test_repositories_are_named_after_their_key_is_there_and_only_where_we_set_them_up(system: OperatingSystem, *, configure: bool) -> None:
    manifest = load(document(systemPackages={"configureRepositories": configure}))
    script = packages(manifest, system, {"kubeadm": V}, codename="trixie", lacks_containerd=True)
    parses(script)
    if not configure:
        assert "pkgs.k8s.io" not in script
        assert "docker.com" not in script
    elif system in (OperatingSystem.DEBIAN, OperatingSystem.UBUNTU):
        assert script.index("missing curl 'curl ca-certificates'") < script.index("core:/stable:/v1.34/deb/Release.key")
        assert script.index("Release.key") < script.index("place /etc/apt/sources.list.d/quorate-kubernetes.sources")
        assert script.index("place /etc/apt/sources.list.d/quorate-docker.sources") < script.index("missing containerd containerd.io")


@pytest.mark.skipif(not KUBEADM.exists(), reason="needs .bin/kubeadm (make programs)")
def test_kubeadm_takes_the_documents_of_the_preflight() -> None:
    manifest = load(document(controlPlane__hosts__0__kubelet={"maxPods": 100}))
    documents = preflight_documents(manifest, Machine(manifest.hosts[0], "h1", ("Swap",)))
    done = subprocess.run(
        [KUBEADM, "config", "validate", "--config", "/dev/stdin"], input=documents, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"ignorePreflightErrors" in documents


# The rest.


def test_the_cas_are_read_whole_or_not_at_all(host: FakeHost) -> None:
    for path, content in pki_files().items():
        host.file(path, content.decode())
    lines = host.changes(_READ)
    assert {line.split()[0] for line in lines} == {path.removeprefix("/etc/kubernetes/pki/") for path in pki_files()}
    (host.root / "etc/kubernetes/pki/sa.key").write_text("")
    done = host.run(_READ)
    assert done.returncode == 44
    assert "sa.key is missing or empty" in done.stderr


def test_a_unit_that_keeps_failing_does_not_run(host: FakeHost) -> None:
    host.program("systemctl", r"""case "$4" in kubelet) printf 'activating\nauto-restart\n' ;; *) printf 'active\nrunning\n' ;; esac""")
    script = _STATES.format(units="containerd kubelet")
    assert host.changes(script) == ["kubelet is activating auto-restart"]


def test_tokens_are_as_kubeadm_wants_them_and_never_shown() -> None:
    tokens = {new_token(draw).reveal() for draw in [drawn()] for _ in range(50)}
    for token in tokens:
        assert len(token) == 23
        assert token[6] == "."
        assert set(token) <= set("0123456789abcdefghijklmnopqrstuvwxyz.")
    assert len(tokens) == 50
    secret = new_token(drawn())
    assert secret.reveal() not in repr(secret)


def test_a_generated_provider_file_is_one_that_the_api_server_starts_with() -> None:
    key, entry = generated(drawn())
    made = written(Configuration.made({SECRETS: (key, IDENTITY)}), {key: entry})
    assert list(problems_of(made)) == []
    assert read(made.reveal().encode()).configuration.secrets == (key, IDENTITY)
    assert generated(bytes)[0] != key
