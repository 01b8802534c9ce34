"""Hosts, a ring and an API for steps: scripts are recognized by what they run, and have the effect on files that kubeadm would have. Any call can be cut."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts import state as core
from quorate.core.ring import Member as CoreMember
from quorate.core.ring import Ring
from quorate.core.versions import Version
from quorate.etcd.client import Alarm, EtcdClient, Member, MemberList, SnapshotClient, Status
from quorate.hosts.act.keys import PKI
from quorate.hosts.act.tools import Tools
from quorate.hosts.act.waiting import Waits
from quorate.hosts.connect.access import AccessFailed
from quorate.hosts.connect.ssh.errors import ConnectFailed, ConnectionCut, NoSuchFile
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest
from quorate.hosts.probe.facts import Family, HostFacts, OperatingSystem
from quorate.hosts.probe.parse import parse
from quorate.hosts.probe.probe import script as probing
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.kubeadm_configuration import INIT_PATH, JOIN_PATH, Machine
from quorate.kubernetes.client import Client
from quorate.pki.issue import generate_ca, generate_service_account
from quorate.pki.keys import KeyAlgorithm, KeyPair
from tests.hosts.act.api import Api
from tests.hosts.probe.machine import etcd_log

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KUBELET = "/etc/kubernetes/kubelet.conf"
ADMIN = "/etc/kubernetes/admin.conf"
API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
ETCD = "/etc/kubernetes/manifests/etcd.yaml"
DATA = "/var/lib/etcd/member"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
NODES = "/api/v1/nodes"
_PLACED = re.compile(r"^printf %s '([^']*)' \| place (\S+) ", re.MULTILINE)


@cache
def pairs() -> Mapping[str, KeyPair]:
    """The cluster's CAs, the same all through the tests."""
    made = {name: generate_ca(KeyAlgorithm.ECDSA_P256, now=NOW, common_name=name) for name in ("ca", "front-proxy-ca", "etcd/ca")}
    return {**made, "sa": generate_service_account(KeyAlgorithm.ECDSA_P256)}


def pki_files() -> dict[str, bytes]:
    """What init leaves below /etc/kubernetes/pki, as far as others need it."""
    files = {}
    for name, pair in pairs().items():
        files[f"{PKI}/{name}.{'pub' if name == 'sa' else 'crt'}"] = pair.certificate
        files[f"{PKI}/{name}.key"] = pair.key
    return files


