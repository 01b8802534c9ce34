"""What kubelets do with the containers of static Pods: each has its own after every start and for every manifest, and what ended is started anew."""

from __future__ import annotations

from collections.abc import Callable

from quorate.simulation.engine.world import World
from quorate.simulation.hosts.machines import Container, Machine
from quorate.workload.static_pods import Component

_ENDING = {Component.ETCD: (0.1, 8.0), Component.API_SERVER: (15.0, 65.0)}
"""Seconds until a container ends that was asked to: an API server keeps those who watch for a while, and so does an etcd."""
_HESITATES = (10.0, 20.0)
"""Seconds until a kubelet of another minor version knows that it may end what ran before."""
_AT_ONCE = (0.1, 1.0)
_AGAIN = (0.5, 3.0)
"""Seconds until the kubelet starts another."""


class Kubelets:
    """Those of all machines. `settle` is called when a container may start again; with broken settings an API server has nobody who watches."""

    def __init__(self, world: World, settle: Callable[[], None], broken_settings: set[int]) -> None:
        self._world, self._settle, self._broken_settings = world, settle, broken_settings
        self._random = world.random("kubelets")

    def note_containers(self, machine: Machine) -> None:
        """Whatever runs does so in a container, another one after each start and for each manifest."""
        kubelet = machine.kubelet_runs and machine.containerd_runs
        others = machine.disk.components is not None and machine.containerd_runs
        for component, runs in (
            (Component.ETCD, machine.member is not None),
            (Component.API_SERVER, machine.api_version is not None),
            (Component.CONTROLLER_MANAGER, others),
            (Component.SCHEDULER, others),
        ):
            if component in machine.ended:
                continue
            if not runs:
                machine.containers.pop(component, None)
            elif component not in machine.containers or (
                kubelet and machine.containers[component].manifest != machine.disk.manifest(component)
            ):
                machine.started += 1
                minor = machine.kubelet_version.minor if machine.kubelet_version is not None else None
                made = machine.disk.manifest(component), minor, machine.disk.valid(component)
                machine.containers[component] = Container(f"{machine.started:x}", *made)

    def end(self, machine: Machine, component: Component, *, by_force: bool = False) -> None:
        """A signal is sent to the component's container. It serves nobody any more; when it has ended, the kubelet starts another."""
        container = machine.containers.get(component)
        if container is None:
            return
        if component not in machine.ended:
            machine.ended[component] = container.id
            if component is Component.ETCD:
                machine.member = None
            elif component is Component.API_SERVER:
                machine.api_version = None
            self._settle()
        elif not by_force:
            return
        nobody_watches = component is Component.API_SERVER and machine.api_settings in self._broken_settings
        longest = _AT_ONCE if nobody_watches else _ENDING.get(component, _AT_ONCE)
        seconds = 0.0 if by_force else self._random.uniform(*longest)
        self._world.after(seconds, self._has_ended, machine, component, container.id)

    def _has_ended(self, machine: Machine, component: Component, container: str) -> None:
        if machine.ended.get(component) == container and component in machine.containers:
            del machine.containers[component]
            self._world.after(self._random.uniform(*_AGAIN), self._starts_anew, machine, component, container)

    def _starts_anew(self, machine: Machine, component: Component, container: str) -> None:
        if machine.ended.get(component) == container:
            del machine.ended[component]
            self._settle()

    def started(self, machine: Machine) -> None:
        """A kubelet has started: what it runs in another way ends, as soon as it knows that it may."""
        for component in self.run_otherwise(machine):
            self._world.after(self._random.uniform(*_HESITATES), self._ends_old, machine, component, machine.containers[component])

    def run_otherwise(self, machine: Machine) -> list[Component]:
        """The static Pods that a kubelet of the installed version runs in another way than the one of another minor version which started them."""
        minor = machine.disk.kubelet.minor if machine.disk.kubelet is not None else None
        return [component for component, container in machine.containers.items() if container.kubelet not in (None, minor)]

    def _ends_old(self, machine: Machine, component: Component, container: Container) -> None:
        if machine.containers.get(component) == container and machine.kubelet_runs and machine.containerd_runs:
            self.end(machine, component)
