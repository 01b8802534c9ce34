"""What a host needs before kubeadm: kernel modules and settings, no swap, no firewall of its own, trust in the user's CAs, proxies. Pure: files and sh.

Scripts are idempotent: a line `changed ...` is printed for each change made and none where there is nothing to do; `not possible ...` for what the host does
not allow, which kubeadm's preflight then checks. None restarts the kubelet or containerd: that is a step of its own, one host at a time.
Source: KubeOne's pkg/scripts (os_*.go, funcs.go) for what is set up.
"""

from __future__ import annotations

from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.manifest.network_fields import Proxy
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.kubeadm_configuration import CRI_SOCKET

PROXY_ENVIRONMENT = "/etc/quorate/proxy.env"
"""The proxies as shell and systemd both read them; mode 0600, since their addresses may hold passwords."""

_MODULES = ("overlay", "br_netfilter", "nf_conntrack")
_SYSCTLS = {
    "fs.inotify.max_user_instances": 8192,
    "fs.inotify.max_user_watches": 1048576,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "net.bridge.bridge-nf-call-ip6tables": 1,
    "net.bridge.bridge-nf-call-iptables": 1,
    "net.ipv4.ip_forward": 1,
    "net.netfilter.nf_conntrack_max": 1000000,
    "vm.overcommit_memory": 1,
}
LIMITS = frozenset({"fs.inotify.max_user_instances", "fs.inotify.max_user_watches", "net.netfilter.nf_conntrack_max"})
"""The settings that may be higher, too."""
_SYSCTLS_IPV6 = {"net.ipv6.conf.all.accept_ra": 2, "net.ipv6.conf.all.forwarding": 1}
ENTERPRISE = (OperatingSystem.RHEL, OperatingSystem.CENTOS, OperatingSystem.ROCKY_LINUX)
"""Systems with firewalld and SELinux."""
WITH_UFW = (OperatingSystem.UBUNTU, OperatingSystem.DEBIAN)
_JOURNAL_LIMIT = "5G"


def prerequisite_files(manifest: Manifest, system: OperatingSystem) -> tuple[HostFile, ...]:
    """The files that `prepare` has an effect for on this host; they are placed before it runs. UNKNOWN systems have no family: raises ValueError."""
    files = [
        HostFile("/etc/modules-load.d/quorate.conf", _lines(*_MODULES), mode=0o644),
        HostFile("/etc/sysctl.d/99-quorate.conf", _lines(*(f"{key} = {value}" for key, value in sysctls(manifest).items())), mode=0o644),
        HostFile("/etc/systemd/journald.conf.d/quorate.conf", _lines("[Journal]", f"SystemMaxUse={_JOURNAL_LIMIT}"), mode=0o644),
        HostFile("/etc/crictl.yaml", _lines(f"runtime-endpoint: {CRI_SOCKET}", f"image-endpoint: {CRI_SOCKET}"), mode=0o644),
    ]
    if bundle := manifest.certificate_authority.bundle:
        files.append(HostFile(trust(system)[0], bundle.encode(), mode=0o644))
    return (*files, *proxy_files(manifest.proxy))


def proxy_files(proxy: Proxy) -> tuple[HostFile, ...]:
    """The proxies for containerd and the kubelet, none where no proxy is set. systemd has to read them (`daemon-reload`), and both to be restarted."""
    variables = proxy_variables(proxy)
    if not variables:
        return ()
    drop_in = _lines("[Service]", f"EnvironmentFile={PROXY_ENVIRONMENT}")
    environment, *units = proxy_paths()
    return (
        HostFile(environment, _lines(*(f"{name}={_double_quoted(value)}" for name, value in variables.items()))),
        *(HostFile(path, drop_in, mode=0o644) for path in units),
    )


def proxy_paths() -> tuple[str, ...]:
    """Where those files are: the proxies, and what has containerd and the kubelet read them."""
    return (PROXY_ENVIRONMENT, *(f"/etc/systemd/system/{unit}.service.d/quorate-proxy.conf" for unit in ("containerd", "kubelet")))


def proxy_variables(proxy: Proxy) -> dict[str, str]:
    """The environment that programs on hosts find their proxies by: in both cases of letters, since curl reads http_proxy in small ones only."""
    if not proxy.http and not proxy.https:
        return {}
    values = {"http_proxy": proxy.http, "https_proxy": proxy.https, "no_proxy": proxy.no_proxy}
    set_values = {name: value for name, value in values.items() if value}
    return {**set_values, **{name.upper(): value for name, value in set_values.items()}}


def with_proxies(proxy: Proxy, script: str) -> str:
    """The script, in an environment with the proxies: apt, dnf, curl and kubeadm all find them there. It may hold their passwords."""
    exports = [f"export {name}={_double_quoted(value)}" for name, value in proxy_variables(proxy).items()]
    return "\n".join((*exports, script))


def sysctls(manifest: Manifest) -> dict[str, int]:
    """The kernel's settings, by name and sorted."""
    return dict(sorted({**_SYSCTLS, **(_SYSCTLS_IPV6 if manifest.cluster_network.has_ipv6 else {})}.items()))


