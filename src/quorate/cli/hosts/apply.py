"""`quorate apply`: shows the plan, asks, and brings existing hosts to what their manifest says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from quorate.cli.failures import ExitCode
from quorate.cli.hosts.access import Place, with_manifest
from quorate.cli.hosts.options import with_options

if TYPE_CHECKING:
    from quorate.cli.views import Plan
    from quorate.core.hosts.state import Cluster
    from quorate.hosts.run.plan_file import Kept


_BESIDE_A_PLAN = frozenset({"plan_file", "known_hosts", "accept_new_host_keys", "yes", "snapshot_dir", "plain", "output"})
"""Parameters that are said beside a plan; every other is kept in it."""


@click.command(name="apply", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("plan_file", metavar="[PLAN]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@with_manifest()
@with_options
@click.option("--yes", "-y", "--auto-approve", is_flag=True, help="Carry out the plan without asking.")
@click.option(
    "--snapshot-dir", type=click.Path(file_okay=False, path_type=Path), help="Where to save etcd snapshots. Default: beside the manifest."
)
@click.option("--plain", is_flag=True, help="Print plain lines; the default when output is not a terminal or NO_COLOR is set.")
@click.option(
    "--output", "-o", type=click.Choice(["live", "json"]), default="live", show_default=True, help="json prints one event per line."
)
@click.pass_context
def command(
    ctx: click.Context, /, plan_file: Path | None, yes: bool, snapshot_dir: Path | None, plain: bool, output: str, **flags: Any
) -> None:
    """Install, join, repair, upgrade or reconfigure existing hosts until they match the manifest. Shows the plan and asks first.

    PLAN is a file from `quorate plan --out`; it is refused once the cluster has changed. After an interruption, run the same command again:
    it continues from there.
    """
    from quorate.cli import event_loop, lines, logs, render
    from quorate.cli.hosts import access
    from quorate.cli.hosts import plan as hosts_plan
    from quorate.cli.hosts import run as hosts_run
    from quorate.cli.hosts.display import HOSTS
    from quorate.cli.hosts.options import options
    from quorate.core.hosts.approval import Approval
    from quorate.core.hosts.forecast import forecast
    from quorate.hosts.observe import Memory
    from quorate.hosts.run import plan_file as plan_files

    logs.quiet(debug=ctx.find_root().params["debug"])
    kept = plan_files.read(plan_file) if plan_file else None
    if kept:
        _require_only_the_plan(ctx)
    place = _place_of(kept, flags) if kept else access.place(flags)
    wanted, memory = kept.options if kept else options(flags), Memory()
    loaded, observation = event_loop.run(access.looked_at(place, wanted, memory, None if kept else hosts_plan.until_it_can_begin()))
    foreseen = forecast(observation.cluster, access.now())
    plan = hosts_plan.plan_of(observation.cluster, access.now(), foreseen)
    if kept:
        _require_unmoved(kept, observation.cluster, loaded.inputs, plan)
    access.say_notices(loaded.manifest)
    click.echo(lines.plan(plan), nl=False, err=output == "json")
    if not plan.steps:
        ctx.exit(ExitCode.OK if plan.converges else ExitCode.LOCKED if observation.cluster.locked_by else ExitCode.STALLED)
    hosts_run.confirm("Carry this out?", yes=yes)
    run = hosts_run.Run(
        command="apply",
        loaded=loaded,
        options=wanted,
        memory=memory,
        snapshots=hosts_run.snapshots_of(loaded, snapshot_dir),
        approval=Approval.of((each.step for each in foreseen.steps), only=kept is not None),
        shown=observation.cluster,
        goal="" if wanted.initialize else "the hosts are prepared; run the same command without --no-init to make the cluster",
        renderer=render.choose(output, HOSTS, plain=plain, stream=sys.stdout, now=access.now),
    )
    ctx.exit(event_loop.run(hosts_run.carry_out(run)))


def _require_only_the_plan(ctx: click.Context) -> None:
    """What a plan says is not said again, nor otherwise: it would be left unheard. Raises UsageError."""
    names = (str(parameter.name) for parameter in ctx.command.params if parameter.name not in _BESIDE_A_PLAN)
    said = [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if said:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        raise click.UsageError(f"PLAN has its own {flags}: leave it out, or make another plan with `quorate plan --out`")


def _place_of(kept: Kept, flags: dict[str, Any]) -> Place:
    """The plan says which cluster; how far hosts are trusted is still the command line's to say."""
    return Place(Path(kept.manifest), kept.terraform, flags["known_hosts"], flags["accept_new_host_keys"], kept.ignore_unsupported)


def _require_unmoved(kept: Kept, cluster: Cluster, inputs: Any, plan: Plan) -> None:
    """Raises StalePlan."""
    from quorate.hosts.run import plan_file

    moved = plan_file.moved(kept, plan_file.facts(cluster), inputs, tuple(step.step for step in plan.steps))
    if moved:
        raise plan_file.StalePlan(moved)
