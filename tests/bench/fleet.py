"""Many clusters at once: created, upgraded, at rest and deleted on one fresh local management cluster, with upstream's provider or with quorate.

Here the management cluster's API server is what a provider competes for with everybody else, so its CPU is measured beside the provider's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from quorate.kubernetes.client import Client
from quorate.local import DemoCluster, LocalCluster, running
from quorate.local.startup import Options
from tests.bench import audit
from tests.bench.measure import CLUSTERS, CONTROL_PLANES, KINDS, NotSettled, Object, Say, bench_client, own_trace, settled
from tests.bench.results import Provider
from tests.bench.waiting import Interval

STEP_TIMEOUT = 1800.0  # seconds; 30 clusters took upstream 213 to create, on two cores
CALM = 60.0  # seconds before the idle time
API_SERVER = "kube-apiserver"

CREATE, UPGRADE, IDLE, DELETE = "create", "upgrade", "idle", "delete"
STEPS = (CREATE, UPGRADE, IDLE, DELETE)
VERSION = "v1.35.4"
REPLICAS = 3


class FleetStep(msgspec.Struct, frozen=True):
    """What one step took for all clusters together. CPU in seconds, of the provider and of the API server; writes are the provider's, Leases apart."""

    name: str
    seconds: float
    cpu_seconds: float
    api_server_cpu_seconds: float
    writes: int


class FleetRun(msgspec.Struct, frozen=True):
    """All steps of one provider with so many clusters."""

    provider: Provider
    clusters: int
    number: int  # from 1
    steps: list[FleetStep]
    peak_resident: int  # bytes, of the provider
    errors: int  # lines of the provider's log at level error
    trace: list[float]  # seconds from the provider's last input to each step, by its own log

    def step(self, name: str) -> FleetStep:
        """The step of this name; raises KeyError where the run has none."""
        return {step.name: step for step in self.steps}[name]


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """One run to make. `idle` is in seconds."""

    provider: Provider
    clusters: int
    number: int
    idle: float
    phase_seconds: float


@dataclass(frozen=True, slots=True)
class _Observed:
    name: str
    interval: Interval
    seconds: float
    cpu: float
    api_server_cpu: float


async def run(plan: FleetPlan, folder: Path, say: Say) -> FleetRun:
    """Make the run, in a folder that is emptied first. Raises NotSettled, naming the logs, and LocalError where the local cluster does not start."""
    async with running(folder, plan.provider.value, Options(say=say)) as cluster, bench_client(cluster) as client:
        fleet = _Fleet(cluster, client, plan, say)
        observed = [await fleet.create(), await fleet.upgrade(), await fleet.idle(plan.idle), await fleet.delete()]
        peak = cluster.usage(cluster.provider).peak_resident
        requests = await asyncio.to_thread(audit.read, cluster.audit_log)
        log = cluster.folder.log(cluster.provider)
        errors, trace = await asyncio.to_thread(errors_in, log), await asyncio.to_thread(own_trace, log)
    agent = plan.provider.agent
    steps = [
        FleetStep(
            each.name,
            each.seconds,
            each.cpu,
            each.api_server_cpu,
            audit.writes(audit.count(audit.between(requests, *each.interval), agent)),
        )
        for each in observed
    ]
    return FleetRun(plan.provider, plan.clusters, plan.number, steps, peak, errors, trace)


def errors_in(log: Path) -> int:
    """The lines at level error: ours are JSON, upstream's begin with E and the date."""
    return sum(line.startswith("E") or '"level":"error"' in line.replace(" ", "") for line in log.read_text().splitlines())


class _Fleet:
    """The steps, for all clusters at once."""

    def __init__(self, cluster: LocalCluster, client: Client, plan: FleetPlan, say: Say) -> None:
        self._cluster, self._client, self._say = cluster, client, say
        self._title = f"{plan.clusters} clusters"
        self._namespace = DemoCluster().namespace
        self._demos = {
            demo.name: demo
            for demo in (DemoCluster(name=f"fleet-{number:02}", phase_seconds=plan.phase_seconds) for number in range(1, plan.clusters + 1))
        }

    async def create(self) -> _Observed:
        async def ask() -> None:
            for demo in self._demos.values():
                for item in demo.objects():
                    await self._client.create(KINDS[item["kind"]], item, demo.namespace)

        return await self._observe(CREATE, ask, lambda: self._until_settled(DemoCluster().version))

    async def upgrade(self) -> _Observed:
        async def ask() -> None:
            for demo in self._demos.values():
                await self._client.merge_patch(CONTROL_PLANES, demo.name, {"spec": {"version": VERSION}}, demo.namespace)

        return await self._observe(UPGRADE, ask, lambda: self._until_settled(VERSION))

    async def idle(self, seconds: float) -> _Observed:
        await asyncio.sleep(CALM)
        return await self._observe(IDLE, lambda: asyncio.sleep(0), lambda: asyncio.sleep(seconds))

    async def delete(self) -> _Observed:
        async def ask() -> None:
            for demo in self._demos.values():
                await self._client.delete(CLUSTERS, demo.name, demo.namespace)

        return await self._observe(DELETE, ask, self._until_gone)

    async def _observe(self, name: str, ask: Callable[[], Awaitable[None]], wait: Callable[[], Awaitable[None]]) -> _Observed:
        clock = asyncio.get_running_loop().time
        begin, began, cpu, api_server_cpu = datetime.now(UTC), clock(), self._cpu(self._cluster.provider), self._cpu(API_SERVER)
        try:
            async with asyncio.timeout(STEP_TIMEOUT):
                await ask()
                await wait()
        except TimeoutError:
            log = self._cluster.folder.log(self._cluster.provider)
            raise NotSettled(f"{name} of {self._title} did not end within {STEP_TIMEOUT:.0f} s: see {log}") from None
        seconds, own = round(clock() - began, 3), round(self._cpu(self._cluster.provider) - cpu, 2)
        observed = _Observed(name, Interval(begin, datetime.now(UTC)), seconds, own, round(self._cpu(API_SERVER) - api_server_cpu, 2))
        self._say(
            f"{name} {self._title}: {seconds:.1f} s, {own:.2f} CPU s, API server {observed.api_server_cpu / max(seconds, 0.001):.0%} of a core"
        )
        return observed

    def _cpu(self, process: str) -> float:
        return self._cluster.usage(process).cpu_seconds

    async def _until_settled(self, version: str) -> None:
        """Until every control plane is settled and its status knows no version but this."""

        def done(found: Mapping[str, Object]) -> bool:
            return found.keys() >= self._demos.keys() and all(_at(found[name], version) for name in self._demos)

        await self._until(CONTROL_PLANES.kind, done)

    async def _until_gone(self) -> None:
        await self._until(CLUSTERS.kind, lambda found: not found)

    async def _until(self, kind: str, done: Callable[[Mapping[str, Object]], bool]) -> None:
        resource = KINDS[kind]
        while True:
            listing = await self._client.list(resource, self._namespace)
            found = {item["metadata"]["name"]: item for item in listing.items}
            if done(found):
                return
            async with aclosing(self._client.watch(resource, self._namespace, resource_version=listing.resource_version)) as events:
                async for event in events:
                    if event.type == "BOOKMARK":
                        continue
                    name = event.object["metadata"]["name"]
                    found.pop(name, None)
                    if event.type != "DELETED":
                        found[name] = event.object
                    if done(found):
                        return


def _at(control_plane: Object, version: str) -> bool:
    versions = {entry.get("version") for entry in control_plane.get("status", {}).get("versions", [])}
    return control_plane["spec"]["version"] == version and versions == {version} and settled(control_plane, REPLICAS)
