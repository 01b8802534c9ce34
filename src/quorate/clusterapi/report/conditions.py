"""Conditions as they are written: made with the time of their last change, merged among other writers' in one order, and aggregated from many Machines.

A condition here is a plain dict with JSON names, because it becomes part of a patch. The order is Cluster API's (util/conditions/sort.go), so that two
providers that take turns do not rewrite each other's lists.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from quorate.clusterapi.types.conditions import LegacyCondition
from quorate.kubernetes import objects

Condition = dict[str, Any]

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

MESSAGE_LIMIT = 32768  # characters, of the published schema; a longer message would have the whole status refused
LEGACY_MESSAGE_LIMIT = 10240
SHOWN = 3  # names, and distinct messages, in one message: a control plane usually has as many Machines

OTHERS = ""
"""In an order: the place of every type that the order does not name."""

ORDER = (
    "Available",
    "Ready",
    "UpToDate",
    "RemoteConnectionProbe",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "CertificatesAvailable",
    "Initialized",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "NodeHealthy",
    "NodeReady",
    "NodeKubeadmLabelsAndTaintsSet",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "HealthCheckSucceeded",
    "OwnerRemediated",
    "TopologyReconciled",
    "Updating",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "MachinesReady",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "MachinesUpToDate",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    OTHERS,
    "Paused",
    "Deleting",
)
"""Of conditions on any Cluster API object."""

LEGACY_ORDER = ("Ready", OTHERS)
"""Of v1beta1 conditions."""


@lru_cache(maxsize=4096)  # a report writes the same fifty instants again in every pass, and strftime takes 2 us for each
def timestamp(moment: datetime) -> str:
    """An instant as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def transition(condition: Condition) -> datetime:
    """When the condition's status last changed."""
    return datetime.fromisoformat(condition["lastTransitionTime"])


@dataclass(frozen=True, slots=True)
class Ledger:
    """The conditions that an object has, and what stamps those it gets: a condition whose status stays keeps the time of its last change."""

    existing: Mapping[str, Condition]
    now: datetime
    generation: int = 0

    def make(self, type_: str, status: str, reason: str, message: str = "") -> Condition:
        """The condition as it is now to be."""
        generation = {"observedGeneration": self.generation} if self.generation else {}
        stamp = {"lastTransitionTime": self._last_transition(type_, status)}
        return {"type": str(type_), "status": status, **generation, **stamp, "reason": str(reason), "message": message[:MESSAGE_LIMIT]}

    def make_legacy(self, type_: str, status: str, reason: str = "", severity: str = "", message: str = "") -> Condition:
        """The v1beta1 condition as it is now to be. `severity` belongs to status False alone."""
        texts = {"severity": str(severity), "reason": str(reason), "message": message[:LEGACY_MESSAGE_LIMIT]}
        stamp = {"lastTransitionTime": self._last_transition(type_, status)}
        return {"type": str(type_), "status": status, **stamp, **{name: text for name, text in texts.items() if text}}

    def _last_transition(self, type_: str, status: str) -> str:
        before = self.existing.get(type_, {})
        kept: str = before.get("lastTransitionTime", "") if before.get("status") == status else ""
        return kept or timestamp(self.now)


def as_dict(condition: objects.Condition) -> Condition:
    """A condition that was read, as it is written: reason and message also where they are empty, because the schema requires them."""
    generation = {"observedGeneration": condition.observed_generation} if condition.observed_generation else {}
    stamp = {"lastTransitionTime": timestamp(condition.last_transition_time)} if condition.last_transition_time else {}
    texts = {"reason": condition.reason, "message": condition.message}
    return {"type": condition.type, "status": condition.status, **generation, **stamp, **texts}


def legacy_as_dict(condition: LegacyCondition) -> Condition:
    """A v1beta1 condition that was read, as it is written."""
    texts = {"severity": condition.severity, "reason": condition.reason, "message": condition.message}
    stamp = {"lastTransitionTime": timestamp(condition.last_transition_time)}
    return {"type": condition.type, "status": condition.status, **stamp, **{name: text for name, text in texts.items() if text}}


def by_type(conditions: Iterable[Condition]) -> dict[str, Condition]:
    """The conditions by their type."""
    return {condition["type"]: condition for condition in conditions}


