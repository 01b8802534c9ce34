"""`quorate explain -m`: what is decided about existing hosts, or known of one, and why; `quorate explain --run`: what an earlier run did, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode, Failure
from quorate.cli.lines import CheckLine, FindingLine, MemberLine, check_line, checks_text, member_lines, members_text

if TYPE_CHECKING:
    from datetime import datetime

    from quorate.core.hosts.state import Cluster
    from quorate.hosts.run.events import Event
    from quorate.hosts.run.overview import HostRow

NEWEST = "newest"
"""What `--run` without a file means."""


@dataclass(frozen=True, slots=True)
class HostExplanation:
    """Everything that is known of one host; the keys of `-o json`. `findings` has good ones too."""

    host: HostRow
    findings: tuple[FindingLine, ...]
    silent_probes: int  # in a row, without an answer
    steps: tuple[str, ...]  # of the plan, that are about it


@dataclass(frozen=True, slots=True)
class HostsExplanation:
    """Everything that is said of a decision; the keys of `-o json`."""

    cluster: str
    version: str
    rule: str
    next: str
    wake_at: datetime | None
    checks: tuple[CheckLine, ...]
    ring: str
    members: tuple[MemberLine, ...]
    strays: tuple[str, ...]
    lost_nodes: tuple[str, ...]
    lasting: tuple[str, ...]  # in what the cluster, beside its hosts, differs from the manifest until somebody changes it
    hosts: tuple[HostExplanation, ...]


def run(ctx: click.Context, name: str, flags: dict[str, Any], *, output: str) -> None:
    """`quorate explain -m MANIFEST [HOST]`. Ends the command with 13 where it waits for something that does not come by itself."""
    from quorate.cli import event_loop
    from quorate.cli.hosts import access

    _, observation = event_loop.run(access.looked_at(access.place(flags)))
    cluster = observation.cluster
    if name and name not in [host.name for host in cluster.hosts]:
        there = ", ".join(host.name for host in cluster.hosts)
        raise Failure(f"{flags['manifest']} has no host {name}; it has {there}", ExitCode.NOT_FOUND)
    said = explanation(cluster, access.now())
    one = next((each for each in said.hosts if each.host.name == name), None)
    text = "\n".join(_host(one)) + "\n" if one else as_text(said)
    click.echo(as_json(one or said) if output == "json" else text, nl=False)
    ctx.exit(ExitCode.STALLED if not said.next and any(check.outcome != "pass" for check in said.checks) else ExitCode.OK)


def explanation(cluster: Cluster, now: datetime) -> HostsExplanation:
    """What is said of what was observed. Pure."""
    from quorate.core.hosts.decide import decide
    from quorate.core.hosts.forecast import forecast
    from quorate.core.hosts.steps import involved
    from quorate.hosts.run.overview import ring_in_words, row

    decision = decide(cluster, now)
    steps = [each.step for each in forecast(cluster, now).steps]
    return HostsExplanation(
        cluster=cluster.name,
        version=str(cluster.version),
        rule=decision.rule,
        next=str(decision.step or ""),
        wake_at=decision.wake_at,
        checks=tuple(map(check_line, decision.checks)),
        ring=ring_in_words(cluster.ring),
        members=member_lines(cluster.ring),
        strays=tuple(f"{stray.member.label} ({stray.member.id:x})" for stray in cluster.strays),
        lost_nodes=cluster.lost_nodes,
        lasting=cluster.lasting_drift,
        hosts=tuple(
            HostExplanation(
                host=row(cluster, host, now),
                findings=tuple(FindingLine(each.reason, each.health.value, each.message) for each in host.findings),
                silent_probes=host.silence.probes if host.silence else 0,
                steps=tuple(str(step) for step in steps if host.name in involved(step)),
            )
            for host in cluster.hosts
        ),
    )


def as_text(said: HostsExplanation) -> str:
    """For a person. Colours are escape codes, which click takes away where nobody sees them."""
    decision = [f"{said.cluster} at {said.version}", f"Next      {said.next or 'nothing'}", f"Rule      {said.rule}"]
    decision += [f"Again at  {said.wake_at:%Y-%m-%d %H:%M:%S} UTC, if nothing happens before"] if said.wake_at else []
    ring = [f"etcd      {said.ring}", *members_text(said.members)]
    decision += [f"Differs until you change it: {each}" for each in said.lasting]
    ring += [f"  stray: {stray}" for stray in said.strays] + [f"  Node without a host: {node}" for node in said.lost_nodes]
    hosts = [line for each in said.hosts for line in _host(each)]
    return "\n".join("\n".join(lines) + "\n" for lines in ([*decision, *checks_text(said.checks)], ring, hosts))


def _host(said: HostExplanation) -> list[str]:
    host = said.host
    lines = [f"{host.name}, {host.role}: {host.state}, etcd {host.etcd}, Node {host.node}, {host.version}, kubelet {host.kubelet}"]
    lines += [f"  {part.health:<7} {part.name}{f': {part.message}' if part.message else ''}" for part in said.findings]
    lines += [f"  silent  for {said.silent_probes} probes in a row"] if said.silent_probes else []
    lines += [f"  missing: {missing}" for missing in host.missing]
    lines += [f"  differs: {difference}" for difference in host.drift]
    lines += [f"  differs until you change it: {difference}" for difference in host.lasting]
    return lines + [f"  planned: {step}" for step in said.steps]


# Records.


def run_of(file: str, flags: dict[str, Any], *, output: str) -> None:
    """`quorate explain --run [FILE]`: a record, the newest of the manifest's cluster where none is named. Raises RecordError and ManifestError."""
    from quorate.hosts.run import records
    from quorate.hosts.run.events import encode

    path = Path(file) if file != NEWEST else records.newest(_folder(flags))
    events = records.read(path)
    if output == "json":
        click.echo("".join(f"{encode(event)}\n" for event in events), nl=False)
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
    from quorate.cli.hosts.view import View, fold, line
    from quorate.hosts.run.events import Ended, StepBegun

    view, lines = View(), list[str]()
    for event in events:
        text = line(event, view)
        view = fold(view, event)
        lines += [text] if text else []
        if isinstance(event, StepBegun):
            lines.append(f"            rule: {event.rule}")
            lines += [f"            {check.outcome.value:<7} {check.name}: {check.evidence}" for check in event.checks]
    if not isinstance(events[-1], Ended):
        lines.append("the record ends here: the run was killed, or goes on")
    return "\n".join(lines) + "\n"
