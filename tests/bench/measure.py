"""One run: a fresh local management cluster, the steps of a control plane's life on it, and what each took.

A step is over when the API says so, told by a watch: the KubeadmControlPlane has seen its newest generation and all its replicas exist, are available and up to
date, or the Cluster is gone. The steps follow each other at once, so that what a provider puts off in one is counted in the next.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from quorate.kubernetes import kubeconfig
from quorate.kubernetes.client import Client, connect
from quorate.kubernetes.resource import Resource
from quorate.local import DemoCluster, LocalCluster, running
from quorate.local.processes import Usage
from quorate.local.startup import Options
from tests.bench import audit
from tests.bench.results import Idle, Provider, Run, Step
from tests.bench.waiting import Interval, waiting

USER_AGENT = f"quorate-bench/{version('quorate')}"  # the administrator's client of the local cluster calls itself what the manager does
STEP_TIMEOUT = 600.0  # seconds; upstream's slowest step takes 82 on two idle cores
CALM = 30.0  # seconds before the idle time: the longest of upstream's polls, so that what the last step left behind is over

CREATE, SCALE_UP, SCALE_DOWN, DELETE = "create 3", "scale 3 to 5", "scale 5 to 3", "delete"
ROLLOUT_3, ROLLOUT_5 = "roll out to 3", "roll out to 5"
REMEDIATE_1, REMEDIATE_2 = "remediate 1 of 3", "remediate 2 of 5 at once"
STEPS = (CREATE, REMEDIATE_1, ROLLOUT_3, SCALE_UP, REMEDIATE_2, ROLLOUT_5, SCALE_DOWN, DELETE)
VERSIONS = ("v1.35.4", "v1.36.1")  # that the control plane is upgraded to, first as 3 and then as 5; it is created with the demo's v1.34.4
REMEDIATE_ANNOTATION = "cluster.x-k8s.io/remediate-machine"  # has a MachineHealthCheck fail the Machine at once

Object = dict[str, Any]
Say = Callable[[str], None]
Done = Callable[[Object | None], Awaitable[bool]]


def _resource(group: str, plural: str, kind: str) -> Resource[Object]:
    return Resource(group, "v1beta2", plural, kind, dict)


CLUSTERS = _resource("cluster.x-k8s.io", "clusters", "Cluster")
MACHINES = _resource("cluster.x-k8s.io", "machines", "Machine")
CONTROL_PLANES = _resource("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", "KubeadmControlPlane")
_INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
KINDS = {
    resource.kind: resource
    for resource in (
        CLUSTERS,
        CONTROL_PLANES,
        _resource("cluster.x-k8s.io", "machinehealthchecks", "MachineHealthCheck"),
        _resource(_INFRASTRUCTURE, "devclusters", "DevCluster"),
        _resource(_INFRASTRUCTURE, "devmachinetemplates", "DevMachineTemplate"),
    )
}


class NotSettled(Exception):
    """A step did not come to its end."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run to make. `idle` is in seconds, 0 for none."""

    provider: Provider
    phase_seconds: float
    number: int
    idle: float


class _Observed(NamedTuple):
    name: str
    interval: Interval
    seconds: float
    before: Usage
    after: Usage
    machines: list[Object]


def settled(control_plane: Mapping[str, Any], replicas: int) -> bool:
    """Whether all of a KubeadmControlPlane's replicas are there, available and up to date, by a status that is about its newest spec."""
    status = control_plane.get("status", {})
    counts = {status.get(field) for field in ("replicas", "availableReplicas", "upToDateReplicas")}
    return counts == {replicas} and status.get("observedGeneration") == control_plane["metadata"]["generation"]


