"""`quorate status`: existing hosts, their ring and what would be done next, at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode
from quorate.cli.hosts.access import with_manifest
from quorate.cli.lines import CheckLine, MemberLine, check_line, member_lines

if TYPE_CHECKING:
    from datetime import datetime

    from quorate.core.hosts.state import Cluster
    from quorate.hosts.run.overview import HostRow


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that is said; the keys of `-o json`. `standing` is converged, progressing (there is a step to take) or stalled."""

    cluster: str
    version: str  # desired
    running: str
    standing: str
    locked_by: str
    api: str
    ring: str
    hosts: tuple[HostRow, ...]
    members: tuple[MemberLine, ...]
    lasting: tuple[str, ...]  # in what the cluster differs from the manifest until somebody changes it
    next: str
    stands_in_the_way: tuple[CheckLine, ...]


@click.command(name="status", context_settings={"help_option_names": ["-h", "--help"]})
@with_manifest()
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.pass_context
def command(ctx: click.Context, /, output: str, **flags: Any) -> None:
    """Show each host, the etcd ring and what would be done next. Works as long as any host can be reached, and changes nothing.

    Ends with 0 where there is a step to take, or nothing that a step could bring; with 13 where it waits for something that does not come by itself.
    """
    from quorate.cli import event_loop, logs
    from quorate.cli.hosts import access

    logs.quiet(debug=ctx.find_root().params["debug"])
    _, observation = event_loop.run(access.looked_at(access.place(flags)))
    status = status_of(observation.cluster, access.now())
    click.echo(as_json(status) if output == "json" else as_text(status), nl=False)
    ctx.exit(ExitCode.STALLED if status.standing == "stalled" else ExitCode.OK)


def status_of(cluster: Cluster, now: datetime) -> Status:
    """What is said of what was observed. Pure."""
    from quorate.core.hosts.decide import decide
    from quorate.core.hosts.rules.facts import told
    from quorate.hosts.run.overview import lasting, ring_in_words, rows

    decision = decide(cluster, now)
    standing = "progressing" if decision.step else "stalled" if decision.refusals else "converged"
    return Status(
        cluster=cluster.name,
        version=str(cluster.version),
        running=str(cluster.running or ""),
        standing=standing,
        locked_by=cluster.locked_by,
        api=told(cluster.api),
        ring=ring_in_words(cluster.ring),
        hosts=rows(cluster, now),
        members=member_lines(cluster.ring),
        lasting=lasting(cluster),
        next=str(decision.step or ""),
        stands_in_the_way=tuple(map(check_line, decision.refusals)),
    )


def as_text(status: Status) -> str:
    """For a person. Colours are escape codes, which click takes away where nobody sees them."""
    from quorate.cli.hosts.plan import host_table, not_well, refusals, stays_different
    from quorate.cli.lines import members_text

    head = [f"{status.cluster} at {status.version}: {status.standing}", f"API       {status.api}"]
    head += [f"Runs      {status.running}"] if status.running not in ("", status.version) else []
    head += [f"Worked on by {status.locked_by}"] if status.locked_by else []
    parts = (
        head,
        [f"etcd      {status.ring}", *members_text(status.members)],
        host_table(status.hosts),
        not_well(status.hosts),
        stays_different(status.lasting),
        [f"Next      {status.next}"] if status.next else [],
        ["In the way", *refusals(status.stands_in_the_way)] if status.stands_in_the_way else [],
    )
    return "\n".join("\n".join(lines) + "\n" for lines in parts if lines)