@dataclass
class FakeHost:
    """A host: its files, and the programs that were run there."""

    name: str
    address: str
    world: World
    files: dict[str, bytes] = field(default_factory=dict)
    packages: bool = False
    data_of: tuple[int, int] | None = None  # whose its etcd data are: member and cluster; None: of the member at its address, or of 99
    data_folder: str = "/var/lib/etcd"
    ran: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)  # the scripts of those

    @property
    def kubelet_version(self) -> Version | None:
        """Of the kubelet that runs, if there is one."""
        return None

    async def look(self, script: str, *, deadline: float) -> Outcome:
        return await self.change(script, deadline=deadline)

    async def change(self, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        assert deadline > 0
        if "tail -n 1 --" in script:
            return _said(b"[phase] it goes on")
        if script.endswith(probing()):
            self.probes.append(script)
            return _said(self.probed())
        self.scripts.append(script)
        cut = self.world.cut_now()
        if cut == "before":
            raise ConnectionCut(self.name, "the connection ended before the script did")
        outcome = self._run(script, stdin, halfway=cut == "halfway")
        if cut:
            raise ConnectionCut(self.name, "the connection ended before the script did")
        return outcome

    async def read_file(self, path: str) -> bytes:
        if path not in self.files:
            raise NoSuchFile(self.name, f"there is no file {path}", exit_status=44)
        return self.files[path]

    def probed(self) -> bytes:
        """What the probe tells of it: where its etcd data are, and whose."""
        there = DATA in self.files
        own = next((member.id for member in self.world.members if any(self.address in url for url in member.peer_urls)), None)
        data = self.data_of if self.data_of is not None else (own or 99, 7)
        log = base64.b64encode(etcd_log(*data)).decode()
        told = [f"etcd_folder\t=\t{self.data_folder}", "etcd_log_folder\t-", "etcd_data\t=\tmember" if there else "etcd_data\t-"]
        told += [
            f"etcd_identity\t=\t{log}" if there else "etcd_identity\t-",
            f"processes\t=\t{'etcd' if ETCD in self.files else ''}",
            "end\t=",
            "",
        ]
        return "\n".join(told).encode()

    def _run(self, script: str, stdin: bytes, *, halfway: bool) -> Outcome:
        for content, path in _PLACED.findall(script):
            self.files[path.strip("'")] = base64.b64decode(content)
        if (failure := self.world.failures.get(self.name)) and failure[0] in script:
            return Outcome(1, b"", failure[1].encode())
        effects: tuple[tuple[str, Callable[[], Outcome]], ...] = (
            ("kubeadm init phase preflight", lambda: self._preflight(stdin)),
            ("kubeadm init --config", lambda: self._init(halfway=halfway, preflight="--skip-phases=preflight" not in script)),
            ("kubeadm join --config", lambda: self._join(halfway=halfway)),
            ("kubeadm reset", self._reset),
            ("containerd --version", lambda: _said(b"containerd github.com/containerd/containerd v2.1.4 deadbeef")),
            ("apt-mark hold", self._install),
            ("base64 -w 0", self._cas),
            (DATA, lambda: _said(DATA.encode() if DATA in self.files else b"")),
        )
        for marker, effect in effects:
            if marker in script:
                self.ran.append(marker)
                return effect()
        return _said(b"")

    def _install(self) -> Outcome:
        self.packages = True
        return _said(b"changed kubeadm 1.34.4-1.1\n")

    def _preflight(self, stdin: bytes) -> Outcome:
        assert [document["kind"] for document in yaml.safe_load_all(stdin)] == ["InitConfiguration", "ClusterConfiguration"]
        return _said(b"") if self.packages else Outcome(127, b"", b"sh: kubeadm: not found")

    def _init(self, *, halfway: bool, preflight: bool) -> Outcome:
        if preflight and (ETCD in self.files or DATA in self.files):
            return Outcome(1, b"", b"[ERROR DirAvailable--var-lib-etcd]: /var/lib/etcd is not empty")
        configuration = self.files.pop(INIT_PATH)
        for path, content in pki_files().items():
            self.files.setdefault(path, content)
        self.files |= {ADMIN: b"admin", KUBELET: b"kubelet", "/etc/kubernetes/super-admin.conf": b"super", ETCD: b"etcd"}
        self.files.setdefault(DATA, b"the only copy")
        if halfway:
            return _said(b"")
        token = next(iter(yaml.safe_load_all(configuration)))["bootstrapTokens"][0]["token"]
        self.world.api.put(f"{SECRETS}/bootstrap-token-{token[:6]}", {"data": {}})
        self.world.serve(self)
        return _said(b"")

    def _join(self, *, halfway: bool) -> Outcome:
        if KUBELET in self.files:
            return Outcome(1, b"", b"[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists")
        configuration = yaml.safe_load(self.files.pop(JOIN_PATH))
        self._discover(self.files.pop(configuration["discovery"]["file"]["kubeConfigPath"]))
        self.files[KUBELET] = b"kubelet"
        if "controlPlane" not in configuration:
            self.world.api.put(f"{NODES}/{self.name}", {})
            return _said(b"")
        assert {path: self.files.get(path) for path in pki_files()} == pki_files(), "the host has not been given the CAs"
        if halfway:
            self.world.members.append(Member(self.world.next_id(), "", (f"https://{self.address}:2380",), learner=True))
            return _said(b"")
        self.files |= {ADMIN: b"admin", ETCD: b"etcd", DATA: b"a copy"}
        self.world.serve(self)
        return _said(b"")

    def _discover(self, kubeconfig: bytes) -> None:
        found = yaml.safe_load(kubeconfig)
        token = found["users"][0]["user"]["token"]
        assert f"bootstrap-token-{token[:6]}" in self.world.api.below(SECRETS), "the token is not known to the cluster"
        assert base64.b64decode(found["clusters"][0]["cluster"]["certificate-authority-data"]) == pairs()["ca"].certificate

    def _reset(self) -> Outcome:
        self.files = {path: content for path, content in self.files.items() if not path.startswith(("/etc/kubernetes/", "/var/lib/etcd"))}
        return _said(b"")

    def _cas(self) -> Outcome:
        lines = [
            f"{path.removeprefix(f'{PKI}/')} {base64.b64encode(self.files[path]).decode()}" for path in pki_files() if path in self.files
        ]
        return _said("\n".join(lines).encode())


@dataclass
class FakeEtcd:
    """The member of one host."""

    host: FakeHost

    async def members(self) -> MemberList:
        return MemberList(7, tuple(self.host.world.members))

    async def status(self) -> Status:
        world = self.host.world
        if self.host.name in world.apart:
            return Status(member_id=world.apart[self.host.name], leader=0)
        own = next(member for member in world.members if any(self.host.address in url for url in member.peer_urls))
        return Status(member_id=own.id, leader=world.members[0].id, raft_index=9, raft_applied_index=9, learner=own.learner)

    async def alarms(self) -> tuple[Alarm, ...]:
        return ()

    async def move_leader(self, target_id: int) -> None:
        world = self.host.world
        world.members.sort(key=lambda member: member.id != target_id)  # the first one leads

    async def values(self, prefix: bytes) -> AsyncGenerator[tuple[bytes, bytes], None]:
        for key, value in self.host.world.stored.items():
            if key.startswith(prefix):
                yield key, value

    async def snapshot(self) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError
        yield b""

    async def remove_member(self, member_id: int) -> None:
        world = self.host.world
        world.members = [member for member in world.members if member.id != member_id]

    async def close(self) -> None:
        pass


class World:
    """Hosts of a manifest as machines would be. `cut` is the number of the call that is cut, and how: before, halfway (kubeadm only) or after it."""

    def __init__(self, manifest: Manifest, *, cut: tuple[int, str] | None = None) -> None:
        self.manifest = manifest
        self.api = Api()
        self.members: list[Member] = []
        self.cut = cut
        self.calls = 0
        self.failures: dict[str, tuple[str, str]] = {}  # by host: of scripts with this text, this is the error
        self.stored: dict[bytes, bytes] = {}  # in etcd
        self.reports: list[tuple[str, str]] = []
        self.unreachable: set[str] = set()
        self.hosts = {f"h{number}": FakeHost(f"h{number}", host.private_address, self) for number, host in enumerate(manifest.hosts, 1)}
        self.apart: dict[str, int] = {}  # by host: the member that its etcd answers as, which is in no ring
        self.taken_out: dict[str, FakeHost] = {}
        self.clock = itertools.count()
        self._ids = itertools.count(11)

    def next_id(self) -> int:
        return next(self._ids)

    def cut_now(self) -> str:
        """How the call that is about to be made is cut; empty where it is not."""
        self.calls += 1
        return self.cut[1] if self.cut and self.cut[0] == self.calls else ""

    def take_out(self, name: str) -> None:
        """The host runs on, and the manifest has it no more."""
        self.taken_out[name] = self.hosts.pop(name)

    def serve(self, host: FakeHost) -> None:
        """The host is a control plane from now on."""
        host.files[API_SERVER] = b"api server"
        if not any(host.address in url for member in self.members for url in member.peer_urls):
            self.members.append(Member(self.next_id(), host.name, (f"https://{host.address}:2380",), (f"https://{host.address}:2379",)))
        self.api.put(f"{NODES}/{host.name}", {})

    # What quorate.hosts.connect.access.Access is.

    @property
    def states(self) -> Mapping[str, FakeHost | Unreachable]:
        return {
            name: Unreachable(name, "NoAnswer", "no answer", "") if name in self.unreachable else host for name, host in self.hosts.items()
        }

    def ssh(self, name: str) -> FakeHost:
        if name in self.unreachable:
            raise ConnectFailed(name, "no answer")
        return self.hosts[name]

    async def api_client(self) -> Client:
        if not any(API_SERVER in host.files for host in self.hosts.values()):
            raise AccessFailed("no API server answers")
        return self.api.client

    async def api_of(self, name: str) -> Client:
        if API_SERVER not in self.hosts[name].files:
            raise AccessFailed(f"{name} has no API server")
        return self.api.client

    async def etcd(self, through: str | None = None) -> SnapshotClient:
        if through is not None:
            self.ssh(through)
        for name, host in self.hosts.items():
            if through == name and name in self.apart:
                return FakeEtcd(host)
            if through in (None, name) and any(host.address in url for member in self.members for url in member.peer_urls if member.name):
                return FakeEtcd(host)
        raise AccessFailed("no member answers")

    async def etcd_at(self, address: str, through: str) -> EtcdClient:
        self.ssh(through)
        for host in self.taken_out.values():
            if host.address == address:
                return FakeEtcd(host)
        raise AccessFailed(f"nobody answers at {address} through {through}")

    def forget(self, name: str) -> None:
        """Nothing is kept."""

    # What is observed.

    def kind(self, name: str) -> core.Kind:
        """As quorate.hosts.probe.condition would have it, for what can happen here."""
        host = self.hosts[name]
        traces = {path for path in host.files if path.startswith((f"{PKI}/ca.crt", KUBELET, ADMIN, "/etc/kubernetes/manifests", DATA))}
        if not traces:
            return core.Kind.PACKAGES_ONLY if host.packages else core.Kind.BARE
        complete = (
            {KUBELET, ADMIN, API_SERVER, ETCD} <= traces
            if self.manifest_host(name) in self.manifest.control_plane.hosts
            else KUBELET in traces
        )
        if complete:
            return core.Kind.MEMBER
        return core.Kind.HALF_INITIALIZED if "/etc/kubernetes/super-admin.conf" in host.files else core.Kind.HALF_JOINED

    def manifest_host(self, name: str) -> Any:
        return self.manifest.hosts[int(name[1:]) - 1]

    def observed(self) -> Observed:
        ring = Ring(tuple(CoreMember(m.id, m.name, Health.GOOD, m.learner, m.peer_urls) for m in self.members), None)
        hosts = []
        for name, host in self.hosts.items():
            own = next((member.id for member in self.members if any(host.address in url for url in member.peer_urls)), Absent())
            control_plane = self.manifest_host(name) in self.manifest.control_plane.hosts
            hosts.append(core.Host(name, control_plane, self.kind(name), member=own, kubelet=host.kubelet_version))
        cluster = core.Cluster(
            name=self.manifest.name,
            version=self.manifest.version,
            hosts=tuple(hosts),
            leader="h1",
            ring=ring if self.members else Absent(),
            api=Finding(Health.GOOD, "Answers"),
        )
        machines = {name: Machine(replace(self.manifest_host(name), hostname=name), name) for name in self.hosts}
        return Observed(cluster, {name: _facts(host.probed()) for name, host in self.hosts.items()}, machines)


class WorldAccess:
    """The world as steps enter it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ssh = world.ssh
        self.api = world.api_client
        self.api_of = world.api_of
        self.etcd = world.etcd
        self.etcd_at = world.etcd_at
        self.forget = world.forget

    @property
    def states(self) -> Mapping[str, FakeHost | Unreachable]:
        return self._world.states


@dataclass
class Observed:
    """What a step was decided on."""

    cluster: core.Cluster
    facts: Mapping[str, HostFacts | Unreachable]
    machines: Mapping[str, Machine]


def tools_for(world: World, contents: Contents | None = None) -> Tools:
    """Tools with a clock that goes on by itself, and keys that are drawn from a counter."""
    seconds = [0.0]

    async def sleep(duration: float) -> None:
        seconds[0] += duration
        await asyncio.sleep(0)

    def report(host: str, what: str) -> None:
        world.reports.append((host, what))

    return Tools(
        access=WorldAccess(world),
        manifest=world.manifest,
        contents=contents or Contents(),
        report=report,
        waits=Waits(report, lambda: seconds[0], sleep),
        now=lambda: NOW,
        random_bytes=drawn(),
        snapshot_folder=Path("/nowhere"),
    )


def drawn() -> Callable[[int], bytes]:
    """Bytes that are never the same twice."""
    numbers = itertools.count()
    return lambda size: hashlib.shake_128(str(next(numbers)).encode()).digest(size)


def _facts(probed: bytes) -> HostFacts:
    empty = parse(probed, Unknown("not asked"))
    system = OperatingSystem(Family.DEBIAN, "debian", "13", "Debian GNU/Linux 13")
    return replace(empty, operating_system=system, programs={**empty.programs, "containerd": Absent()})


def _said(text: bytes) -> Outcome:
    return Outcome(0, text, b"")
