"""One pass of the provider over one state: the production's observe, decide and act on what is stored, with the state after each of its writes.

Every pass is that of a process that has just started and seen everything. Cutting it off after a write is that process dying there, or its answer being lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast

from quorate.clusterapi.act import maintenance
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.act.step import Actor
from quorate.clusterapi.connect.caches import Caches
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.connect.progress import Task
from quorate.clusterapi.connect.workloads import ClusterSecrets
from quorate.clusterapi.observe import wanted
from quorate.clusterapi.observe.comparisons import Comparisons
from quorate.clusterapi.observe.credentials import Credentials
from quorate.clusterapi.observe.observation import Observation
from quorate.clusterapi.observe.observer import Observer
from quorate.clusterapi.observe.rings import Rings
from quorate.clusterapi.observe.sightings import Sightings
from quorate.clusterapi.report import report
from quorate.clusterapi.types.names import Hook
from quorate.clusterapi.types.resources import INFRASTRUCTURE_GROUP
from quorate.core.machines.decide import Decision, decide
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ApiError
from quorate.kubernetes.expectations import Expectations
from tests.clusterapi.loop.management import FakeApi, fill
from tests.explore.machines.state import CONTROL_PLANES, MACHINES, NAME, NAMESPACE, Json, State, settled
from tests.explore.machines.workload import Removal, Site, Workload

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_FOR_LONG, _FOR_A_WHILE = timedelta(hours=1), timedelta(minutes=15)
"""For so long the process has seen what it sees, before it decides; the second while kubeadm is about to start a member, which takes 5 minutes."""
_REQUEST = Request(NAMESPACE, NAME)


@dataclass(slots=True)
class Pass:
    """What came of one pass: the state that it saw, the decision, the states after each write, each with what was written, and what left the ring.

    `leads`: nobody else has the Lease when it acts.
    """

    seen: State
    leads: bool
    observation: Observation
    decision: Decision
    after: list[tuple[str, State]] = field(default_factory=list)
    removed: list[Removal] = field(default_factory=list)
    refused: str = ""


class _Names(Random):
    """Draws the first name that nobody has, so that what two histories make has the same name."""

    def __init__(self, taken: frozenset[str]) -> None:
        super().__init__(0)
        self._taken, self._next = taken, 0

    def choices(self, population: Any, *_: Any, k: int = 1, **__: Any) -> list[Any]:
        while True:
            drawn = [population[self._next // len(population) % len(population)]] * (k - 1) + [population[self._next % len(population)]]
            self._next += 1
            if f"{NAME}-{''.join(drawn)}" not in self._taken:
                return drawn


class _Api(FakeApi):
    """The management API. `wrote` is called after each write."""

    wrote: Any = None

    def put(self, plural: str, obj: Json) -> Json:
        """As the API server stores it. Nothing is ever changed in place, so nothing is copied."""
        self.version += 1
        given = obj["metadata"]
        made = {
            "namespace": NAMESPACE,
            "uid": f"uid-of-{plural}-{given['name']}",
            "creationTimestamp": "2026-01-01T11:00:00Z",
            "generation": 1,
        }
        stored = {**obj, "metadata": {**made, **given, "resourceVersion": str(self.version)}}
        self.objects[plural, stored["metadata"]["namespace"], given["name"]] = stored
        return stored

    def _done(self, resource: Any, verb: str, name: str, body: Json, stored: Json, manager: str) -> Any:  # noqa: ARG002
        if self.wrote is not None:
            self.wrote(f"{verb} {resource.plural} {name}")
        return self._decode(resource, stored)


@dataclass
class _Workloads:
    workload: Workload
    secrets_of: Any

    def begin(self, *_: Any) -> Workload:
        return self.workload

    def existing(self, *_: Any) -> Workload:
        return self.workload

    def secrets(self, namespace: str, cluster: str) -> ClusterSecrets:
        return cast("ClusterSecrets", self.secrets_of(namespace, cluster))

    def forget(self, *_: Any) -> None:
        return


class Process:
    """A process of the provider that has just started on a state."""

    def __init__(self, state: State, *, leads: bool = True) -> None:
        self.state = state
        self.api = _Api([], objects=dict(state.objects), version=state.version)
        self.site = Site(state.plant, self._wrote)
        client, self.now = cast("Any", self.api), NOW
        self.caches = Caches(client, _Queue(), Random(1))
        workloads = _Workloads(
            Workload(self.site, FakeApi([]), NOW), lambda namespace, name: ClusterSecrets(self.caches, client, namespace, name)
        )
        self.clients = Clients(client, self.caches, cast("Any", workloads), Expectations(lambda _: None), leads=lambda: leads)
        self.observer = Observer(
            self.clients,
            lambda: self.now,
            lambda _: None,
            Rings(lambda: 0.0),
            comparisons=_COMPARISONS,
            credentials=_CREDENTIALS,
            arrivals=_SeenForLong(),
        )
        self.actor = Actor(self.clients, _Names(state.names), lambda: self.now)
        self._after: list[tuple[str, State]] = []

    async def run(self, now: State | None = None) -> Pass | None:
        """One pass; None where there is nothing to judge. With `now` it is stopped once it has decided, and acts when everything is as it is there."""
        await fill(self.caches, self.api, INFRASTRUCTURE_GROUP)
        observation = await self._look()
        if observation is None or observation.view is None:
            return None
        done = Pass(self.state, self.clients.leads(), observation, decide(observation.view, self.now), self._after, self.site.removed)
        self.site.read = False
        if now is not None:
            self.state, self.site.plant = now, now.plant
            self.api.objects, self.api.version = dict(now.objects), now.version
        self.api.wrote = self._wrote
        try:
            await self._act(done.decision, observation)
        except (Refused, ApiError) as error:
            done.refused = str(error)
        except BaseExceptionGroup as errors:
            if errors.split((Refused, ApiError))[1] is not None:
                raise
            done.refused = "; ".join(map(str, errors.exceptions))
        return done

    async def _act(self, decision: Decision, observation: Observation) -> None:
        if decision.step is not None:
            await self.actor.perform(decision.step, observation)
        elif observation.view is not None and not observation.view.paused:
            await self._keep_up(observation)
            self._latch(observation, decision)

    async def _look(self) -> Observation | None:
        """What is seen now; where a member belongs to no Machine, as one who has seen that for an hour."""
        for kcp in self.caches.kcps.items():
            for task, of in ((Task.PREPARATION, wanted.preparation_wanted), (Task.ADDONS, wanted.addons_wanted)):
                self.clients.progress.succeeded(_REQUEST, task, of(kcp))
        for machine in self.caches.machines.items():
            self.clients.progress.succeeded(_REQUEST, Task.COREDNS, machine.metadata.uid.encode())
        observation = await self.observer.observe(_REQUEST)
        if observation is None or observation.view is None or not observation.view.orphans:
            return observation
        self.observer.sightings.forget(_REQUEST)
        for moment in (NOW - (_FOR_A_WHILE if self.site.plant.starting else _FOR_LONG), NOW):
            self.now = moment
            self.observer.rings.forget(Workload.cluster)
            observation = await self.observer.observe(_REQUEST)
        return observation

    async def _keep_up(self, observation: Observation) -> None:
        """The maintenance of objects, where it has more to do than to apply what is there already."""
        annotations = observation.kcp.metadata.annotations
        bare = [m for m in observation.machines if not m.deleting and Hook.PRE_TERMINATE not in m.machine.metadata.annotations]
        machines = {key[2] for key in self.api.objects if key[0] == MACHINES}
        orphans = [key for key in self.api.objects if key[0] in ("kubeadmconfigs", "devmachines") and key[2] not in machines]
        unrecorded = observation.initialized and "quorate.dev/initialized" not in annotations
        if "quorate.dev/creating" in annotations or bare or orphans or unrecorded:
            await maintenance.maintain(self.clients, observation)

    def _latch(self, observation: Observation, decision: Decision) -> None:
        """What the report writes that anybody builds on: that the control plane is initialized."""
        if self.site.plant.recorded and (self.api.raw(CONTROL_PLANES, NAME).get("status") or {}).get("initialization"):
            return
        initialization = report(observation, decision, now=self.now).status.get("initialization") or {}
        stored = (self.api.raw(CONTROL_PLANES, NAME).get("status") or {}).get("initialization") or {}
        if initialization != stored:
            self.api.change(CONTROL_PLANES, NAME, {"status": {"initialization": initialization}})
            self.site.plant = replace(self.site.plant, recorded=True)
            self._wrote("status of the control plane")

    def _wrote(self, what: str) -> None:
        state = replace(self.state, objects=dict(self.api.objects), plant=self.site.plant, version=self.api.version)
        self._after.append((what, settled(state)))


_COMPARISONS, _CREDENTIALS = Comparisons(), Credentials()  # both keep by contents, or of the one kubeconfig: they are the same for all


class _SeenForLong(Sightings[str]):
    """The process has seen everything since it came: there is one clock."""

    def of(self, request: Request, things: Iterable[str], now: datetime) -> dict[str, datetime]:
        return super().of(request, things, now - _FOR_LONG)


class _Queue:
    def add(self, key: Request, *, priority: int = 0) -> None:
        """Nobody is woken."""


def one_pass(state: State) -> Pass | None:
    """One pass over a state."""
    return _LOOP.run_until_complete(Process(state).run())


def late_pass(seen: State, now: State, *, leads: bool) -> Pass | None:
    """What is done by a process that saw one state, decided on it, and acts when everything is as in another; `leads`: nobody else has the Lease by then."""
    return _LOOP.run_until_complete(Process(seen, leads=leads).run(now))


_LOOP = asyncio.new_event_loop()
