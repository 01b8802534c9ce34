"""Caches of infrastructure kinds, in virtual time: who may not be listed is waited for once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from random import Random
from typing import Any, cast

import msgspec
import pytest

from quorate.clusterapi.connect.foreign import SYNC_TIMEOUT, ContractMissing, ForeignKinds, ForeignObject
from quorate.clusterapi.types.names import Label
from quorate.kubernetes.client import Listing
from quorate.kubernetes.errors import Forbidden
from quorate.kubernetes.objects import CustomResourceDefinition
from quorate.kubernetes.tasks import sole
from quorate.simulation.engine.clock import VirtualTimeLoop

GROUP, KIND = "infrastructure.cluster.x-k8s.io", "DevMachine"


class Server:
    """An API server that knows the kind, and for so many seconds does not let it be listed."""

    def __init__(self, refusing_until: float) -> None:
        self.refusing_until = refusing_until

    async def get(self, _resource: object, name: str) -> CustomResourceDefinition:
        definition = {"metadata": {"name": name, "labels": {Label.CONTRACT: "v1beta2"}}, "spec": {"names": {"kind": KIND}}}
        return msgspec.convert(definition, CustomResourceDefinition)

    async def list(self, *_: object, **__: object) -> Listing[ForeignObject]:
        if now() < self.refusing_until:
            raise Forbidden("list devmachines: not allowed")
        return Listing([], "1")

    async def watch(self, *_: object, **__: object) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield


def now() -> float:
    return asyncio.get_running_loop().time()


def run(refusing_until: float, scene: Callable[[ForeignKinds], Awaitable[None]]) -> None:
    """Play a scene with the caches running."""

    async def play() -> None:
        kinds = ForeignKinds(cast("Any", Server(refusing_until)), Random(1), lambda _: (), indexes={})
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(kinds.run())
            await scene(kinds)
            running.cancel()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play())


async def refused(kinds: ForeignKinds) -> float:
    """How many seconds it takes to be told that the kind cannot be listed."""
    began = now()
    with pytest.raises(TimeoutError, match=r"DevMachine\.infrastructure.* could not be listed: list devmachines: not allowed"):
        await kinds.store(GROUP, KIND)
    return now() - began


def test_a_kind_that_may_not_be_listed_is_waited_for_once_by_all_together() -> None:
    async def scene(kinds: ForeignKinds) -> None:
        async with asyncio.TaskGroup() as tasks:
            waits = [tasks.create_task(refused(kinds)) for _ in range(5)]
        assert {wait.result() for wait in waits} == {SYNC_TIMEOUT}
        assert await refused(kinds) == 0
        await asyncio.sleep(500)
        assert await refused(kinds) == 0

    run(1000, scene)


def test_a_kind_that_can_be_listed_again_is_there_without_another_wait() -> None:
    async def scene(kinds: ForeignKinds) -> None:
        await refused(kinds)
        await asyncio.sleep(200)
        began = now()
        assert len(await kinds.store(GROUP, KIND)) == 0
        assert now() == began

    run(100, scene)


def test_another_spelling_of_a_kind_has_no_watch_of_its_own() -> None:
    async def scene(kinds: ForeignKinds) -> None:
        await kinds.store(GROUP, KIND)
        for spelling in ("devmachine", "DEVMachine", "dEVmACHINE"):
            with pytest.raises(ContractMissing, match=f"is that of kind DevMachine, not {spelling}: correct the reference"):
                await kinds.store(GROUP, spelling)
        assert len(kinds._watched) == 1

    run(0, scene)


class CancelledByOthers(Server):
    """Whose watches end as if somebody had cancelled them."""

    async def watch(self, *_: object, **__: object) -> AsyncGenerator[Any, None]:
        await asyncio.sleep(1)
        raise asyncio.CancelledError
        yield


def test_a_cache_that_is_cancelled_by_others_ends_the_process_and_not_in_silence() -> None:
    async def play() -> None:
        kinds = ForeignKinds(cast("Any", CancelledByOthers(0)), Random(1), lambda _: (), indexes={})
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(kinds.run())
            await kinds.store(GROUP, KIND)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.raises(ExceptionGroup) as raised:
        runner.run(play())
    assert str(sole(raised.value)).startswith("the cache of devmachines ended early")
