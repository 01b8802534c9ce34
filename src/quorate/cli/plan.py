"""`quorate plan NAME`: what would be done to a control plane, machine by machine and step by step, as it is or with an edit, before anything happens.

`quorate plan -m MANIFEST` says the same of existing hosts (`quorate.cli.hosts.plan`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import click

from quorate.cli.failures import FindingCommand, wrong
from quorate.cli.hosts.access import with_manifest
from quorate.cli.hosts.options import with_options
from quorate.cli.machines.access import Access, with_access


@click.command(name="plan", cls=FindingCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False, default="")
@click.option("--namespace", "-n", help="Its namespace. Default: the context's.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Plan as if this field below spec were changed, e.g. version=v1.35.4. Repeatable.",
)
@click.option(
    "--filename",
    "-f",
    "file",
    type=click.File(encoding="utf-8"),
    help="Plan for this edited KubeadmControlPlane (YAML or JSON; - for stdin).",
)
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="With -m: save the plan for `quorate apply FILE`.")
@with_manifest(default=None)
@with_options
@with_access
@click.pass_context
def command(
    ctx: click.Context,
    /,
    name: str,
    namespace: str | None,
    settings: tuple[str, ...],
    file: TextIO | None,
    output: str,
    out: Path | None,
    kubeconfig: str | None,
    context: str | None,
    etcd_dialer: str,
    **hosts: Any,
) -> None:
    """Show every step in order, with etcd before and after each, for the Machines of the control plane NAME, or with -m for existing hosts.

    Changes nothing. Exits 0 if there is nothing to do, 2 if there are changes, 64 if the command line is wrong or the edit would be refused.
    """
    from quorate.cli import logs
    from quorate.cli.hosts import options
    from quorate.cli.hosts import plan as hosts_plan
    from quorate.cli.machines import edits
    from quorate.cli.machines import plan as machines_plan

    logs.quiet(debug=ctx.find_root().params["debug"])
    if hosts["manifest"] is not None:
        if name or file or settings:
            raise wrong("-m plans for the hosts of a manifest: give no NAME, --set or --filename with it")
        hosts_plan.run(ctx, hosts, options.options(hosts), output=output, out=out)
    if not name or out:
        raise wrong("name a control plane, or with -m the manifest of existing hosts; --out goes with -m")
    access = Access(kubeconfig, context, etcd_dialer)
    machines_plan.run(ctx, name, namespace or "", access, edits.edit(name, file, settings), output=output)
