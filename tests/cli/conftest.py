"""Control planes to show, an API server to ask, and a command line to type at."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import structlog
from click.testing import CliRunner, Result

from quorate.cli.machines.events import ControlPlaneSeen, MachineSeen
from quorate.cli.main import quorate
from quorate.clusterapi.inspection import Finding as Look
from quorate.clusterapi.observe.observation import Connection, Observation, ObservedMachine
from quorate.clusterapi.types.cluster import Cluster
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.core.health import Finding, Health
from quorate.core.machines.decide import Decision
from quorate.core.machines.state import ControlPlane, Desired, Replica
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version
from quorate.kubernetes.objects import Node

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands set up logging for their whole process: undo it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def noon() -> datetime:
    return NOON


@pytest.fixture
def cli() -> Callable[..., Result]:
    """Runs `quorate` with these arguments."""
    return lambda *arguments: CliRunner().invoke(quorate, arguments, prog_name="quorate")


@pytest.fixture
def seen() -> Callable[..., MachineSeen]:
    """A machine of a display, created at noon and seen `after` seconds later; ready unless told otherwise."""

    def build(name: str = "cp-1", after: float = 0, **changes: Any) -> MachineSeen:
        well: dict[str, Any] = {"version": "v1.34.4", "created": NOON, "node": name, "role": "voter", "health": "good", "waits_for": ""}
        return MachineSeen(**{"at": NOON + timedelta(seconds=after), "name": name, "deleting": False, "fate": "", **well, **changes})

    return build


@pytest.fixture
def summary() -> Callable[..., ControlPlaneSeen]:
    """The control plane of a display: converged unless told otherwise."""

    def build(after: float = 0, **changes: Any) -> ControlPlaneSeen:
        well = {"version": "v1.34.4", "desired": 3, "replicas": 3, "ready": 3, "available": 3, "up_to_date": 3}
        words = {"etcd": "3 voters, tolerates 1", "next": "", "standing": "converged"}
        return ControlPlaneSeen(**{"at": NOON + timedelta(seconds=after), "name": "demo", **well, **words, **changes})

    return build


@pytest.fixture
def machine() -> Callable[..., ObservedMachine]:
    """An observed Machine that is well; `status` and `changes` say otherwise."""

    def build(name: str, *, node: bool = True, deleted: bool = False, status: Any = None, **changes: Any) -> ObservedMachine:
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "creationTimestamp": NOON.isoformat()}
        metadata |= {"deletionTimestamp": NOON.isoformat()} if deleted else {}
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "Available")]
        done = {"infrastructureProvisioned": True, "bootstrapDataSecretCreated": True}
        given = {"conditions": conditions, "initialization": done, **(status or {})}
        made = msgspec.convert({"metadata": metadata, "spec": {"version": "v1.34.4"}, "status": given}, Machine)
        its_node = msgspec.convert({"metadata": {"name": name}}, Node) if node else None
        findings = {"APIServerPodHealthy": Finding(Health.GOOD, "Running")} if node else {}
        return ObservedMachine(**{"machine": made, "node": its_node, "findings": findings, **changes})

    return build


@pytest.fixture
def look(machine: Callable[..., ObservedMachine]) -> Callable[..., Look]:
    """A look at an initialized control plane of three good machines (unless others are given) and their members, the first one leading."""

    def build(*machines: ObservedMachine, decision: Decision | None = None, replicas: dict[str, Any] | None = None, **changes: Any) -> Look:
        shown = machines or tuple(machine(f"cp-{number}") for number in (1, 2, 3))
        ring = Ring(tuple(Member(number, each.name, Health.GOOD) for number, each in enumerate(shown, start=1)), leader=1)
        made = tuple(
            Replica(each.name, "v1.34.4", NOON, member=number, deleting_since=NOON if each.deleting else None, **(replicas or {}))
            for number, each in enumerate(shown, start=1)
        )
        working = Finding(Health.GOOD, "Connected")
        view = ControlPlane("demo", Desired(3, Version.parse("v1.34.4")), made, ring, initialized=True, workload=working)
        observation: dict[str, Any] = {
            "kcp": kcp(),
            "cluster": msgspec.convert({"metadata": {"name": "demo", "namespace": "default"}}, Cluster),
            "machines": shown,
            "connection": Connection(Health.GOOD, "connected"),
            "ring": ring,
            "initialized": True,
            "view": view,
        }
        return Look(Observation(**{**observation, **changes}), decision or Decision("nothing to do", None, (), None))

    return build


def kcp_document(**status: Any) -> dict[str, Any]:
    template = {
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "demo"}}
    }
    counts = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "upToDateReplicas": 3}
    return {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "uid": "1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T12:00:00Z",
        },
        "spec": {"replicas": 3, "version": "v1.34.4", "machineTemplate": template},
        "status": {**counts, **status},
    }


def kcp(**status: Any) -> KubeadmControlPlane:
    return msgspec.convert(kcp_document(**status), KubeadmControlPlane)


@dataclass
class FakeApi:
    """An API server of lists by plural; `refusal` is the HTTP status of every answer, where set, and `forbidden` a plural that is refused."""

    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    refusal: int = 0
    forbidden: str = ""
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        plural = path.rpartition("/")[2]
        if self.refusal:
            return self.refusal, {"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized"}
        if plural == self.forbidden:
            text = f'{plural} is forbidden: User "jane" cannot list resource "{plural}"'
            return 403, {"kind": "Status", "message": text, "reason": "Forbidden"}
        return 200, {"metadata": {"resourceVersion": "9"}, "items": self.items.get(plural, [])}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An API server that runs; nothing is in it."""
    fake = FakeApi()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if "watch" in parse_qs(asked.query):
                self.send_response(200)
                self.end_headers()
                fake.closing.wait(30)
                return
            code, body = fake.answer(asked.path)
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield fake
    fake.closing.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[[str], str]:
    """Writes a kubeconfig for a server and names the file."""

    def write(server: str) -> str:
        file = tmp_path / "kubeconfig"
        named = {"clusters": [{"name": "a", "cluster": {"server": server}}], "contexts": [{"name": "a", "context": {"cluster": "a"}}]}
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "a", **named}))
        return str(file)

    return write
