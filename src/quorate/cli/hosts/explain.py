"""`quorate explain -m`: what is decided about existing hosts, or known of one, and why; `quorate explain --run`: what an earlier run did, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode, Failure

if TYPE_CHECKING:
    from quorate.hosts.run.events import Event

NEWEST = "newest"
"""What `--run` without a file means."""


def run(ctx: click.Context, name: str, flags: dict[str, Any], *, output: str) -> None:
    """`quorate explain -m MANIFEST [HOST]`. Ends the command with 13 where it waits for something that does not come by itself."""
    from quorate.cli import event_loop, lines
    from quorate.cli.hosts import access
    from quorate.cli.hosts.status import status_of
    from quorate.cli.views import Standing

    _, observation = event_loop.run(access.looked_at(access.place(flags)))
    now = access.now()
    status = status_of(observation.cluster, now)
    one = next((machine for machine in status.machines if machine.name == name), None)
    if name and one is None:
        there = ", ".join(machine.name for machine in status.machines)
        raise Failure(f"{flags['manifest']} has no host {name}; it has {there}", ExitCode.NOT_FOUND)
    text = lines.machine(one) if one else lines.explanation(status, now)
    click.echo(as_json(one or status) if output == "json" else text, nl=False)
    ctx.exit(ExitCode.STALLED if status.standing is Standing.STALLED else ExitCode.OK)


# Records.


def run_of(file: str, flags: dict[str, Any], *, output: str) -> None:
    """`quorate explain --run [FILE]`: a record, the newest of the manifest's cluster where none is named. Raises RecordError and ManifestError."""
    from quorate.hosts.run import records
    from quorate.hosts.run.events import LINES

    path = Path(file) if file != NEWEST else records.newest(_folder(flags))
    events = records.read(path)
    if output == "json":
        click.echo("".join(f"{LINES.encode(event)}\n" for event in events), nl=False)
    else:
        click.echo(f"{path}\n{history(events)}", nl=False)


def _folder(flags: dict[str, Any]) -> Path:
    from quorate.cli import event_loop
    from quorate.cli.hosts import access
    from quorate.hosts.run import records

    where = access.place({**flags, "manifest": flags["manifest"] or Path(access.MANIFEST)})
    return records.folder_of(where.manifest, event_loop.run(access.load(where)).manifest.name)


def history(events: list[Event]) -> str:
    """Every event as a line, and under each step the checks that it was decided on."""
    from quorate.cli.hosts.view import INDENT, View, fold, line
    from quorate.cli.lines import checks
    from quorate.hosts.run.events import Ended, StepBegun

    view, lines = View(), list[str]()
    for event in events:
        text = line(event, view)
        view = fold(view, event)
        lines += [text] if text else []
        if isinstance(event, StepBegun):
            lines += [f"{INDENT}rule: {event.rule}", *checks(event.checks, INDENT)]
    if not isinstance(events[-1], Ended):
        lines.append("the record ends here: the run was killed, or goes on")
    return "\n".join(lines) + "\n"
