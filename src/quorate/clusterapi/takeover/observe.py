"""Everything that is learned of a change-over in one look: objects and their forms, processes, the Lease, control planes, and what is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quorate.clusterapi.takeover import forms
from quorate.clusterapi.takeover.cluster import ManagementCluster, installed, versions
from quorate.clusterapi.takeover.installation import Installation
from quorate.clusterapi.takeover.journal import Record
from quorate.clusterapi.takeover.kinds import DEFINITION, ENTRY, KINDS, Object, place
from quorate.clusterapi.takeover.owners import owners
from quorate.clusterapi.takeover.pods import running
from quorate.clusterapi.types.names import PROVIDER_NAME
from quorate.core.takeover.state import ControlPlane, Definition, Item, Key, Lease, Part, Side, View
from quorate.kubernetes.config import ConfigError
from quorate.kubernetes.errors import AlreadyExists, Conflict, Invalid, NotFound

_LOOKS = 20  # in a row that found something changing under them
Judge = Callable[[Side], Awaitable[tuple[ControlPlane, ...]]]
"""Looks at every control plane, as a provider would judge it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says. `given` are components of the side that is to come."""

    goal: Side
    given: Installation | None = None
    accepted: frozenset[str] = frozenset()
    owners_told: bool = False
    core_version: str = ""
    limit: timedelta = timedelta(minutes=5)


@dataclass(frozen=True)
class Observation:
    """One look: the view, the two installations, and the objects as they are. `secret` is what the journal is in; None: there is none yet."""

    view: View
    coming: Installation
    leaving: Installation
    found: Mapping[Key, Object]
    record: Record | None
    secret: Object | None
    lease: Object | None


@dataclass
class _Memory:
    """What one look cannot tell: since when the Lease has not changed; and which form objects had in their versions, so that the server is asked once."""

    lease_version: str = ""
    lease_seen: float = 0.0
    version_when_stopped: str | None = None
    items: dict[tuple[Key, str, Side], Item] = field(default_factory=dict)


class Observer:
    """Looks at one management cluster again and again. `clock` counts seconds, `now` is aware; `judge` looks at the control planes."""

    def __init__(
        self,
        cluster: ManagementCluster,
        options: Options,
        namespace: str,
        judge: Judge,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._cluster, self._options, self._namespace, self._judge, self._clock = cluster, options, namespace, judge, clock
        self._memory = _Memory()
        self._begun = now()
        self.undone: tuple[Key, ...] = ()

    async def observe(self) -> Observation:
        """One look. Raises ConfigError where a provider is missing that nobody gave, or the journal cannot be read."""
        for _ in range(_LOOKS):
            with suppress(Conflict):  # the server was asked about a form of an object that has changed since it was read
                return await self._observe()
        return await self._observe()

    async def _observe(self) -> Observation:
        stored = await self._cluster.record(self._namespace)
        record, secret = stored or (None, None)
        coming, leaving = await self._installations(record)
        side = coming.side
        keys = sorted({*coming.objects, *leaving.objects}, key=place)
        found = await self._cluster.read(keys)
        pods = await self._cluster.pods(self._namespace)
        arriving, departing = coming.describe(), leaving.describe()
        journal = record.journal if record else None
        asked = journal is None or journal.done  # nothing is under way: what decides whether something may begin
        view = View(
            goal=self._options.goal,
            coming=running(arriving, found.get(arriving.deployment), pods),
            leaving=running(departing, found.get(departing.deployment), pods),
            items=tuple(await asyncio.gather(*(self._item(key, found.get(key), coming, leaving, new=record is None) for key in keys))),
            definitions=_definitions(found, coming, leaving),
            journal=journal,
            core_version=self._options.core_version or (await self._cluster.core_version() if asked else ""),
            unserved=await self._cluster.unserved(key.kind for key in coming.objects) if asked else (),
            owners=tuple(owners(found.values())),
            undone=self.undone,
            accepted=self._options.accepted,
            owners_told=self._options.owners_told,
            since=max(self._begun, journal.since) if journal else self._begun,
            limit=self._options.limit,
        )
        lease = await self._cluster.lease(view.coming.lease) if view.coming.lease else None
        view = replace(view, lease=self._lease(lease, stopped=view.leaving.stopped))
        if _control_planes_matter(view):
            view = replace(view, control_planes=await self._judge(side))
        return Observation(view, coming, leaving, found, record, secret, lease)

    async def _installations(self, record: Record | None) -> tuple[Installation, Installation]:
        """The coming and the leaving one: as they are written down, or else as they are given and found."""
        goal, given = self._options.goal, self._options.given
        if record is not None:
            side = goal if record.journal.done else record.journal.toward
            coming = given if given and record.journal.done and side is goal else record.of(side)
            return coming, record.of(side.other)
        if given is None:
            raise ConfigError(f"nothing is written down of {goal}: give its components with --components")
        label = PROVIDER_NAME if goal is Side.QUORATE else "control-plane-quorate"
        leaving = await installed(self._cluster, label, goal.other)
        if leaving is None:
            raise ConfigError(f"{goal.other} is not installed: no Deployment has the label of {label}")
        entered = any(key.kind == ENTRY.resource.kind for key in leaving.objects)
        return given if entered else _without_entry(given), leaving

    async def _item(self, key: Key, current: Object | None, coming: Installation, leaving: Installation, *, new: bool) -> Item:
        """The object in whose form it is. `new`: nothing is changed yet, and what is to be made is tried, so that it does not fail half-way."""
        kind = KINDS[key.kind]
        item = Item(key=key, part=kind.part, coming=key in coming.objects, leaving=key in leaving.objects, exists=False, stays=kind.stays)
        if current is None:
            if new and item.coming:
                await self._try(key, coming.objects[key])
            return item
        known = (key, current["metadata"]["resourceVersion"], coming.side)
        if known not in self._memory.items:
            self._memory.items[known] = await self._formed(replace(item, exists=True), current, coming, leaving)
        return self._memory.items[known]

    async def _formed(self, item: Item, current: Object, coming: Installation, leaving: Installation) -> Item:
        key, changes, as_coming, as_both = item.key, tuple[str, ...](), False, False
        if item.coming:
            after = await self._as_stored(key, current, form_of(key, current, coming, leaving))
            as_coming = forms.same(current, after)
            changes = () if as_coming else forms.changes(current, after)
            if item.leaving and item.part is Part.RIGHTS:
                as_both = forms.grants_both(current, coming.objects[key], leaving.objects[key])
        as_leaving = item.leaving and await self._has(key, current, leaving, coming)
        return replace(item, as_coming=as_coming, as_leaving=as_leaving, as_both=as_both, changes=changes)

    async def _try(self, key: Key, said: Object) -> None:
        """Have the server say whether it would take an object; that it does not know the kind, or the namespace yet, is told otherwise."""
        with suppress(NotFound, AlreadyExists):
            await self._cluster.client.create(KINDS[key.kind].resource, said, key.namespace, dry_run=True)

    async def _has(self, key: Key, current: Object, which: Installation, other: Installation) -> bool:
        return forms.same(current, await self._as_stored(key, current, form_of(key, current, which, other)))

    async def _as_stored(self, key: Key, current: Object, wanted: Object) -> Object:
        """A form as the server would store it, with its defaults, which it is asked for where that can make a difference."""
        if forms.same(current, wanted):
            return current
        try:
            return await self._cluster.client.replace(KINDS[key.kind].resource, wanted, key.namespace, dry_run=True)
        except (NotFound, Invalid):  # it is gone, or a field in it cannot be changed at all
            return wanted

    def _lease(self, lease: Object | None, *, stopped: bool) -> Lease:
        memory, version = self._memory, lease["metadata"]["resourceVersion"] if lease else ""
        if version != memory.lease_version:
            memory.lease_version, memory.lease_seen = version, self._clock()
        if not stopped:
            memory.version_when_stopped = None
        elif memory.version_when_stopped is None:
            memory.version_when_stopped = version
        idle = timedelta(seconds=self._clock() - memory.lease_seen)
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        return Lease(holder, idle, fresh=stopped and version != memory.version_when_stopped)


def form_of(key: Key, current: Object | None, which: Installation, other: Installation, *, both: bool = False) -> Object:
    """The form that an object is to have as an installation says it, with the rights of both if asked for."""
    said, theirs = which.objects[key], other.objects.get(key)
    if both and theirs is not None:
        said = forms.with_rights_of_both(said, theirs)
    return forms.wanted(said, current, theirs if which.side is Side.UPSTREAM else None)


def _control_planes_matter(view: View) -> bool:
    """They are looked at before anything is changed, and when the coming provider leads."""
    if view.under_way:
        return view.leaving.stopped and bool(view.lease.holder) and view.lease.fresh
    reached = view.journal is not None and view.journal.done and view.journal.toward is view.goal
    return view.goal is Side.QUORATE and not reached


def _definitions(found: Mapping[Key, Object], coming: Installation, leaving: Installation) -> tuple[Definition, ...]:
    keys = sorted(key for key in {*coming.objects, *leaving.objects} if key.kind == DEFINITION.resource.kind)
    return tuple(
        Definition(
            name=key.name,
            coming=versions(coming.objects.get(key)),
            leaving=versions(leaving.objects.get(key)),
            stored=frozenset((found.get(key) or {}).get("status", {}).get("storedVersions") or ()),
        )
        for key in keys
    )


def _without_entry(installation: Installation) -> Installation:
    """clusterctl has not installed the other provider, and need not know of this one."""
    return Installation(installation.side, {key: item for key, item in installation.objects.items() if key.kind != ENTRY.resource.kind})
