"""A cluster of existing hosts for commands: its manifest is a file, and what hosts, SSH and time would do is a model in which every step succeeds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.cli.hosts import access as hosts_access
from quorate.cli.hosts.access import Loaded
from quorate.core.hosts import forecast
from quorate.core.hosts.state import Cluster, RunOptions
from quorate.core.hosts.steps import Step
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.observe.cluster_ca import fingerprints
from tests.core.hosts.conftest import Build
from tests.hosts.manifests import SMALLEST
from tests.hosts.probe.machine import ca

BUILD = Build()
_THEIRS = 76
FINGERPRINT = next(iter(fingerprints(ca().certificate)))
"""Of the cluster's CA."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What commands take of an observation."""

    cluster: Cluster
    facts: Mapping[str, Any]
    machines: Mapping[str, Any]
    ca: str = FINGERPRINT


@dataclass
class FakeHost:
    """A host that answers lock scripts; `holder` is whose lock it shows, as JSON, and `files` what can be read."""

    name: str
    holder: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)

    async def run(self, _script: str, **_how: Any) -> Outcome:
        return Outcome(_THEIRS, self.holder, b"") if self.holder else Outcome(0, b"1000", b"")  # for how long it has been up

    async def read_file(self, path: str) -> bytes:
        return self.files[path]


@dataclass
class FakeAccess:
    """The ways in; there is no API."""

    states: dict[str, Any]
    control_planes: tuple[str, ...]

    async def api(self) -> Any:
        from quorate.hosts.connect.access import AccessFailed

        raise AccessFailed("no API server answers")

    def ssh(self, name: str) -> FakeHost:
        host: FakeHost = self.states[name]
        return host


@dataclass
class HostsWorld:
    """The cluster as it is, the steps that were carried out, and what `failing` raises instead of one."""

    manifest: Path
    cluster: Cluster
    access: FakeAccess
    facts: Mapping[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    failing: Exception | None = None
    looks: int = 0
    settled: int = 0

    @asynccontextmanager
    async def entered(self, _loaded: Loaded) -> AsyncIterator[FakeAccess]:
        yield self.access

    async def observed(self, _loaded: Loaded, _access: Any, _memory: Any = None, options: RunOptions | None = None) -> Seen:
        self.looks += 1
        return Seen(replace(self.cluster, options=options or RunOptions()), self.facts, {})

    async def carry_out(self, step: Step, seen: Seen) -> None:
        if self.failing is not None:
            raise self.failing
        self.steps.append(step)
        model = forecast._Model(seen.cluster, BUILD.noon)
        model.take(step)
        self.cluster = model.cluster

    @property
    def runs(self) -> Path:
        return self.manifest.parent / "demo-runs"


@dataclass
class FakeHands:
    """In place of those that work on hosts."""

    world: HostsWorld

    def __call__(self, _tools: Any) -> FakeHands:
        return self

    async def carry_out(self, step: Step, seen: Seen) -> None:
        await self.world.carry_out(step, seen)

    async def settle(self, _seen: Seen) -> None:
        self.world.settled += 1


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostsWorld:
    """Three hosts that are well, at noon."""
    manifest = tmp_path / "kubeone.yaml"
    manifest.write_text(yaml.safe_dump(SMALLEST))
    cluster = BUILD.three()
    names = tuple(host.name for host in cluster.hosts)
    made = HostsWorld(manifest, cluster, FakeAccess({name: FakeHost(name) for name in names}, names))
    for name in ("entered", "observed"):
        monkeypatch.setattr(hosts_access, name, getattr(made, name))
        monkeypatch.setattr(f"quorate.cli.hosts.run.{name}", getattr(made, name))
    monkeypatch.setattr(hosts_access, "now", _noon)
    monkeypatch.setattr("quorate.cli.hosts.run.now", _noon)
    monkeypatch.setattr("quorate.hosts.act.executor.Executor", FakeHands(made))
    return made


def _noon() -> datetime:
    return BUILD.noon
