"""A host in a folder: the files that the probe reads, and programs that answer as its own would. Nothing of the machine that runs the tests shows."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from quorate.etcd.log_file import LogIdentity
from quorate.hosts.probe.probe import script
from quorate.pki.issue import generate_ca, issue_client
from quorate.pki.keys import KeyAlgorithm, KeyPair
from quorate.simulation.hosts.facts import log_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_TOOLS = (
    "awk",
    "base64",
    "cat",
    "curl",
    "cut",
    "date",
    "grep",
    "head",
    "ls",
    "readlink",
    "sed",
    "sha256sum",
    "sh",
    "sleep",
    "tail",
    "timeout",
    "tr",
    "wc",
)
SHELLS = tuple(shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell) and (shell != "busybox" or os.geteuid() == 0))
"""busybox may prefer its own programs to those in the PATH, its `id` among them, which does not say root for somebody else."""


def ca(name: str = "kubernetes") -> KeyPair:
    """One CA a name, the same at each call."""
    return _ca(name)


@cache
def _ca(name: str) -> KeyPair:
    return generate_ca(KeyAlgorithm.ECDSA_P256, now=NOW, common_name=name)


def client(issuer: str, node: str = "cp-1") -> KeyPair:
    """The kubelet's client certificate, which ends 365 days after NOW; the same at each call."""
    return _client(issuer, node)


@cache
def _client(issuer: str, node: str) -> KeyPair:
    start = NOW - timedelta(days=400)
    return issue_client(
        ca(issuer),
        common_name=f"system:node:{node}",
        algorithm=KeyAlgorithm.ECDSA_P256,
        not_before=start,
        not_after=NOW + timedelta(days=365),
    )


def kubeconfig(issuer: str = "kubernetes", *, node: str = "cp-1", client_file: str = "", server: str = "https://lb:6443") -> str:
    """As kubeadm writes it: the client's certificate and key inline, unless they are in a file."""
    pair = client(issuer, node)
    inline = f"    client-certificate-data: {_data(pair.certificate)}\n    client-key-data: {_data(pair.key)}\n"
    user = f"    client-certificate: {client_file}\n    client-key: {client_file}\n" if client_file else inline
    return (
        f"apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {_data(ca(issuer).certificate)}\n"
        f"    server: {server}\n  name: kubernetes\nkind: Config\nusers:\n- name: node\n  user:\n{user}"
    )


def manifest(image: str, *flags: str) -> str:
    """A static pod as kubeadm writes it, with a secret in its environment."""
    arguments = "".join(f"    - {flag}\n" for flag in flags)
    return (
        f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - command:\n    - program\n{arguments}"
        f"    env:\n    - name: HTTP_PROXY\n      value: http://user:hunter2@proxy\n    image: {image}\n"
    )


_HERE = b"<the folder of this host>"
_answers: dict[bytes, tuple[int, bytes, bytes]] = {}
"""What the script has said of hosts: it changes nothing, and most tests begin with the same ones. A run takes a third of a second, for 200 processes."""


class Folder:
    """The host's root folder, and beside it the programs in its PATH."""

    def __init__(self, path: Path) -> None:
        self.root = path / "root"
        self.programs = path / "programs"
        self.programs.mkdir(parents=True)
        for tool in _TOOLS:
            (self.programs / tool).symlink_to(shutil.which(tool) or f"/missing/{tool}")
        self.program("id", "echo 0")
        self.program("hostname", "echo cp-1.example.org")
        self.program("uname", "case $1 in -r) echo 6.1.0-32-amd64 ;; -m) echo aarch64 ;; -n) echo cp-1 ;; esac")
        self.file("var/lib/dpkg/status", "")
        self.program("dpkg-query", "exit 1")
        self.file("proc/swaps", "Filename Type Size Used Priority\n")
        self.file(
            "proc/net/tcp",
            "  sl  local_address rem_address   st\n   0: 00000000:0016 00000000:0000 0A\n   1: 0100007F:1234 0100007F:0016 01\n",
        )
        self.file("proc/1/comm", "systemd\n")
        self.file("proc/1/stat", "1 (a name) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 5000 174 3\n")
        self.file("proc/uptime", "93834.25 1.0\n")
        self.file("sys/module/overlay/refcnt", "1\n")

    def program(self, name: str, body: str) -> None:
        """Put a program into the PATH, in place of the link to the machine's own: writing through the link would change that."""
        path = self.programs / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def file(self, path: str, content: str | bytes) -> None:
        """Put a file into the root folder."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def listen(self, *ports: int) -> None:
        """Have the kernel's table say that these ports listen, on IPv6 as most programs do."""
        rows = "".join(f"   0: {'0' * 32}:{port:04X} {'0' * 32}:0000 0A\n" for port in ports)
        self.file("proc/net/tcp6", f"  sl\n{rows}")

    def probe(self, shell: str = "sh") -> bytes:
        """What the script prints, having ended well."""
        outcome = self.run(shell)
        assert (outcome.returncode, outcome.stderr) == (0, b"")
        return outcome.stdout

    def run(self, shell: str = "sh", text: str = "") -> subprocess.CompletedProcess[bytes]:
        """Run the script on stdin, as over SSH."""
        command = [shutil.which(shell) or shell, *(["sh"] if shell == "busybox" else []), "-s", str(self.root)]
        environment = {"PATH": str(self.programs), "LC_ALL": "C", "HOME": os.devnull}
        here = str(self.root.parent).encode()
        text = text or script()
        asked = hashlib.sha256(repr((shell, text, *self._content(here))).encode()).digest()
        if asked not in _answers:
            done = subprocess.run(command, input=text.encode(), env=environment, capture_output=True, timeout=50, check=False)
            _answers[asked] = (done.returncode, done.stdout.replace(here, _HERE), done.stderr.replace(here, _HERE))
        status, stdout, stderr = _answers[asked]
        return subprocess.CompletedProcess(command, status, stdout.replace(_HERE, here), stderr.replace(_HERE, here))

    def _content(self, here: bytes) -> Iterator[tuple[object, ...]]:
        """All that the script can find, in an order of its own: files by their content, and those of logs by their age, too."""
        for path in sorted((*self.root.rglob("*"), *self.programs.iterdir())):
            found = path.lstat()
            is_log = stat.S_ISREG(found.st_mode) and "log" in path.parts
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            yield path.relative_to(self.root.parent), found.st_mode, content.replace(here, _HERE), found.st_mtime_ns if is_log else 0


