"""A cluster to be observed: hosts that are folders in which the real scripts run, a ring whose members answer as told, and an API with objects by path."""

from __future__ import annotations

import asyncio
import copy
import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import yaml

from quorate.core.hosts.state import Cluster
from quorate.core.versions import Version
from quorate.etcd.client import Alarm, EtcdClient, Member, MemberList, Status
from quorate.etcd.errors import Unreachable as MemberUnreachable
from quorate.hosts.connect.access import Access, AccessFailed
from quorate.hosts.connect.ssh.errors import ConnectFailed, NoSuchFile
from quorate.hosts.connect.ssh.host import Host
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.connect.ssh.tunnel import Tunnel
from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.observe import Memory, Observation, observe
from quorate.hosts.observe.flags import arguments
from quorate.hosts.probe.probe import script
from quorate.hosts.render.component_arguments import api_server, controller_manager, local_etcd, scheduler
from quorate.hosts.render.component_configurations import kube_proxy_configuration, kubelet_configuration
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.host_files import yaml_documents
from quorate.hosts.render.host_settings import settings_files
from quorate.hosts.render.kubeadm_configuration import cluster_configuration, control_plane_endpoint, image_repository
from quorate.hosts.render.prerequisites import sysctls
from quorate.kubernetes.client import Client
from tests.hosts.act.api import Api
from tests.hosts.manifests import SMALLEST, load
from tests.hosts.probe.machine import NOW, Folder, installed, joined, joined_worker, manifest

NAMES = ("cp-1", "cp-2", "cp-3")
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
NODES = "/api/v1/nodes"
CORE_DNS = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
KUBE_PROXY = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
CORE_DNS_BUDGET = "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets/coredns"


def three(**changes: Any) -> Manifest:
    """A manifest of three named control planes."""
    document = copy.deepcopy(SMALLEST)
    for name, host in zip(NAMES, document["controlPlane"]["hosts"], strict=True):
        host["hostname"] = name
    return load({**document, **changes})


class FolderHost:
    """A host over SSH whose root is a folder. `member` is the id of the member that its etcd is, as long as that runs."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.member: int | None = None
        self.folder = Folder(path)
        for tool in ("stat", "head", "dirname"):
            (self.folder.programs / tool).unlink(missing_ok=True)
            (self.folder.programs / tool).symlink_to(shutil.which(tool) or f"/missing/{tool}")
        self.folder.file("etc/machine-id", f"{name}-machine\n")
        self.folder.program("date", f"echo {int(NOW.timestamp())}")

    def listen(self) -> None:
        """Have its API server, its etcd and its kubelet answer that they are well."""
        self.folder.listen(6443, 2381, 10248)
        self.folder.program("curl", r"printf 'ok\n200'")

    async def run(self, text: str, *, stdin: bytes = b"", deadline: float, sudo: bool = True) -> Outcome:  # noqa: ARG002
        assert deadline > 0
        if text.endswith(script()):
            done = await asyncio.to_thread(self.folder.run, text=text)
        else:
            done = await asyncio.to_thread(self._run_inside, text)
        return Outcome(done.returncode, done.stdout, done.stderr)

    async def read_file(self, path: str, *, sudo: bool = True) -> bytes:  # noqa: ARG002
        try:
            return (self.folder.root / path.lstrip("/")).read_bytes()
        except FileNotFoundError:
            raise NoSuchFile(self.name, f"there is no file {path}", exit_status=44) from None

    async def forward(self, address: str, port: int) -> Tunnel:
        raise NotImplementedError

    async def forward_socket(self, path: str) -> Tunnel:
        raise NotImplementedError

    def _run_inside(self, text: str) -> subprocess.CompletedProcess[bytes]:
        root = str(self.folder.root)
        owner = f"{pwd.getpwuid(os.geteuid()).pw_name}:{grp.getgrgid(os.getegid()).gr_name}"
        inside = (
            text.replace("root:root", owner)
            .replace("/etc/", f"{root}/etc/")
            .replace("/var/lib/", f"{root}/var/lib/")
            .replace("/usr/local/", f"{root}/usr/local/")
        )
        done = subprocess.run(
            [shutil.which("sh") or "sh", "-s"],
            input=f"{{\nset -eu\n{inside}\n}}".encode(),
            env={"PATH": str(self.folder.programs), "LC_ALL": "C"},
            capture_output=True,
            timeout=20,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.replace(root.encode(), b""), done.stderr)


@dataclass
class FakeMember:
    """One member of the ring; `answers` is whether it does, to whoever asks."""

    member: Member
    answers: bool = True
    leader: int = 1
    cluster_id: int = 77
    raft_index: int = 1000
    applied: int = 1000
    lists: Sequence[Member] | None = None  # another list than the ring's


@dataclass
class FakeClient:
    """An EtcdClient of one member."""

    ring: FakeRing
    node: str
    asked: FakeMember | None

    async def members(self) -> MemberList:
        member = self._member()
        lists = tuple(each.member for each in self.ring.members) if member.lists is None else tuple(member.lists)
        return MemberList(member.cluster_id, lists)

    async def status(self) -> Status:
        member = self._member()
        return Status(
            member.member.id, member.leader, raft_index=member.raft_index, raft_applied_index=member.applied, learner=member.member.learner
        )

    async def alarms(self) -> tuple[Alarm, ...]:
        self._member()
        return self.ring.alarms

    async def move_leader(self, target_id: int) -> None:
        raise NotImplementedError

    async def remove_member(self, member_id: int) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is kept open."""

    def _member(self) -> FakeMember:
        if self.asked is None or not self.asked.answers:
            raise MemberUnreachable(self.node, "connection refused")
        return self.asked


