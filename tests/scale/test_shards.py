"""Two managers side by side, each with a `--watch-filter` and a Lease of its own, and one that takes over the control planes of the other."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Label
from quorate.local import ports
from tests.scale import planes
from tests.scale.management import Management, management
from tests.scale.providers import NAMESPACE, Providers
from tests.scale.workloads import Workload, Workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NEXT, LAST = "v1.34.5", "v1.34.6"
PLANES = 6


class Witness:
    """Counts the Machines of each control plane: those made, and the most that there were at once without one that was being deleted."""

    def __init__(self, providers: Providers) -> None:
        self.made: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._seen: dict[str, Machine] = {}
        providers.told.append(self)

    def __call__(self, machine: Machine) -> None:
        name, cluster = machine.metadata.name, machine.spec.cluster_name
        self.made[cluster] += name not in self._seen
        self._seen[name] = machine
        staying = sum(each.metadata.deletion_timestamp is None for each in self._seen.values() if each.spec.cluster_name == cluster)
        self.most[cluster] = max(self.most[cluster], staying)


async def until(what: str, is_so: Callable[[], Awaitable[bool]], *, seconds: float = 180.0) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not await is_so():
        assert asyncio.get_running_loop().time() < end, f"after {seconds:g} s still not: {what}"
        await asyncio.sleep(0.2)


async def shard(site: Management, name: str) -> None:
    await site.start_manager(name, f"--watch-filter={name}", "--leader-elect", f"--leader-elect-resource-name=quorate-{name}")


async def give(site: Management, workload: Workload, name: str) -> None:
    labels = {"metadata": {"labels": {Label.WATCH_FILTER: name}}}
    await site.client.merge_patch(planes.CONTROL_PLANES, workload.name, labels, NAMESPACE)


async def test_two_shards_and_one_that_takes_over_what_the_other_has_begun(tmp_path: Path) -> None:
    (port,) = ports.choose(1, start=os.getpid())
    workloads = Workloads([f"plane-{number}" for number in range(1, PLANES + 1)], port)
    await workloads.start()
    every = list(workloads.by_name.values())
    names = [workload.name for workload in every]
    odd = [workload for workload in every if planes.shard_of(workload) == "odd"]
    try:
        async with management(tmp_path) as site, asyncio.TaskGroup() as tasks:
            providers = Providers(site.client, workloads)
            witness = Witness(providers)
            running = tasks.create_task(providers.run())

            async def all_have(version: str) -> bool:
                return not await planes.settled(site.client, names, version=version)

            async def rollouts_have_begun() -> bool:
                return all(witness.made[workload.name] > 2 * planes.REPLICAS for workload in odd)

            await planes.apply_all(site.client, every, port)
            await shard(site, "even")
            await until("the shard that runs has made its own", lambda: _made(witness, every, "even"))
            assert not any(witness.made[workload.name] for workload in odd), "a control plane of the other shard was worked on"
            await shard(site, "odd")
            await until("all control planes are as desired", lambda: all_have(planes.VERSION))

            for workload in every:
                await planes.edit(site.client, workload.name, {"version": NEXT})
            await until("all have rolled, each by its own shard", lambda: all_have(NEXT))
            assert witness.made == Counter(dict.fromkeys(names, 2 * planes.REPLICAS))

            for workload in every:
                await planes.edit(site.client, workload.name, {"version": LAST})
            await until("the other shard has begun to roll", rollouts_have_begun)
            for workload in odd:
                await give(site, workload, "even")  # while the process that had them runs on
            await until("all have rolled, some of them handed over in the middle", lambda: all_have(LAST))
            assert witness.made == Counter(dict.fromkeys(names, 3 * planes.REPLICAS)), "a Machine too many was made"
            assert set(witness.most.values()) == {planes.REPLICAS + 1}
            assert all(not workload.cluster.ring.removed or workload.cluster.ring.has_quorum for workload in every)
            running.cancel()
    finally:
        await workloads.close()


async def _made(witness: Witness, every: list[Workload], shard: str) -> bool:
    return all(witness.made[each.name] == planes.REPLICAS for each in every if planes.shard_of(each) == shard)
