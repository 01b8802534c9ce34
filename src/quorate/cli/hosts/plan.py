"""The plan for existing hosts: what is there, what would be done in which order, the ring before and after each step, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from quorate.cli import table
from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode
from quorate.cli.lines import CheckLine, check_line

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from quorate.cli.hosts.access import Loaded
    from quorate.core.hosts.forecast import Forecast
    from quorate.core.hosts.state import Cluster, Wishes
    from quorate.core.plan import PlannedStep
    from quorate.core.ring import Verdict
    from quorate.hosts.run.overview import HostRow

OPEN_PORTS = (
    "open must be TCP 6443 (API server, for all), 2379 and 2380 (etcd, among control planes), 10250 (kubelets, for all hosts), the manifest's "
    "nodePortRange, and what the network plugin needs"
)
HEADINGS = ("Host", "Role", "State", "Packages", "Kubelet", "API server", "etcd", "Node", "Version", "Certificates")


@dataclass(frozen=True, slots=True)
class HostsPlan:
    """Everything that is said of a plan; the keys of `-o json`."""

    cluster: str
    version: str  # desired
    running: str  # what the cluster says that it runs; empty: not known, or there is none
    ring: str
    api: str
    hosts: tuple[HostRow, ...]
    settings: tuple[str, ...]  # in what the configuration in the cluster differs from the manifest
    lasting: tuple[str, ...]  # in what the cluster differs from the manifest after all steps, too
    steps: tuple[PlannedStep, ...]
    keeps_firewalls: bool
    converges: bool
    stands_in_the_way: tuple[CheckLine, ...]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do, or to want and not to be able to."""
        return bool(self.steps) or not self.converges


def run(ctx: click.Context, flags: dict[str, Any], wishes: Wishes, *, output: str, out: Path | None) -> None:
    """`quorate plan -m`: look, plan, print, and keep the plan where asked to. Ends the command with 0 for nothing to do and 2 for changes."""
    from quorate.cli import event_loop
    from quorate.cli.hosts import access

    loaded, observation = event_loop.run(access.looked_at(access.place(flags), wishes))
    access.say_notices(loaded.manifest)
    plan = plan_of(observation.cluster, access.now())
    if out is not None:
        keep(out, loaded, observation.cluster, plan)
    click.echo(as_json(plan) if output == "json" else as_text(plan), nl=False)
    ctx.exit(ExitCode.CHANGES if plan.changes else ExitCode.OK)


def keep(path: Path, loaded: Loaded, cluster: Cluster, plan: HostsPlan) -> None:
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
            wishes=cluster.wishes,
            facts=plan_file.facts(cluster),
            steps=tuple(step.step for step in plan.steps),
        ),
    )


def plan_of(cluster: Cluster, now: datetime, foreseen: Forecast | None = None) -> HostsPlan:
    """The plan for what was observed, or that part of it which was `foreseen` for a narrower command. Pure."""
    from quorate.core.hosts.forecast import forecast
    from quorate.core.hosts.rules.facts import told
    from quorate.hosts.run.overview import lasting, ring_in_words, rows

    foreseen = foreseen or forecast(cluster, now)
    return HostsPlan(
        cluster=cluster.name,
        version=str(cluster.version),
        running=str(cluster.running or ""),
        ring=ring_in_words(cluster.ring),
        api=told(cluster.api),
        hosts=rows(cluster, now),
        settings=(*cluster.configuration_drift, *cluster.addon_drift),
        lasting=lasting(foreseen.end),
        steps=_planned(foreseen),
        keeps_firewalls=cluster.wishes.keep_firewall,
        converges=foreseen.converged,
        stands_in_the_way=() if foreseen.converged else tuple(map(check_line, foreseen.refusals)),
    )


def until_it_can_begin() -> Callable[[Cluster], datetime | None]:
    """When to look again at hosts with which nothing can be done yet, because of something that may end by itself, such as a kubeadm that an interrupted run
    left, or hosts that were just switched on.

    None: there is something to do, or waiting would bring nothing. What is waited for is said on stderr.
    """
    from quorate.cli.hosts.access import now
    from quorate.core.hosts.decide import decide
    from quorate.hosts.run.patience import Patience, before_a_plan

    patience = Patience(now())
    told: list[tuple[str, ...]] = []

    def again(cluster: Cluster) -> datetime | None:
        at = now()
        decision = decide(cluster, at)
        until = before_a_plan(patience, cluster, decision, at)
        if until is None:
            return None
        because = tuple(check.name for check in decision.refusals)
        if because not in told:
            told.append(because)
            click.echo("\n".join(("waiting, because", *refusals(tuple(map(check_line, decision.refusals))))), err=True)
        return until

    return again


def _planned(foreseen: Forecast) -> tuple[PlannedStep, ...]:
    from quorate.core.hosts.steps import involved
    from quorate.core.plan import told

    return tuple(told(number, step, step.after, short, hosts=involved(step.step)) for number, step in enumerate(foreseen.steps, 1))


