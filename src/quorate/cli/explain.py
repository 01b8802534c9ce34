"""`quorate explain`: the next step for a control plane, the checks behind it, and what would change the answer.

Of Machines by their name; with `-m MANIFEST [HOST]` of existing hosts, and with `--run` of an earlier run on them.
"""

from __future__ import annotations

from typing import Any

import click

from quorate.cli.hosts.access import with_manifest
from quorate.cli.machines.access import Access, with_access


@click.command(name="explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="[NAME]", required=False, default="")
@click.option("--namespace", "-n", help="Its namespace. Default: the context's.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.option(
    "--run",
    metavar="[FILE]",
    is_flag=False,
    flag_value="newest",
    help="Show what an earlier run on existing hosts did. Default FILE: the newest record.",
)
@with_manifest(default=None)
@with_access
@click.pass_context
def command(
    ctx: click.Context,
    /,
    name: str,
    namespace: str | None,
    output: str,
    run: str | None,
    kubeconfig: str | None,
    context: str | None,
    etcd_dialer: str,
    **hosts: Any,
) -> None:
    """Show the next step, the checks behind it, and what would change the answer, for the control plane NAME, or with -m for existing hosts (or one: NAME).

    Exits 0 if it is converged or on its way, 13 if it waits for something that needs you.
    """
    from quorate.cli import logs
    from quorate.cli.hosts import explain as of_hosts
    from quorate.cli.machines import explain as of_machines

    logs.quiet(debug=ctx.find_root().params["debug"])
    if run is not None:
        of_hosts.run_of(run, hosts, output=output)
        return
    if hosts["manifest"] is not None:
        of_hosts.run(ctx, name, hosts, output=output)
    if not name:
        raise click.UsageError("name a control plane, or with -m the manifest of existing hosts")
    of_machines.run(ctx, name, namespace or "", Access(kubeconfig, context, etcd_dialer), output=output)
