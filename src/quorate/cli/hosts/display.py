"""How a run on existing hosts is shown."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from quorate.cli.hosts.view import HEADINGS, View, fold, footer, line, rows, title
from quorate.cli.render import Display
from quorate.hosts.run.events import LINES, Event

if TYPE_CHECKING:
    from rich.console import Group


def picture(view: View, now: datetime) -> Group:
    """The view as rich draws it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading == "Elapsed" else "left", no_wrap=heading in ("Host", "Elapsed"))
    for name, state, *rest in rows(view, now):
        colour = "green" if state == "well" else "yellow" if state in ("bare", "packages only") else "red"
        table.add_row(name, Text(state, colour), *map(Text, rest))
    return Group(Text(title(view), "bold"), table, Text(footer(view), "dim"))


HOSTS: Display[Event, View] = Display(View(), fold, line, LINES.encode, picture)
"""A cluster's hosts while a run works on them."""
