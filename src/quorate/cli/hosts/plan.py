"""The plan for existing hosts: what is there, what would be done in which order, the ring before and after each step, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from quorate.cli.hosts.access import Loaded
    from quorate.cli.views import Plan
    from quorate.core.hosts.forecast import Forecast
    from quorate.core.hosts.state import Cluster, RunOptions


def run(ctx: click.Context, flags: dict[str, Any], options: RunOptions, *, output: str, out: Path | None) -> None:
    """`quorate plan -m`: look, plan, print, and keep the plan where asked to. Ends the command with 0 for nothing to do and 2 for changes."""
    from quorate.cli import event_loop, lines
    from quorate.cli.hosts import access

    loaded, observation = event_loop.run(access.looked_at(access.place(flags), options))
    access.say_notices(loaded.manifest)
    plan = plan_of(observation.cluster, access.now())
    if out is not None:
        keep(out, loaded, observation.cluster, plan)
    click.echo(as_json(plan) if output == "json" else lines.plan(plan), nl=False)
    ctx.exit(ExitCode.CHANGES if plan.changes else ExitCode.OK)


def keep(path: Path, loaded: Loaded, cluster: Cluster, plan: Plan) -> None:
    """Write the plan to a file that `quorate apply` takes. Raises PlanError."""
    from quorate.cli.hosts.access import now
    from quorate.hosts.manifest import terraform
    from quorate.hosts.run import plan_file

    place = loaded.place
    plan_file.write(
        path,
        plan_file.Kept(
            format=plan_file.FORMAT,
            made=now(),
            manifest=str(place.manifest.absolute()),
            terraform=terraform.absolute(place.terraform),
            inputs=dict(loaded.inputs),
            ignore_unsupported=place.ignore_unsupported,
            options=cluster.options,
            facts=plan_file.facts(cluster),
            steps=tuple(step.step for step in plan.steps),
        ),
    )


def plan_of(cluster: Cluster, now: datetime, foreseen: Forecast | None = None) -> Plan:
    """The plan for what was observed, or that part of it which was `foreseen` for a narrower command. Pure."""
    from quorate.cli import views
    from quorate.cli.hosts.status import status_of, steps_of
    from quorate.core.hosts.forecast import forecast
    from quorate.hosts.run.overview import lasting

    foreseen = foreseen or forecast(cluster, now)
    return views.Plan(
        status=status_of(cluster, now, foreseen),
        steps=steps_of(foreseen),
        converges=foreseen.converged,
        in_the_way=() if foreseen.converged else foreseen.refusals,
        lasting=lasting(foreseen.end),
        keeps_firewalls=cluster.options.keep_firewall,
    )


def until_it_can_begin() -> Callable[[Cluster], datetime | None]:
    """When to look again at hosts with which nothing can be done yet, because of something that may end by itself, such as a kubeadm that an interrupted run
    left, or hosts that were just switched on.

    None: there is something to do, or waiting would bring nothing. What is waited for is said on stderr.
    """
    from quorate.cli import lines
    from quorate.cli.hosts.access import now
    from quorate.core.hosts.decide import decide
    from quorate.hosts.run.wait_policy import WaitPolicy, before_a_plan

    policy = WaitPolicy(now())
    told: list[tuple[str, ...]] = []

    def again(cluster: Cluster) -> datetime | None:
        at = now()
        decision = decide(cluster, at)
        until = before_a_plan(policy, cluster, decision, at)
        if until is None:
            return None
        because = tuple(check.name for check in decision.refusals)
        if because not in told:
            told.append(because)
            click.echo("\n".join(("waiting, because", *lines.blocked(decision.refusals))), err=True)
        return until

    return again
