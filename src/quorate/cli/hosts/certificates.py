"""`quorate certificates`: when those on existing hosts expire, and their renewal, one host at a time after a quorum check."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli import table
from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode
from quorate.cli.hosts.access import with_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quorate.core.hosts.state import Cluster
    from quorate.hosts.connect.ssh.hosts import Unreachable
    from quorate.hosts.probe.facts import HostFacts

HEADINGS = ("Host", "Certificate", "Expires", "Left")


@dataclass(frozen=True, slots=True)
class Expiry:
    """One certificate on a host; `expires` is None where it could not be read, and `problem` says why."""

    host: str
    certificate: str
    expires: datetime | None
    problem: str = ""


@click.group(name="certificates", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Certificates of existing hosts."""


@command.command()
@with_manifest()
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.pass_context
def status(ctx: click.Context, /, output: str, **flags: Any) -> None:
    """Show when each certificate on each host expires."""
    from quorate.cli import event_loop, logs
    from quorate.cli.hosts import access

    logs.quiet(debug=ctx.find_root().params["debug"])
    _, observation = event_loop.run(access.looked_at(access.place(flags)))
    found = expiries(observation.facts)
    click.echo(as_json(found) if output == "json" else as_text(found, observation.cluster, access.now()), nl=False)


def expiries(facts: Mapping[str, HostFacts | Unreachable]) -> tuple[Expiry, ...]:
    """Every certificate there is, host by host. Pure."""
    return tuple(expiry for host, each in facts.items() for expiry in _of_host(host, each))


def _of_host(host: str, facts: HostFacts | Unreachable) -> Iterator[Expiry]:
    from quorate.core.health import Absent, Unknown
    from quorate.hosts.connect.ssh.hosts import Unreachable
    from quorate.hosts.probe.facts import Kubeconfig

    if isinstance(facts, Unreachable):
        yield Expiry(host, "", None, facts.reason)
        return
    clients = {f"{name}.conf": each.client for name, each in facts.kubeconfigs.items() if isinstance(each, Kubeconfig) and each.inline}
    for name, found in {**facts.certificates, **clients}.items():
        match found:
            case Absent():
                continue
            case Unknown(reason):
                yield Expiry(host, name, None, reason)
            case _:
                yield Expiry(host, name, found[0].not_after)


def as_text(found: tuple[Expiry, ...], cluster: Cluster, now: datetime) -> str:
    """For a person."""
    from quorate.hosts.run.overview import left

    rows = [
        (each.host, each.certificate or "-", f"{each.expires:%Y-%m-%d %H:%M}", left(each.expires, cluster.host(each.host), now))
        if each.expires
        else (each.host, each.certificate or "-", "unknown", each.problem)
        for each in found
    ]
    return "\n".join(table.lines(HEADINGS, rows, indent="") or ["no host has a certificate"]) + "\n"


@command.command()
@with_manifest()
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option(
    "--snapshot-dir", type=click.Path(file_okay=False, path_type=Path), help="Where to save etcd snapshots. Default: beside the manifest."
)
@click.option("--plain", is_flag=True, help="Print plain lines; the default when output is not a terminal or NO_COLOR is set.")
@click.option(
    "--output", "-o", type=click.Choice(["live", "json"]), default="live", show_default=True, help="json prints one event per line."
)
@click.pass_context
def renew(ctx: click.Context, /, yes: bool, snapshot_dir: Path | None, plain: bool, output: str, **flags: Any) -> None:
    """Renew the certificates of every control-plane host, one at a time, and restart the components that use them. Asks first. Renews no CA."""
    from quorate.cli import event_loop, lines, logs, render
    from quorate.cli.hosts import access
    from quorate.cli.hosts import plan as hosts_plan
    from quorate.cli.hosts import run as hosts_run
    from quorate.cli.hosts.display import HOSTS
    from quorate.core.hosts.approval import Approval
    from quorate.core.hosts.forecast import forecast
    from quorate.core.hosts.state import RunOptions
    from quorate.hosts.observe import Memory
    from quorate.hosts.run.renewing import decide_renewal, only_renewal

    logs.quiet(debug=ctx.find_root().params["debug"])
    options, memory = RunOptions(renew_certificates=True), Memory()
    loaded, observation = event_loop.run(access.looked_at(access.place(flags), options, memory))
    foreseen = only_renewal(forecast(observation.cluster, access.now()))
    plan = hosts_plan.plan_of(observation.cluster, access.now(), foreseen)
    click.echo(lines.plan(plan), nl=False, err=output == "json")
    if not plan.steps:
        click.echo("nothing is renewed: first carry out the plan that `quorate plan -m` shows", err=True)
        ctx.exit(ExitCode.STALLED)
    hosts_run.confirm("Renew these certificates?", yes=yes)
    run = hosts_run.Run(
        command="certificates renew",
        loaded=loaded,
        options=options,
        memory=memory,
        snapshots=hosts_run.snapshots_of(loaded, snapshot_dir),
        approval=Approval.of((each.step for each in foreseen.steps), only=True),
        shown=observation.cluster,
        renderer=render.choose(output, HOSTS, plain=plain, stream=sys.stdout, now=access.now),
        goal="the certificates are renewed",
        decide=decide_renewal,
    )
    ctx.exit(event_loop.run(hosts_run.carry_out(run)))
