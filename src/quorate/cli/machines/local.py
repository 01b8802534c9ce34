"""`quorate local up|down|status`: a local management cluster that runs in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from quorate.local import Status

_folder = click.option(
    "--folder", type=click.Path(path_type=Path), default=Path(".local/run"), show_default=True, help="Where the cluster keeps its files."
)


@click.group(name="local", context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def command(ctx: click.Context, /) -> None:
    """A local management cluster: the real API server and Cluster API programs as processes on loopback."""
    from quorate.cli import logs

    logs.quiet(debug=ctx.find_root().params["debug"])


@command.command()
@_folder
@click.option(
    "--control-plane",
    type=click.Choice(["quorate", "upstream", "none"]),
    default="quorate",
    show_default=True,
    help="Which provider reconciles KubeadmControlPlanes. none installs quorate's kinds only; you run the manager.",
)
def up(folder: Path, control_plane: str) -> None:
    """Start the cluster and leave it running."""
    from quorate import local
    from quorate.cli import event_loop

    options = local.Options(say=lambda text: click.echo(text, err=True))
    started = event_loop.run(local.up(folder, control_plane, options))
    click.echo("" if started else "running already\n", nl=False, err=True)
    click.echo(f"export KUBECONFIG={local.status(folder).folder.kubeconfig}")


@command.command()
@_folder
@click.option("--remove", is_flag=True, help="Delete the folder too, logs included.")
def down(folder: Path, remove: bool) -> None:
    """Stop the cluster, if it runs."""
    from quorate import local
    from quorate.cli import event_loop

    ended = event_loop.run(local.down(folder, remove=remove))
    click.echo(f"ended {', '.join(ended)}" if ended else "nothing was running")


@command.command()
@_folder
def status(folder: Path) -> None:
    """Show which programs run. Exits 1 if one of them does not."""
    from quorate import local

    found = local.status(folder)
    click.echo(describe(found), nl=False)
    click.get_current_context().exit(0 if found.ready else 1)


def describe(found: Status) -> str:
    """What runs in a folder, a line a program."""
    if found.control_plane is None:
        return f"nothing was ever started in {found.folder.path}\n"
    word = "ready" if found.ready else "incomplete" if found.live else "down"
    lines = [f"{word}: control-plane provider {found.control_plane}, folder {found.folder.path}"]
    if found.live:
        lines.append(f"kubeconfig: {found.folder.kubeconfig}")
    lines += [f"  {name}: {f'pid {process.pid}' if process.alive else 'ended'}" for name, process in found.processes.items()]
    return "\n".join(lines) + "\n"