def prepare(manifest: Manifest, system: OperatingSystem, *, keep_firewall: bool = False) -> str:
    """The script that puts the files of `prerequisite_files` into effect and turns off what a Kubernetes host must not have: swap and, unless they are to be
    kept, firewalls and SELinux, as KubeOne does. UNKNOWN: raises ValueError.
    """
    trusting = trust(system)[1]
    parts = [kernel(manifest)]
    if system is not OperatingSystem.FLATCAR:
        parts.append(_NO_SWAP)
    if system in ENTERPRISE and not keep_firewall:
        parts += [_SELINUX, "stopped firewalld.service", _NO_NFTABLES]
    if system is OperatingSystem.RHEL:
        parts += ["stopped nm-cloud-setup.timer", "stopped nm-cloud-setup.service"]
    if system in WITH_UFW and not keep_firewall:
        parts += [_NO_UFW, _NO_NFTABLES]
    if manifest.certificate_authority.bundle:
        parts.append(trusting)
    return "\n".join((*parts, ""))


def kernel(manifest: Manifest) -> str:
    """The part of a script that loads the kernel's modules and sets its settings, where they are otherwise."""
    return "\n".join(
        (_FUNCTIONS, *(f"module {name}" for name in _MODULES), *(_setting(key, value) for key, value in sysctls(manifest).items()))
    )


def _setting(key: str, value: int) -> str:
    return f"setting {key} {value} {'-ge' if key in LIMITS else '-eq'}"


def trust(system: OperatingSystem) -> tuple[str, str]:
    """Where a host keeps CAs that it trusts, and the command that makes its programs see them; kubeadm mounts the result into the control plane."""
    if system in ENTERPRISE:
        return "/etc/pki/ca-trust/source/anchors/quorate.crt", "update-ca-trust extract"
    if system is OperatingSystem.FLATCAR:
        return "/etc/ssl/certs/quorate.pem", "update-ca-certificates >/dev/null"
    if system in WITH_UFW:
        return "/usr/local/share/ca-certificates/quorate.crt", "update-ca-certificates >/dev/null"
    raise ValueError("the operating system of the host is not known; set operatingSystem in the manifest")


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _double_quoted(value: str) -> str:
    """A value as sh and systemd's EnvironmentFile both read it. Raises ValueError for one of several lines."""
    if "\n" in value:
        raise ValueError("a proxy setting has more than one line")
    for special in ("\\", '"', "$", "`"):
        value = value.replace(special, f"\\{special}")
    return f'"{value}"'


_FUNCTIONS = """\
module() {
    case "$1" in
        overlay) ! grep -qw overlay /proc/filesystems || return 0 ;;
        br_netfilter) [ ! -d /proc/sys/net/bridge ] || return 0 ;;
        nf_conntrack) [ ! -e /proc/sys/net/netfilter/nf_conntrack_max ] || return 0 ;;
    esac
    if modprobe -- "$1" 2>/dev/null; then echo "changed module $1"; else echo "not possible: load kernel module $1"; fi
}
setting() {
    file=/proc/sys/$(printf %s "$1" | tr . /)
    if [ ! -e "$file" ]; then
        echo "not possible: set $1: the kernel does not have it"
    elif ! [ "$(cat "$file")" "$3" "$2" ]; then
        if (printf '%s\\n' "$2" >"$file") 2>/dev/null; then echo "changed setting $1"; else echo "not possible: set $1: it stays $(cat "$file")"; fi
    fi
}
stopped() {
    if systemctl is-active --quiet "$1" || systemctl is-enabled --quiet "$1" 2>/dev/null; then
        systemctl disable --now --quiet "$1"
        echo "changed unit $1"
    fi
}"""

_NO_SWAP = """\
if [ "$(wc -l </proc/swaps)" -gt 1 ]; then
    if swapoff -a 2>/dev/null; then echo 'changed swap'; else echo 'not possible: turn swap off'; fi
fi
if [ -f /etc/fstab ] && grep -Eq '^[[:space:]]*[^#[:space:]]+[[:space:]]+[^[:space:]]+[[:space:]]+swap[[:space:]]' /etc/fstab; then
    sed -E -i 's/^([[:space:]]*[^#[:space:]]+[[:space:]]+[^[:space:]]+[[:space:]]+swap[[:space:]])/# off for Kubernetes: \\1/' /etc/fstab
    echo 'changed fstab'
fi"""

_NO_UFW = """\
if command -v ufw >/dev/null && { ufw status | grep -q '^Status: active' || grep -qi '^ENABLED=yes' /etc/ufw/ufw.conf; } 2>/dev/null; then
    ufw disable >/dev/null
    echo 'changed ufw'
fi"""

# Rules that only accept, such as those that come with the package, stay. That the service ends empties all tables, those of other programs too.
_NO_NFTABLES = """\
if ! systemctl is-active --quiet nftables.service || ! rules=$(nft list ruleset) \\
    || printf '%s\\n' "$rules" | grep -Eq '(^|[[:space:];{])(drop|reject)([[:space:];}]|$)'; then
    stopped nftables.service
fi"""

_SELINUX = """\
if command -v getenforce >/dev/null && [ "$(getenforce)" = Enforcing ]; then
    setenforce 0
    echo 'changed selinux'
fi
if [ -f /etc/selinux/config ] && grep -qi '^SELINUX=[[:space:]]*enforcing' /etc/selinux/config; then
    sed -i 's/^SELINUX=[[:space:]]*enforcing/SELINUX=permissive/I' /etc/selinux/config
    echo 'changed selinux configuration'
fi"""