@dataclass
class FakeRing:
    """Members by where they are: the ring lists all of them, but those apart, which run on a host all the same."""

    members: list[FakeMember] = field(default_factory=list)
    apart: list[FakeMember] = field(default_factory=list)
    alarms: tuple[Alarm, ...] = ()

    def add(self, number: int, name: str, address: str, **settings: Any) -> FakeMember:
        """One more member; `learner` among the settings is the member's."""
        learner = settings.pop("learner", False)
        made = FakeMember(Member(number, name, (f"https://{address}:2380",), (), learner), **settings)
        self.members.append(made)
        return made

    def member(self, number: int | None) -> FakeMember | None:
        """The member with this id."""
        return next((each for each in (*self.members, *self.apart) if each.member.id == number), None)

    def at(self, address: str) -> FakeMember | None:
        """Whoever is at this address."""
        return next((each for each in self.members if f"//{address}:" in each.member.peer_urls[0]), None)


@dataclass
class World:
    """Everything that there is to observe. `unreachable` are hosts that SSH does not reach, `asked_elsewhere` addresses asked through another host."""

    manifest: Manifest
    folder: Path
    api_objects: Api = field(default_factory=Api)
    etcd_ring: FakeRing = field(default_factory=FakeRing)
    unreachable: set[str] = field(default_factory=set)
    avoided: frozenset[str] = frozenset()
    asked_elsewhere: list[tuple[str, str]] = field(default_factory=list)
    machines: dict[str, FolderHost] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    naming_problems: tuple[str, ...] = ()
    unnamed: frozenset[str] = frozenset()
    contents: Contents = field(default_factory=Contents)

    def __post_init__(self) -> None:
        self.machines = {host.hostname: FolderHost(host.hostname, self.folder / host.hostname) for host in self.manifest.hosts}

    # What quorate.hosts.connect.access.Access has.

    @property
    def hosts(self) -> Mapping[str, Any]:
        return {host.hostname: host for host in self.manifest.hosts}

    @property
    def control_planes(self) -> tuple[str, ...]:
        return tuple(host.hostname for host in self.manifest.control_plane.hosts)

    async def connect(self) -> Mapping[str, Host | Unreachable]:
        return {
            name: Unreachable(name, "NoAnswer", "no answer within 15 s", "Check that the host is up")
            if name in self.unreachable
            else machine
            for name, machine in self.machines.items()
        }

    def ssh(self, name: str) -> Host:
        if name in self.unreachable:
            raise ConnectFailed(name, "no answer within 15 s")
        return self.machines[name]

    def avoid(self, names: Iterable[str]) -> None:
        self.avoided = frozenset(names)

    async def api(self) -> Client:
        if self.api_objects.down:
            raise AccessFailed("no API server answers: cp-1: connection refused")
        return self.api_objects.client

    async def etcd(self, through: str | None = None) -> EtcdClient:
        assert through is not None
        return FakeClient(self.etcd_ring, through, self.etcd_ring.member(self.machines[through].member))

    async def etcd_at(self, address: str, through: str) -> EtcdClient:
        self.asked_elsewhere.append((address, through))
        return FakeClient(self.etcd_ring, address, self.etcd_ring.at(address))

    def forget(self, name: str) -> None:
        """Its members have no credentials."""

    # How a test looks at it.

    async def observe(self, now: datetime = NOW) -> Observation:
        return await observe(cast("Access", self), self.manifest, self.memory, self.contents, lambda: now)

    async def cluster(self, now: datetime = NOW) -> Cluster:
        return (await self.observe(now)).cluster


