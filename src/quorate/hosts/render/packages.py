"""Kubernetes' packages on hosts with apt or dnf: their repository, and exact versions installed and held. Pure: files and sh.

A script asks for the package index only when the version is not known without it, so that a host whose packages are there already needs no network. Nothing
is restarted: the kubelet's restart after its package is a step of its own, one host at a time.
Source: the installation pages of kubernetes.io for the repositories; KubeOne's pkg/scripts for what is installed beside kubeadm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quorate.core.versions import Version
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.shell import quoted

KUBERNETES = "https://pkgs.k8s.io/core:/stable:"
DOCKER = "https://download.docker.com/linux"
_APT = (OperatingSystem.UBUNTU, OperatingSystem.DEBIAN)
_DNF = (OperatingSystem.RHEL, OperatingSystem.CENTOS, OperatingSystem.ROCKY_LINUX)
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
_TOOLS = {
    "apt": {
        "conntrack": "conntrack",
        "curl": "curl ca-certificates",
        "socat": "socat",
        "mount": "mount",
        "ethtool": "ethtool",
        "ip": "iproute2",
        "iptables": "iptables",
    },
    "dnf": {
        "conntrack": "conntrack-tools",
        "curl": "curl",
        "socat": "socat",
        "tc": "iproute-tc",
        "ethtool": "ethtool",
        "ip": "iproute",
        "iptables": "iptables-nft",
    },
}
_DNF_KUBERNETES = "/etc/yum.repos.d/quorate-kubernetes.repo"


@dataclass(frozen=True, slots=True)
class Repository:
    """Where packages come from: a name for its files, its URL, the URL of the key that signs it, and for apt its suite and component (`/` is a flat one)."""

    name: str
    url: str
    key_url: str
    suite: str = "/"
    component: str = ""

    def __post_init__(self) -> None:
        for value in (self.url, self.key_url):
            if not re.fullmatch(r"(https?|file)://[^\s'\"\\]+", value):
                raise ValueError(f"{value!r} is not the URL of a package repository or its key")
        for value in (self.name, self.suite, self.component):
            if value not in ("/", "") and not _NAME.fullmatch(value):
                raise ValueError(f"{value!r} is not the name of a package repository or of a part of one")

    @property
    def key_path(self) -> str:
        """Where apt finds the key."""
        return f"/etc/apt/keyrings/quorate-{self.name}.asc"


def kubernetes_repository(version: Version, system: OperatingSystem) -> Repository:
    """The community's repository of this minor version; every minor has its own. Raises ValueError for a system without packages."""
    kind = {"apt": "deb", "dnf": "rpm"}[manager(system)]
    url = f"{KUBERNETES}/v{version.major}.{version.minor}/{kind}/"
    return Repository("kubernetes", url, f"{url}Release.key" if kind == "deb" else f"{url}repodata/repomd.xml.key")


def docker_repository(system: OperatingSystem, codename: str) -> Repository:
    """Docker's repository, which has `containerd.io`; RHEL and its like have no containerd of their own. `codename` is Debian's or Ubuntu's VERSION_CODENAME,
    unused elsewhere.
    """
    if manager(system) == "apt":
        url = f"{DOCKER}/{system.value}"
        return Repository("docker", url, f"{url}/gpg", codename, "stable")
    url = f"{DOCKER}/{'rhel' if system is OperatingSystem.RHEL else 'centos'}"
    return Repository("docker", f"{url}/$releasever/$basearch/stable", f"{url}/gpg")  # dnf fills in both


def manager(system: OperatingSystem) -> str:
    """`apt` or `dnf`. Raises ValueError where there is neither: Flatcar has no packages, an unknown system has to be named first."""
    if system in _APT:
        return "apt"
    if system in _DNF:
        return "dnf"
    raise ValueError(f"{system.value or 'a host of unknown operating system'} has no packages that quorate knows")


def repository_file(repository: Repository, system: OperatingSystem) -> HostFile:
    """The file that names the repository to the package manager. Where the user sets up repositories, there is none of quorate's."""
    if manager(system) == "apt":
        parts = (f"Components: {repository.component}",) if repository.component else ()
        lines = ("Types: deb", f"URIs: {repository.url}", f"Suites: {repository.suite}", *parts, f"Signed-By: {repository.key_path}")
        return HostFile(f"/etc/apt/sources.list.d/quorate-{repository.name}.sources", _lines(lines), mode=0o644)
    options = [f"name={repository.name}", f"baseurl={repository.url}", "enabled=1", "gpgcheck=1", f"gpgkey={repository.key_url}"]
    if repository.name == "kubernetes":  # what holds the packages: `install` alone looks past it
        options.append("exclude=kubelet kubeadm kubectl cri-tools kubernetes-cni")
    return HostFile(f"/etc/yum.repos.d/quorate-{repository.name}.repo", _lines((f"[quorate-{repository.name}]", *options)), mode=0o644)


def fetch_key(repository: Repository, system: OperatingSystem) -> str:
    """A script that puts the repository's key where the file of the repository says; dnf fetches it itself, and the script is empty. Idempotent."""
    if manager(system) == "dnf":
        return ""
    return _FETCH_KEY.format(key=repository.key_path, folder=repository.key_path.rpartition("/")[0], url=quoted(repository.key_url))


