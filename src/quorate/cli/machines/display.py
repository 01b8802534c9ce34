"""How the machines of `quorate run` are shown."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from quorate.cli.machines.events import LINES, Event
from quorate.cli.machines.view import HEADINGS, View, fold, footer, line, rows, title
from quorate.cli.render import Display
from quorate.cli.views import LEAVING, STARTING

if TYPE_CHECKING:
    from rich.console import Group

_COLOURS = {"good": "green", "bad": "red", "unknown": "yellow", STARTING: "cyan", LEAVING: "cyan"}


def picture(view: View, now: datetime) -> Group:
    """The view as rich draws it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading == "Elapsed" else "left", no_wrap=heading != "Waits for")
    for row in rows(view, now):
        health, waits = HEADINGS.index("Health"), HEADINGS.index("Waits for")
        styles = {health: _COLOURS.get(row.health, ""), waits: "" if row.waiting else "green"}
        table.add_row(*(Text(cell, styles.get(column, "")) for column, cell in enumerate(row.cells)))
    return Group(Text(title(view), "bold"), table, Text(footer(view), "dim"))


MACHINES: Display[Event, View] = Display(View(), fold, line, LINES.encode, picture)
"""The demo control plane and its machines."""
