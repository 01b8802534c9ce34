"""A run on existing hosts as a command carries it out: locked against others, recorded, shown, and ended in order by a signal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorate.cli.failures import ExitCode, Failure
from quorate.cli.hosts.access import entered, now, observed

if TYPE_CHECKING:
    from datetime import datetime

    from quorate.cli.hosts.access import Loaded
    from quorate.cli.render import Renderer
    from quorate.core.hosts.approval import Approval
    from quorate.core.hosts.decide import Decision
    from quorate.core.hosts.state import Cluster, RunOptions
    from quorate.core.hosts.steps import Step
    from quorate.hosts.act.tools import Tools
    from quorate.hosts.act.waiting import Report
    from quorate.hosts.connect.access import Access
    from quorate.hosts.observe import Memory, Observation
    from quorate.hosts.run.events import Ended, Event
    from quorate.hosts.run.lock import Lock
    from quorate.hosts.run.operator import Holder
    from quorate.hosts.run.session import Done, Parts

_TICK = 1.0  # seconds between movements of the clock on the display


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be done, by which decision (None: that of every run), and what there is then; `snapshots` is where etcd's snapshots go.

    `approval` is what was agreed to, of the plan that was made from `shown`.
    `otherwise` may carry a step out in another way than every run does; it says whether it did.
    """

    command: str
    loaded: Loaded
    options: RunOptions
    memory: Memory
    snapshots: Path
    renderer: Renderer[Event]
    approval: Approval
    shown: Cluster
    goal: str = ""
    decide: Callable[[Cluster, datetime], Decision] | None = None
    otherwise: Callable[[Tools, Step, Observation], Awaitable[bool]] | None = None


def snapshots_of(loaded: Loaded, chosen: Path | None) -> Path:
    """The folder for etcd's snapshots: the one that was chosen, or one beside the manifest."""
    return chosen or loaded.place.manifest.absolute().parent / f"{loaded.manifest.name}-snapshots"


def confirm(question: str, *, yes: bool) -> None:
    """Ask for the word yes, unless it was given on the command line. Raises Failure where nobody can be asked, and ends the command where the answer is no."""
    if yes:
        return
    if not at_a_terminal():
        raise Failure("cannot ask, since this is not a terminal: give -y to go on without a question", ExitCode.WRONG_COMMAND_LINE)
    if click.prompt(f"{question} Only yes is accepted", default="", show_default=False, prompt_suffix=": ").strip() != "yes":
        click.echo("canceled; nothing was changed")
        click.get_current_context().exit(ExitCode.OK)


def confirm_by_name(name: str, given: str | None) -> None:
    """Have the cluster's name typed, unless it was given on the command line. Raises UsageError where another was, Failure where nobody can be asked, and ends
    the command where something else is typed.
    """
    if given is not None:
        if given != name:
            raise click.UsageError(f"--confirm {given} is not the cluster of this manifest, which is called {name}")
        return
    if not at_a_terminal():
        raise Failure(
            f"cannot ask, since this is not a terminal: give --confirm {name} to destroy the cluster", ExitCode.WRONG_COMMAND_LINE
        )
    if click.prompt("Type the cluster's name to destroy it", default="", show_default=False, prompt_suffix=": ").strip() != name:
        click.echo("canceled; nothing was changed")
        click.get_current_context().exit(ExitCode.OK)


def at_a_terminal() -> bool:
    """Whether somebody can be asked."""
    import sys

    return sys.stdin.isatty() and sys.stdout.isatty()


async def carry_out(run: Run) -> ExitCode:
    """Work until the end, or until a signal ends it; how the command ends. Raises LockRefused, RecordError, and what only a fault of quorate raises."""
    from quorate.cli.signals import stopping_by_signals
    from quorate.kubernetes.tasks import run_unless

    stopping = asyncio.Event()
    ends: list[Ended] = []
    with stopping_by_signals(stopping), run.renderer.shown():
        if not await run_unless(stopping, _work(run, ends)):
            return ExitCode.INTERRUPTED
    return _code(ends[0])


def _code(ended: Ended) -> ExitCode:
    from quorate.hosts.run.events import Outcome

    codes = {
        Outcome.CONVERGED: ExitCode.OK,
        Outcome.STALLED: ExitCode.STALLED,
        Outcome.MOVED: ExitCode.PLAN_IS_STALE,
        Outcome.FAILED: ExitCode.STEP_FAILED,
        Outcome.INTERRUPTED: ExitCode.INTERRUPTED,
    }
    return codes[ended.outcome]


