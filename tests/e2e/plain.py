"""The same install and upgrade by hand: the commands of kubeadm's documentation, on the same kind of hosts. `quorate apply` is timed against it.

Generous to the hand: what may be done on all hosts at once is, nobody types or reads, and nothing is checked that kubeadm does not check.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from tests.e2e.machines import Machine, Machines

DEADLINE = 1800.0
"""Seconds for one host's script."""
_KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


class ByHand:
    """Hosts that become a cluster of one version and then of the next, by commands run on them as root."""

    def __init__(self, machines: Machines, hosts: Sequence[Machine]) -> None:
        self._machines = machines
        self._hosts = tuple(hosts)

    def install(self, version: str) -> None:
        """Packages, settings and images on all hosts at once; then `kubeadm init`, and one join after the other."""
        self._on_all(_REPOSITORIES + _repository(version) + _PREPARE.format(version=version.removeprefix("v")))
        first, *others = self._hosts
        configuration = yaml.safe_dump_all(_configuration(f"{self._machines.balancer}:6443", version))
        self._run(first, _INIT, given=configuration.encode())
        for host in others:
            join = self._run(first, _PRINT_JOIN).strip()
            self._run(host, f"{join} --control-plane >/var/log/kubeadm.log 2>&1 || {{ tail -n 30 /var/log/kubeadm.log >&2; exit 1; }}")
        self._run(first, f"{_KUBECTL} wait --for=condition=Ready node --all --timeout=180s")

    def upgrade(self, version: str) -> None:
        """Host by host: kubeadm and its upgrade, drain, kubelet, uncordon. Images are pulled on all hosts at once before."""
        number = version.removeprefix("v")
        self._on_all(_repository(version) + _UPGRADE_KUBEADM.format(version=number))
        for host in self._hosts:
            command = f"apply -y {version}" if host == self._hosts[0] else "node"
            self._run(host, _UPGRADE_HOST.format(version=number, command=command, kubectl=_KUBECTL, node=host.name))

    def kubeconfig(self, path: Path) -> Path:
        """Write the administrator's kubeconfig there."""
        path.touch(mode=0o600)
        path.write_text(self._run(self._hosts[0], "cat /etc/kubernetes/admin.conf"))
        return path

    def _on_all(self, script: str) -> None:
        with ThreadPoolExecutor(max_workers=len(self._hosts)) as pool:
            list(pool.map(lambda host: self._run(host, script), self._hosts))

    def _run(self, host: Machine, script: str, *, given: bytes = b"") -> str:
        return self._machines.run(host, script, given=given, timeout=DEADLINE)


def _repository(version: str) -> str:
    minor = version.rpartition(".")[0]
    return _KUBERNETES.format(url=f"https://pkgs.k8s.io/core:/stable:/{minor}/deb/")


def _configuration(endpoint: str, version: str) -> list[dict[str, object]]:
    return [
        {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": version,
            "controlPlaneEndpoint": endpoint,
            "networking": {"podSubnet": "10.244.0.0/16"},
        },
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "conntrack": {"maxPerCore": 0},  # a container may not set it
        },
    ]


_REPOSITORIES = """\
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/apt/keyrings
curl -fsSL https://download.docker.com/linux/debian/gpg -o /etc/apt/keyrings/docker.asc
echo 'deb [signed-by=/etc/apt/keyrings/docker.asc] https://download.docker.com/linux/debian bookworm stable' >/etc/apt/sources.list.d/docker.list
"""
_KUBERNETES = """\
export DEBIAN_FRONTEND=noninteractive
curl -fsSL {url}Release.key -o /etc/apt/keyrings/kubernetes.asc
echo 'deb [signed-by=/etc/apt/keyrings/kubernetes.asc] {url} /' >/etc/apt/sources.list.d/kubernetes.list
apt-get -q update >/dev/null
"""
_PREPARE = """\
apt-get -q -y install --no-install-recommends containerd.io kubeadm={version}-* kubelet={version}-* kubectl={version}-* >/dev/null
apt-mark hold kubeadm kubelet kubectl >/dev/null
printf 'br_netfilter\\noverlay\\n' >/etc/modules-load.d/kubernetes.conf
modprobe br_netfilter 2>/dev/null || :
modprobe overlay 2>/dev/null || :
echo 'net.ipv4.ip_forward = 1' >/etc/sysctl.d/kubernetes.conf
sysctl -q -p /etc/sysctl.d/kubernetes.conf
mkdir -p /etc/containerd
pause=$(kubeadm config images list --kubernetes-version {version} | grep /pause:)
containerd config default | sed "s#SystemdCgroup = false#SystemdCgroup = true#; s#sandbox_image = .*#sandbox_image = \\"$pause\\"#" >/etc/containerd/config.toml
systemctl restart containerd
systemctl enable -q kubelet
kubeadm config images pull --kubernetes-version {version} >/dev/null
"""
_INIT = """\
umask 077
cat >/root/kubeadm.yaml
kubeadm init --config /root/kubeadm.yaml --upload-certs >/var/log/kubeadm.log 2>&1 || { tail -n 30 /var/log/kubeadm.log >&2; exit 1; }
"""
_PRINT_JOIN = """\
key=$(kubeadm init phase upload-certs --upload-certs 2>/dev/null | tail -n 1)
kubeadm token create --print-join-command --certificate-key "$key" 2>/dev/null
"""
_UPGRADE_KUBEADM = """\
apt-get -q -y install --no-install-recommends --allow-change-held-packages kubeadm={version}-* >/dev/null
kubeadm config images pull --kubernetes-version {version} >/dev/null
"""
_UPGRADE_HOST = """\
kubeadm upgrade {command} >/var/log/kubeadm.log 2>&1 || {{ tail -n 30 /var/log/kubeadm.log >&2; exit 1; }}
{kubectl} drain {node} --ignore-daemonsets --delete-emptydir-data >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends --allow-change-held-packages kubelet={version}-* kubectl={version}-* >/dev/null
systemctl daemon-reload
systemctl restart kubelet
until {kubectl} get node {node} 2>/dev/null | grep -q ' Ready.*v{version}'; do sleep 0.5; done
until {kubectl} uncordon {node} >/dev/null 2>&1; do sleep 0.5; done
"""
