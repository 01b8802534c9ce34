"""`quorate reset`: resets some hosts after a quorum check, or all, which destroys the cluster."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.failures import ExitCode, Failure
from quorate.cli.hosts.access import with_manifest

if TYPE_CHECKING:
    from quorate.core.hosts.state import Cluster
    from quorate.core.hosts.steps import Step
    from quorate.hosts.act.tools import Tools
    from quorate.hosts.observe import Observation
    from quorate.hosts.run.resetting import Request


@click.command(name="reset", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@with_manifest()
@click.option("--all", "everything", is_flag=True, help="Reset every host of the manifest: destroys the cluster. Asks for its name.")
@click.option("--confirm", metavar="NAME", help="With --all: the cluster's name, instead of typing it when asked.")
@click.option("--no-snapshot", is_flag=True, help="Go on without a snapshot: you do not need etcd's data, or have saved it.")
@click.option("--without", multiple=True, metavar="HOST", help="You vouch that HOST is gone and nobody works on it. Repeatable.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking. Not enough for --all.")
@click.option(
    "--snapshot-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to save the etcd snapshot. Default: beside the manifest.",
)
@click.option("--plain", is_flag=True, help="Print plain lines; the default when output is not a terminal or NO_COLOR is set.")
@click.option(
    "--output", "-o", type=click.Choice(["live", "json"]), default="live", show_default=True, help="json prints one event per line."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    hosts: tuple[str, ...],
    everything: bool,
    confirm: str | None,
    no_snapshot: bool,
    without: tuple[str, ...],
    yes: bool,
    snapshot_dir: Path | None,
    plain: bool,
    output: str,
    **flags: Any,
) -> None:
    """Remove every trace of the cluster from the named hosts, after a quorum check. **With --all, destroy the cluster and its data.** Asks first.

    quorate first takes an etcd snapshot, then removes each control-plane HOST's etcd member, deletes its Node and resets it. Remove HOST from the manifest
    too, or the next apply joins it again. Packages stay installed.
    """
    from quorate.cli import event_loop, logs, render
    from quorate.cli.hosts import access
    from quorate.cli.hosts import run as hosts_run
    from quorate.cli.hosts.display import HOSTS
    from quorate.core.hosts.approval import Approval
    from quorate.core.hosts.state import RunOptions
    from quorate.hosts.observe import Memory
    from quorate.hosts.run import resetting

    logs.quiet(debug=ctx.find_root().params["debug"])
    _require_one_meaning(hosts, everything=everything, confirm=confirm)
    memory = Memory()
    loaded, observation = event_loop.run(access.looked_at(access.place(flags), memory=memory))
    cluster = observation.cluster
    options = RunOptions(without=_known(cluster, without))
    request = resetting.Request(_named(cluster, hosts), everything, save=not no_snapshot, apart=resetting.apart(cluster))
    click.echo(as_text(cluster, request), nl=False, err=output == "json")
    steps = resetting.reset_steps(cluster, request)
    if not any(each.step for each in steps):
        ctx.exit(ExitCode.STALLED if steps else ExitCode.OK)
    if everything:
        hosts_run.confirm_by_name(cluster.name, confirm)
    else:
        hosts_run.confirm("Everything of the cluster on these hosts will be lost. Continue?", yes=yes)
    run = hosts_run.Run(
        command="reset",
        loaded=loaded,
        options=options,
        memory=memory,
        snapshots=hosts_run.snapshots_of(loaded, snapshot_dir),
        approval=Approval.of((each.step for each in steps if each.step is not None), only=True),
        shown=cluster,
        renderer=render.choose(output, HOSTS, plain=plain, stream=sys.stdout, now=access.now),
        goal="the hosts are reset",
        decide=resetting.deciding(request),
        otherwise=_cleaning(request),
    )
    ctx.exit(event_loop.run(hosts_run.carry_out(run)))


def _require_one_meaning(hosts: tuple[str, ...], *, everything: bool, confirm: str | None) -> None:
    """Hosts or --all, and nothing by leaving it out. Raises UsageError."""
    if bool(hosts) == everything:
        raise click.UsageError("name the hosts to reset, or give --all to destroy the whole cluster; not both")
    if confirm is not None and not everything:
        raise click.UsageError("--confirm goes with --all")


def _named(cluster: Cluster, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts that are meant: all where none is named. Raises Failure for a name that no host has, and UsageError where the names end the cluster."""
    from quorate.hosts.run.resetting import ends_the_cluster

    if _known(cluster, hosts) and ends_the_cluster(cluster, hosts):
        raise click.UsageError(
            f"these are all control-plane hosts of {cluster.name}, and without them it is destroyed: if you mean that, give --all instead"
        )
    return hosts or tuple(host.name for host in cluster.hosts)


def _known(cluster: Cluster, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """These names. Raises Failure for one that no host has."""
    there = tuple(host.name for host in cluster.hosts)
    if strangers := [name for name in hosts if name not in there]:
        raise Failure(f"the manifest has no host {', '.join(strangers)}; it has {', '.join(there)}", ExitCode.NOT_FOUND)
    return hosts


def _cleaning(request: Request) -> Callable[[Tools, Step, Observation], Awaitable[bool]]:
    """Hosts of a cluster that ends, and hosts that no ring can be checked against, are reset without asking etcd: their owner has just said so."""
    from quorate.core.hosts.steps import Reset
    from quorate.hosts.act.reset import clean
    from quorate.hosts.run.resetting import asks_no_ring

    async def otherwise(tools: Tools, step: Step, observation: Observation) -> bool:
        if not isinstance(step, Reset) or not asks_no_ring(observation.cluster, request, step.host):
            return False
        await clean(tools, step.host, observation)
        return True

    return otherwise


def as_text(cluster: Cluster, request: Request) -> str:
    """What would be done, for a person."""
    from quorate.cli.lines import blocked, short
    from quorate.cli.views import verdict
    from quorate.core.ring import in_words
    from quorate.hosts.run.resetting import ANOTHERS, not_unique, reset_steps

    found = reset_steps(cluster, request)
    lines = [f"{cluster.name}: reset {', '.join(request.names)}", f"etcd now: {in_words(cluster.ring)}"]
    if request.everything:
        lines.append("These are all hosts: the cluster is destroyed, and its data is lost.")
    lines += [
        f"{each.host} belongs to another cluster, whose etcd is not asked." for each in found if ANOTHERS in {c.name for c in each.checks}
    ]
    lines += dict.fromkeys(why for each in found if each.step is not None and each.host for why in not_unique(cluster.host(each.host)))
    steps = [each for each in found if each.step is not None]
    width = max((len(str(each.step)) for each in steps), default=0)
    lines += [f"  {number:>3}  {each.step!s:<{width}}  {short(verdict(each.before))}".rstrip() for number, each in enumerate(steps, 1)]
    refused = tuple(check for each in found if each.step is None for check in each.checks)
    lines += ["Cannot be reset; these checks do not pass:", *blocked(refused)] if refused else []
    lines += [] if found else ["Nothing to do: there is no trace of the cluster on them."]
    return "\n".join(lines) + "\n"
