"""A saved plan: what was asked for, everything observed that decided on it, and its steps; and what has changed since.

What changes by itself and decides nothing is not compared: the words of findings, the time of a probe, since when a Node is ready, and which member leads and
which Nodes others have joined, whose part in the plan is its steps and their order, which are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from quorate.core.health import Finding, Unknown
from quorate.core.hosts.state import Cluster, Host, MissedProbes, Node, OrphanMember, RunOptions
from quorate.core.hosts.steps import Step, involved
from quorate.core.maintenance import Maintenance
from quorate.core.ring import Member, Ring
from quorate.core.text import printable
from quorate.core.versions import Version
from quorate.hosts.private_files import create

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = 2
_UNCOMPARED: dict[type, frozenset[str]] = {
    Cluster: frozenset({"snapshot_taken", "regenerated", "renewed", "rotated", "locked_by", "other_nodes"}),
    Finding: frozenset({"message"}),
    Host: frozenset({"just_booted", "api_server_restarts", "clock_ahead"}),
    Member: frozenset({"evidence"}),
    Node: frozenset({"ready_since"}),
    Ring: frozenset({"leader"}),
    MissedProbes: frozenset({"count", "last"}),
    OrphanMember: frozenset({"without_vote_for"}),
    Unknown: frozenset({"reason", "remedy"}),
    Maintenance: frozenset({"retry_at"}),
}
_MOST_NAMED = 12


class PlanError(ValueError):
    """A file that is not a plan of ours, or cannot be read or written. The message names the file, the cause and the way out."""


class StalePlan(Exception):
    """The cluster is no longer as it was when the plan was made. `moved` says each change in words."""

    def __init__(self, moved: tuple[str, ...]) -> None:
        self.moved = moved
        named = [printable(each) for each in moved[:_MOST_NAMED]]
        more = [f"and {len(moved) - _MOST_NAMED} more"] if len(moved) > _MOST_NAMED else []
        text = "\n  ".join(
            ["the plan is stale: the cluster changed since it was made; make a new one with `quorate plan --out`:", *named, *more]
        )
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan as the file has it. `inputs` are digests of the manifest, of the files that it names and of Terraform's outputs, by what they are of."""

    format: int
    made: datetime
    manifest: str
    terraform: str
    inputs: dict[str, str]
    ignore_unsupported: bool
    options: RunOptions
    facts: dict[str, str]
    steps: tuple[str, ...]


def write(path: Path, kept: Kept) -> None:
    """Write the file, for the operator's eyes only, as a whole or not at all. Raises PlanError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)  # of a process with this number that was killed
        descriptor = create(temporary)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise PlanError(f"{path}: cannot be written: {error.strerror}") from None


def read(path: Path) -> Kept:
    """The plan in a file. Raises PlanError."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise PlanError(f"{path}: is not a plan that `quorate plan --out` wrote: {error}") from None
    if kept.format != FORMAT:
        raise PlanError(f"{path}: was written by another version of quorate; make it anew with `quorate plan --out`")
    if not "".join((kept.manifest, kept.terraform, *kept.options.without)).isprintable():
        raise PlanError(f"{path}: names a file or a host in characters that cannot be printed; make it anew with `quorate plan --out`")
    return kept


def facts(cluster: Cluster) -> dict[str, str]:
    """Everything observed that decides, by where it is, such as `hosts.cp-1.kubelet`."""
    return dict(_flat(cluster, ""))


def moved(kept: Kept, now: Mapping[str, str], inputs: Mapping[str, str], steps: tuple[str, ...]) -> tuple[str, ...]:
    """What has changed since the plan was made; nothing: it can be carried out."""
    found = [f"{name} has changed" for name in sorted({*kept.inputs, *inputs}) if kept.inputs.get(name) != inputs.get(name)]
    found += _differences(kept.facts, now)
    if not found and kept.steps != steps:
        found.append("the steps, their order or the checks that pass have changed: " + "; ".join(steps or ("none",)))
    return tuple(found)


def moved_around(shown: Cluster, now: Cluster, step: Step) -> tuple[str, ...]:
    """What has changed, since the plan was shown, in the hosts, Nodes and members of a step; for a step about the cluster everything."""
    about = involved(step) or ("",)
    differences = _differences(facts(shown), facts(now))
    return tuple(each for each in differences if any(name in each for name in about))[:_MOST_NAMED]


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Each place at which there is something else, with both values."""
    pairs = ((place, then.get(place, "nothing"), now.get(place, "nothing")) for place in sorted({*then, *now}))
    return [f"{place}: {before} then, {after} now" for place, before, after in pairs if before != after]


def _flat(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Leaves as text by their place; items by their name or id where they have one. What is empty or None is left out: it is told as nothing."""
    match value:
        case Version() | str() | int():
            yield from [(place, str(value))] if str(value) else []
        case Enum():
            yield place, str(value.value)
        case datetime():
            yield place, value.isoformat()
        case tuple():
            for number, inner in enumerate(value):
                yield from _flat(inner, f"{place}.{_label(inner, number)}")
        case _ if is_dataclass(value) and not isinstance(value, type):
            yield from _fields(value, place)


def _fields(value: DataclassInstance, place: str) -> Iterator[tuple[str, str]]:
    kind = type(value)
    if place and kind is not Maintenance:
        yield place, kind.__name__.lower()
    for each in fields(value):
        if each.name not in _UNCOMPARED.get(kind, frozenset()):
            yield from _flat(getattr(value, each.name), f"{place}.{each.name}" if place else each.name)


def _label(item: object, number: int) -> str:
    if isinstance(item, Finding):
        return item.reason
    member = item.member if isinstance(item, OrphanMember) else item
    return str(getattr(member, "name", "")) or str(number)
