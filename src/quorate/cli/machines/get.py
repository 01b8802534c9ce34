"""`quorate get`: control planes at a glance, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from quorate.cli.documents import as_json
from quorate.cli.machines.access import Access, with_access
from quorate.core.text import printable

if TYPE_CHECKING:
    from quorate.cli.views import Summary
    from quorate.clusterapi.inspection import Finding, Inspector
    from quorate.kubernetes.controller import Request

_WATCH_AGAIN = 5.0  # seconds between looks when nothing changes: etcd tells nobody


HEADINGS = (
    "NAMESPACE",
    "NAME",
    "CLUSTER",
    "DESIRED",
    "CURRENT",
    "READY",
    "AVAILABLE",
    "UP-TO-DATE",
    "VERSION",
    "AVAILABLE?",
    "ETCD",
    "NEXT",
    "AGE",
)


@dataclass(frozen=True, slots=True)
class _Query:
    names: tuple[str, ...]
    namespace: str  # empty: all

    def of(self, inspector: Inspector) -> list[Request]:
        """The control planes asked for that exist."""
        return [request for request in inspector.control_planes(self.namespace) if not self.names or request.name in self.names]

    def missing(self, found: Sequence[Summary]) -> list[str]:
        return sorted(set(self.names) - {summary.name for summary in found})


@click.command(name="get", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--namespace", "-n", help="The namespace to look in. Default: the context's.")
@click.option("--all-namespaces", "-A", is_flag=True, help="Look in all namespaces.")
@click.option(
    "--output", "-o", type=click.Choice(["table", "json", "yaml", "name"]), default="table", show_default=True, help="The format."
)
@click.option("--watch", "-w", is_flag=True, help="Keep running and show each change; with json, one object per line.")
@with_access
@click.pass_context
def command(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    namespace: str | None,
    all_namespaces: bool,
    output: str,
    watch: bool,
    **access: str,
) -> None:
    """List control planes with their replica counts, etcd's health and the next step."""
    from quorate.cli import event_loop, logs

    logs.quiet(debug=ctx.find_root().params["debug"])
    chosen = Access(**access)
    query = _Query(names, "" if all_namespaces else namespace or chosen.config().namespace)
    try:
        found = event_loop.run(_get(chosen, query, output, watch=watch))
    except KeyboardInterrupt:
        if watch:
            return
        raise
    _require(query, found)


def _require(query: _Query, found: Sequence[Summary]) -> None:
    from quorate.cli.failures import ExitCode, Failure

    if missing := query.missing(found):
        where = f"in namespace {query.namespace}" if query.namespace else "in any namespace"
        raise Failure(f"there is no KubeadmControlPlane {', '.join(missing)} {where}; `quorate get -A` shows all", ExitCode.NOT_FOUND)


async def _get(access: Access, query: _Query, output: str, *, watch: bool) -> list[Summary]:
    from quorate.cli.machines.access import inspector, look

    async with inspector(access, query.namespace) as cluster_inspector:
        found = await look(cluster_inspector, query.of(cluster_inspector))
        summaries = [summary_of(finding) for finding in found.values()]
        if watch and not query.missing(summaries):
            await _watch(cluster_inspector, query, output, summaries)
        else:
            _show(summaries, query, output)
    return summaries


def _show(summaries: Sequence[Summary], query: _Query, output: str) -> None:
    if output == "table" and not summaries:
        click.echo(f"No control planes found in {f'namespace {query.namespace}' if query.namespace else 'any namespace'}.", err=True)
        return
    click.echo(render(summaries, output, datetime.now(UTC)), nl=False)


async def _watch(cluster_inspector: Inspector, query: _Query, output: str, summaries: Sequence[Summary]) -> None:
    from quorate.cli.machines.access import changed, look

    shown: dict[tuple[str, str], Summary] = {}
    while True:
        new = [summary for summary in summaries if shown.get((summary.namespace, summary.name)) != summary]
        if new:
            click.echo(_increment(new, output, first=not shown), nl=False)
        shown = {(summary.namespace, summary.name): summary for summary in summaries}
        await changed(cluster_inspector, _WATCH_AGAIN)
        found = await look(cluster_inspector, query.of(cluster_inspector), timeout=0.0)
        summaries = [summary_of(finding) for finding in found.values()]


def _increment(new: Sequence[Summary], output: str, *, first: bool) -> str:
    text = render(new, "lines" if output == "json" else output, datetime.now(UTC))
    return text if first or output != "table" else text.partition("\n")[2]


def summary_of(finding: Finding) -> Summary:
    """The row of a control plane."""
    from quorate.cli import describe
    from quorate.cli.machines.status import etcd_of
    from quorate.cli.views import Summary

    observation, kcp = finding.observation, finding.observation.kcp
    condition = next((condition for condition in kcp.status.conditions if condition.type == "Available"), None)
    return Summary(
        namespace=kcp.metadata.namespace,
        name=kcp.metadata.name,
        cluster=observation.cluster.metadata.name if observation.cluster else "",
        version=printable(kcp.spec.version),
        standing=describe.standing(finding),
        replicas=describe.counts(kcp),
        available=condition.status if condition else "Unknown",
        etcd=etcd_of(observation),
        next=describe.next_step(finding),
        created=kcp.metadata.creation_timestamp,
    )


def cells(summary: Summary, now: datetime) -> tuple[str, ...]:
    """The row of a table."""
    from quorate.cli.durations import format_age
    from quorate.cli.lines import phrase

    counts = summary.replicas
    values = (
        summary.namespace,
        summary.name,
        summary.cluster,
        *map(str, (counts.desired, counts.current, counts.ready, counts.available, counts.up_to_date)),
        summary.version,
        summary.available,
        phrase(summary.etcd),
        summary.next,
        format_age((now - summary.created).total_seconds()) if summary.created else "",
    )
    return tuple(value or "-" for value in values)


def render(summaries: Sequence[Summary], output: str, now: datetime) -> str:
    """The rows as `table`, `json` (one list), `lines` (one JSON object a line), `yaml` or `name`, ending in a line break where there is anything."""
    if output == "name":
        return "".join(f"kubeadmcontrolplane.controlplane.cluster.x-k8s.io/{summary.name}\n" for summary in summaries)
    if output == "table":
        return table([HEADINGS, *(cells(summary, now) for summary in summaries)])
    if output == "json":
        return as_json(summaries)
    return _serialized(summaries, output)


def _serialized(summaries: Sequence[Summary], output: str) -> str:
    import msgspec

    from quorate.core.documents import dump

    if output == "yaml":
        return dump(msgspec.to_builtins(summaries), sort_keys=False)
    return "".join(f"{msgspec.json.encode(summary).decode()}\n" for summary in summaries)


def table(lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, three blanks apart, as kubectl sets them."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "".join("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines)
