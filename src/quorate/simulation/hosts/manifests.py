"""Manifests of static Pods on a simulated machine, as scripts replace them (`quorate.hosts.act.component_manifests`), and what the kubelet does about it."""

from __future__ import annotations

from quorate.core.versions import Version
from quorate.hosts.act.component_manifests import FOLDER, PHASES
from quorate.simulation.hosts.machines import Before, Machine, PodManifest
from quorate.simulation.hosts.scripts import Refused
from quorate.simulation.hosts.settings import Configured
from quorate.simulation.hosts.static_pods import Containers
from quorate.workload.static_pods import Component

COMPONENTS = {phase: component for component, phase in PHASES.items()}
"""By the phase of `kubeadm init` that writes the manifest of each."""


class Manifests:
    """Those of one machine, in a script."""

    def __init__(self, machine: Machine, containers: Containers) -> None:
        self._machine, self._containers = machine, containers
        self.watched = False  # a script looks after what `kubeadm upgrade` replaces (`quorate.hosts.act.old_containers`)
        self._new: dict[Component, PodManifest] = {}  # in the folder beside
        self._noted: frozenset[str] = frozenset()

    def write_beside(self, component: Component, cluster: Configured) -> None:
        """kubeadm writes what the manifest would be."""
        self._new[component] = made_from(cluster, component, self._machine)

    def differs(self, component: Component) -> bool:
        """Whether that is another than the one which is there."""
        return self._new[component] != self._machine.disk.manifest(component)

    def outdated(self, component: Component) -> bool:
        """Whether the component runs with files that are older than those on the disk, and nothing else is under way."""
        machine = self._machine
        runs = machine.api_version is not None and component not in machine.disk.before
        return runs and machine.api_providers != machine.disk.stores_with

    def note(self) -> None:
        """Which containers run."""
        self._noted = frozenset(container.id for container in self._machine.containers.values())

    def keep(self, component: Component) -> None:
        """A copy of the manifest that is there, and what was noted, until the next one has proven itself."""
        disk = self._machine.disk
        if (found := disk.manifest(component)) is not None:
            disk.before = {**disk.before, component: Before(found, self._noted)}

    def take(self, component: Component) -> None:
        """The new one takes its place."""
        self.replace(component, self._new[component])

    def put_back(self, component: Component) -> None:
        """The old one does again."""
        before = self._machine.disk.before.get(component)
        if before is None:
            raise Refused(f"mv: cannot stat {FOLDER}/{component}.before")
        self.replace(component, before.manifest)
        self.forget(component)

    def forget(self, component: Component) -> None:
        """The copy goes."""
        disk = self._machine.disk
        disk.before = {each: before for each, before in disk.before.items() if each is not component}

    def watch(self) -> None:
        """A script does from now on."""
        self.watched = True

    def make_way(self) -> None:
        """Whoever looks after it has the API server listen to nobody while etcd is replaced."""
        if self.watched:
            self._containers.end(Component.API_SERVER)

    def end_the_silent(self) -> None:
        """Whoever looks after it ends an API server by force that listens to nobody any more."""
        if self.watched:
            self._containers.end_silent()

    def runs(self, component: Component) -> bool:
        """Whether the component runs with the manifest that is there, and does its work."""
        return self._containers.is_ready(component)

    def replace(self, component: Component, made: PodManifest) -> None:
        """It takes the place of the one that is there, and the kubelet ends what runs with that."""
        machine = self._machine
        if machine.disk.manifest(component) == made:
            return
        machine.disk.replace_manifest(component, made)
        if machine.kubelet_runs and machine.containerd_runs:
            self._containers.end(component)


def made_from(cluster: Configured, component: Component, machine: Machine, version: Version | None = None) -> PodManifest:
    """What kubeadm makes of its configuration for a component. An etcd that has members in its manifest keeps them."""
    version = version or cluster.version
    match component:
        case Component.ETCD:
            return PodManifest(version, cluster.etcd, etcd=machine.disk.etcd)
        case Component.API_SERVER:
            return PodManifest(version, cluster.api_server, cluster.encrypts)
    return PodManifest(version)


def told_before(machine: Machine, script: str) -> str:
    """What a script prints that asks whether a change has yet to prove itself, and what ran before it."""
    before = next((before for component, before in machine.disk.before.items() if f"{FOLDER}/{component}.before" in script), None)
    return "" if before is None else "".join(f"{each}\n" for each in (*sorted(before.containers), "changed"))
