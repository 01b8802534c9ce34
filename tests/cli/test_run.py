"""`quorate run` and `quorate local` without the real programs: what they create, show, say, and end with."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from quorate.cli.development import run
from quorate.cli.development.run import Demo
from quorate.cli.machines.events import Event
from quorate.clusterapi.inspection import Finding as Look
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ConnectionFailed
from quorate.kubernetes.resource import Resource
from quorate.local import DemoCluster, LocalError
from quorate.local.errors import PortTaken
from quorate.local.folder import RunFolder

from .conftest import kcp

Cli = Callable[..., Result]
MakeLook = Callable[..., Look]


@dataclass
class Recorder:
    """A renderer that remembers."""

    events: list[Event] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def event(self, event: Event) -> None:
        self.events.append(event)

    def tick(self) -> None:
        """Nothing happens."""

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass
class Cluster:
    """As much of a LocalCluster as the display needs."""

    folder: RunFolder
    dead: tuple[str, ...] = ()

    @property
    def kubeconfig(self) -> Path:
        return self.folder.kubeconfig

    def ended(self) -> tuple[str, ...]:
        return self.dead


@dataclass
class Eyes:
    """An Inspector with one answer after the other, the last one for ever; an exception is raised."""

    answers: list[Look | Exception | None]
    changed: asyncio.Queue[Request] = field(default_factory=asyncio.Queue)

    async def look(self, request: Request) -> Look | None:
        self.changed.put_nowait(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a kubectl."""
    (tmp_path / "kubectl").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    return tmp_path


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def demo(tmp_path: Path, recorder: Recorder) -> Demo:
    return Demo(tmp_path / "run", DemoCluster(), recorder, stay=False, now=lambda: datetime.now(UTC))


async def shown(demo: Demo, eyes: Eyes, dead: tuple[str, ...] = ()) -> None:
    async with asyncio.timeout(10):
        await run._show(demo, Cluster(RunFolder(demo.folder), dead), eyes)  # type: ignore[arg-type]  # fakes of as much as is needed


@pytest.mark.usefixtures("programs")
async def test_the_display_ends_when_the_control_plane_is_ready(demo: Demo, recorder: Recorder, look: MakeLook) -> None:
    await shown(demo, Eyes([None, look(kcp=kcp(readyReplicas=2)), ConnectionFailed("restarting"), look()]))
    assert [type(event).__name__ for event in recorder.events] == ["MachineSeen"] * 3 + ["ControlPlaneSeen"] * 2
    assert recorder.said[0].startswith("demo: 3 of 3 ready after 0 s")


async def test_a_program_that_ends_is_named_with_the_end_of_its_log(demo: Demo, look: MakeLook) -> None:
    (demo.folder / "log").mkdir(parents=True)
    RunFolder(demo.folder).log("capi-core").write_text("panic: out of luck\n")
    with pytest.raises(LocalError, match=r"capi-core has ended(.|\n)*out of luck"):
        await shown(demo, Eyes([look()]), dead=("capi-core",))


async def test_a_control_plane_that_never_gets_ready_is_given_up(demo: Demo, recorder: Recorder, look: MakeLook) -> None:
    times = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes) for minutes in range(0, 100, 4))
    slow = Demo(demo.folder, demo.cluster, recorder, stay=False, now=lambda: next(times))
    with pytest.raises(TimeoutError, match="demo is not ready after 900 s"):
        await shown(slow, Eyes([look(kcp=kcp(readyReplicas=0))]))


def test_the_hints_can_be_pasted(demo: Demo, recorder: Recorder, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs)
    staying = Demo(demo.folder, demo.cluster, recorder, stay=True, now=demo.now)
    text = run.hints(staying, programs / "run" / "kubeconfig", 41.4)
    assert "demo: 3 of 3 ready after 41 s\nkubeconfig: run/kubeconfig\n" in text
    assert "  kubectl --kubeconfig run/kubeconfig scale kcp demo --replicas=5\n" in text
    assert "explain demo --kubeconfig run/kubeconfig --etcd-dialer in-memory\n" in text


async def test_the_demo_is_created_kind_by_kind() -> None:
    created: list[tuple[str, str, str]] = []

    class Client:
        async def create(self, resource: Resource[Any], body: Mapping[str, Any], namespace: str, *, field_manager: str) -> None:
            created.append((resource.path(namespace), body["kind"], field_manager))

    await run.create(Client(), DemoCluster(namespace="apart"))  # type: ignore[arg-type]
    groups = ("cluster", "infrastructure.cluster", "infrastructure.cluster", "controlplane.cluster", "cluster")
    plurals = ("clusters", "devclusters", "devmachinetemplates", "kubeadmcontrolplanes", "machinehealthchecks")
    paths = [f"/apis/{group}.x-k8s.io/v1beta2/namespaces/apart/{plural}" for group, plural in zip(groups, plurals, strict=True)]
    assert [path for path, *_ in created] == paths


def starting(monkeypatch: pytest.MonkeyPatch, begin: Callable[[], None], ended: list[str]) -> None:
    """Lets `quorate run` start a local cluster that never gets ready, after `begin`."""

    @asynccontextmanager
    async def running(*_arguments: object) -> AsyncIterator[None]:
        begin()
        try:
            await asyncio.Event().wait()
            yield
        finally:
            ended.append("stopped")

    monkeypatch.setattr("quorate.local.running", running)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_and_is_no_error(cli: Cli, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    ended: list[str] = []
    starting(monkeypatch, lambda: os.kill(os.getpid(), number), ended)
    result = cli("run", "--plain")
    assert (result.exit_code, ended) == (0, ["stopped"])
    assert result.stdout == "stopped; no process is left\n"


def test_a_port_that_is_taken_ends_with_4_and_names_who_holds_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken() -> None:
        raise PortTaken("port 19000, which CAPD fixes, is held by pid 7 (other)")

    starting(monkeypatch, taken, [])
    result = cli("run")
    assert (result.exit_code, result.stderr) == (4, "Error: port 19000, which CAPD fixes, is held by pid 7 (other)\n")


def test_an_even_number_of_replicas_is_a_usage_error(cli: Cli) -> None:
    assert cli("run", "--replicas", "4").exit_code == 2


def test_local_status_of_nothing_ends_with_1(cli: Cli, tmp_path: Path) -> None:
    result = cli("local", "status", "--folder", str(tmp_path))
    assert (result.exit_code, result.stdout) == (1, f"nothing was ever started in {tmp_path}\n")


def test_local_down_is_idempotent(cli: Cli, tmp_path: Path) -> None:
    result = cli("local", "down", "--folder", str(tmp_path))
    assert (result.exit_code, result.stdout) == (0, "nothing was running\n")


def test_a_folder_that_is_not_ours_ends_with_7(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    result = cli("local", "up", "--folder", str(tmp_path))
    assert result.exit_code == 7
    assert (tmp_path / "precious").exists()
