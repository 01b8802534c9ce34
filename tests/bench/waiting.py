"""How much of a step was waiting for upstream's other programs: Cluster API core and its bootstrap provider, CABPK.

It is put together from the audit log (microseconds) and, for the last of these, from conditions (whole seconds). Somebody else is waited for

- from the beginning of the step to core's last write to the Cluster before the provider makes its first object for a Machine: the infrastructure's endpoint has
  to come first (only where the step makes the cluster);
- for each new Machine, from its creation to the creation of its bootstrap data Secret by CABPK, which for a join waits until CABPK itself is connected to the
  workload cluster;
- for each new Machine, from that Secret to core's next write to the Machine, which hands it to the infrastructure provider;
- for each new Machine, from the last of the provider's own conditions on it turning true to core calling it Available;
- for each leaving Machine, from its deletion to core's last write to it before the provider lets go of it, and from then to core's last write at all, with
  which it goes: in between lie the deletion of its infrastructure and the garbage collection;
- where the cluster itself is deleted, from the beginning to core's deletion of the KubeadmControlPlane, and from the provider's last write to the end.

Times at which somebody is waited for on several Machines count once. It is not a bound from below on what a provider could reach: the provider's own slowness
may have made the others wait first, and time in which several wait for each other counts as theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tests.bench.audit import Agent, Request

_PROVIDER_CONDITIONS = frozenset(
    {"APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy", "EtcdMemberHealthy"}
)


class Interval(NamedTuple):
    """A length of time between two moments."""

    begin: datetime
    end: datetime


class Waiting(msgspec.Struct, frozen=True):
    """Seconds in which a step waited for others."""

    bootstrap: float
    core: float
    total: float  # less than the sum where both were waited for at once


def waiting(requests: Sequence[Request], provider: Agent, step: Interval, machines: Sequence[Mapping[str, Any]]) -> Waiting:
    """What of the step was waiting for others. `requests` are those of the step, `machines` the Machines there are at its end."""
    bootstrap = list(_bootstrap(requests, provider))
    core = [*_infrastructure(requests, provider, step), *_handed_over(requests), *_available(machines)]
    core += [*_leaving(requests, provider), *_cluster_deletion(requests, provider, step)]
    return Waiting(covered(bootstrap, step), covered(core, step), covered([*bootstrap, *core], step))


def covered(intervals: Iterable[Interval], within: Interval) -> float:
    """The seconds of `within` that lie in at least one of the intervals."""
    seconds, reached = 0.0, within.begin
    for begin, end in sorted(intervals):
        first, last = max(begin, reached), min(end, within.end)
        if last > first:
            seconds += (last - first).total_seconds()
            reached = last
    return round(seconds, 6)


def _infrastructure(requests: Sequence[Request], provider: Agent, step: Interval) -> Iterator[Interval]:
    made = [r for r in requests if r.object_ref.resource == "clusters" and r.created]
    first = next(
        (r for r in requests if provider.sent(r) and r.created and r.object_ref.resource in ("machines", "kubeadmconfigs", "devmachines")),
        None,
    )
    if made and first:
        writes = _answered(r for r in requests if _writes_to(r, "clusters") and Agent.CORE.sent(r))
        yield from _upto(step.begin, writes, first.request_received_timestamp)


def _bootstrap(requests: Sequence[Request], provider: Agent) -> Iterator[Interval]:
    for name, created in _created(requests, provider).items():
        secret = _bootstrap_data(requests, name)
        yield Interval(created, secret or datetime.max.replace(tzinfo=created.tzinfo))


def _handed_over(requests: Sequence[Request]) -> Iterator[Interval]:
    for request in requests:
        name = request.object_ref.name
        secret = _bootstrap_data([request], name)
        if secret:
            after = (m for m in _answered(r for r in requests if _writes_to(r, "machines", name) and Agent.CORE.sent(r)) if m > secret)
            yield from (Interval(secret, moment) for moment in list(after)[:1])


def _available(machines: Sequence[Mapping[str, Any]]) -> Iterator[Interval]:
    for machine in machines:
        turned = {
            c["type"]: datetime.fromisoformat(c["lastTransitionTime"])
            for c in machine["status"].get("conditions", [])
            if c["status"] == "True"
        }
        healthy = [moment for name, moment in turned.items() if name in _PROVIDER_CONDITIONS]
        if healthy and "Available" in turned:
            yield Interval(max(healthy), turned["Available"])


def _leaving(requests: Sequence[Request], provider: Agent) -> Iterator[Interval]:
    deleted = {
        r.object_ref.name: r.stage_timestamp for r in requests if r.object_ref.resource == "machines" and r.verb == "delete" and r.changed
    }
    for name, begin in deleted.items():
        core = _answered(r for r in requests if _writes_to(r, "machines", name) and Agent.CORE.sent(r))
        own = _answered(r for r in requests if _writes_to(r, "machines", name) and provider.sent(r) and not r.object_ref.subresource)
        released = max((moment for moment in own if moment > begin), default=None)
        if released:
            yield from _upto(begin, core, released)
        if core:
            yield Interval(released or begin, core[-1])


def _cluster_deletion(requests: Sequence[Request], provider: Agent, step: Interval) -> Iterator[Interval]:
    asked = [
        r.stage_timestamp for r in requests if r.object_ref.resource == "kubeadmcontrolplanes" and r.verb == "delete" and Agent.CORE.sent(r)
    ]
    own = _answered(r for r in requests if provider.sent(r) and r.changed)
    if asked:
        yield Interval(step.begin, asked[0])
        yield from (Interval(moment, step.end) for moment in own[-1:] if moment > asked[0])


def _created(requests: Sequence[Request], provider: Agent) -> dict[str, datetime]:
    return {
        r.object_ref.name: r.stage_timestamp for r in requests if provider.sent(r) and r.created and r.object_ref.resource == "machines"
    }


def _bootstrap_data(requests: Iterable[Request], name: str) -> datetime | None:
    """When CABPK made the Secret of a Machine; it has the name of the KubeadmConfig, and that the name of the Machine."""
    secrets = (
        r for r in requests if Agent.BOOTSTRAP.sent(r) and r.created and r.object_ref.resource == "secrets" and r.object_ref.name == name
    )
    return next((r.stage_timestamp for r in secrets), None)


def _writes_to(request: Request, resource: str, name: str = "") -> bool:
    return request.changed and request.object_ref.resource == resource and name in ("", request.object_ref.name)


def _answered(requests: Iterable[Request]) -> list[datetime]:
    return sorted(r.stage_timestamp for r in requests)


def _upto(begin: datetime, moments: Iterable[datetime], limit: datetime) -> Iterator[Interval]:
    """From `begin` to the last of the moments before the limit."""
    last = max((moment for moment in moments if begin < moment < limit), default=None)
    if last:
        yield Interval(begin, last)
