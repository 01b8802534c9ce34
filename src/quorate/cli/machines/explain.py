"""What `quorate explain NAME` says of a control plane of Machines: what was decided, on which grounds, and what would change the answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

import click

from quorate.cli.documents import as_json
from quorate.cli.lines import CheckLine, FindingLine, MemberLine, check_line, checks_text, member_lines, members_text, verdict, word
from quorate.cli.machines.access import Access
from quorate.core.text import printable

if TYPE_CHECKING:
    from quorate.clusterapi.inspection import Finding
    from quorate.clusterapi.observe.observation import Observation, ObservedMachine


@dataclass(frozen=True, slots=True)
class MachineLine:
    """One machine; `outdated` is in which ways it differs from what is desired."""

    name: str
    version: str
    node: str
    role: str
    health: str
    waits_for: str
    fate: str  # why it goes or came; empty: it stays
    outdated: tuple[str, ...]
    unknown_fields: tuple[str, ...]  # of its KubeadmConfig, which differ and are no reason for anything
    findings: tuple[FindingLine, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is said of a control plane; the keys of `-o json`."""

    namespace: str
    name: str
    cluster: str
    standing: str  # converged, progressing, stalled
    version: str
    counts: dict[str, int]
    rule: str
    next: str
    wake_at: datetime | None  # when time alone could change the decision
    checks: tuple[CheckLine, ...]
    connection: str
    etcd: str  # the ring's verdict with its numbers, or why it is not known
    members: tuple[MemberLine, ...]
    machines: tuple[MachineLine, ...]
    strays: tuple[str, ...]
    alarms: tuple[str, ...]  # of etcd, and of none of its members


def run(ctx: click.Context, name: str, namespace: str, access: Access, *, output: str) -> NoReturn:
    """Say it of the control plane of this name. Exits 13 where it is stalled, else 0; raises Failure where there is none."""
    from quorate.cli import describe, event_loop
    from quorate.cli.failures import ExitCode, Failure

    where = namespace or access.config().namespace
    finding = event_loop.run(_find(access, where, name))
    if finding is None:
        raise Failure(f"there is no KubeadmControlPlane {where}/{name}; `quorate get -A` shows all", ExitCode.NOT_FOUND)
    said = explanation(finding)
    click.echo(as_json(said) if output == "json" else as_text(said), nl=False)
    ctx.exit(ExitCode.STALLED if describe.standing(finding) is describe.Standing.STALLED else ExitCode.OK)


async def _find(access: Access, namespace: str, name: str) -> Finding | None:
    from quorate.cli.machines.access import inspector, look
    from quorate.kubernetes.controller import Request

    request = Request(namespace, name)
    async with inspector(access, namespace) as eyes:
        return (await look(eyes, [request])).get(request)


def explanation(finding: Finding) -> Explanation:
    """What is said of one look."""
    from quorate.cli import describe

    observation, decision = finding.observation, finding.decision
    metadata = observation.kcp.metadata
    return Explanation(
        namespace=metadata.namespace,
        name=metadata.name,
        cluster=observation.cluster.metadata.name if observation.cluster else "",
        standing=describe.standing(finding).value,
        version=printable(observation.kcp.spec.version),
        counts=asdict(describe.counts(observation.kcp)),
        rule=decision.rule if decision else "wait for a Cluster",
        next=describe.next_step(finding),
        wake_at=decision.wake_at if decision else None,
        checks=tuple(map(check_line, decision.checks)) if decision else (_no_cluster(metadata.name),),
        connection=observation.connection.message,
        etcd=verdict(observation.ring),
        members=member_lines(observation.ring),
        machines=tuple(_machine(observation, machine) for machine in observation.machines),
        strays=observation.strays,
        alarms=observation.alarms,
    )


def _no_cluster(name: str) -> CheckLine:
    remedy = f"Create a Cluster whose spec.controlPlaneRef names {name}; Cluster API's core controller then makes it the owner."
    return CheckLine("a Cluster owns the control plane", "fail", "no owner reference names a Cluster that exists", remedy)


def _machine(observation: Observation, machine: ObservedMachine) -> MachineLine:
    from quorate.cli import describe

    found = sorted(machine.findings.items())
    return MachineLine(
        name=machine.name,
        version=printable(machine.machine.spec.version),
        node=machine.node.metadata.name if machine.node else "",
        role=describe.role(observation, machine),
        health=describe.health(machine).value,
        waits_for=describe.waits_for(observation, machine),
        fate=describe.fate(observation, machine),
        outdated=tuple(": ".join((way.message, "; ".join(way.details))) if way.details else way.message for way in machine.outdated),
        unknown_fields=machine.unknown_fields,
        findings=tuple(FindingLine(str(name), part.health.value, part.message or part.reason) for name, part in found),
    )


def as_text(said: Explanation) -> str:
    """For a person. Colours are escape codes, which click takes away where nobody sees them."""
    parts = (_head(said), _decision(said), _ring(said), _machines(said))
    return "\n".join("\n".join(lines) + "\n" for lines in parts if lines)


def _head(said: Explanation) -> list[str]:
    numbers = said.counts
    there = f"{numbers['replicas']} there, {numbers['ready']} ready, {numbers['available']} available, {numbers['up_to_date']} up to date"
    return [
        f"{said.namespace}/{said.name}, cluster {said.cluster or '-'}, {said.version}: {said.standing}",
        f"  {numbers['desired']} desired: {there}",
    ]


def _decision(said: Explanation) -> list[str]:
    lines = [f"Next      {said.next or 'nothing left to do'}", f"Rule      {said.rule}"]
    if said.wake_at:
        lines.append(f"Again at  {said.wake_at:%Y-%m-%d %H:%M:%S} UTC, if nothing happens before")
    return [*lines, *checks_text(said.checks)]


def _ring(said: Explanation) -> list[str]:
    lines = [f"Workload  {said.connection}", f"etcd      {said.etcd}", *members_text(said.members)]
    return [*lines, *(f"  stray: {stray}" for stray in said.strays), *(f"  alarm: {alarm}" for alarm in said.alarms)]


def _machines(said: Explanation) -> list[str]:
    lines = ["Machines"] if said.machines else []
    for machine in said.machines:
        role = f", etcd {machine.role}" if machine.role else ""
        wait = f"waits for {machine.waits_for}" if machine.waits_for else "ready"
        fate = f"; {machine.fate}" if machine.fate else ""
        lines.append(f"  {word(machine.health)} {machine.name} {machine.version}, node {machine.node or '-'}{role}: {wait}{fate}")
        lines += [f"          {part.name}: {part.health}, {part.message}" for part in machine.findings if part.health != "good"]
        lines += [f"          outdated: {way}" for way in machine.outdated]
        if machine.unknown_fields:
            lines.append(
                f"          not compared, since quorate or the bootstrap provider does not know it: {', '.join(machine.unknown_fields)}"
            )
    return lines