def short(verdict: Verdict | None) -> str:
    """The ring's verdict in a few words; empty where it is not known."""
    if verdict is None:
        return ""
    return f"{verdict.good} of {verdict.voters}, {verdict.reach}"


def as_text(plan: HostsPlan) -> str:
    """For a person. Colours are escape codes, which click takes away where nobody sees them."""
    parts = (
        _head(plan),
        host_table(plan.hosts),
        not_well(plan.hosts),
        _differences(plan),
        stays_different(plan.lasting),
        _guards(plan),
        _steps(plan),
        _end(plan),
    )
    return "\n".join("\n".join(lines) + "\n" for lines in parts if lines)


def _head(plan: HostsPlan) -> list[str]:
    control_planes = sum(host.role == "control plane" for host in plan.hosts)
    workers = len(plan.hosts) - control_planes
    running = f", runs {plan.running}" if plan.running and plan.running != plan.version else ""
    counts = (
        f"{_count(control_planes, 'control plane')} and {_count(workers, 'static worker')}"
        if workers
        else _count(control_planes, "control plane")
    )
    return [f"{plan.cluster} at {plan.version}{running}: {counts}", f"etcd now: {plan.ring}"]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def host_table(hosts: tuple[HostRow, ...]) -> list[str]:
    """The hosts at a glance, under their headings."""
    cells = (
        (
            host.name,
            host.role,
            host.state,
            host.packages,
            host.kubelet,
            host.api_server,
            host.etcd,
            host.node,
            host.version,
            host.certificates,
        )
        for host in hosts
    )
    return table.lines(HEADINGS, cells, indent="")


def not_well(hosts: tuple[HostRow, ...]) -> list[str]:
    """What is wrong with the hosts, under its heading; nothing where all are well."""
    return _told_once("Not well", ((ill, host.name) for host in hosts for ill in host.wrong))


def _differences(plan: HostsPlan) -> list[str]:
    """What the manifest asks for and is not there."""
    of_cluster = ((setting, "cluster") for setting in plan.settings)
    missing = ((f"missing are {', '.join(host.missing)}", host.name) for host in plan.hosts if host.missing)
    of_hosts = ((difference, host.name) for host in plan.hosts for difference in host.drift)
    return _told_once("Differs from the manifest", (*of_cluster, *of_hosts, *missing))


def stays_different(lasting: tuple[str, ...]) -> list[str]:
    """What no step changes, under its heading; nothing where there is nothing."""
    return ["Differs from the manifest until you change it", *(f"  {each}" for each in lasting)] if lasting else []


def _guards(plan: HostsPlan) -> list[str]:
    """The firewalls and SELinux of the hosts that are prepared: that they are switched off, or that they stay, and what has to be open then."""
    prepared = {name for step in plan.steps if step.kind == "Prepare" for name in step.hosts}
    found = ((guard, host.name) for host in plan.hosts if host.name in prepared for guard in host.guarded_by)
    if plan.keeps_firewalls:
        return _told_once(f"Left on, as --keep-firewall says: {OPEN_PORTS}", found)
    return _told_once("Switched off while the hosts are prepared; --keep-firewall leaves them on", found)


def _told_once(heading: str, said: Iterable[tuple[str, str]]) -> list[str]:
    """What is said of somebody, under a heading and once for all of whom it is true; nothing where nothing is."""
    from quorate.hosts.run.overview import together

    found = together(said)
    return [heading, *(f"  {each}" for each in found)] if found else []


def _steps(plan: HostsPlan) -> list[str]:
    if not plan.steps:
        return []
    width = max(len(step.step) for step in plan.steps)
    lines = [f"  {step.number:>3}  {step.step:<{width}}  {_ring(step)}".rstrip() for step in plan.steps]
    return ["Steps, and etcd's healthy voters before and after each", *lines]


def _ring(step: PlannedStep) -> str:
    before, after = step.ring_before or "no ring", step.ring_after or "no ring"
    text = "" if not step.ring_before and not step.ring_after else after if before == after else f"{before} -> {after}"
    return click.style(text, fg="red") if step.tolerates is not None and step.tolerates < 0 else text


def _end(plan: HostsPlan) -> list[str]:
    if plan.converges:
        everything = "everything else" if plan.lasting else "everything"
        return [f"{'Then' if plan.steps else 'Nothing to do:'} {everything} is as the manifest says."]
    return ["Then it waits:" if plan.steps else "Nothing can be done now:", *refusals(plan.stands_in_the_way)]


def refusals(checks: tuple[CheckLine, ...]) -> list[str]:
    """Checks that did not pass, each with its way out."""
    lines = []
    for line in checks:
        lines.append(f"  {line.name}: {line.evidence}")
        lines += [f"    -> {line.remedy}"] if line.remedy else []
    return lines