def merge_conditions(
    existing: Iterable[Condition], ours: Iterable[Condition], order: tuple[str, ...] = ORDER, *, without: Collection[str] = ()
) -> list[Condition]:
    """The list to write: `ours` in the place of those of their types, everybody else's untouched, all in `order` and by type where that is silent.

    Existing conditions of the types in `without` are left out.
    """
    rank = _rank(order)
    merged = merged_by_type(existing, ours, without=without)
    return [merged[type_] for _, type_ in sorted((rank.get(type_, rank[OTHERS]), type_) for type_ in merged)]


def merged_by_type(existing: Iterable[Condition], ours: Iterable[Condition], *, without: Collection[str] = ()) -> dict[str, Condition]:
    """The same as `merge_conditions` by type, for whoever reads single ones."""
    kept = {condition["type"]: condition for condition in existing if condition["type"] not in without}
    return kept | by_type(ours)


@lru_cache(maxsize=8)
def _rank(order: tuple[str, ...]) -> Mapping[str, int]:
    """The place of each type in an order."""
    return {type_: place for place, type_ in enumerate(order)}


def listed(names: Iterable[str], shown: int = SHOWN) -> str:
    """The first names in alphabetical order, and how many more there are."""
    ordered = sorted(names)
    more = f", ... ({len(ordered) - shown} more)" if len(ordered) > shown else ""
    return ", ".join(ordered[:shown]) + more


def machines_named(names: Iterable[str]) -> str:
    """`Machine a`, or `Machines a, b`."""
    names = list(names)
    return f"Machine{'s' if len(names) > 1 else ''} {listed(names)}"


_OTHERS_WITH = {FALSE: "with other issues", UNKNOWN: "with status unknown", TRUE: "with additional info"}
_URGENCY = (FALSE, UNKNOWN, TRUE)


def aggregate(conditions: Mapping[str, Condition]) -> tuple[str, str]:
    """Status and message for one condition of many Machines, which are given by name; good is True.

    One False makes False, else one Unknown makes Unknown. Of the messages the most urgent and most frequent three are shown, each with at most three names;
    those of good conditions only where all are good. Source: cluster-api, util/conditions/merge_strategies.go.
    """
    conditions = {name: each if each["status"] in _URGENCY else {**each, "status": UNKNOWN} for name, each in conditions.items()}
    status = next(status for status in _URGENCY if any(condition["status"] == status for condition in conditions.values()))
    telling = {
        name: condition
        for name, condition in conditions.items()
        if (condition["status"] != TRUE or (status == TRUE and condition["message"]))
    }
    names: dict[str, list[str]] = defaultdict(list)
    urgency: dict[str, str] = {}
    for name, condition in sorted(telling.items()):
        text = condition["message"]
        names[text].append(name)
        urgency[text] = min(urgency.get(text, TRUE), condition["status"], key=_URGENCY.index)
    ordered = sorted(names, key=lambda text: (_URGENCY.index(urgency[text]), -len(names[text]), names[text]))
    lines = [f"* {machines_named(names[text])}:{_indented(text)}" for text in ordered[:SHOWN]]
    return status, "\n".join(lines + _remainder(Counter({text: len(names[text]) for text in ordered[SHOWN:]}), urgency))


def _remainder(counts: Mapping[str, int], urgency: Mapping[str, str]) -> list[str]:
    """How many Machines say what is not shown, by urgency."""
    totals: Counter[str] = Counter()
    for text, count in counts.items():
        totals[urgency[text]] += count
    return [
        f"And {totals[status]} Machine{'s' if totals[status] > 1 else ''} {_OTHERS_WITH[status]}" for status in _URGENCY if totals[status]
    ]


_BULLET = re.compile(r"\s*\* ")


def _indented(text: str) -> str:
    """A message after its heading: in the same line, or as a nested list if it has several lines or is a list itself."""
    lines = text.split("\n")
    bulleted = [bool(_BULLET.match(line)) for line in lines]
    if len(lines) == 1 and not bulleted[0]:
        return f" {text}"
    nested = "  " if all(bulleted) else "    "  # below the bullets that the other lines get
    return "".join(f"\n{nested if is_bullet else '  * '}{line}" for line, is_bullet in zip(lines, bulleted, strict=True))
