"""The live view as an SVG, for the README: a recording of `quorate run -o json` replayed up to one moment.

quorate run --no-wait -o json > run.jsonl
python -m quorate.cli.development.picture run.jsonl docs/live.svg --at 30
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import click

from quorate.cli.machines.display import picture
from quorate.cli.machines.events import LINES, Event
from quorate.cli.machines.view import View, fold

_WIDTH = 110  # columns


def replay(events: Iterable[Event], seconds: float | None) -> View:
    """The view `seconds` after the first event, or after the last event where that is None."""
    view = View()
    for event in events:
        if view.began and seconds is not None and event.at > view.began + timedelta(seconds=seconds):
            break
        view = fold(view, event)
    return view


def svg(events: list[Event], seconds: float | None) -> str:
    """The live view at that moment. Raises ValueError where there is no event."""
    from rich.console import Console

    if not events:
        raise ValueError("the recording has no event: record a run with `quorate run --no-wait -o json`")
    now = events[-1].at if seconds is None else events[0].at + timedelta(seconds=seconds)
    console = Console(record=True, file=io.StringIO(), width=_WIDTH)
    console.print(picture(replay(events, seconds), now))
    return console.export_svg(title="quorate run")


@click.command()
@click.argument("recording", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--at", type=float, help="Seconds after the first event; without it, after the last.")
def main(recording: Path, target: Path, at: float | None) -> None:
    """Draw the live view as it was at one moment of a RECORDING."""
    try:
        drawn = svg(LINES.decode(recording.read_text().splitlines()), at)
    except ValueError as error:
        raise click.ClickException(f"{recording}: {error}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(drawn)


if __name__ == "__main__":
    main()
