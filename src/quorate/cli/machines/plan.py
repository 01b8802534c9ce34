"""The plan for a control plane of Machines, as it is or with an edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode, Failure

if TYPE_CHECKING:
    from datetime import datetime

    from quorate.cli.machines.access import Access
    from quorate.cli.views import Plan
    from quorate.clusterapi.inspection import Finding
    from quorate.clusterapi.observe.observer import Edit


def run(ctx: click.Context, name: str, namespace: str, access: Access, edit: Edit | None, *, output: str) -> NoReturn:
    """`quorate plan NAME`. Exits 0 for nothing to do and 2 for changes; raises Failure where there is no such control plane."""
    from datetime import UTC, datetime

    from quorate.cli import event_loop, lines
    from quorate.cli.machines.access import found

    finding = event_loop.run(found(access, namespace or access.config().namespace, name, edit))
    plan = plan_of(finding, datetime.now(UTC))
    click.echo(as_json(plan) if output == "json" else lines.plan(plan), nl=False)
    ctx.exit(ExitCode.CHANGES if plan.changes else ExitCode.OK)


def plan_of(finding: Finding, now: datetime) -> Plan:
    """The plan for what was found. Raises Failure where there is no Cluster yet."""
    from quorate.cli import views
    from quorate.cli.machines.status import status_of
    from quorate.core.machines.forecast import forecast
    from quorate.core.machines.steps import involved

    view, metadata = finding.observation.view, finding.observation.kcp.metadata
    if view is None:
        raise Failure(f"{metadata.namespace}/{metadata.name} has no Cluster yet, so nothing can be planned", ExitCode.STALLED)
    foreseen = forecast(view, now)
    return views.Plan(
        status=status_of(finding, now, foreseen),
        steps=views.steps(foreseen.steps, involved),
        converges=foreseen.converged,
        in_the_way=() if foreseen.converged else foreseen.refusals,
        lasting=(),
    )
