"""`quorate status`: existing hosts, their ring and what would be done next, at a glance; and all that any command says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.cli.documents import as_json
from quorate.cli.failures import ExitCode
from quorate.cli.hosts.access import with_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from quorate.cli.views import Machine, Status, Step
    from quorate.core.health import Finding
    from quorate.core.hosts.forecast import Forecast
    from quorate.core.hosts.state import Cluster, Host


@click.command(name="status", context_settings={"help_option_names": ["-h", "--help"]})
@with_manifest()
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format.")
@click.pass_context
def command(ctx: click.Context, /, output: str, **flags: Any) -> None:
    """Show each host, etcd's members and the next step. Works while any host is reachable, and changes nothing.

    Exits 0 if there is a step to take or nothing left to do, 13 if it waits for something that needs you.
    """
    from quorate.cli import event_loop, lines, logs
    from quorate.cli.hosts import access
    from quorate.cli.views import Standing

    logs.quiet(debug=ctx.find_root().params["debug"])
    _, observation = event_loop.run(access.looked_at(access.place(flags)))
    status = status_of(observation.cluster, access.now())
    click.echo(as_json(status) if output == "json" else lines.glance(status), nl=False)
    ctx.exit(ExitCode.STALLED if status.standing is Standing.STALLED else ExitCode.OK)


def status_of(cluster: Cluster, now: datetime, foreseen: Forecast | None = None) -> Status:
    """What is said of what was observed, and of the plan for it, or of that part which was `foreseen` for a narrower command. Pure."""
    from quorate.cli import views
    from quorate.core.hosts.decide import decide, is_converged
    from quorate.core.hosts.forecast import forecast
    from quorate.core.hosts.rules.facts import told

    decision, steps = decide(cluster, now), steps_of(foreseen or forecast(cluster, now))
    standing = views.Standing.STALLED if decision.step is None else views.Standing.PROGRESSING
    return views.Status(
        mode=views.Mode.HOSTS,
        namespace="",
        name=cluster.name,
        cluster=cluster.name,
        version=str(cluster.version),
        running=str(cluster.running or ""),
        standing=views.Standing.CONVERGED if is_converged(decision) else standing,
        replicas=None,
        api=told(cluster.api),
        locked_by=cluster.locked_by,
        etcd=views.etcd(cluster.ring, (orphan.member for orphan in cluster.orphans), cluster.alarms),
        next=views.coming(decision),
        decision=views.decision(decision),
        in_the_way=decision.refusals,
        machines=tuple(_machine(cluster, host, now, steps) for host in cluster.hosts),
        lost_nodes=cluster.lost_nodes,
        differs=(*cluster.configuration_drift, *cluster.addon_drift),
        lasting=cluster.lasting_drift,
    )


def steps_of(foreseen: Forecast) -> tuple[Step, ...]:
    """The steps of a plan as they are shown."""
    from quorate.cli import views
    from quorate.core.hosts.steps import involved

    return views.steps(foreseen.steps, involved)


def _machine(cluster: Cluster, host: Host, now: datetime, steps: tuple[Step, ...]) -> Machine:
    from quorate.cli import views
    from quorate.core.health import worst
    from quorate.core.hosts.state import Node
    from quorate.hosts.run.overview import left, state, wrong

    node = host.node if isinstance(host.node, Node) else None
    role, health = _etcd(cluster, host)
    return views.Machine(
        name=host.name,
        role="control plane" if host.control_plane else "worker",
        state=state(host),
        health=worst([finding.health for finding in _found(host)]),
        version=str(host.components or ""),
        kubelet=str(host.kubelet or ""),
        node=node.name if node else "",
        node_state=_node_state(host),
        api_server=host.api_server.health.value if host.api_server else "",
        etcd_role=role,
        etcd_health=health,
        wrong=wrong(host),
        findings=tuple(views.Finding("", each.health, each.reason, each.message) for each in host.findings),
        differs=(*host.drift, *host.node_drift),
        lasting=host.lasting_drift,
        steps=tuple(step.step for step in steps if host.name in step.machines),
        packages=_packages(host),
        missing=host.lacks,
        guarded_by=host.guarded_by,
        certificates=left(host.certificates_expire, host, now) if host.certificates_expire else "",
        missed_probes=host.missed_probes.count if host.missed_probes else 0,
    )


def _found(host: Host) -> Iterator[Finding]:
    """Everything that was found of the host, its member, its API server and its Node."""
    from quorate.core.hosts.state import Node

    ready = host.node.ready if isinstance(host.node, Node) else None
    yield from (each for each in (*host.findings, host.member_health, host.api_server, ready) if each is not None)


def _etcd(cluster: Cluster, host: Host) -> tuple[str, str]:
    """The role and the health of its member."""
    from quorate.core.health import Absent
    from quorate.core.hosts.rules.facts import member_of
    from quorate.core.ring import Ring

    if isinstance(host.member, Absent):
        return "", ""
    member = member_of(cluster, host)
    if member is None or not isinstance(cluster.ring, Ring):
        return "unknown", "unknown"
    return cluster.ring.role(member), member.health.value


def _node_state(host: Host) -> str:
    from quorate.core.health import Absent, Health, Unknown

    match host.node:
        case Unknown():
            return "unknown"
        case Absent():
            return ""
        case node:
            word = {Health.GOOD: "ready", Health.BAD: "not ready", Health.UNKNOWN: "unknown"}[node.ready.health]
            return ", ".join((word, *(["cordoned"] if node.unschedulable else []), *node.pressures))


def _packages(host: Host) -> str:
    from quorate.core.hosts.state import Kind

    if host.kind is Kind.UNREACHABLE:
        return "unknown"
    return f"{len(host.lacks)} missing" if host.lacks else "ready"
