"""What `quorate explain NAME` says of a control plane of Machines: what was decided, on which grounds, and what would change the answer."""

from __future__ import annotations

from typing import NoReturn

import click

from quorate.cli.documents import as_json
from quorate.cli.machines.access import Access


def run(ctx: click.Context, name: str, namespace: str, access: Access, *, output: str) -> NoReturn:
    """Say it of the control plane of this name. Exits 13 where it is stalled, else 0; raises Failure where there is none."""
    from datetime import UTC, datetime

    from quorate.cli import event_loop, lines
    from quorate.cli.failures import ExitCode
    from quorate.cli.machines.access import found
    from quorate.cli.machines.status import status_of
    from quorate.cli.views import Standing

    finding = event_loop.run(found(access, namespace or access.config().namespace, name))
    now = datetime.now(UTC)
    status = status_of(finding, now)
    click.echo(as_json(status) if output == "json" else lines.explanation(status, now), nl=False)
    ctx.exit(ExitCode.STALLED if status.standing is Standing.STALLED else ExitCode.OK)
