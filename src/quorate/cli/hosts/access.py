"""How commands reach a cluster of existing hosts: their common flags, the manifest read once, and the connections to its hosts."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from datetime import datetime

    from quorate.core.hosts.state import Cluster, RunOptions
    from quorate.hosts.connect.access import Access
    from quorate.hosts.manifest import Manifest
    from quorate.hosts.observe import Memory, Observation
    from quorate.hosts.render.feature_files import Contents

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

MANIFEST = "kubeone.yaml"
"""The manifest that is read where none is named, as KubeOne does."""
_KNOWN_HOSTS = Path("~/.ssh/known_hosts")


@dataclass(frozen=True, slots=True)
class Place:
    """What the common flags say: where the cluster is described, and how far its hosts are trusted."""

    manifest: Path
    terraform: str = ""
    known_hosts: Path = _KNOWN_HOSTS
    accept_new_host_keys: bool = False
    ignore_unsupported: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """The manifest with the files beside it, and the digest of each input, by what it is of."""

    place: Place
    manifest: Manifest
    contents: Contents = field(repr=False)
    inputs: Mapping[str, str]


def with_manifest(default: str | None = MANIFEST) -> Callable[[_Decorated], _Decorated]:
    """The flags that `place` is made from; without a default the manifest's flag is what tells that existing hosts are meant."""
    path = click.Path(path_type=Path)
    options = (
        click.option(
            "--manifest",
            "-m",
            type=path,
            default=default,
            show_default=default is not None,
            help="Existing hosts: the KubeOneCluster manifest.",
        ),
        click.option(
            "--tfjson", "-t", default="", metavar="FILE|DIR|-", help="Terraform's outputs: a file, Terraform's folder, or - for stdin."
        ),
        click.option("--known-hosts", type=path, default=_KNOWN_HOSTS, show_default=True, help="The file of trusted host keys."),
        click.option("--accept-new-host-keys", is_flag=True, help="Trust hosts that are not in --known-hosts yet, and record their keys."),
        click.option("--ignore-unsupported", is_flag=True, help="Ignore manifest fields that quorate does not support, and list them."),
    )

    def decorate(command: _Decorated) -> _Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def place(flags: Mapping[str, Any]) -> Place:
    """From the values of those flags."""
    return Place(flags["manifest"], flags["tfjson"], flags["known_hosts"], flags["accept_new_host_keys"], flags["ignore_unsupported"])


async def load(where: Place) -> Loaded:
    """Read the manifest, Terraform's outputs and the files that features name. Raises ManifestError and TerraformError."""
    import asyncio
    import json
    import sys

    from quorate.hosts import manifest as manifests
    from quorate.hosts.manifest import terraform
    from quorate.hosts.render import feature_contents

    outputs = await terraform.read(where.terraform, sys.stdin.buffer) if where.terraform else None
    text = await asyncio.to_thread(manifests.read, where.manifest)  # once: the digest is of what was judged
    manifest = await asyncio.to_thread(
        manifests.parse,
        text,
        source=str(where.manifest),
        folder=where.manifest.parent.absolute(),
        terraform=outputs,
        ignore_unsupported=where.ignore_unsupported,
    )
    contents = await asyncio.to_thread(feature_contents.read, manifest)
    read = {f"manifest {where.manifest.name}": text.encode()}
    read |= {name: content for name, content in _beside(manifest, contents).items() if content is not None}
    if outputs is not None:
        read["Terraform's outputs"] = json.dumps(dict(outputs.values), sort_keys=True).encode()
    return Loaded(where, manifest, contents, {name: hashlib.sha256(content).hexdigest() for name, content in read.items()})


def _beside(manifest: Manifest, contents: Contents) -> dict[str, bytes | None]:
    """What the files hold that the manifest names and hosts are given, by the field that names each."""
    ca = manifest.certificate_authority
    return {
        "features.staticAuditLog.config.policyFilePath": contents.audit_policy,
        "features.eventRateLimit.config.configFilePath": contents.event_rate_limit,
        "features.podNodeSelector.config.configFilePath": contents.pod_node_selector,
        "certificateAuthority.file": str(ca.bundle).encode() if ca.file else None,
    }


@asynccontextmanager
async def entered(loaded: Loaded) -> AsyncIterator[Access]:
    """The ways into the cluster, connected as far as hosts can be reached. Raises nothing of a host that cannot."""
    import os

    from quorate.hosts.connect.access import Access
    from quorate.hosts.connect.ssh.dial import Dialer
    from quorate.hosts.connect.ssh.hosts import Hosts
    from quorate.hosts.connect.ssh.known_hosts import KnownHosts

    where = loaded.place
    dialer = Dialer(KnownHosts(where.known_hosts.expanduser()), accept_new_host_keys=where.accept_new_host_keys)
    async with Hosts(dialer) as connections, Access(loaded.manifest, connections, os.environ) as access:
        yield access


async def observed(loaded: Loaded, access: Access, memory: Memory | None = None, options: RunOptions | None = None) -> Observation:
    """One look at the cluster."""
    from quorate.core.hosts.state import RunOptions
    from quorate.hosts.observe import Memory, observe

    return await observe(access, loaded.manifest, memory or Memory(), loaded.contents, now, options or RunOptions())


async def of_one_cluster(loaded: Loaded, access: Access) -> Observation:
    """One look, after which the ways in lead to the cluster that most control-plane hosts belong to. Raises Failure where that cannot be told."""
    from quorate.cli.failures import ExitCode, Failure
    from quorate.core.health import Unknown

    observation = await observed(loaded, access)
    if isinstance(observation.ca, Unknown):
        raise Failure(f"{observation.ca.reason} -> {observation.ca.remedy}", ExitCode.HOSTS)
    return observation


async def looked_at(
    where: Place, options: RunOptions | None = None, memory: Memory | None = None, again: Callable[[Cluster], datetime | None] | None = None
) -> tuple[Loaded, Observation]:
    """The manifest and one look at its cluster, with who else works on it; connections are closed afterwards. `again` says when to look once more, or None."""
    import asyncio
    from dataclasses import replace

    loaded = await load(where)
    async with entered(loaded) as access:
        while True:
            observation = await observed(loaded, access, memory, options)
            holder = await somebody_else(access)
            observation = replace(observation, cluster=replace(observation.cluster, locked_by=holder))
            until = again(observation.cluster) if again else None
            if until is None:
                return loaded, observation
            await asyncio.sleep(max((until - now()).total_seconds(), 0.0))


async def somebody_else(access: Access) -> str:
    """Who else works on these hosts now; empty: nobody."""
    import asyncio

    from quorate.hosts.run.lock import Lock
    from quorate.hosts.run.operator import has_ended, this_run

    lock = Lock(access, this_run("", "", now()), now=now, sleep=asyncio.sleep, has_ended=has_ended, tell=lambda _: None)
    holder = await lock.holder_elsewhere()
    return str(holder) if holder else ""


def say_notices(manifest: Manifest) -> None:
    """What the manifest's author should know, on stderr."""
    for notice in (*manifest.notices, *manifest.ignored):
        click.echo(f"note: {notice}", err=True)


def now() -> datetime:
    """The time, aware and in UTC, by a clock that nobody sets while this process lasts."""
    return _clock()()


@cache
def _clock() -> Callable[[], datetime]:
    from quorate.hosts.run.clock import steady

    return steady()
