"""The event recorder: what is written, how often, and that it never gets in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import ConnectionFailed, Forbidden, NotFound
from quorate.kubernetes.events import EventRecorder, ObjectReference
from quorate.kubernetes.resource import EVENTS, Resource

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KCP = ObjectReference("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "default", "kcp", "uid-1")


class FakeEvents:
    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.patched: list[tuple[str, Mapping[str, Any], str]] = []
        self.error: Exception | None = None
        self.latency = 0.0

    async def create(self, resource: Resource[Any], body: Mapping[str, Any], namespace: str = "") -> Any:
        assert resource is EVENTS
        assert body["metadata"]["namespace"] == namespace
        await asyncio.sleep(self.latency)
        if self.error:
            raise self.error
        self.created.append(dict(body))
        return body

    async def merge_patch(self, resource: Resource[Any], name: str, patch: Mapping[str, Any], namespace: str = "") -> Any:
        assert resource is EVENTS
        if name not in {event["metadata"]["name"] for event in self.created}:
            raise NotFound(name)
        self.patched.append((name, patch, namespace))


@asynccontextmanager
async def recording(events: FakeEvents) -> AsyncIterator[EventRecorder]:
    loop = asyncio.get_running_loop()
    recorder = EventRecorder(events, "quorate", instance="pod-1", now=lambda: NOON + timedelta(seconds=loop.time()), random=Random(1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        yield recorder
        await asyncio.sleep(30)
        task.cancel()


async def test_an_event_is_written_with_what_people_look_for() -> None:
    events = FakeEvents()
    async with recording(events) as recorder:
        recorder.warning(KCP, "FailedScaleUp", "no machine")
    [event] = events.created
    name = event["metadata"].pop("name")
    assert name.startswith("kcp.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "involvedObject": {"apiVersion": KCP.api_version, "kind": KCP.kind, "namespace": "default", "name": "kcp", "uid": "uid-1"},
        "type": "Warning",
        "reason": "FailedScaleUp",
        "message": "no machine",
        "count": 1,
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "source": {"component": "quorate", "host": "pod-1"},
        "reportingComponent": "quorate",
        "reportingInstance": "pod-1",
    }


async def test_different_contents_are_different_events_with_different_names() -> None:
    events = FakeEvents()
    async with recording(events) as recorder:
        recorder.normal(KCP, "Reason", "message")
        recorder.warning(KCP, "Reason", "message")
        recorder.normal(KCP, "Other", "message")
        recorder.normal(KCP, "Reason", "another message")
        recorder.normal(ObjectReference("v1", "Node", "", "node-1", "uid-2"), "Reason", "message")
    assert len({event["metadata"]["name"] for event in events.created}) == 5
    assert events.created[-1]["metadata"]["namespace"] == "default", "where events of cluster-scoped objects go"


async def test_repeats_are_counted_and_written_at_most_every_five_minutes() -> None:
    events = FakeEvents()
    async with recording(events) as recorder:
        for _ in range(61):
            recorder.warning(KCP, "ControlPlaneUnhealthy", "etcd has no quorum")
            await asyncio.sleep(10)
    assert len(events.created) == 1
    name = events.created[0]["metadata"]["name"]
    assert events.patched == [
        (name, {"count": 31, "lastTimestamp": "2026-01-01T12:05:00Z"}, "default"),
        (name, {"count": 61, "lastTimestamp": "2026-01-01T12:10:00Z"}, "default"),
    ]


async def test_a_repeat_of_an_event_that_expired_is_a_new_event() -> None:
    events = FakeEvents()
    async with recording(events) as recorder:
        recorder.warning(KCP, "Reason", "message")
        await asyncio.sleep(4000)
        events.created.clear()
        recorder.warning(KCP, "Reason", "message")
    [event] = events.created
    assert (event["count"], event["firstTimestamp"]) == (1, "2026-01-01T13:06:40Z")


async def test_recording_never_waits_and_never_fails() -> None:
    events = FakeEvents()
    events.error = Forbidden("may not create events")
    async with recording(events) as recorder:
        recorder.warning(KCP, "Reason", "message")
        await asyncio.sleep(1)
        events.error = None
        recorder.warning(KCP, "Other", "message")
    assert [event["reason"] for event in events.created] == ["Other"]


async def test_a_server_that_does_not_answer_costs_ten_seconds_an_event_and_no_more() -> None:
    events = FakeEvents()
    events.latency = 1000.0
    async with recording(events) as recorder:
        recorder.warning(KCP, "Reason", "message")
        await asyncio.sleep(1)
        events.latency = 0.0
        recorder.warning(KCP, "Other", "message")
        await asyncio.sleep(8)
        assert events.created == []
        await asyncio.sleep(2)
        assert [event["reason"] for event in events.created] == ["Other"]


async def test_a_flood_is_dropped_beyond_the_backlog() -> None:
    events = FakeEvents()
    async with recording(events) as recorder:
        for number in range(6000):
            recorder.normal(KCP, "Flood", str(number))
    assert [event["message"] for event in events.created] == [str(number) for number in range(1000)]


async def test_long_messages_and_names_are_cut_to_what_the_api_takes() -> None:
    events = FakeEvents()
    async with recording(events) as recorder:
        recorder.normal(ObjectReference("v1", "Pod", "n", "p" * 253, "u"), "Reason", "m" * 5000)
    [event] = events.created
    assert len(event["message"]) == 1024
    assert len(event["metadata"]["name"]) <= 253


@pytest.mark.parametrize("error", [ConfigError("the plugin failed"), ConnectionFailed("no route"), Forbidden("no")], ids=str)
async def test_what_keeps_one_event_from_being_written_keeps_no_other(error: Exception) -> None:
    """An exec plugin that fails once would otherwise end the manager by way of an event."""
    events = FakeEvents()
    events.error = error
    async with recording(events) as recorder:
        recorder.warning(KCP, "First", "x")
        await asyncio.sleep(1)
        events.error = None
        recorder.warning(KCP, "Second", "x")
    assert [event["reason"] for event in events.created] == ["Second"]