async def until(client: Client, resource: Resource[Object], demo: DemoCluster, done: Done) -> None:
    """Wait until `done` says yes of the object named like the cluster, None once it is gone. Raises TimeoutError after STEP_TIMEOUT."""
    selector = f"metadata.name={demo.name}"
    async with asyncio.timeout(STEP_TIMEOUT):
        while True:
            listing = await client.list(resource, demo.namespace, field_selector=selector)
            if await done(listing.items[0] if listing.items else None):
                return
            events = client.watch(resource, demo.namespace, resource_version=listing.resource_version, field_selector=selector)
            async with aclosing(events):
                async for event in events:
                    if event.type != "BOOKMARK" and await done(None if event.type == "DELETED" else event.object):
                        return


async def run(plan: Plan, folder: Path, say: Say) -> Run:
    """Make the run, in a folder that is emptied first. Raises NotSettled, naming the logs, and the LocalErrors of a local cluster that does not start."""
    load = os.getloadavg()[0]
    async with running(folder, plan.provider.value, Options(say=say)) as cluster, bench_client(cluster) as client:
        course = _Course(cluster, client, DemoCluster(phase_seconds=plan.phase_seconds), say)
        observed = [
            await course.create(),
            await course.remediate(REMEDIATE_1, 1, of=3),
            await course.roll_out(ROLLOUT_3, VERSIONS[0], 3),
            await course.scale(SCALE_UP, 5),
            await course.remediate(REMEDIATE_2, 2, of=5),
            await course.roll_out(ROLLOUT_5, VERSIONS[1], 5),
            await course.scale(SCALE_DOWN, 3),
        ]
        idle = await course.idle(plan.idle) if plan.idle else None
        observed.append(await course.delete())
        requests = await asyncio.to_thread(audit.read, cluster.audit_log)
        trace = await asyncio.to_thread(own_trace, cluster.folder.log("quorate-manager"))
    agent, steps = plan.provider.agent, [_step(requests, plan.provider, each) for each in observed]
    reactions = [
        seconds for each in _stretches(observed) for seconds in audit.reactions(audit.between(requests, each.begin, each.end), agent)
    ]
    return Run(plan.provider, plan.phase_seconds, plan.number, load, steps, reactions, _idle(requests, plan.provider, idle), trace)


def own_trace(log: Path) -> list[float]:
    """The reactions that quorate's manager wrote into its log; nothing for another provider."""
    if not log.exists():
        return []
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line["reaction_ms"] / 1000 for line in lines if line.get("msg") == "step" and line.get("reaction_ms") is not None]


@asynccontextmanager
async def bench_client(cluster: LocalCluster) -> AsyncIterator[Client]:
    client = connect(kubeconfig.load(str(cluster.kubeconfig)), user_agent=USER_AGENT)
    try:
        yield client
    finally:
        await client.close()


