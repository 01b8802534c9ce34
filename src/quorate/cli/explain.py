"""`quorate explain NAME`: what was decided about a control plane, on which grounds, and what would change the answer.

`quorate explain -m MANIFEST [HOST]` says the same of existing hosts, and `quorate explain --run` what an earlier run did (`quorate.cli.hosts_explain`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.access import Access, with_access
from quorate.cli.documents import as_json
from quorate.cli.hosts_access import with_manifest
from quorate.core.text import printable

if TYPE_CHECKING:
    from quorate.clusterapi.inspection import Finding
    from quorate.clusterapi.observation import Observation, ObservedMachine
    from quorate.core.checks import Check
    from quorate.core.health import Absent, Unknown
    from quorate.core.ring import Ring

RESOLVES_BY_ITSELF = "resolves by itself"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check: `outcome` is pass, fail or unknown; `remedy` what would change it, empty where it passes."""

    name: str
    outcome: str
    evidence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One etcd member; `evidence` is why its health is what it is."""

    id: str  # hexadecimal, as etcdctl prints it
    name: str
    role: str  # leader, voter, learner
    health: str
    evidence: str


@dataclass(frozen=True, slots=True)
class FindingLine:
    """The health of one part of a machine."""

    name: str
    health: str
    message: str


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


@click.command(name="explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="[NAME]", required=False, default="")
@click.option("--namespace", "-n", help="Its namespace; without it the context's.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.option(
    "--run",
    metavar="[FILE]",
    is_flag=False,
    flag_value="newest",
    help="What an earlier run on existing hosts did; without FILE the newest.",
)
@with_manifest(default=None)
@with_access
@click.pass_context
def command(
    ctx: click.Context,
    /,
    name: str,
    namespace: str | None,
    output: str,
    run: str | None,
    kubeconfig: str | None,
    context: str | None,
    etcd_dialer: str,
    **hosts: Any,
) -> None:
    """Say what is decided, which checks pass, and what would change the answer: about the control plane NAME, or with -m about existing hosts or one, NAME.

    Ends with 0 where it is converged or on its way, with 13 where it waits for something that does not come by itself.
    """
    from quorate.cli import describe, event_loop, hosts_explain, logs
    from quorate.cli.failures import ExitCode, Failure

    logs.quiet(debug=ctx.find_root().params["debug"])
    if run is not None:
        hosts_explain.run_of(run, hosts, output=output)
        return
    if hosts["manifest"] is not None:
        hosts_explain.run(ctx, name, hosts, output=output)
    if not name:
        raise click.UsageError("name a control plane, or with -m the manifest of existing hosts")
    chosen = Access(kubeconfig, context, etcd_dialer)
    where = namespace or chosen.config().namespace
    finding = event_loop.run(_find(chosen, where, name))
    if finding is None:
        raise Failure(f"there is no KubeadmControlPlane {where}/{name}; `quorate get -A` shows all", ExitCode.NOT_FOUND)
    said = explanation(finding)
    click.echo(as_json(said) if output == "json" else as_text(said), nl=False)
    ctx.exit(ExitCode.STALLED if describe.standing(finding) is describe.Standing.STALLED else ExitCode.OK)


async def _find(access: Access, namespace: str, name: str) -> Finding | None:
    from quorate.cli.access import inspector, look
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


def check_line(check: Check) -> CheckLine:
    """One check as it is shown."""
    remedy = "" if check.passed else check.remedy or RESOLVES_BY_ITSELF
    return CheckLine(check.name, check.outcome.value, check.evidence, remedy)


def _no_cluster(name: str) -> CheckLine:
    remedy = f"Create a Cluster whose spec.controlPlaneRef names {name}; Cluster API's core controller then makes it the owner."
    return CheckLine("a Cluster owns the control plane", "fail", "no owner reference names a Cluster that exists", remedy)


def verdict(ring: Ring | Unknown) -> str:
    """The ring's verdict with its numbers, or why it is not known."""
    from quorate.core.health import Unknown

    return f"unknown: {ring.reason}" if isinstance(ring, Unknown) else str(ring.now)


def member_lines(ring: Ring | Unknown | Absent) -> tuple[MemberLine, ...]:
    """The members of a ring as they are shown; none where it is not known."""
    from quorate.core.ring import Ring

    if not isinstance(ring, Ring):
        return ()
    return tuple(
        MemberLine(
            id=f"{member.id:x}",
            name=member.name,
            role=ring.role(member),
            health=member.health.value,
            evidence=member.evidence or ("" if member.name else "never started"),
        )
        for member in ring.members
    )


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


_COLOURS = {"pass": "green", "good": "green", "fail": "red", "bad": "red", "unknown": "yellow"}


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


def checks_text(checks: tuple[CheckLine, ...]) -> list[str]:
    """Checks under their heading, each that does not pass with what would change it."""
    lines = ["Checks"]
    for check in checks:
        lines.append(f"  {_word(check.outcome)} {check.name}: {check.evidence}")
        if check.remedy:
            lines.append(f"          -> {check.remedy}")
    return lines


def _ring(said: Explanation) -> list[str]:
    lines = [f"Workload  {said.connection}", f"etcd      {said.etcd}", *members_text(said.members)]
    return [*lines, *(f"  stray: {stray}" for stray in said.strays), *(f"  alarm: {alarm}" for alarm in said.alarms)]


def members_text(members: tuple[MemberLine, ...]) -> list[str]:
    """A line for each member."""
    lines = []
    for member in members:
        evidence = f": {member.evidence}" if member.evidence else ""
        lines.append(f"  {_word(member.health)} {member.name or '(no name)'} {member.role} {member.id}{evidence}")
    return lines


def _machines(said: Explanation) -> list[str]:
    lines = ["Machines"] if said.machines else []
    for machine in said.machines:
        role = f", etcd {machine.role}" if machine.role else ""
        wait = f"waits for {machine.waits_for}" if machine.waits_for else "ready"
        fate = f"; {machine.fate}" if machine.fate else ""
        lines.append(f"  {_word(machine.health)} {machine.name} {machine.version}, node {machine.node or '-'}{role}: {wait}{fate}")
        lines += [f"          {part.name}: {part.health}, {part.message}" for part in machine.findings if part.health != "good"]
        lines += [f"          outdated: {way}" for way in machine.outdated]
        if machine.unknown_fields:
            lines.append(
                f"          not compared, since quorate or the bootstrap provider does not know it: {', '.join(machine.unknown_fields)}"
            )
    return lines


def _word(word: str) -> str:
    return click.style(f"{word:<7}", fg=_COLOURS[word])
