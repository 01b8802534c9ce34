"""What every step works with: connections to the cluster, the manifest, and how to report, wait and generate keys. One value for a whole run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from quorate.core.hosts.state import Cluster
from quorate.etcd.client import EtcdClient, SnapshotClient
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.waiting import Report, Waits
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.kubeadm_configuration import Machine
from quorate.kubernetes.client import Client


class Host(Protocol):
    """One host, for steps: every script says whether it changes anything there. Raises SshErrors, and StepFailed where this run may not change anything."""

    @property
    def name(self) -> str:
        """The host's name in the manifest."""
        ...

    async def change(self, script: str, *, stdin: bytes = b"", deadline: float) -> Outcome:
        """Run a script as root that may change the host, as long as this run has its lock: `quorate.hosts.run.lock`. Any exit status is an outcome."""
        ...

    async def look(self, script: str, *, deadline: float) -> Outcome:
        """Run a script as root that changes nothing. Any exit status is an outcome."""
        ...

    async def read_file(self, path: str) -> bytes:
        """The content of a file, at most 1 MiB. Raises NoSuchFile."""
        ...


class Access(Protocol):
    """The ways into one cluster, behind the fence that `quorate.hosts.run.fence` puts up: `quorate.hosts.connect.access.Access` says how each behaves."""

    @property
    def states(self) -> Mapping[str, object]:
        """Every host, as it was when it was last connected to: Unreachable, or anything else."""
        ...

    def ssh(self, name: str) -> Host:
        """The host. Raises a ConnectFailed."""
        ...

    async def api(self) -> Client:
        """A client of an API server that answers. Raises AccessFailed."""
        ...

    async def api_of(self, name: str) -> Client:
        """A client of this host's API server. Raises AccessFailed."""
        ...

    async def etcd(self, through: str | None = None) -> SnapshotClient:
        """A client of this host's member, or of any that answers. Raises AccessFailed."""
        ...

    async def etcd_at(self, address: str, through: str) -> EtcdClient:
        """A client of the member at an address, through a host. Raises AccessFailed."""
        ...

    def forget(self, name: str) -> None:
        """Read this host's credentials anew when they are next needed."""
        ...


class Observation(Protocol):
    """What was observed before the step was decided on: `quorate.hosts.observe` makes it."""

    @property
    def cluster(self) -> Cluster:
        """What the decision looked at."""
        ...

    @property
    def facts(self) -> Mapping[str, HostFacts | Unreachable]:
        """What each host told of itself."""
        ...

    @property
    def machines(self) -> Mapping[str, Machine]:
        """Each host of the manifest with its own name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """For all steps of one run. `contents` are the files beside the manifest; `random_bytes` is a source fit for keys; `now` is aware;
    `snapshot_folder` is where snapshots of etcd go on this machine.
    """

    access: Access
    manifest: Manifest
    contents: Contents = field(repr=False)
    report: Report
    waits: Waits
    now: Callable[[], datetime]
    random_bytes: Callable[[int], bytes]
    snapshot_folder: Path

    async def run(self, host: str, script: str, *, doing: str, deadline: float, stdin: bytes = b"", remedy: str = "") -> Outcome:
        """Run a script that changes a host; `doing` completes the sentence "... failed". Raises StepFailed for any status but zero, and SshErrors."""
        return _succeeded(host, await self.access.ssh(host).change(script, stdin=stdin, deadline=deadline), doing, remedy)

    async def look(self, host: str, script: str, *, doing: str, deadline: float, remedy: str = "") -> Outcome:
        """Run a script that changes nothing, and raises the same."""
        return _succeeded(host, await self.access.ssh(host).look(script, deadline=deadline), doing, remedy)


def _succeeded(host: str, outcome: Outcome, doing: str, remedy: str) -> Outcome:
    if outcome.exit_status:
        raise StepFailed(host, f"{doing} failed: {outcome.last_words} (status {outcome.exit_status})", remedy)
    return outcome