def programs(system: OperatingSystem, *, containerd: str = "") -> dict[str, str]:
    """What kubeadm, the kubelet and the fetching of keys call, each with the packages that have it; containerd too, where the package of it is named:
    `containerd.io` from Docker's repository, `containerd` from the distribution's.
    """
    return {**_TOOLS[manager(system)], **({"containerd": containerd} if containerd else {})}


def install(versions: Mapping[str, Version], system: OperatingSystem, needed: Mapping[str, str] = MappingProxyType({})) -> str:
    """A script that installs exactly these versions by package name (`kubeadm`, `kubelet`, `kubectl`), whatever is installed, and holds them; and the packages
    of those needed programs that are missing. All in one transaction of the package manager. Idempotent.

    It fails, with the versions that there are, when one of them is in no repository of the host. Prints `changed PACKAGE [VERSION]` for what it installed.
    """
    wanted = [f"missing {program} {quoted(packages)}" for program, packages in sorted(needed.items())]
    for name, version in sorted(versions.items()):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a package")
        wanted.append(f"want {name} {quoted(str(version).removeprefix('v'))}")
    enable = ("systemctl is-enabled --quiet containerd || systemctl enable --now --quiet containerd",) if "containerd" in needed else ()
    functions = _APT_INSTALL if manager(system) == "apt" else _DNF_INSTALL
    return "\n".join((functions, *wanted, "finish", *enable, ""))


def _lines(lines: tuple[str, ...]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


# Ubuntu's needrestart would restart containerd and the kubelet behind quorate's back. apt waits for the lock that unattended upgrades may hold.
_APT_GET = (
    "env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold"
)
_DNF_COMMAND = "dnf -q -y"

_FETCH_KEY = """\
if [ ! -s {key} ] || [ "$(cat {key}.url 2>/dev/null)" != {url} ]; then
    mkdir -p -- {folder}
    curl -fsSL --retry 3 --connect-timeout 10 --max-time 60 -o {key}.new -- {url}
    chmod 0644 {key}.new
    mv -f -- {key}.new {key}
    printf '%s\\n' {url} >{key}.url
    echo 'changed repository key'
fi
"""

_ENABLE_KUBELET = "systemctl is-enabled --quiet kubelet 2>/dev/null || [ ! -e /usr/bin/kubelet ] || systemctl enable --quiet kubelet"

_APT_INSTALL = f"""\
absent= chosen= held= fresh=
refresh() {{
    [ -n "$fresh" ] || {_APT_GET} update >/dev/null
    fresh=yes
}}
missing() {{
    command -v "$1" >/dev/null && return 0
    refresh
    absent="$absent $2"
}}
known() {{
    apt-cache madison -- "$1" | awk -F'[ |]+' -v want="$2" '
        {{ version = $3; sub(/^[0-9]+:/, "", version) }}
        version == want || index(version, want "-") == 1 {{ print $3; exit }}'
}}
want() {{
    held="$held $1"
    installed=$(dpkg-query -W -f '${{db:Status-Status}} ${{Version}}' -- "$1" 2>/dev/null || true)
    case "$installed" in "installed $2" | "installed $2-"*) return 0 ;; esac
    version=$(known "$1" "$2")
    if [ -z "$version" ]; then
        refresh
        version=$(known "$1" "$2")
    fi
    if [ -z "$version" ]; then
        echo "no repository of this host has $1 $2; it has: $(apt-cache madison -- "$1" | awk -F'[ |]+' '{{ printf "%s ", $3 }}')" >&2
        exit 1
    fi
    chosen="$chosen $1=$version"
}}
finish() {{
    if [ -n "$absent$chosen" ]; then
        {_APT_GET} install --no-install-recommends --allow-change-held-packages --allow-downgrades -- $absent $chosen >/dev/null
        for package in $absent; do echo "changed $package"; done
        for package in $chosen; do echo "changed ${{package%%=*}} ${{package#*=}}"; done
    fi
    [ -z "$held" ] || apt-mark hold -- $held >/dev/null
    {_ENABLE_KUBELET}
}}"""

_DNF_INSTALL = f"""\
absent= chosen= held=
missing() {{
    command -v "$1" >/dev/null || absent="$absent $2"
}}
want() {{
    held="$held $1"
    [ "$(rpm -q --qf '%{{VERSION}}' -- "$1" 2>/dev/null || true)" != "$2" ] || return 0
    if [ -z "$({_DNF_COMMAND} --disableexcludes=all repoquery -- "$1-$2" 2>/dev/null)" ]; then
        echo "no repository of this host has $1 $2; it has: $({_DNF_COMMAND} --disableexcludes=all repoquery --qf '%{{version}} ' -- "$1" | tr '\\n' ' ')" >&2
        exit 1
    fi
    chosen="$chosen $1-$2"
}}
finish() {{
    if [ -n "$absent$chosen" ]; then
        [ -z "$chosen" ] || dnf versionlock delete $held >/dev/null 2>&1 || true
        {_DNF_COMMAND} --disableexcludes=all --allowerasing install -- $absent $chosen >/dev/null
        for package in $absent $chosen; do echo "changed $package"; done
    fi
    if [ -n "$held" ] && [ ! -e {_DNF_KUBERNETES} ] && ! dnf versionlock add $held >/dev/null 2>&1; then
        echo "not possible: hold$held: dnf has no versionlock plugin"
    fi
    {_ENABLE_KUBELET}
}}"""