def join(world: World, name: str, *, founder: bool = False) -> FolderHost:
    """Give a host everything that joining leaves on it, with the flags that the manifest asks for. Its member has the number of its name."""
    machine = world.machines[name]
    machine.member = int(name[-1])
    joined(machine.folder, node=name, founder=founder, member=machine.member, server=f"https://{control_plane_endpoint(world.manifest)}")
    machine.folder.file("var/lib/kubelet/config.yaml", yaml_documents(kubelet_configuration(world.manifest)))
    write_settings(machine, world.manifest)
    write_static_pods(machine, world.manifest, founder=founder)
    machine.listen()
    return machine


def write_settings(machine: FolderHost, wanted: Manifest) -> None:
    """What preparing leaves on it, for its system and its containerd."""
    for file in settings_files(wanted, OperatingSystem.DEBIAN, Version.parse("1.6.20")):
        machine.folder.file(file.path.lstrip("/"), file.content)
        (machine.folder.root / file.path.lstrip("/")).chmod(file.mode)
    for name, value in sysctls(wanted).items():
        machine.folder.file(f"proc/sys/{name.replace('.', '/')}", f"{value}\n")


def write_static_pods(
    machine: FolderHost, wanted: Manifest, *, founder: bool = False, extra: Mapping[str, Sequence[str]] | None = None
) -> None:
    """The manifests that kubeadm would write from `wanted`, with some of its own flags and `extra` ones by component."""
    parts: dict[str, tuple[dict[str, Any], str, Sequence[str]]] = {
        "kube-apiserver": (
            api_server(wanted),
            "kube-apiserver:v1.34.4",
            ["--etcd-servers=https://127.0.0.1:2379", "--allow-privileged=true"],
        ),
        "kube-controller-manager": (controller_manager(wanted), "kube-controller-manager:v1.34.4", ["--leader-elect=true"]),
        "kube-scheduler": (scheduler(wanted), "kube-scheduler:v1.34.4", ["--leader-elect=true"]),
        "etcd": (
            local_etcd(wanted),
            "etcd:3.6.5-0",
            [
                "--data-dir=/var/lib/etcd",
                "--listen-metrics-urls=http://127.0.0.1:2381",
                *(() if founder else ("--initial-cluster-state=existing",)),
            ],
        ),
    }
    for component, (part, image, own) in parts.items():
        flags = [*own, *(f"--{name}={value}" for name, value in arguments(part).items()), *(extra or {}).get(component, ())]
        machine.folder.file(f"etc/kubernetes/manifests/{component}.yaml", manifest(f"{image_repository(wanted)}/{image}", *flags))


