"""kubeadm on a machine, phase by phase: each leaves its traces, and a script that ends between two of them leaves those of the phases before.

Source: kubeadm 1.34, cmd/kubeadm/app/cmd/{init,join}.go and phases/upgrade for the order of phases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from quorate.core.versions import Version
from quorate.hosts.act.certificates import OF_COMPONENT
from quorate.simulation.engine.ring import NoQuorum
from quorate.simulation.hosts.acts import Act, Action, Actor, Witness
from quorate.simulation.hosts.machines import EtcdManifest, KubeletConf, Machine, PodManifest
from quorate.simulation.hosts.manifests import Manifests, made_from
from quorate.simulation.hosts.scripts import Refused
from quorate.simulation.hosts.settings import configured, kubelets, with_version
from quorate.simulation.hosts.site import VALIDITY, Site
from quorate.workload.static_pods import Component

_TIMEOUT = 120.0
"""Seconds for which kubeadm waits for a component, or for an API server."""
_UPGRADED = (Component.ETCD, Component.API_SERVER)
_FOLLOWERS = (*OF_COMPONENT[Component.CONTROLLER_MANAGER], *OF_COMPONENT[Component.SCHEDULER])
_DOCUMENTS = ("ClusterConfiguration", "KubeletConfiguration", "KubeProxyConfiguration")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What its configuration and the files beside it say."""

    address: str = ""
    token: str = ""
    ca: int = 0
    control_plane: bool = False
    documents: Mapping[str, str] = field(default_factory=dict)  # each by its kind


