"""`quorate config`: prints what quorate makes of a manifest."""

from __future__ import annotations

from typing import Any

import click

from quorate.cli.hosts.access import with_manifest


@click.group(name="config", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Print what quorate makes of a manifest, without connecting to any host."""


@command.command(name="machinedeployments")
@with_manifest()
@click.pass_context
def machine_deployments(ctx: click.Context, /, **flags: Any) -> None:
    """Print the MachineDeployments of the manifest's dynamicWorkers as YAML. They may contain cloud credentials."""
    from quorate.cli import event_loop, logs
    from quorate.cli.hosts import access
    from quorate.core import documents
    from quorate.hosts.act import machine_deployments as rendering

    logs.quiet(debug=ctx.find_root().params["debug"])
    loaded = event_loop.run(access.load(access.place(flags)))
    click.echo(documents.dump_all(rendering.machine_deployments(loaded.manifest), sort_keys=False), nl=False)