def installed(folder: Folder, version: str = "v1.34.4") -> None:
    """Give the host its packages, on Debian, with the kubelet's held, and units that run."""
    folder.file("etc/os-release", 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    folder.program("dpkg-query", r"printf 'containerd\tii \t1.6.20~ds1-1+b1\nkubelet\thi \t1.34.4-1.1\nkubectl\trc \t1.30.0-1.1\n'; exit 1")
    folder.program("kubelet", f"echo Kubernetes {version}")
    folder.program("kubeadm", f"echo {version}")
    folder.program("containerd", "echo containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1")
    folder.program("systemctl", f"cat <<'END'\n{units()}\nEND")


def units(kubelet: str = "ActiveState=active\nSubState=running") -> str:
    """What `systemctl show` says."""
    rest = "".join(
        f"\n\nId={name}.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead"
        for name in ("firewalld", "ufw", "nftables", "nm-cloud-setup")
    )
    return (
        "Id=containerd.service\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nNRestarts=0\n\n"
        f"Id=kubelet.service\nLoadState=loaded\n{kubelet}\nUnitFileState=enabled\nNRestarts=3{rest}"
    )


def etcd_log(member: int, cluster: int = 77) -> bytes:
    """The beginning of etcd's log for this member of this cluster: whose it is, and an entry with a Secret."""
    return log_of(LogIdentity(member, cluster), b"\x08\x02\x10\x09\x1a\x07hunter2")


def joined_worker(folder: Folder, issuer: str = "kubernetes", *, node: str, server: str = "https://lb:6443") -> None:
    """Give the host everything that `kubeadm join` leaves on a worker."""
    installed(folder)
    leaf = client(issuer, node)
    folder.file("var/lib/kubelet/pki/kubelet-client-current.pem", leaf.certificate + leaf.key)
    folder.file("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n")
    folder.file("var/lib/kubelet/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1"\n')
    own = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    folder.file("etc/kubernetes/kubelet.conf", kubeconfig(issuer, node=node, client_file=own, server=server))
    folder.file("etc/kubernetes/pki/ca.crt", ca(issuer).certificate)


def joined(
    folder: Folder,
    issuer: str = "kubernetes",
    *,
    node: str = "cp-1",
    founder: bool = False,
    member: int = 1,
    cluster: int = 77,
    server: str = "https://lb:6443",
) -> None:
    """Give the host everything that `kubeadm join` (or `init`, for the founder of the ring) leaves on a control plane host: this member of etcd is on it."""
    joined_worker(folder, issuer, node=node, server=server)
    folder.file("etc/kubernetes/admin.conf", kubeconfig(issuer, server=server))
    folder.file("etc/kubernetes/pki/ca.key", ca(issuer).key)
    state = () if founder else ("--initial-cluster-state=existing",)
    folder.file("etc/kubernetes/manifests/etcd.yaml", manifest("registry.k8s.io/etcd:3.6.5-0", "--data-dir=/var/lib/etcd", *state))
    servers = "--etcd-servers=https://127.0.0.1:2379"
    folder.file(
        "etc/kubernetes/manifests/kube-apiserver.yaml",
        manifest("localhost:5000/kube-apiserver:v1.34.4", servers, "'--oidc-username-prefix=it''s: '", '"--note=say \\"hi\\""'),
    )
    for name in ("kube-controller-manager", "kube-scheduler"):
        folder.file(f"etc/kubernetes/manifests/{name}.yaml", manifest(f"registry.k8s.io/{name}:v1.34.4@sha256:00", "--leader-elect=true"))
    folder.file("var/lib/etcd/member/snap/db", "data")
    folder.file("var/lib/etcd/member/wal/0.wal", etcd_log(member, cluster))


def _data(content: bytes) -> str:
    return base64.b64encode(content).decode()