class Kubeadm:
    """kubeadm in one script on one machine, for the step that was carried out when it began."""

    def __init__(self, site: Site, machine: Machine, actor: Actor, witness: Witness, random: Random) -> None:
        self.site, self.machine, self.actor, self.step = site, machine, actor, actor.step
        self._witness, self._random = witness, random
        self.kubelet_reconfigured = False  # and not restarted yet
        self._since, self._observed = actor.since, actor.observed

    # The first control plane.

    async def init(self, wanted: Wanted, *, resume: bool) -> None:
        """`kubeadm init`; one that resumes does everything again that is not there."""
        site, machine, disk = self.site, self.machine, self.machine.disk
        self._check_installed()
        await self._takes(0.5, 2.0)
        self._check_address(wanted.address)
        if not resume and machine.traces:
            raise Refused("[ERROR] preflight: there are files of a cluster")
        if not disk.ca:
            site.cas += 1
            disk.ca = site.cas
        disk.certificates = disk.certificates or site.certificates()
        await self._takes(0.5, 2.0)
        disk.admin_conf = disk.super_admin_conf = True
        disk.kubelet_conf = disk.kubelet_conf or KubeletConf.INLINE
        await self._takes(0.1, 0.5)
        disk.etcd = disk.etcd or EtcdManifest.NEW
        await self._takes(0.1, 0.5)
        cluster, kubelet, kube_proxy = (wanted.documents[kind] for kind in _DOCUMENTS)
        self._write_manifests(cluster)
        await self._takes(0.1, 0.5)
        self._configure_kubelet(kubelet)
        self._restart_kubelet()
        await self._takes(2.0, 8.0)
        if disk.data is None:
            self.tell(Action.FOUND)
            site.found(machine)
        site.settle()
        await self._until_serves()
        if machine.name not in site.objects.nodes:
            site.register(machine, control_plane=False)
        await self._written(lambda: setattr(site.objects, "kubeadm", cluster))
        await self._written(lambda: setattr(site.objects, "kubelet", kubelet))
        await self._written(self._mark)
        await self._written(lambda: site.tokens.add(wanted.token))
        await self._written(lambda: setattr(site.objects, "discovery", True))
        disk.kubelet_conf = KubeletConf.FILE
        await self._written(lambda: self._add(kube_proxy))

    def _write_manifests(self, cluster: str, version: Version | None = None) -> None:
        """Those of static Pods, from a ClusterConfiguration, or for another version."""
        made, disk = configured(cluster), self.machine.disk
        disk.components, disk.settings, disk.flagged = version or made.version, made.api_server, made.encrypts
        disk.etcd_version, disk.etcd_settings = version or made.version, made.etcd

    def _configure_kubelet(self, document: str) -> None:
        self.machine.disk.kubelet_configuration = True
        self.machine.disk.kubelet_settings = kubelets(document)

    def _add(self, kube_proxy: str) -> None:
        """CoreDNS and kube-proxy, whose configuration stays as it is where there is one."""
        self.site.objects.addons = True
        self.site.objects.kube_proxy = self.site.objects.kube_proxy or kube_proxy

    def _mark(self) -> None:
        node = self.site.objects.nodes.get(self.machine.name)
        if node is not None:
            node.control_plane = True

    # Those that join.

    async def join(self, wanted: Wanted) -> None:
        """`kubeadm join --control-plane`; the keys were placed before, and so was the file of encryption providers."""
        site, disk = self.site, self.machine.disk
        await self._discover(wanted)
        disk.admin_conf = True
        disk.certificates = site.certificates()
        self._write_manifests(site.objects.kubeadm, disk.kubeadm)
        await self._takes(0.5, 3.0)
        self._check_etcd()
        self._configure_kubelet(site.objects.kubelet)
        disk.bootstrap_conf = True
        self._restart_kubelet()
        await self._takes(0.5, 3.0)
        await self._join_ring()
        await self._takes(0.5, 3.0)
        await self._bootstrap_kubelet(wanted.token)
        await self._written(self._mark)
        await self._until_serves()

    async def join_worker(self, wanted: Wanted) -> None:
        """`kubeadm join`."""
        disk = self.machine.disk
        await self._discover(wanted)
        disk.ca = wanted.ca
        await self._takes(0.2, 1.0)
        self._configure_kubelet(self.site.objects.kubelet)
        disk.bootstrap_conf = True
        self._restart_kubelet()
        await self._takes(0.5, 3.0)
        self.tell(Action.JOIN_WORKER)
        await self._bootstrap_kubelet(wanted.token)

    async def _discover(self, wanted: Wanted) -> None:
        """Preflight, the cluster's information, and no Node of this name that is ready. A control plane may have been given CAs."""
        disk = self.machine.disk
        self._check_installed()
        await self._takes(0.5, 2.0)
        self._check_address(wanted.address)
        there = (disk.kubelet_conf, disk.bootstrap_conf, disk.admin_conf, disk.components, disk.etcd, disk.data is not None)
        if any(there) or (disk.ca and not wanted.control_plane):
            raise Refused("[ERROR] preflight: there are files of a cluster")
        await self._until(lambda: self._is_let_in(wanted.token) and self.site.objects.discovery, "the cluster's information")
        node = self.site.objects.nodes.get(self.machine.name)
        if node is not None and self.site.is_ready(node):
            raise Refused("kubelet-start: a Node of this name is ready already")

    def _is_let_in(self, token: str) -> bool:
        return self.site.reaches_api(self.machine) and token in self.site.tokens

    async def pull_images(self) -> None:
        """`kubeadm init phase preflight`, of which nothing else is known here."""
        self._check_installed()
        await self._takes(0.5, 5.0)

    def _check_installed(self) -> None:
        if self.machine.disk.kubeadm is None:
            raise Refused("kubeadm: not found")

    def _check_address(self, address: str) -> None:
        """Nothing could listen at an address that the machine does not have."""
        if address != self.machine.address:
            raise Refused(f"[ERROR] preflight: {address} is no address of this host")

    async def _join_ring(self) -> None:
        site, machine = self.site, self.machine
        ring = site.ring
        member = site.member_at(machine.address)
        if member is None:
            self.tell(Action.ADD)
            try:
                member = ring.add_learner(machine.peer_url).id
            except NoQuorum as refusal:
                raise Refused(f"etcd-join: {refusal}") from refusal
        await self._takes(0.2, 3.0)
        machine.disk.etcd = EtcdManifest.EXISTING
        await self._takes(0.5, 5.0)
        if site.ring is not ring or member not in ring.members:
            raise Refused("etcd-join: the member was removed")
        machine.disk.data = member
        ring.start(member, machine.name)
        site.settle()
        await self._until(lambda: self._promoted(member), "the learner to be promoted")
        await self._takes(0.1, 0.5)
        self._check_etcd()

    def _check_etcd(self) -> None:
        """kubeadm asks every member that ever started for its status, before it adds one and after (CheckClusterHealth, WaitForClusterAvailable)."""
        ring = self.site.ring
        running = {machine.member for machine in self.site.machines.values() if machine.talks}
        silent = [member.name for member in ring.members.values() if member.name and member.id not in running]
        if silent:
            raise Refused(f"etcd: {', '.join(silent)} does not answer")

    def _promoted(self, member: int) -> bool:
        found = self.site.ring.members.get(member)
        if found is None:
            raise Refused("etcd-join: the member was removed")
        try:
            if found.learner:
                self.site.ring.promote(member)
        except NoQuorum:
            return False
        self.site.settle()
        return True

    async def _bootstrap_kubelet(self, token: str) -> None:
        await self._until(lambda: self._is_let_in(token), "the kubelet's certificate")
        self.machine.disk.kubelet_conf, self.machine.disk.bootstrap_conf = KubeletConf.FILE, False
        self.site.register(self.machine, control_plane=False)

    # Those that are in the cluster.

    async def upgrade(self, manifests: Manifests, version: Version | None, *, patched: bool, renews: bool) -> None:
        """`kubeadm upgrade apply` to a version, or `node` to that of the cluster: etcd, and then what stands on it; what does not come up is put back.

        `patched`: etcd's manifest says that its ring exists, which kubeadm's own never does. `renews`: certificates, too.
        """
        site, disk = self.site, self.machine.disk
        await self._until(lambda: site.reaches_api(self.machine), "an API server")
        if disk.components is None:  # a worker has but its kubelet's configuration
            self._configure_kubelet(site.objects.kubelet)
            return
        target = version or site.objects.running
        if target is None or disk.kubeadm is None or target > disk.kubeadm:
            raise Refused(f"kubeadm is of {disk.kubeadm}, and the configuration of {target}")
        self.tell(Action.UPGRADE, target)
        etcd = EtcdManifest.EXISTING if patched else EtcdManifest.NEW
        cluster, before = site.objects.configured, {component: disk.manifest(component) for component in _UPGRADED}
        try:
            made = replace(made_from(cluster, Component.ETCD, self.machine, target), etcd=etcd)
            await self._exchange(manifests, Component.ETCD, made, renews=renews)
            made = made_from(cluster, Component.API_SERVER, self.machine, target)
            await self._exchange(manifests, Component.API_SERVER, made, renews=renews)
        except Refused:
            for component, manifest in before.items():
                if manifest is not None:
                    manifests.replace(component, manifest)
            raise
        if renews:
            self._renew("admin.conf")
        self._configure_kubelet(site.objects.kubelet)
        if version is not None:
            await self._written(lambda: setattr(site.objects, "kubeadm", with_version(site.objects.kubeadm, target)))
            await self._written(lambda: self._add(""))

    async def _exchange(self, manifests: Manifests, component: Component, made: PodManifest, *, renews: bool) -> None:
        """One static Pod's, and wait until it does its work. The controller manager and the scheduler follow the API server."""
        await self._takes(0.3, 2.0)
        if made == self.machine.disk.manifest(component):
            return
        if renews:
            self._renew(*OF_COMPONENT[component], *(_FOLLOWERS if component is Component.API_SERVER else ()))
        if component is Component.ETCD:
            manifests.make_way()
            await self._takes(0.1, 0.5)
        manifests.replace(component, made)
        await self._takes(2.0, 6.0)
        manifests.end_the_silent()
        await self._until(lambda: manifests.runs(component), f"{component} with its new manifest")
        await self._until(lambda: manifests.runs(Component.API_SERVER), "the API server")

    def _renew(self, *certificates: str) -> None:
        disk = self.machine.disk
        disk.certificates = {**disk.certificates, **dict.fromkeys(certificates, self.site.world.now() + VALIDITY)}

    async def configure_kubelet(self) -> None:
        """`kubeadm upgrade node phase kubelet-config`."""
        await self._until(lambda: self.site.reaches_api(self.machine) and bool(self.site.objects.kubelet), "the kubelets' configuration")
        before = self.machine.disk.kubelet_settings
        self._configure_kubelet(self.site.objects.kubelet)
        self.kubelet_reconfigured = before != self.machine.disk.kubelet_settings

    async def renew(self, certificate: str) -> None:
        """`kubeadm certs renew`, which restarts nothing."""
        await self._takes(0.1, 0.5)
        disk = self.machine.disk
        if certificate not in disk.certificates:
            raise Refused(f"there is no certificate {certificate}")
        self._renew(certificate)

    async def reset(self) -> None:
        """`kubeadm reset` without the phase that touches the ring, and what it leaves behind."""
        machine, disk = self.machine, self.machine.disk
        await self._takes(0.2, 1.0)
        machine.kubelet_runs, machine.kubelet_version = False, None
        await self._takes(0.5, 2.0)
        self.tell(Action.ERASE)
        machine.member = machine.api_version = None
        machine.ended.clear()
        disk.etcd, disk.components = EtcdManifest.NONE, None
        self.site.settle()
        await self._takes(0.2, 1.0)
        disk.data = None
        await self._takes(0.2, 1.0)
        disk.forget()
        self.site.settle()

    # What they share.

    async def _takes(self, least: float, most: float) -> None:
        await asyncio.sleep(self._random.uniform(least, most))

    def tell(self, action: Action, version: Version | None = None) -> None:
        """The script does this now."""
        machine = self.machine
        self._witness(Act(action, self.actor, self._since, self._observed, self.step, machine, machine.disk.data, version=version))

    def _restart_kubelet(self) -> None:
        self.site.start_kubelet(self.machine)
        self.site.settle()

    async def _until_serves(self) -> None:
        await self._until(lambda: self.site.serves(self.machine), "the control plane of this host")

    async def _written(self, write: Callable[[], None]) -> None:
        await self._takes(0.1, 1.0)
        await self._until(lambda: self.site.reaches_api(self.machine), "an API server")
        write()
        self.site.settle()

    async def _until(self, truth: Callable[[], bool], what: str) -> None:
        end = self.site.world.time() + _TIMEOUT
        while not truth():
            if self.site.world.time() > end:
                raise Refused(f"{what} did not come about")
            await asyncio.sleep(2.0)
