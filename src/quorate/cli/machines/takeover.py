"""`quorate takeover` and `quorate handback`: in a live management cluster quorate takes the place of upstream's provider, or gives it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.documents import as_json
from quorate.cli.durations import Duration
from quorate.cli.failures import ExitCode, FindingCommand, wrong
from quorate.cli.machines.access import Access, with_access
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from quorate.cli.views import Change
    from quorate.clusterapi.takeover.observe import Observation, Observer, Options
    from quorate.clusterapi.takeover.session import Ended
    from quorate.core.takeover.state import Side
    from quorate.kubernetes.client import Client
    from quorate.kubernetes.config import RestConfig

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Flags:
    """What both commands are told."""

    components: Path | None
    components_version: str
    namespace: str
    accept: tuple[str, ...]
    owners_told: bool
    core_version: str
    timeout: float
    dry_run: bool
    yes: bool
    output: str


def _with_flags(command: _Decorated) -> _Decorated:
    options = (
        click.option("--components-version", default="", metavar="VERSION", help="Their version, where the image's tag does not say it."),
        click.option(
            "--namespace", "-n", default=DEFAULT_NAMESPACE, show_default=True, help="The namespace of both providers' Deployments."
        ),
        click.option("--accept", multiple=True, metavar="NAMESPACE/NAME", help="Go on whatever becomes of this control plane. Repeatable."),
        click.option("--owners-told", is_flag=True, help="Whoever applies the other provider's objects has been stopped."),
        click.option("--core-version", default="", metavar="VERSION", help="Cluster API's release, where clusterctl's inventory has none."),
        click.option(
            "--timeout", type=Duration(), default=300.0, show_default="5m", help="How long it may take before everything is put back."
        ),
        click.option(
            "--dry-run", is_flag=True, help="Show every object that would be touched, and what would change in it. Changes nothing."
        ),
        click.option("--yes", "-y", is_flag=True, help="Carry it out without a question."),
        click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format."),
        with_access,
        click.pass_context,
    )
    for option in reversed(options):
        command = option(command)
    return command


_file = click.Path(dir_okay=False, path_type=Path)


@click.command(name="takeover", cls=FindingCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--components", type=_file, help="quorate's components, with their variables filled in. Needed until a change has begun.")
@_with_flags
def takeover(ctx: click.Context, /, kubeconfig: str | None, context: str | None, etcd_dialer: str, **flags: Any) -> None:
    """Have quorate take the place of upstream's control-plane provider in a live management cluster.

    Shows the checks and every step, and asks. Both installations are saved in the cluster first, and on any doubt everything is put back. Interrupted at any
    point, the same command goes on from there, and `quorate handback` goes back. With --dry-run it ends with 0 where there is nothing to do, 2 where there is.
    """
    from quorate.core.takeover.state import Side

    _run(ctx, Side.QUORATE, Access(kubeconfig, context, etcd_dialer), _Flags(**flags))


@click.command(name="handback", cls=FindingCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--components", type=_file, help="Upstream's components, in the place of those that `quorate takeover` has saved.")
@_with_flags
def handback(ctx: click.Context, /, kubeconfig: str | None, context: str | None, etcd_dialer: str, **flags: Any) -> None:
    """Give the control planes back to upstream's provider, as `quorate takeover` found it.

    Works at any point of a takeover, too. What it says and how it ends is as with that.
    """
    from quorate.core.takeover.state import Side

    _run(ctx, Side.UPSTREAM, Access(kubeconfig, context, etcd_dialer), _Flags(**flags))


COMMANDS: Mapping[str, click.Command] = {"takeover": takeover, "handback": handback}


def _run(ctx: click.Context, goal: Side, access: Access, flags: _Flags) -> None:
    from quorate.cli import event_loop, logs, questions
    from quorate.cli.machines.change import change_of, text

    if invalid := [name for name in flags.accept if name.count("/") != 1]:
        raise wrong(f"--accept takes NAMESPACE/NAME, not {', '.join(invalid)}")
    logs.quiet(debug=ctx.find_root().params["debug"])
    config, options = access.config(), _options(goal, flags)
    shown = event_loop.run(_looked(config, access, options, flags))
    change = change_of(shown, _now())
    if flags.dry_run or not change.steps:
        click.echo(as_json(change) if flags.output == "json" else text(change, objects=flags.dry_run), nl=False)
        ctx.exit(_code_of(change))
    click.echo(text(change), nl=False, err=flags.output == "json")
    if change.in_the_way:
        ctx.exit(ExitCode.STALLED)
    questions.confirm("Carry this out?", yes=flags.yes)
    ctx.exit(event_loop.run(_carried_out(config, access, options, flags)))


def _code_of(change: Change) -> ExitCode:
    if change.in_the_way:
        return ExitCode.STALLED
    return ExitCode.CHANGES if change.steps else ExitCode.OK


def _options(goal: Side, flags: _Flags) -> Options:
    """What the command line says. Raises ConfigError for components that cannot be used."""
    from datetime import timedelta

    from quorate.clusterapi.takeover import installation
    from quorate.clusterapi.takeover.observe import Options

    return Options(
        goal=goal,
        given=installation.read(flags.components, goal, flags.components_version) if flags.components else None,
        accepted=frozenset(flags.accept),
        owners_told=flags.owners_told,
        core_version=flags.core_version,
        limit=timedelta(seconds=flags.timeout),
    )


@asynccontextmanager
async def _observing(access: Access, options: Options, flags: _Flags, client: Client) -> AsyncIterator[Observer]:
    """An Observer that reads and tries by `client`, and judges as the manager would."""
    from quorate.cli.machines.access import inspector, look
    from quorate.clusterapi.takeover.cluster import ManagementCluster
    from quorate.clusterapi.takeover.judges import Judges
    from quorate.clusterapi.takeover.observe import Observer

    async with inspector(access, "") as cluster_inspector:
        judges = Judges(cluster_inspector, look, _now)
        yield Observer(ManagementCluster(client), options, flags.namespace, judges.judge, clock=asyncio.get_running_loop().time, now=_now)


async def _looked(config: RestConfig, access: Access, options: Options, flags: _Flags) -> Observation:
    from quorate.kubernetes.client import connect

    client = connect(config)
    try:
        async with _observing(access, options, flags, client) as observer:
            return await observer.observe()
    finally:
        await client.close()


async def _carried_out(config: RestConfig, access: Access, options: Options, flags: _Flags) -> ExitCode:
    """Work until the end, or until a signal ends it; how the command ends."""
    from quorate.cli.signals import stopping_by_signals
    from quorate.kubernetes.tasks import run_unless

    stopping, ends = asyncio.Event(), list[Any]()
    with stopping_by_signals(stopping):
        if not await run_unless(stopping, _work(config, access, options, flags, ends)):
            click.echo("interrupted: the same command goes on from there", err=True)
            return ExitCode.INTERRUPTED
    return _told(ends[0], options.goal, flags.output)


async def _work(config: RestConfig, access: Access, options: Options, flags: _Flags, ends: list[Ended]) -> None:
    from quorate.clusterapi.takeover.act import Actor
    from quorate.clusterapi.takeover.cluster import ManagementCluster
    from quorate.clusterapi.takeover.lock import held
    from quorate.clusterapi.takeover.session import Session
    from quorate.kubernetes.client import connect
    from quorate.kubernetes.leader import boot_time

    client, locks = connect(config), connect(config, qps=5.0, burst=10)
    try:
        async with held(locks, flags.namespace, now=_now, clock=boot_time, random=SystemRandom()) as permit:
            guarded = client.guarded(permit)
            async with _observing(access, options, flags, guarded) as observer:
                actor = Actor(ManagementCluster(guarded), flags.namespace, _now)
                session = Session(observer, actor, lambda line: click.echo(f"{_now():%H:%M:%S} {line}", err=True), _now, asyncio.sleep)
                ends.append(await session.run())
    finally:
        await locks.close()
        await client.close()


def _told(ended: Ended, goal: Side, output: str) -> ExitCode:
    from quorate.cli.machines.change import change_of, ended_text

    change = change_of(ended.observation, _now())
    click.echo(as_json(change) if output == "json" else ended_text(ended, goal), nl=False)
    record = ended.observation.record
    came_back = record is not None and record.journal.toward is not goal
    return ExitCode.OK if ended.over and not came_back else ExitCode.STALLED


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)