class _Course:
    """The steps, on one local cluster."""

    def __init__(self, cluster: LocalCluster, client: Client, demo: DemoCluster, say: Say) -> None:
        self._cluster, self._client, self._demo, self._say = cluster, client, demo, say

    async def create(self) -> _Observed:
        return await self._observe(CREATE, self._create_objects, CONTROL_PLANES, partial(_has, 3))

    async def scale(self, name: str, replicas: int) -> _Observed:
        return await self._observe(name, partial(self._edit, {"replicas": replicas}), CONTROL_PLANES, partial(_has, replicas))

    async def roll_out(self, name: str, version: str, replicas: int) -> _Observed:
        """Over when no Machine of another version is left."""

        async def done(item: Object | None) -> bool:
            return await _has(replicas, item) and {machine["spec"]["version"] for machine in await self._machines()} == {version}

        return await self._observe(name, partial(self._edit, {"version": version}), CONTROL_PLANES, done)

    async def remediate(self, name: str, number: int, *, of: int) -> _Observed:
        """Have a MachineHealthCheck fail the oldest Machines; over when they are gone and replaced."""
        oldest = sorted(await self._machines(), key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))
        failed = {machine["metadata"]["name"] for machine in oldest[:number]}
        mark = {"metadata": {"annotations": {REMEDIATE_ANNOTATION: ""}}}

        async def ask() -> None:
            for machine in sorted(failed):
                await self._client.merge_patch(MACHINES, machine, mark, self._demo.namespace)

        async def done(item: Object | None) -> bool:
            return await _has(of, item) and failed.isdisjoint(machine["metadata"]["name"] for machine in await self._machines())

        return await self._observe(name, ask, CONTROL_PLANES, done)

    async def delete(self) -> _Observed:
        ask = partial(self._client.delete, CLUSTERS, self._demo.name, self._demo.namespace)
        return await self._observe(DELETE, ask, CLUSTERS, _gone)

    async def idle(self, seconds: float) -> _Observed:
        """Let the cluster come to rest, then measure while nothing is asked for."""
        await asyncio.sleep(CALM)
        return await self._observe("idle", partial(asyncio.sleep, seconds), CONTROL_PLANES, _exists)

    async def _create_objects(self) -> None:
        for item in (*self._demo.objects(), self._demo.health_check()):
            await self._client.create(KINDS[item["kind"]], item, self._demo.namespace)

    async def _edit(self, spec: Object) -> None:
        await self._client.merge_patch(CONTROL_PLANES, self._demo.name, {"spec": spec}, self._demo.namespace)

    async def _machines(self) -> list[Object]:
        return (await self._client.list(MACHINES, self._demo.namespace)).items

    async def _observe(self, name: str, ask: Callable[[], Awaitable[object]], resource: Resource[Object], done: Done) -> _Observed:
        clock = asyncio.get_running_loop().time
        before, begin, began = self._usage(), datetime.now(UTC), clock()
        try:
            await ask()
            await until(self._client, resource, self._demo, done)
        except TimeoutError:
            raise NotSettled(self._stalled(name)) from None
        seconds, end, after = clock() - began, datetime.now(UTC), self._usage()
        self._say(f"{name}: {seconds:.1f} s, {after.cpu_seconds - before.cpu_seconds:.2f} CPU s")
        return _Observed(name, Interval(begin, end), seconds, before, after, await self._machines())

    def _usage(self) -> Usage:
        return self._cluster.usage(self._cluster.provider)

    def _stalled(self, name: str) -> str:
        log = self._cluster.folder.log(self._cluster.provider)
        ended = ", ".join(self._cluster.ended())
        return f"{name} did not end within {STEP_TIMEOUT:.0f} s{f' (ended: {ended})' if ended else ''}: see {log}"


async def _has(replicas: int, control_plane: Object | None) -> bool:
    return control_plane is not None and settled(control_plane, replicas)


async def _gone(item: Object | None) -> bool:
    return item is None


async def _exists(item: Object | None) -> bool:
    return item is not None


def _stretches(observed: Sequence[_Observed]) -> list[Interval]:
    """The steps as few stretches without a gap between: an input of one step may be answered in the next, but not over an idle time."""
    stretches: list[Interval] = []
    for each in observed:
        if stretches and each.name != DELETE:
            stretches[-1] = Interval(stretches[-1].begin, each.interval.end)
        else:
            stretches.append(each.interval)
    return stretches


def _step(requests: Sequence[audit.Request], provider: Provider, observed: _Observed) -> Step:
    own = audit.between(requests, *observed.interval)
    return Step(
        name=observed.name,
        seconds=round(observed.seconds, 3),
        cpu_seconds=round(observed.after.cpu_seconds - observed.before.cpu_seconds, 2),
        peak_resident=observed.after.peak_resident,
        requests=audit.count(own, provider.agent),
        lease_writes=audit.lease_writes(own, provider.agent),
        waiting=waiting(own, provider.agent, observed.interval, observed.machines),
    )


def _idle(requests: Sequence[audit.Request], provider: Provider, observed: _Observed | None) -> Idle | None:
    if observed is None:
        return None
    step = _step(requests, provider, observed)
    return Idle(step.seconds, step.cpu_seconds, step.requests, step.lease_writes)
