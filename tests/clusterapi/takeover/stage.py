"""A management cluster in memory and in virtual time, with whoever runs Deployments in it, and runs of the commands that may be killed after any write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from quorate.clusterapi.takeover.act import Actor
from quorate.clusterapi.takeover.cluster import ManagementCluster
from quorate.clusterapi.takeover.installation import Installation, cleaned
from quorate.clusterapi.takeover.kinds import KINDS
from quorate.clusterapi.takeover.observe import Observation, Observer, Options
from quorate.clusterapi.takeover.session import Ended, Session
from quorate.core.takeover.state import ControlPlane, Prospect, Side
from quorate.kubernetes.client import Client
from quorate.kubernetes.config import RestConfig
from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.link import Fate, Link
from quorate.simulation.engine.objects import Json, Kind
from quorate.simulation.engine.transport import SimulatedTransport
from quorate.simulation.engine.world import EPOCH
from tests.clusterapi.takeover.manifests import LEASE, OURS, SYSTEM, THEIRS, entry, given, upstream

SERVED = {
    name: Kind(kind.resource.group, kind.resource.version, kind.resource.plural, name, kind.resource.namespaced, name == "Deployment")
    for name, kind in KINDS.items()
}
PODS, LEASES = Kind("", "v1", "pods", "Pod"), Kind("coordination.k8s.io", "v1", "leases", "Lease", has_status=False)
STARTS, ENDS, RENEWS, RUNS_OUT = 3.0, 2.0, 5.0, 60.0  # seconds: a Pod's start and end, and a Lease's periods


@dataclass
class Stage:
    """The management cluster. `starts` says which Deployments' Pods come up; `told` is what the runs said."""

    unserved: tuple[str, ...] = ()
    starts: Callable[[str], bool] = lambda _: True
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        kinds = [kind for name, kind in SERVED.items() if name not in self.unserved]
        self.server = ApiServer([*kinds, PODS, LEASES], lambda: EPOCH, Random(1))
        self.judged = 0
        self.gaps: list[float] = []  # seconds during which nobody held a Lease that was renewed
        self.started: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def install(self, items: Iterable[Json]) -> Stage:
        """Create these objects, and Cluster API's core in the inventory."""
        for item in (*items, entry("cluster-api", "cluster-api", "v1.14.0")):
            if item["kind"] not in self.unserved:
                self.server.create(SERVED[item["kind"]], item, who="clusterctl")
        return self

    def objects(self) -> dict[str, Json]:
        """What clusterctl, or a person, finds installed: no Pods, Leases or what runs of the commands keep."""
        found = {}
        for name, kind in SERVED.items():
            for stored in self.server.objects(kind) if name not in self.unserved else ():
                if stored.name != "quorate-takeover":
                    found["/".join((name, *stored.key))] = cleaned(stored.obj)
        return found

    def find(self, kind: str, name: str, namespace: str = SYSTEM) -> Json | None:
        """One object."""
        stored = self.server.find(SERVED[kind], namespace, name)
        return stored.obj if stored else None

    @property
    def time(self) -> float:
        return asyncio.get_running_loop().time()

    # Who runs Deployments, and what the providers do.

    async def run(self) -> None:
        """Pods come and go as Deployments say; those that run elect a leader by the Lease."""
        while True:
            for stored in self.server.objects(SERVED["Deployment"], SYSTEM):
                self._follow(stored.obj)
            self._end_orphans()
            self._elect()
            self._aggregate()
            await asyncio.sleep(0.5)

    def _follow(self, deployment: Json) -> None:
        name, wanted = deployment["metadata"]["name"], deployment["spec"]["replicas"]
        pods = [pod for pod in self.server.objects(PODS, SYSTEM) if pod.obj["metadata"]["annotations"]["of"] == name]
        for number in range(len(pods), wanted):
            labels = deployment["spec"]["template"]["metadata"]["labels"]
            metadata = {
                "name": f"{name}-{self.server.version}-{number}",
                "namespace": SYSTEM,
                "labels": labels,
                "annotations": {"of": name},
            }
            self.server.create(PODS, {"metadata": metadata}, who="kubelet")
            self.started[metadata["name"]] = self.time
        for pod in pods[wanted:]:
            self._end(pod.name)
        up = [pod for pod in pods[:wanted] if self._is_up(pod.name, name)]
        for pod in up:
            status = {"containerStatuses": [{"name": "manager", "state": {"running": {}}}]}
            self.server.merge_patch(PODS, SYSTEM, pod.name, {"status": status}, who="kubelet", subresource="status")
        observed = deployment["metadata"]["generation"]
        counted = {"observedGeneration": observed, "updatedReplicas": min(len(pods), wanted), "availableReplicas": len(up)}
        self.server.merge_patch(SERVED["Deployment"], SYSTEM, name, {"status": counted}, who="controller", subresource="status")

    def _is_up(self, pod: str, deployment: str) -> bool:
        return self.starts(deployment) and self.time >= self.started[pod] + STARTS

    def _end(self, pod: str) -> None:
        if self.time >= self.ended.setdefault(pod, self.time + ENDS):
            self.server.delete(PODS, SYSTEM, pod, who="kubelet")

    def _aggregate(self) -> None:
        """As the API server's controller does, some time after somebody has taken rules out of a role."""
        for role in self.server.objects(SERVED["ClusterRole"]):
            if role.obj.get("aggregationRule") and not role.obj.get("rules"):
                self.server.merge_patch(role.kind, *role.key, {"rules": [{"verbs": ["*"]}]}, who="clusterrole-aggregation-controller")

    def _end_orphans(self) -> None:
        names = {stored.name for stored in self.server.objects(SERVED["Deployment"], SYSTEM)}
        for pod in self.server.objects(PODS, SYSTEM):
            if pod.obj["metadata"]["annotations"]["of"] not in names:
                self._end(pod.name)

    def _elect(self) -> None:
        """As both providers do: renewed every 5 s, taken when free or when it was not renewed for a minute."""
        alive = {pod.name for pod in self.server.objects(PODS, SYSTEM) if pod.obj.get("status")}
        found = self.server.find(LEASES, SYSTEM, LEASE)
        spec = found.obj["spec"] if found else {}
        holder = spec.get("holderIdentity", "")
        renewed = spec.get("at", 0.0)
        if holder in alive:
            if self.time >= renewed + RENEWS:
                self.write_lease(holder)
        elif alive and (not holder or self.time >= renewed + RUNS_OUT):
            self.write_lease(min(alive), self.time - renewed if renewed else 0.0)

    def write_lease(self, holder: str, gap: float = 0.0) -> None:
        """As whoever leads writes it; `gap` is for how long nobody did."""
        spec = {"holderIdentity": holder, "at": self.time}
        self.gaps.append(gap)
        if self.server.find(LEASES, SYSTEM, LEASE):
            self.server.merge_patch(LEASES, SYSTEM, LEASE, {"spec": spec}, who="leader")
        else:
            self.server.create(LEASES, {"metadata": {"name": LEASE, "namespace": SYSTEM}, "spec": spec}, who="leader")

    @property
    def leader(self) -> str:
        """The Deployment whose Pod holds the Lease and lives."""
        found = self.server.find(LEASES, SYSTEM, LEASE)
        pod = self.server.find(PODS, SYSTEM, found.obj["spec"]["holderIdentity"]) if found else None
        return pod.obj["metadata"]["annotations"]["of"] if pod else ""

    # Runs of the commands.

    async def command(
        self,
        goal: Side,
        components: Installation | None = None,
        *,
        killed_after: int = 0,
        between: Callable[[str], None] = lambda _: None,
        control_planes: tuple[ControlPlane, ...] = (),
        limit: float = 300.0,
        **options: Any,
    ) -> Ended | None:
        """`quorate takeover` or `quorate handback`; None where it was killed after so many writes. `between` is called with each write before it is sent."""
        link = Link("command", Random(2), latency=(0.0, 0.0))
        writes = 0

        def fate(doing: str) -> Fate:
            nonlocal writes
            between(doing)
            writes += 1
            return Fate.FATAL if writes == killed_after else Fate.ANSWERED

        client = Client(RestConfig("https://management.test"), SimulatedTransport(self.server, link, "quorate", timeout=30.0))
        link.fate = fate
        cluster = ManagementCluster(client)

        async def judge(_coming: Side) -> tuple[ControlPlane, ...]:
            self.judged += 1
            return control_planes or (ControlPlane(name="default/a", prospect=Prospect.AT_REST, evidence="nothing to do"),)

        asked = Options(goal=goal, given=components, limit=timedelta(seconds=limit), **options)
        loop = asyncio.get_running_loop()
        observer = Observer(cluster, asked, SYSTEM, judge, clock=loop.time, now=self.now)
        session = Session(observer, Actor(cluster, SYSTEM, self.now), self.told.append, self.now, asyncio.sleep)
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(self.run())
            run = tasks.create_task(session.run())
            link.fatal = partial(_end, loop, run)
            await asyncio.wait((run,))
            life.cancel()
        return None if run.cancelled() else run.result()

    async def look(self, goal: Side, components: Installation | None = None) -> Observation:
        """One look of a command."""
        client = Client(
            RestConfig("https://management.test"), SimulatedTransport(self.server, Link("look", Random(3)), "look", timeout=30.0)
        )

        async def judge(_coming: Side) -> tuple[ControlPlane, ...]:
            return ()

        observer = Observer(
            ManagementCluster(client), Options(goal=goal, given=components), SYSTEM, judge, clock=lambda: self.time, now=self.now
        )
        return await observer.observe()

    async def passes(self, seconds: float) -> None:
        """Let time pass, with everybody alive."""
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(self.run())
            await asyncio.sleep(seconds)
            life.cancel()

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.time)


def _end(loop: asyncio.AbstractEventLoop, run: asyncio.Task[Ended]) -> None:
    loop.call_soon(run.cancel)


async def with_upstream(*arguments: str, **changes: Any) -> Stage:
    """A management cluster in which upstream's provider works."""
    stage = Stage(**changes).install(upstream(*arguments))
    await stage.passes(10.0)
    return stage


__all__ = ["OURS", "SYSTEM", "THEIRS", "Stage", "given", "with_upstream"]
