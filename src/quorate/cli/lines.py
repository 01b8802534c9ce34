"""What commands say, for a person: one way to print a check, a ring, a decision, a Machine or host, and a plan, whichever way of working it comes from.

Pure functions of `quorate.cli.views`. Colours are escape codes, which click takes away where nobody sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import click

from quorate.cli import table
from quorate.cli.durations import format_age
from quorate.cli.views import ON_THE_WAY, STARTING, Etcd, Finding, Machine, Mode, Plan, Replicas, Status, Step, Verdict
from quorate.core import ring as core
from quorate.core.checks import Check
from quorate.core.text import together

RESOLVES_BY_ITSELF = "resolves by itself"
OPEN_PORTS = (
    "these ports must be open: TCP 6443 (API server, for all), 2379 and 2380 (etcd, among control planes), 10250 (kubelets, for all hosts), the manifest's "
    "nodePortRange, and what the network plugin needs"
)

SOON = timedelta(days=1)
"""Within which a decision that time alone changes is said to be made again. What lies farther ahead, such as the renewal of a certificate in half a year, is
nothing to wait for, and the check that looks at it names its day.
"""

_COLOURS = {"pass": "green", "good": "green", "fail": "red", "bad": "red", "unknown": "yellow"}
_HEALTH = {"good": "well", "bad": "ill", "unknown": "unknown", "": "-"}
_ASKS = {Mode.MACHINES: "the specification", Mode.HOSTS: "the manifest"}
"""What says what is desired."""


# Checks.

NOTHING_NOW = "Nothing can be done now; these checks do not pass:"


def checks(found: Iterable[Check], indent: str = "  ") -> list[str]:
    """Every check with its answer, those that did not pass with what would change it."""
    return [line for check in found for line in _check(check, f"{indent}{_word(check.outcome.value)} ", f"{indent}{'':8}")]


def blocked(found: Iterable[Check], indent: str = "  ") -> list[str]:
    """Checks that did not pass, each with its way out."""
    return [line for check in found for line in _check(check, indent, f"{indent}  ")]


def _check(check: Check, lead: str, below: str) -> list[str]:
    remedy = [] if check.passed else [f"{below}-> {check.remedy or RESOLVES_BY_ITSELF}"]
    return [f"{lead}{check.name}: {check.evidence}", *remedy]


def _word(word: str) -> str:
    """A verdict in a column of its own, coloured for whoever sees colours."""
    return click.style(f"{word:<7}", fg=_COLOURS[word])


# The ring.


def ring(etcd: Etcd) -> list[str]:
    """The verdict, and a line for each member, each orphan and each alarm that belongs to no member."""
    lines = [etcd.summary]
    for member in etcd.members:
        evidence = f": {member.evidence}" if member.evidence else ""
        lines.append(f"  {_word(member.health.value)} {member.name or '(no name)'} {member.role} {member.id}{evidence}")
    return [*lines, *(f"  orphan: {orphan}" for orphan in etcd.orphans), *(f"  alarm: {alarm}" for alarm in etcd.alarms)]


def phrase(etcd: Etcd) -> str:
    """The ring in one phrase: `3 voters, tolerates 1`."""
    if etcd.verdict is None:
        return "unknown"
    learners = sum(member.role == "learner" for member in etcd.members)
    return ", ".join([_count(etcd.verdict.voters, "voter"), *([f"{learners} learning"] if learners else []), _reach(etcd.verdict)])


def short(verdict: Verdict | None) -> str:
    """The verdict in a few words; empty where it is not known."""
    return "" if verdict is None else f"{verdict.healthy} of {verdict.voters}, {_reach(verdict)}"


def _reach(verdict: Verdict) -> str:
    return core.Verdict(verdict.voters, verdict.healthy).reach


def _ring_of(status: Status) -> list[str]:
    first, *others = ring(status.etcd)
    whose = "host" if status.mode is Mode.HOSTS else "Machine"
    return [f"etcd      {first}", *others, *(f"  Node without a {whose}: {node}" for node in status.lost_nodes)]


# Pages.


def explanation(status: Status, now: datetime) -> str:
    """`quorate explain`: the decision and every check, the ring, and each Machine or host. `now` is when the status was made."""
    machines = [line for each in status.machines for line in _machine(each)]
    return _page([*_head(status), *_differences(status.differs, status.lasting)], _decision(status, now), _ring_of(status), machines)


def glance(status: Status) -> str:
    """`quorate status`."""
    return _page(
        _head(status),
        _ring_of(status),
        _table(status),
        _not_well(status),
        _stays(status.mode, _lasting(status)),
        [f"Next      {status.decision.step}"] if status.decision.step else [],
        ["Checks that do not pass", *blocked(status.in_the_way)] if status.in_the_way else [],
    )


def plan(plan: Plan) -> str:
    """`quorate plan`: what there is, what differs, every step with the ring before and after it, and how it ends."""
    status = plan.status
    return _page(
        [f"{_title(status)}: {_counts(status)}", f"etcd now: {status.etcd.summary}"],
        _table(status),
        _not_well(status),
        _differs(status),
        _stays(status.mode, plan.lasting),
        _guards(plan),
        _steps(plan),
        _end(plan),
    )


def machine(found: Machine) -> str:
    """`quorate explain` of one."""
    return _page(_machine(found))


def _page(*parts: Sequence[str]) -> str:
    """The parts with an empty line between two of them; those without a line are left out."""
    return "\n".join("\n".join(lines) + "\n" for lines in parts if lines)


# Their parts.


def _title(status: Status) -> str:
    running = f", runs {status.running}" if status.running not in ("", status.version) else ""
    name, cluster = status.name, ""
    if status.mode is Mode.MACHINES:
        name, cluster = f"{status.namespace}/{status.name}", f", cluster {status.cluster or '-'}"
    return f"{name} at {status.version}{running}{cluster}"


def _head(status: Status) -> list[str]:
    lines = [f"{_title(status)}: {status.standing.value}"]
    lines += [_replicas(status.replicas)] if status.replicas else []
    lines += [f"API       {status.api}"]
    return lines + ([f"Worked on by {status.locked_by}"] if status.locked_by else [])


def _replicas(found: Replicas) -> str:
    there = f"{found.current} there, {found.ready} ready, {found.available} available, {found.up_to_date} up to date"
    return f"  {found.desired} desired: {there}"


def _counts(status: Status) -> str:
    if status.replicas:
        return _count(status.replicas.desired, "replica")
    control_planes = sum(each.role == "control plane" for each in status.machines)
    workers = len(status.machines) - control_planes
    return " and ".join([_count(control_planes, "control plane"), *([_count(workers, "static worker")] if workers else [])])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _decision(status: Status, now: datetime) -> list[str]:
    lines = [f"Next      {status.next or 'nothing left to do'}", f"Rule      {status.decision.rule}"]
    at = status.decision.wake_at
    if at is not None and at - now <= SOON:
        lines.append(f"Again at  {at:%Y-%m-%d %H:%M:%S} UTC, in {format_age((at - now).total_seconds())}, if nothing happens before")
    return [*lines, "Checks", *checks(status.decision.checks)] if status.decision.checks else lines


def _machine(found: Machine) -> list[str]:
    etcd = _etcd(found)
    node = " ".join(filter(None, (found.node if found.node != found.name else "", found.node_state))) or "-"
    lines = [f"{found.name}, {found.role}: {found.state}, etcd {etcd}, Node {node}, {found.version or '-'}, kubelet {found.kubelet or '-'}"]
    lines += [f"  waits for {found.waits_for}"] if found.waits_for else []
    lines += [f"  {found.fate}"] if found.fate else []
    lines += _ills(found.findings)
    lines += [f"  -> {found.remedy}"] if found.remedy else []
    lines += [f"  missed  {found.missed_probes} probes in a row"] if found.missed_probes else []
    lines += [f"  missing: {missing}" for missing in found.missing]
    lines += _differences(found.differs, found.lasting)
    if found.not_compared:
        fields = ", ".join(found.not_compared)
        lines.append(f"  not compared, since quorate or the bootstrap provider does not know it: {fields}")
    return lines + [f"  planned: {step}" for step in found.steps]


def _ills(findings: Iterable[Finding]) -> list[str]:
    """What is not good, once for all parts of which the same was found."""
    parts: dict[tuple[str, str], list[str]] = {}
    for each in findings:
        if each.health.value != "good":
            said = each.message or each.reason if each.part else ": ".join(filter(None, (each.reason, each.message)))
            parts.setdefault((each.health.value, said), []).append(each.part)
    return [
        f"  {_word(health)} {': '.join(filter(None, (', '.join(filter(None, names)), said)))}" for (health, said), names in parts.items()
    ]


def _differences(differs: Iterable[str], lasting: Iterable[str]) -> list[str]:
    return [*(f"  differs: {each}" for each in differs), *(f"  differs until you change it: {each}" for each in lasting)]


def _etcd(found: Machine) -> str:
    if not found.etcd_role:
        return "-"
    return found.etcd_role if found.etcd_health in ("good", found.etcd_role) else f"{found.etcd_role}, {_HEALTH[found.etcd_health]}"


def _table(status: Status) -> list[str]:
    """The Machines or hosts at a glance, under their headings."""
    hosts = status.mode is Mode.HOSTS
    columns: dict[str, list[str]] = {
        "Host" if hosts else "Machine": [each.name for each in status.machines],
        "Role": [each.role for each in status.machines],
        "State": [each.state for each in status.machines],
        **({"Packages": [each.packages for each in status.machines]} if hosts else {}),
        "Kubelet": [each.kubelet or "-" for each in status.machines],
        "API server": [_HEALTH[each.api_server] for each in status.machines],
        "etcd": [_etcd(each) for each in status.machines],
        "Node": [each.node_state or "-" for each in status.machines],
        "Version": [each.version or "-" for each in status.machines],
        **({"Certificates": [each.certificates or "-" for each in status.machines]} if hosts else {}),
    }
    return table.lines(tuple(columns), zip(*columns.values(), strict=True), indent="")


def _on_the_way(status: Status) -> list[Machine]:
    """The Machines that were just made or are being deleted."""
    return [each for each in status.machines if each.state in ON_THE_WAY]


def _there(status: Status) -> list[Machine]:
    """The others, and hosts: what is wrong with one of these is an illness."""
    return [each for each in status.machines if each.state not in ON_THE_WAY]


def _not_well(status: Status) -> list[str]:
    return _section("Not well", ((ill, each.name) for each in _there(status) for ill in each.wrong))


def _differs(status: Status) -> list[str]:
    """What is asked for and is not there."""
    of_cluster = ((each, "cluster") for each in status.differs)
    of_machines = ((each, machine.name) for machine in status.machines for each in machine.differs)
    missing = ((f"missing are {', '.join(each.missing)}", each.name) for each in status.machines if each.missing)
    return _section(f"Differs from {_ASKS[status.mode]}", (*of_cluster, *of_machines, *missing))


def _lasting(status: Status) -> list[str]:
    of_machines = ((each, machine.name) for machine in status.machines for each in machine.lasting)
    return together([*((each, "cluster") for each in status.lasting), *of_machines])


def _stays(mode: Mode, lasting: Sequence[str]) -> list[str]:
    """What no step changes."""
    return [f"Differs from {_ASKS[mode]} until you change it", *(f"  {each}" for each in lasting)] if lasting else []


def _guards(plan: Plan) -> list[str]:
    """The firewalls and SELinux of the hosts that are prepared: that they are switched off, or that they stay, and what has to be open then."""
    prepared = {name for step in plan.steps if step.kind == "Prepare" for name in step.machines}
    found = ((guard, each.name) for each in plan.status.machines if each.name in prepared for guard in each.guarded_by)
    if plan.keeps_firewalls:
        return _section(f"Left on (--keep-firewall); {OPEN_PORTS}", found)
    return _section("Switched off while the hosts are prepared; --keep-firewall leaves them on", found)


def _section(heading: str, said: Iterable[tuple[str, str]]) -> list[str]:
    """What is said of somebody, under a heading and once for all of whom it is true; nothing where nothing is."""
    found = together(said)
    return [heading, *(f"  {each}" for each in found)] if found else []


def _steps(plan: Plan) -> list[str]:
    texts = [f"{step.step}: {step.makes}" if step.makes else step.step for step in plan.steps]
    width = max(map(len, texts), default=0)
    lines = [
        f"  {step.number:>3}  {text:<{width}}  {_ring_with(step)}{joins}".rstrip()
        for step, text, joins in zip(plan.steps, texts, _joins(plan), strict=True)
    ]
    return ["Steps, and etcd's healthy voters before and after each", *lines] if lines else []


def _ring_with(step: Step) -> str:
    if step.before is None and step.after is None:
        return ""
    before, after = short(step.before) or "no ring", short(step.after) or "no ring"
    text = after if before == after else f"{before} -> {after}"
    return click.style(text, fg="red") if step.after is not None and step.after.tolerates < 0 else text


def _joins(plan: Plan) -> list[str]:
    """Beside each step during which Machines that are on their way join etcd, and which has nothing to do with them: who they are."""
    given_up = {name for step in plan.steps if step.kind == "Remediate" for name in step.machines}
    coming = [each.name for each in plan.status.machines if each.state == STARTING and not each.etcd_role and each.name not in given_up]
    notes = []
    for step in plan.steps:
        coming += [step.makes] if step.makes else []
        grows = step.before is not None and step.after is not None and step.after.voters > step.before.voters
        others = coming if grows and coming != [step.makes] else []
        notes.append(f" ({', '.join(others)} {'joins' if len(others) == 1 else 'join'})" if others else "")
        coming = [] if grows else coming
    return notes


def _end(plan: Plan) -> list[str]:
    if plan.converges:
        everything = "everything else" if plan.lasting else "everything"
        return [f"{_before_the_end(plan)} {everything} is as {_ASKS[plan.status.mode]} says.", *_unwell(plan.status)]
    if plan.steps and not plan.in_the_way:
        return ["What follows depends on the result of these steps: plan again after them."]
    return [
        "Then it waits; these checks do not pass:" if plan.steps else NOTHING_NOW,
        *blocked(plan.in_the_way),
    ]


def _before_the_end(plan: Plan) -> str:
    waited_for = [f"{each.name} is {each.state}" for each in _on_the_way(plan.status)]
    if plan.steps or not waited_for:
        return "Then" if plan.steps else "Nothing to do:"
    return f"Nothing to do but to wait: {', '.join(waited_for)}. Then"


def _unwell(status: Status) -> list[str]:
    """Machines that are ill stay as they are until somebody asks for another: that is no difference from the specification. What brings back comes first."""
    ill = [each for each in _there(status) if each.wrong]
    if status.mode is Mode.HOSTS or not ill:
        return []
    ways = [each.remedy for each in ill if each.remedy]
    ways += ["quorate replaces it once it fails a MachineHealthCheck, or you delete it."] if len(ways) < len(ill) else []
    names = ", ".join(each.name for each in ill)
    return [f"{names} {'is' if len(ill) == 1 else 'are'} not well, and no step changes that.", *(f"  -> {way}" for way in ways)]
