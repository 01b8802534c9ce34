"""Prerequisites, packages and programs: each script changes what it has to, says so, changes nothing the second time, and quotes what users name."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.core.versions import Version
from quorate.hosts.manifest.fields import CertificateAuthority
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.manifest.network_fields import Proxy
from quorate.hosts.manifest.values import Text
from quorate.hosts.render.flatcar import Downloads, install_programs, install_tools, unit_files
from quorate.hosts.render.host_files import HostFile, differing
from quorate.hosts.render.packages import (
    Repository,
    docker_repository,
    fetch_key,
    install,
    kubernetes_repository,
    programs,
    repository_file,
)
from quorate.hosts.render.prerequisites import PROXY_ENVIRONMENT, prepare, prerequisite_files, proxy_files, sysctls, with_proxies
from tests.hosts.manifests import document, load
from tests.hosts.scripts import FakeHost, parses

V = Version.parse("v1.34.4")
BUNDLE = "-----BEGIN CERTIFICATE-----\n"
KNOWN_SYSTEMS = [system for system in OperatingSystem if system is not OperatingSystem.UNKNOWN]
WITH_PACKAGES = [system for system in KNOWN_SYSTEMS if system is not OperatingSystem.FLATCAR]
HOSTILE = "http://user:pa$(touch x)`id`\"'\\ss@proxy:3128"
MADISON = " kubeadm | 1.34.5-1.1 | https://pkgs\n kubeadm | 1.34.4-1.1 | https://pkgs\n kubeadm | 1.34.40-1.1 | https://pkgs\n"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    made = FakeHost(tmp_path / "root", tmp_path / "programs")
    made.root.mkdir()
    for name in ("modprobe", "swapoff", "systemctl", "update-ca-certificates", "ufw"):
        made.program(name, "exit 1" if name == "systemctl" else "")
    return made


@pytest.fixture
def kernel(host: FakeHost) -> FakeHost:
    """A kernel with every module and setting, as a fresh host has them, and a partition of swap."""
    host.file("/proc/filesystems", "nodev\tsysfs\n")
    host.file("/proc/swaps", "Filename\tType\n/dev/sda2\tpartition\n")
    host.file("/etc/fstab", "/dev/sda1 / ext4 defaults 0 1\n/dev/sda2 none swap sw 0 0\n# /dev/sdb1 none swap sw 0 0\n")
    for key in sysctls(load(document())):
        host.file(f"/proc/sys/{key.replace('.', '/')}", "0\n")
    return host


@pytest.mark.parametrize("system", KNOWN_SYSTEMS)
def test_sh_can_read_every_script_of_every_system(system: OperatingSystem) -> None:
    manifest = load(document(proxy={"http": HOSTILE}))
    parses(with_proxies(manifest.proxy, prepare(manifest, system)))
    if system is OperatingSystem.FLATCAR:
        parses(install_programs({"kubelet": V, "kubeadm": V}, Downloads()))
        parses(install_tools(V, Downloads()))
        return
    parses(install({"kubelet": V, "kubeadm": V}, system, programs(system, containerd="containerd")))
    parses(fetch_key(kubernetes_repository(V, system), system))


def test_a_host_is_prepared_once(kernel: FakeHost) -> None:
    script = prepare(load(document()), OperatingSystem.DEBIAN)
    changes = kernel.changes(script)
    assert "changed setting net.ipv4.ip_forward" in changes
    assert {"changed module overlay", "changed swap", "changed fstab"} <= set(changes)
    assert (kernel.root / "proc/sys/net/ipv4/ip_forward").read_text() == "1\n"
    kernel.file("/proc/swaps", "Filename\tType\n")
    kernel.file("/proc/filesystems", "nodev\toverlay\n")
    assert kernel.changes(script) == []


def test_swap_leaves_fstab_and_nothing_else_does(kernel: FakeHost) -> None:
    kernel.changes(prepare(load(document()), OperatingSystem.UBUNTU))
    root, swap, comment = (kernel.root / "etc/fstab").read_text().splitlines()
    assert (root, comment) == ("/dev/sda1 / ext4 defaults 0 1", "# /dev/sdb1 none swap sw 0 0")
    assert swap.startswith("# ")
    assert swap.endswith("/dev/sda2 none swap sw 0 0")


def test_what_a_host_does_not_allow_is_said_and_does_not_end_the_script(kernel: FakeHost) -> None:
    (kernel.root / "proc/sys/net/netfilter/nf_conntrack_max").unlink()
    kernel.program("modprobe", "exit 1")
    changes = kernel.changes(prepare(load(document()), OperatingSystem.DEBIAN))
    assert "not possible: load kernel module nf_conntrack" in changes
    assert "not possible: set net.netfilter.nf_conntrack_max: the kernel does not have it" in changes
    assert "changed setting vm.overcommit_memory" in changes


def test_a_limit_that_somebody_raised_stays_and_one_that_makes_no_sense_is_set(kernel: FakeHost) -> None:
    kernel.file("/proc/sys/net/netfilter/nf_conntrack_max", "4000000\n")
    kernel.file("/proc/sys/fs/inotify/max_user_watches", "\n")
    changes = kernel.changes(prepare(load(document()), OperatingSystem.DEBIAN))
    assert "changed setting net.netfilter.nf_conntrack_max" not in changes
    assert "changed setting fs.inotify.max_user_watches" in changes


@pytest.mark.parametrize(
    ("system", "program"),
    [
        (OperatingSystem.UBUNTU, "update-ca-certificates"),
        (OperatingSystem.RHEL, "update-ca-trust"),
        (OperatingSystem.FLATCAR, "update-ca-certificates"),
    ],
)
def test_cas_of_the_user_are_placed_and_made_known(kernel: FakeHost, system: OperatingSystem, program: str) -> None:
    kernel.program("update-ca-trust")
    manifest = replace(load(document()), certificate_authority=CertificateAuthority(bundle=Text(BUNDLE)))
    assert any(file.content == BUNDLE.encode() for file in prerequisite_files(manifest, system))
    kernel.changes(prepare(manifest, system))
    assert any(call.startswith(program) for call in kernel.calls)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(ValueError, match="operating system"):
        prepare(load(document()), OperatingSystem.UNKNOWN)
    with pytest.raises(ValueError, match="operating system"):
        install({"kubeadm": V}, OperatingSystem.UNKNOWN)


def test_without_a_proxy_there_are_no_proxy_files() -> None:
    assert proxy_files(Proxy()) == ()
    assert all("proxy" not in file.path for file in prerequisite_files(load(document()), OperatingSystem.DEBIAN))


def test_a_proxys_password_reaches_sh_unharmed_and_is_readable_by_root_only(host: FakeHost) -> None:
    proxy = Proxy(http=HOSTILE)
    environment = next(file for file in proxy_files(proxy) if file.path == PROXY_ENVIRONMENT)
    assert environment.mode == 0o600
    assert HOSTILE not in repr(environment)
    assert host.changes(with_proxies(proxy, "printf '%s\\n' \"$http_proxy\"")) == [HOSTILE]
    assert host.changes(f"{environment.content.decode()}\nprintf '%s\\n' \"$HTTP_PROXY\"") == [HOSTILE]


@pytest.fixture
def apt(host: FakeHost) -> FakeHost:
    """A host with apt, whose index has kubeadm, and which has nothing installed."""
    host.program("apt-cache", f"cat <<'E'\n{MADISON}E")
    host.program("dpkg-query", f'cat "{host.root}/installed" 2>/dev/null || exit 1')
    host.program("apt-get", f'case "$*" in *" install "*) printf "installed 1.34.4-1.1" >"{host.root}/installed" ;; esac')
    host.program("apt-mark")
    return host


def test_exactly_the_version_is_installed_and_held_once(apt: FakeHost) -> None:
    script = install({"kubeadm": V}, OperatingSystem.UBUNTU)
    assert apt.changes(script) == ["changed kubeadm 1.34.4-1.1"]
    assert any(call.startswith("apt-get") and call.endswith("-- kubeadm=1.34.4-1.1") for call in apt.calls)
    assert apt.calls[-1].startswith(("apt-mark hold -- kubeadm", "systemctl"))
    assert not any(" update" in call for call in apt.calls), "the index was known"
    before = len([call for call in apt.calls if call.startswith("apt-get")])
    assert apt.changes(script) == []
    assert len([call for call in apt.calls if call.startswith("apt-get")]) == before


def test_a_version_that_no_repository_has_is_named_with_those_that_there_are(apt: FakeHost) -> None:
    done = apt.run(install({"kubeadm": Version.parse("v1.34.9")}, OperatingSystem.DEBIAN))
    assert done.returncode == 1
    assert "no repository of this host has kubeadm 1.34.9; it has: 1.34.5-1.1 1.34.4-1.1" in done.stderr
    assert any(call.startswith("apt-get") and call.endswith("update") for call in apt.calls), "the index may have been old"
    assert not any(" install " in call for call in apt.calls)


def test_rpm_packages_are_installed_by_version_and_locked_where_the_repository_is_the_users(host: FakeHost) -> None:
    host.program("rpm", f'cat "{host.root}/installed" 2>/dev/null || exit 1')
    host.program(
        "dnf",
        f'case "$*" in *repoquery*) echo kubelet-0:1.34.4-150500.1.1.x86_64 ;; *" install "*) printf 1.34.4 >"{host.root}/installed" ;; esac',
    )
    script = install({"kubelet": V}, OperatingSystem.ROCKY_LINUX)
    assert host.changes(script) == ["changed kubelet-1.34.4"]
    assert "dnf versionlock add kubelet" in host.calls
    assert host.changes(script) == []


@pytest.mark.parametrize("system", WITH_PACKAGES)
def test_every_minor_has_its_own_repository(system: OperatingSystem) -> None:
    file = repository_file(kubernetes_repository(Version.parse("v1.35.0"), system), system)
    assert b"pkgs.k8s.io/core:/stable:/v1.35/" in file.content


def test_only_kubernetes_packages_are_held_by_their_repository() -> None:
    system = OperatingSystem.RHEL
    assert b"exclude=kubelet kubeadm" in repository_file(kubernetes_repository(V, system), system).content
    docker = repository_file(docker_repository(system, ""), system)
    assert b"baseurl=https://download.docker.com/linux/rhel/$releasever/$basearch/stable" in docker.content
    assert b"exclude" not in docker.content


def test_dockers_repository_is_that_of_the_release() -> None:
    file = repository_file(docker_repository(OperatingSystem.UBUNTU, "noble"), OperatingSystem.UBUNTU)
    assert b"linux/ubuntu\nSuites: noble\nComponents: stable\n" in file.content
    with pytest.raises(ValueError, match="not the name"):
        docker_repository(OperatingSystem.DEBIAN, "x\nTrusted: yes")


@pytest.mark.parametrize("url", ["https://x/'; rm -rf /", "https://x/$(id)\n", "ftp://x", "-o", ""])
def test_what_is_no_url_is_no_repository(url: str) -> None:
    with pytest.raises(ValueError, match="not the URL"):
        Repository("own", url, "https://example.com/key")


def test_a_package_is_a_name_and_not_an_option() -> None:
    with pytest.raises(ValueError, match="not the name"):
        install({"--purge": V}, OperatingSystem.DEBIAN)


def test_only_missing_tools_are_installed(apt: FakeHost) -> None:
    apt.link("env", "sh", "cat")
    for name in ("conntrack", "curl", "socat", "mount", "ethtool", "iptables"):
        apt.program(name)
    script = install({}, OperatingSystem.DEBIAN, programs(OperatingSystem.DEBIAN))
    assert apt.changes(script, alone=True) == ["changed iproute2"]
    apt.program("ip")
    assert apt.changes(script, alone=True) == []


def test_what_is_missing_and_what_is_wanted_is_installed_at_once_from_one_new_index(apt: FakeHost) -> None:
    apt.link("env", "sh", "cat", "awk")
    for name in ("curl", "mount", "ip", "iptables", "systemctl"):
        apt.program(name)
    script = install({"kubeadm": V}, OperatingSystem.DEBIAN, programs(OperatingSystem.DEBIAN, containerd="containerd.io"))
    installed = ["conntrack", "containerd.io", "ethtool", "socat"]
    assert apt.changes(script, alone=True) == [*(f"changed {name}" for name in installed), "changed kubeadm 1.34.4-1.1"]
    calls = [call for call in apt.calls if call.startswith("apt-get")]
    assert [call.rpartition(" -- ")[2].split()[-1] for call in calls] == ["update", "kubeadm=1.34.4-1.1"], calls


def test_a_repositorys_key_is_fetched_once_and_again_for_another(host: FakeHost) -> None:
    host.program("curl", 'while [ "$1" != -o ]; do shift; done; echo key >"$2"')
    one = Repository("own", "https://example.com/deb/", "https://example.com/one.key")
    assert host.changes(fetch_key(one, OperatingSystem.DEBIAN)) == ["changed repository key"]
    assert host.changes(fetch_key(one, OperatingSystem.DEBIAN)) == []
    other = Repository("own", "https://example.com/deb/", "https://example.com/other.key")
    assert host.changes(fetch_key(other, OperatingSystem.DEBIAN)) == ["changed repository key"]


def test_flatcars_programs_are_checked_against_their_digests(host: FakeHost) -> None:
    program = b"#!/bin/sh\necho v1.34.4\n"
    (host.root / "download").write_bytes(program)
    host.program("uname", "echo x86_64")
    host.program("curl", _CURL.format(root=host.root))
    (host.root / "digest").write_text("0" * 64)
    script = install_programs({"kubeadm": V}, Downloads())
    refused = host.run(script)
    assert refused.returncode == 1
    assert "another digest" in refused.stderr
    assert not (host.root / "opt/bin/kubeadm").exists()
    (host.root / "digest").write_text(hashlib.sha256(program).hexdigest())
    assert host.changes(script) == ["changed kubeadm v1.34.4"]
    assert host.changes(script) == []


def test_an_archive_that_was_unpacked_halfway_does_not_count_as_installed(host: FakeHost) -> None:
    files = {"bridge": b"bridge", "crictl": b"crictl", "loopback": b"loopback", "zone": b"zone"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    (host.root / "download").write_bytes(packed.getvalue())
    (host.root / "digest").write_text(hashlib.sha256(packed.getvalue()).hexdigest())
    host.program("uname", "echo x86_64")
    host.program("curl", _CURL.format(root=host.root))
    tar = shutil.which("tar")
    host.program("tar", f'{tar} "$@"; echo no space left on device >&2; exit 2')
    script = install_tools(V, Downloads())
    assert host.run(script).returncode == 2
    assert not (host.root / "opt/cni/bin/loopback").exists()
    host.program("tar", f'exec {tar} "$@"')
    assert host.changes(script) == [f"changed {host.root}/opt/cni/bin/loopback", f"changed {host.root}/opt/bin/crictl"]
    assert {path.name: path.read_bytes() for path in (host.root / "opt/cni/bin").iterdir()} == files
    assert host.changes(script) == []


_CURL = """\
while [ "$1" != -o ]; do shift; done
case "$4" in *.sha256) cat "{root}/digest" >"$2" ;; *) cat "{root}/download" >"$2" ;; esac"""


def test_a_file_differs_by_content_mode_or_absence(tmp_path: Path) -> None:
    owner = subprocess.run(["stat", "-c", "%U:%G", tmp_path], capture_output=True, text=True, check=True).stdout.strip()
    files = [HostFile(f"{tmp_path}/{name} it's", name.encode(), 0o640, owner) for name in ("same", "content", "mode", "missing")]
    for file in files[:3]:
        Path(file.path).write_bytes(file.content)
        Path(file.path).chmod(file.mode)
    Path(files[1].path).write_text("other")
    Path(files[2].path).chmod(0o644)
    done = subprocess.run(["sh", "-s"], input=f"set -eu\n{differing(files)}", capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [file.path for file in files[1:]]


def test_flatcars_kubelet_runs_from_where_it_is_installed() -> None:
    assert any(b"ExecStart=/opt/bin/kubelet $KUBELET_KUBECONFIG_ARGS" in file.content for file in unit_files())
