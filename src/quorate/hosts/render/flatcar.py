"""Kubernetes' programs on Flatcar, which has no packages: downloaded, checked against their published digests, and run from /opt/bin. Pure: files and sh.

Source: the page "Installing kubeadm" of kubernetes.io, part "Without a package manager", for the places and the unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from quorate.core.versions import Version
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.shell import quoted

CNI_PLUGINS = "v1.7.1"
_PROGRAM = re.compile(r"kubeadm|kubelet|kubectl")


@dataclass(frozen=True, slots=True)
class Downloads:
    """Where the programs are: the public places, or mirrors with the same folders and the `.sha256` files beside each download."""

    kubernetes: str = "https://dl.k8s.io"
    cni_plugins: str = "https://github.com/containernetworking/plugins/releases/download"
    crictl: str = "https://github.com/kubernetes-sigs/cri-tools/releases/download"


def unit_files() -> tuple[HostFile, ...]:
    """The kubelet's unit and kubeadm's drop-in, as the packages have them with other folders. systemd has to read them (`daemon-reload`)."""
    drop_in = (
        "[Service]",
        'Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"',
        'Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"',
        "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env",
        "EnvironmentFile=-/etc/default/kubelet",
        "ExecStart=",
        "ExecStart=/opt/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS",
    )
    unit = (
        "[Unit]",
        "Description=kubelet",
        "Wants=network-online.target containerd.service",
        "After=network-online.target containerd.service",
        "StartLimitIntervalSec=0",
        "[Service]",
        "ExecStart=/opt/bin/kubelet",
        "Restart=always",
        "RestartSec=10",
        "[Install]",
        "WantedBy=multi-user.target",
    )
    containerd = ("[Service]", "Environment=CONTAINERD_CONFIG=/etc/containerd/config.toml")  # Flatcar's own is in /usr, which is read-only
    return (
        HostFile("/etc/systemd/system/kubelet.service", _lines(unit), mode=0o644),
        HostFile("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", _lines(drop_in), mode=0o644),
        HostFile("/etc/systemd/system/containerd.service.d/10-quorate.conf", _lines(containerd), mode=0o644),
    )


def install_programs(versions: Mapping[str, Version], downloads: Downloads) -> str:
    """A script that puts exactly these versions of `kubeadm`, `kubelet` and `kubectl` in place, each as a whole, and nothing whose digest is another. A running
    kubelet goes on as it is until it is restarted. Prints `changed PROGRAM VERSION`. Idempotent, and without network when all is there.
    """
    lines = []
    for name, version in sorted(versions.items()):
        if not _PROGRAM.fullmatch(name):
            raise ValueError(f"{name!r} is not a program that Flatcar's hosts get")
        release = f"v{str(version).removeprefix('v')}"
        lines.append(f"program {name} {quoted(release)} {quoted(downloads.kubernetes)}")
    return "\n".join((_FUNCTIONS, *lines, _ENABLE, ""))


def install_tools(version: Version, downloads: Downloads) -> str:
    """A script that installs the CNI project's plugins, and crictl of this minor version, where they are missing. Idempotent: all is
    unpacked before anything takes its place, and what the script looks for comes last.
    """
    crictl = f"v{version.major}.{version.minor}.0"
    cni = f"{downloads.cni_plugins}/{CNI_PLUGINS}/cni-plugins-linux-$architecture-{CNI_PLUGINS}.tgz"
    return "\n".join(
        (
            _FUNCTIONS,
            f"archive /opt/cni/bin/loopback /opt/cni/bin {_double_quoted(cni)}",
            f"archive /opt/bin/crictl /opt/bin {_double_quoted(f'{downloads.crictl}/{crictl}/crictl-{crictl}-linux-$architecture.tar.gz')}",
            "",
        )
    )


def _double_quoted(url: str) -> str:
    """A URL in which sh replaces $architecture, and nothing else can be replaced."""
    if not re.fullmatch(r"(https?|file)://[^\s'\"\\`$()]+(\$architecture[^\s'\"\\`$()]*)", url):
        raise ValueError(f"{url!r} is not the URL of a download")
    return f'"{url}"'


def _lines(lines: tuple[str, ...]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


_FUNCTIONS = """\
case "$(uname -m)" in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) echo "Kubernetes has no programs for $(uname -m)" >&2; exit 1 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
download() {
    curl -fsSL --retry 3 --connect-timeout 10 -o "$folder/download" -- "$1"
    curl -fsSL --retry 3 --connect-timeout 10 -o "$folder/digest" -- "$1.sha256"
    expected=$(cut -d ' ' -f 1 <"$folder/digest")
    found=$(sha256sum <"$folder/download")
    if [ "${found%% *}" != "$expected" ]; then
        echo "$1 arrived with another digest than $1.sha256 says; nothing of it was installed" >&2
        exit 1
    fi
}
program() {
    if [ -x "/opt/bin/$1" ]; then
        case "$1" in
            kubeadm) installed=$(/opt/bin/kubeadm version -o short 2>/dev/null || true) ;;
            kubelet) installed=$(/opt/bin/kubelet --version 2>/dev/null || true) ;;
            kubectl) installed=$(/opt/bin/kubectl version --client 2>/dev/null || true) ;;
        esac
        case " $(printf %s "$installed" | tr '\\n' ' ') " in *" $2 "*) return 0 ;; esac
    fi
    download "$3/$2/bin/linux/$architecture/$1"
    mkdir -p /opt/bin
    install -m 0755 -- "$folder/download" "/opt/bin/.$1.new"
    mv -f -T -- "/opt/bin/.$1.new" "/opt/bin/$1"
    echo "changed $1 $2"
}
archive() {
    [ ! -x "$1" ] || return 0
    download "$3"
    beside="$2/.new"
    rm -rf -- "$beside"
    mkdir -p -- "$beside"
    tar -xzf "$folder/download" -C "$beside" --no-same-owner
    for file in "$beside"/*; do
        [ "${file##*/}" = "${1##*/}" ] || mv -f -T -- "$file" "$2/${file##*/}"
    done
    mv -f -T -- "$beside/${1##*/}" "$1"
    rm -rf -- "$beside"
    echo "changed $1"
}"""

_ENABLE = "[ ! -x /opt/bin/kubelet ] || systemctl is-enabled --quiet kubelet || systemctl enable --quiet kubelet"