async def _work(run: Run, ends: list[Ended]) -> None:
    from quorate.hosts.run import records
    from quorate.hosts.run.lock import held
    from quorate.hosts.run.session import Session

    with records.Record(records.folder_of(run.loaded.place.manifest, run.loaded.manifest.name)) as record:

        def emit(event: Event) -> None:
            record.write(event)
            run.renderer.event(event)

        async with entered(run.loaded) as access, ticking(run.renderer):
            holder = this_run(run.command)
            lock = lock_of(access, holder, run.renderer.say, run.options.without)
            async with held(lock):
                session = Session(parts(run, access, lock, emit), command=run.command, by=holder.who)
                ends.append(await session.run())
    if record.path is not None:
        run.renderer.say(f"recorded in {record.path}")


def this_run(command: str) -> Holder:
    """This process, under a random id."""
    import secrets

    from quorate.hosts.run.operator import this_run as holder

    return holder(command, secrets.token_hex(8), now())


def lock_of(access: Access, holder: Holder, tell: Callable[[str], None], without: tuple[str, ...] = ()) -> Lock:
    """The lock of this run. `without` are hosts that its operator vouches for."""
    from quorate.hosts.run.lock import Lock
    from quorate.hosts.run.operator import has_ended

    return Lock(access, holder, now=now, sleep=asyncio.sleep, has_ended=has_ended, tell=tell, without=without)


def tools(loaded: Loaded, access: Access, lock: Lock, report: Report, snapshots: Path) -> Tools:
    """What every step works with: it changes nothing unless this run has the lock."""
    import secrets

    from quorate.hosts.act.tools import Tools
    from quorate.hosts.act.waiting import Waits
    from quorate.hosts.run.fence import FencedAccess

    waits = Waits(report, asyncio.get_running_loop().time, asyncio.sleep)
    return Tools(
        access=FencedAccess(access, lock),
        manifest=loaded.manifest,
        contents=loaded.contents,
        report=report,
        waits=waits,
        now=now,
        random_bytes=secrets.token_bytes,
        snapshot_folder=snapshots,
    )


def parts(run: Run, access: Access, lock: Lock, emit: Callable[[Event], None]) -> Parts[Observation]:
    """What the session works with."""
    from quorate.hosts.act.executor import Executor
    from quorate.hosts.act.failures import StepFailed
    from quorate.hosts.run.events import Progress
    from quorate.hosts.run.lock_refused import NotLockable
    from quorate.hosts.run.plan_file import moved_around
    from quorate.hosts.run.session import Parts

    async def observe(done: Done) -> Observation:
        observation = await observed(run.loaded, access, run.memory, run.options)
        return replace(observation, cluster=done.told(observation.cluster))

    working = tools(run.loaded, access, lock, lambda host, what: emit(Progress(now(), host, what)), run.snapshots)
    executor = Executor(working)

    async def carry_out(step: Step, observation: Observation) -> None:
        try:
            if run.otherwise is None or not await run.otherwise(working, step, observation):
                await executor.carry_out(step, observation)
        except StepFailed:
            with suppress(NotLockable):  # whether the hosts can be reached is for the next look to tell
                await lock.permit()  # a run that was stopped for minutes has lost its lock: that is why its requests came to nothing
            raise

    whole = Parts(
        observe=observe,
        carry_out=carry_out,
        emit=emit,
        now=now,
        sleep=asyncio.sleep,
        approval=run.approval,
        moved=lambda cluster, step: moved_around(run.shown, cluster, step),
        settle=executor.settle,
    )
    return replace(whole, decide=run.decide or whole.decide, goal=(lambda _: run.goal) if run.goal else whole.goal)


@asynccontextmanager
async def ticking(renderer: Renderer[Event]) -> AsyncIterator[None]:
    """Let the display's clock move for the length of the block."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK)
            renderer.tick()

    try:
        async with asyncio.TaskGroup() as group:
            clock = group.create_task(tick())
            try:
                yield
            finally:
                clock.cancel()
    except BaseExceptionGroup as errors:
        from quorate.kubernetes.tasks import sole

        raise sole(errors) from None