def put_configurations(world: World, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """The ConfigMaps that kubeadm keeps, as the manifest would have them, with a change to the ClusterConfiguration."""
    document = cluster_configuration(world.manifest)
    change(document)
    proxy = kube_proxy_configuration(world.manifest)
    world.api_objects.put(f"{CONFIG_MAPS}/kubeadm-config", {"data": {"ClusterConfiguration": yaml.safe_dump(document)}})
    world.api_objects.put(f"{CONFIG_MAPS}/kubelet-config", {"data": {"kubelet": yaml.safe_dump(kubelet_configuration(world.manifest))}})
    if proxy is not None:
        server = f"https://{control_plane_endpoint(world.manifest)}"
        kubeconfig = {"clusters": [{"name": "default", "cluster": {"server": server}}]}
        data = {"config.conf": yaml.safe_dump(proxy), "kubeconfig.conf": yaml.safe_dump(kubeconfig)}
        world.api_objects.put(f"{CONFIG_MAPS}/kube-proxy", {"data": data})
        put_kube_proxy(world.api_objects, image=f"{image_repository(world.manifest)}/kube-proxy:v1.34.4")
    put_core_dns(world.api_objects)


def put_kube_proxy(api: Api, *, image: str = "registry.k8s.io/kube-proxy:v1.34.4") -> None:
    """kube-proxy as kubeadm makes it."""
    pod = {"containers": [{"name": "kube-proxy", "image": image, "command": ["/usr/local/bin/kube-proxy"]}]}
    api.put(KUBE_PROXY, {"spec": {"template": {"spec": pod}}})


def put_core_dns(api: Api, *, image: str = "registry.k8s.io/coredns/coredns:v1.12.1", replicas: int = 2) -> None:
    """CoreDNS as kubeadm makes it, with its PodDisruptionBudget."""
    pod = {"containers": [{"name": "coredns", "image": image, "args": ["-conf", "/etc/coredns/Corefile"]}]}
    api.put(CORE_DNS, {"spec": {"replicas": replicas, "template": {"spec": pod}}})
    api.put(CORE_DNS_BUDGET, {"spec": {"maxUnavailable": 1}})


def put_node(world: World, name: str, address: str, *, control_plane: bool = True, **metadata: Any) -> None:
    """A Node that is Ready, with the label and the taint of a control plane, or as a worker's without them."""
    role = "node-role.kubernetes.io/control-plane"
    world.api_objects.put(
        f"{NODES}/{name}",
        {
            "metadata": {"name": name, "labels": {role: ""} if control_plane else {}, **metadata},
            "spec": {"taints": [{"key": role, "effect": "NoSchedule"}]} if control_plane else {},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": address}],
                "nodeInfo": {"kubeletVersion": "v1.34.4"},
            },
        },
    )


def stand(folder: Path, **changes: Any) -> World:
    """A cluster of three that is well."""
    world = World(three(**changes), folder)
    for number, name in enumerate(NAMES, 1):
        join(world, name, founder=number == 1)
        world.etcd_ring.add(number, name, f"10.0.0.{number}")
        put_node(world, name, f"10.0.0.{number}")
    put_configurations(world)
    return world


def bare(world: World, name: str) -> FolderHost:
    """Replace a host by an empty one with its packages."""
    path = world.machines[name].folder.root.parent
    shutil.rmtree(path)
    machine = world.machines[name] = FolderHost(name, path)
    installed(machine.folder)
    return machine


def join_worker(world: World, name: str, address: str, **metadata: Any) -> FolderHost:
    """Give a host everything that joining as a worker leaves on it, and its Node, which is Ready."""
    machine = world.machines[name]
    joined_worker(machine.folder, node=name, server=f"https://{control_plane_endpoint(world.manifest)}")
    machine.folder.file("var/lib/kubelet/config.yaml", yaml_documents(kubelet_configuration(world.manifest)))
    write_settings(machine, world.manifest)
    machine.listen()
    put_node(world, name, address, control_plane=False, **metadata)
    return machine
