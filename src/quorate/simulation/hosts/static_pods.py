"""The static Pods of a simulated machine: their containers, as scripts list and end them, and what its kubelet reports of them to the API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from quorate.hosts.act.containers import QUIET_SECONDS
from quorate.simulation.hosts.acts import Action
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.site import Site
from quorate.workload.static_pods import NAMESPACE, Component

_CHOSEN = re.compile(r"""labels\."io\.kubernetes\.([a-z.]+)"==([^,]+)""")
_TOLD = {Component.ETCD: Action.PUT_DOWN, Component.API_SERVER: Action.END_API_SERVER}
_LOOKS = 70
"""Seconds for which a script waits until an API server is silent."""


class Containers:
    """Those of one machine. `tells` is called right before one is told to end on which others count."""

    def __init__(self, site: Site, machine: Machine, tells: Callable[[Action], None]) -> None:
        self._site, self._machine, self._tells = site, machine, tells
        self._listed: set[str] = set()  # by the script, so far

    def listed(self, chosen: str) -> str:
        """The ids of those that run of the component that these labels choose, one a line."""
        container = self._machine.containers.get(_component(chosen, self._machine))
        return f"{container.id}\n" if container is not None else ""

    def each(self, chosen: str, command: str) -> None:
        """Do what a script does with each of these."""
        component = _component(chosen, self._machine)
        if command.startswith("ctr -n k8s.io tasks kill --signal SIGTERM "):
            self.end(component)
        elif command == 'echo "$id"':
            self._listed |= set(self.listed(chosen).split())
        else:
            raise AssertionError(f"it is not known what this does: {command}")

    def end(self, component: Component) -> None:
        """Ask it to end."""
        if component in self._machine.containers and component not in self._machine.ended:
            if component in _TOLD:
                self._tells(_TOLD[component])
            self._site.kubelets.end(self._machine, component)

    def end_listed(self) -> None:
        """Ask everything to end that was listed, and runs yet."""
        for component in [each for each, container in self._machine.containers.items() if container.id in self._listed]:
            self.end(component)

    async def until_refused(self) -> None:
        """Wait until no API server listens, or for long enough."""
        await self._wait(lambda: self._machine.api_version is None)

    async def end_once_quiet(self, ids: set[str], *, gone_is_enough: bool) -> None:
        """End these of the API server by force once nobody has listened for QUIET_SECONDS."""
        quiet = 0.0

        def over() -> bool:
            nonlocal quiet
            quiet = quiet + 1.0 if self._machine.api_version is None else 0.0
            return quiet > QUIET_SECONDS or (gone_is_enough and not self._runs(ids))

        if await self._wait(over) and self._runs(ids):
            self._tells(Action.END_API_SERVER)
            self._site.kubelets.end(self._machine, Component.API_SERVER, by_force=True)

    def end_silent(self) -> None:
        """End an API server by force that was asked to end."""
        if Component.API_SERVER in self._machine.ended:
            self._site.kubelets.end(self._machine, Component.API_SERVER, by_force=True)

    def is_ready(self, component: Component) -> bool:
        """Whether it runs with the manifest that is there, and does its work."""
        return _is_ready(self._site, self._machine, component)

    def _runs(self, ids: set[str]) -> bool:
        container = self._machine.containers.get(Component.API_SERVER)
        return container is not None and container.id in ids

    async def _wait(self, over: Callable[[], bool]) -> bool:
        for _ in range(_LOOKS):
            if over():
                return True
            await asyncio.sleep(1.0)
        return False


def _component(chosen: str, machine: Machine) -> Component:
    labels = dict(_CHOSEN.findall(chosen))
    component = Component(labels.get("container.name", ""))
    if labels != {"container.name": component, "pod.name": component.pod_name(machine.name), "pod.namespace": NAMESPACE}:
        raise AssertionError(f"other containers than those of {machine.name} are chosen: {chosen}")
    return component


def pod(site: Site, machine: Machine, component: Component) -> dict[str, Any] | None:
    """The Pod that reports a component; None where its kubelet has no manifest of it."""
    if not _is_wanted(machine, component):
        return None
    ready = _is_ready(site, machine, component)
    return {
        "metadata": {"name": component.pod_name(machine.name), "namespace": NAMESPACE},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def _is_wanted(machine: Machine, component: Component) -> bool:
    return bool(machine.disk.etcd) if component is Component.ETCD else machine.disk.components is not None


def _is_ready(site: Site, machine: Machine, component: Component) -> bool:
    container = machine.containers.get(component)
    if container is None or component in machine.ended or container.manifest != machine.disk.manifest(component):
        return False
    return {Component.ETCD: site.member_is_well, Component.API_SERVER: site.serves}.get(component, lambda _: True)(machine)
