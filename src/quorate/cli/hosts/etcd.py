"""`quorate etcd`: the members of the ring on existing hosts, and a snapshot of what they hold, through any host that answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode
from quorate.cli.hosts.access import with_manifest

if TYPE_CHECKING:
    from quorate.cli.hosts.access import Loaded


@click.group(name="etcd", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """etcd on existing hosts."""


@command.command()
@with_manifest()
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.pass_context
def members(ctx: click.Context, /, output: str, **flags: Any) -> None:
    """Show each etcd member with the role and health that it reports itself. Exits 13 if etcd has no quorum or no member could be asked."""
    from quorate.cli import event_loop, lines, logs, views
    from quorate.cli.hosts import access
    from quorate.core.ring import verdict

    logs.quiet(debug=ctx.find_root().params["debug"])
    _, observation = event_loop.run(access.looked_at(access.place(flags)))
    cluster = observation.cluster
    found = views.etcd(cluster.ring, alarms=cluster.alarms)
    click.echo(as_json(found.members) if output == "json" else "\n".join(lines.ring(found)) + "\n", nl=False)
    ctx.exit(ExitCode.OK if verdict(cluster.ring) else ExitCode.STALLED)


@command.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@with_manifest()
@click.option(
    "--snapshot-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to save it if FILE is not given. Default: beside the manifest.",
)
@click.pass_context
def snapshot(ctx: click.Context, /, file: Path | None, snapshot_dir: Path | None, **flags: Any) -> None:
    """Save and verify an etcd snapshot in FILE, or beside the manifest, where the last five are kept. It contains every Secret: keep it safe."""
    from quorate.cli import event_loop, logs
    from quorate.cli.hosts import access
    from quorate.cli.hosts import run as hosts_run

    logs.quiet(debug=ctx.find_root().params["debug"])
    loaded = event_loop.run(access.load(access.place(flags)))
    click.echo(event_loop.run(_taken(loaded, file, hosts_run.snapshots_of(loaded, snapshot_dir))))


async def _taken(loaded: Loaded, file: Path | None, folder: Path) -> Path:
    from quorate.cli.hosts import run as hosts_run
    from quorate.cli.hosts.access import entered, of_one_cluster
    from quorate.hosts.act import snapshot as taking

    async with entered(loaded) as access:
        await of_one_cluster(loaded, access)
        lock = hosts_run.lock_of(access, hosts_run.this_run("etcd snapshot"), tell=lambda _: None)  # never taken: nothing is changed
        tools = hosts_run.tools(loaded, access, lock, _said, folder)
        if file is None:
            return await taking.take_snapshot(tools)
        await taking.save(await access.etcd(), file, lambda size: _said("etcd", f"{size / (1 << 20):.1f} MiB"))
        return file


def _said(where: str, what: str) -> None:
    click.echo(f"{where}: {what}", err=True)
