"""One API server's storage and rules: one counter of resource versions, conflicts, preconditions, finalizers, the status subresource and field managers.

Everything here is synchronous: a write takes effect at one instant, and whoever subscribed is told of it before the call returns. Latency, loss and lag belong
to the way there (`quorate.simulation.engine.transport`, `quorate.simulation.engine.watching`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import Any

from quorate.simulation.engine.fields import Path, from_fields_v1, merged, owned_by_body, removed, to_fields_v1, values
from quorate.simulation.engine.moved import moved
from quorate.simulation.engine.objects import Json, Key, Kind, Stored
from quorate.simulation.engine.patches import PatchFailed, json_patch, merge_patch

_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class Failure(Exception):
    """An answer that is an error, as a Status tells it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


@dataclass(frozen=True, slots=True)
class Change:
    """One write that took effect: `before` is None where it made an object, `after` where the object went. `who` wrote it."""

    kind: Kind
    before: Stored | None
    after: Stored | None
    version: int
    who: str

    @property
    def object(self) -> Stored:
        """The object as it is, or as it was last."""
        found = self.after or self.before
        if found is None:
            raise AssertionError("a change of nothing")
        return found


class ApiServer:
    """An API server that knows `kinds`. `now` is its clock, `random` makes uids; `admit` may raise a Failure for an object about to be stored."""

    def __init__(self, kinds: Sequence[Kind], now: Callable[[], datetime], random: Random) -> None:
        self._now, self._random = now, random
        self._kinds = {(kind.group, kind.plural): kind for kind in kinds}
        self._objects: dict[Kind, dict[Key, Stored]] = {kind: {} for kind in kinds}
        self._by_uid: dict[str, Stored] = {}
        self._history: dict[Kind, list[Change]] = defaultdict(list)
        self._compacted: dict[Kind, int] = defaultdict(int)
        self._subscribers: list[Callable[[Change], None]] = []
        self.version = 1

    # Reading.

    def kind(self, group: str, plural: str) -> Kind | None:
        """The kind of this group and plural."""
        return self._kinds.get((group, plural))

    def find(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """The object, or None."""
        return self._objects[kind].get((namespace, name))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        """The object. Raises a Failure where there is none."""
        found = self._objects[kind].get((namespace, name))
        if found is None:
            raise Failure(404, "NotFound", f'{kind.plural} "{name}" not found')
        return found

    def objects(self, kind: Kind, namespace: str = "") -> list[Stored]:
        """All objects of a namespace ("" for all), by namespace and name."""
        found = self._objects[kind]
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def by_uid(self, uid: str) -> Stored | None:
        """The object with this uid, or None."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Stored]:
        """Objects that name this uid as an owner."""
        return [stored for objects in self._objects.values() for stored in objects.values() if stored.owned_by(uid)]

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        """Call `callback` with every change from now on, at the instant of it."""
        self._subscribers.append(callback)

    def unsubscribe(self, callback: Callable[[Change], None]) -> None:
        """Stop calling it."""
        self._subscribers.remove(callback)

    def since(self, kind: Kind, version: int) -> list[Change]:
        """The changes of a kind after a version. Raises a Failure (410) where they are not all kept any more."""
        if version < self._compacted[kind]:
            raise Failure(410, "Expired", f"too old resource version: {version} ({self._compacted[kind]})")
        history = self._history[kind]
        return history[bisect_right(history, version, key=lambda change: change.version) :]

    def compact(self) -> None:
        """Forget the history: watches that begin at an older version get 410."""
        for kind in self._kinds.values():
            self._history[kind].clear()
            self._compacted[kind] = self.version

    # Writing.

    def create(self, kind: Kind, body: Json, *, who: str, manager: str = "", dry_run: bool = False) -> Stored:
        """Create an object; status and identity are the server's to set. `dry_run`: only say what it would be."""
        metadata = {name: value for name, value in body["metadata"].items() if name not in (*_KEPT, "resourceVersion", "managedFields")}
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if (namespace, name) in self._objects[kind]:
            raise Failure(409, "AlreadyExists", f'{kind.plural} "{name}" already exists')
        metadata |= {"uid": self._new_uid(), "creationTimestamp": timestamp(self._now()), "generation": 1}
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}
        if kind.has_status:
            obj.pop("status", None)
        if dry_run:
            return Stored(kind, obj, self.version)
        return self._commit(kind, None, obj, {manager or who: frozenset(values(obj))}, who)

    def replace(self, kind: Kind, body: Json, *, who: str, manager: str = "", dry_run: bool = False) -> Stored:
        """Give an object this form, its status apart. `dry_run`: only say what it would be."""
        current = self.get(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        self._check_identity(current, body["metadata"])
        if dry_run:
            return Stored(kind, self._protected(current, body), current.version)
        return self._update(current, body, "", manager or who, who)

    def merge_patch(
        self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any], *, who: str, subresource: str = "", manager: str = ""
    ) -> Stored:
        """Merge a patch into an object, or into its status."""
        current = self.get(kind, namespace, name)
        self._check_identity(current, patch.get("metadata") or {})
        return self._update(current, merge_patch(current.obj, patch), subresource, manager or who, who)

    def json_patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Sequence[Mapping[str, Any]],
        *,
        who: str,
        subresource: str = "",
        manager: str = "",
    ) -> Stored:
        """Apply a JSON patch; it sees managedFields and may change them."""
        current = self.get(kind, namespace, name)
        try:
            new = json_patch(self.with_managed_fields(current), patch)
        except PatchFailed as error:
            raise Failure(422, "Invalid", str(error)) from error
        self._check_identity(current, {"resourceVersion": new["metadata"].get("resourceVersion", "")})
        entries = new["metadata"].pop("managedFields", [])
        owners = None
        if any(operation["path"].startswith("/metadata/managedFields") for operation in patch):
            owners = {entry["manager"]: from_fields_v1(entry.get("fieldsV1") or {}) for entry in entries if entry.get("manager")}
        return self._update(current, new, subresource, manager or who, who, owners=owners)

    def apply(self, kind: Kind, body: Json, *, who: str, manager: str, force: bool, subresource: str = "", dry_run: bool = False) -> Stored:
        """Server-side apply; creates the object where there is none and no uid is asked for. `dry_run`, of one that exists: as it would be."""
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        current = self.find(kind, namespace, name)
        wanted = owned_by_body(body)
        if current is None:
            if body["metadata"].get("uid"):
                raise Failure(409, "Conflict", f"uid mismatch: {name} does not exist")
            return self.create(kind, body, who=who, manager=manager)
        self._check_identity(current, body["metadata"])
        if not force:
            self._check_owners(current, body, manager)
        others = frozenset(path for owner, paths in current.owners.items() if owner != manager for path in paths)
        given_up = current.owners.get(manager, frozenset()) - wanted - others
        essence = {key: value for key, value in body.items() if key != "metadata"}
        essence["metadata"] = {
            key: value for key, value in body["metadata"].items() if key in ("labels", "annotations", "ownerReferences", "finalizers")
        }
        new = removed(merged(current.obj, essence), given_up)
        owners = {**current.owners, manager: wanted}
        if dry_run:
            return replace(current, obj=self._protected(current, new), _data=b"")
        return self._update(current, new, subresource, manager, who, owners=owners)

    def delete(self, kind: Kind, namespace: str, name: str, *, who: str, uid: str = "", resource_version: str = "") -> Stored | None:
        """Delete an object. Returns it where finalizers hold it, None where it is gone."""
        current = self.get(kind, namespace, name)
        self._check_identity(current, {"uid": uid, "resourceVersion": resource_version})
        if not current.metadata.get("finalizers"):
            self._remove(current, who)
            return None
        if current.deleting:
            return current
        metadata = current.metadata | {"deletionTimestamp": timestamp(self._now()), "deletionGracePeriodSeconds": 0}
        metadata["generation"] = metadata["generation"] + 1
        return self._commit(kind, current, {**current.obj, "metadata": metadata}, current.owners, who)

    def backup(self, kinds: Sequence[Kind]) -> tuple[Stored, ...]:
        """Everything of these kinds as it is now."""
        return tuple(stored for kind in kinds for stored in self.objects(kind))

    def restore(self, backup: Sequence[Stored], kinds: Sequence[Kind], *, who: str) -> None:
        """Have of these kinds what a backup has, uids, status and all; what came since is gone, without a finalizer being asked. Versions go on."""
        for stored in self.backup(kinds):
            if stored.uid not in {kept.uid for kept in backup}:
                self._remove(stored, who)
        for stored in backup:
            if (now := self.find(stored.kind, *stored.key)) is None or now.version != stored.version:
                self._commit(stored.kind, now, stored.obj, stored.owners, who)

    def recreate(self, kinds: Sequence[Kind], *, who: str) -> None:
        """Make everything of these kinds anew, as `clusterctl move` does: under other uids and without status (`quorate.simulation.engine.moved`)."""
        everything = self.backup(kinds)
        uids = {stored.uid: self._new_uid() for stored in everything}
        for stored in everything:
            self._remove(stored, who)
        for stored in everything:
            obj = moved(stored.obj, uids)
            metadata = obj["metadata"] | {"creationTimestamp": timestamp(self._now()), "generation": 1}
            self._commit(stored.kind, None, {**obj, "metadata": metadata}, {who: frozenset(values(obj))}, who)

    def with_managed_fields(self, stored: Stored) -> Json:
        """The object as a GET of it alone answers: with managedFields."""
        entries = [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": stored.kind.api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": to_fields_v1(paths),
            }
            | ({"operation": "Apply"} if manager.startswith("capi-") else {})
            for manager, paths in sorted(stored.owners.items())
            if paths
        ]
        return {**stored.obj, "metadata": {**stored.metadata, "managedFields": entries}}

    def _update(
        self, current: Stored, new: Json, subresource: str, manager: str, who: str, *, owners: Mapping[str, frozenset[Path]] | None = None
    ) -> Stored:
        kind = current.kind
        new = {**current.obj, "status": new.get("status", {})} if subresource == "status" else self._protected(current, new)
        if _same(current, new) and (owners is None or owners == current.owners):
            return current
        if subresource != "status":
            if owners is None:
                owners = _owners_after_update(current, new, manager)
            if _essence(current.obj) != _essence(new):
                new["metadata"]["generation"] = current.metadata["generation"] + 1
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            return self._remove(replace(current, obj=new, _data=b""), who)
        return self._commit(kind, current, new, owners if owners is not None else current.owners, who)

    def _protected(self, current: Stored, new: Json) -> Json:
        """The new object with what no update may change as it was."""
        metadata = {name: value for name, value in new["metadata"].items() if name not in ("resourceVersion", "managedFields")}
        metadata |= {name: current.metadata[name] for name in (*_KEPT, "name", "namespace") if name in current.metadata}
        added = set(metadata.get("finalizers") or ()) - set(current.metadata.get("finalizers") or ())
        if current.deleting and added:
            raise Failure(422, "Invalid", f"no new finalizers can be added to {current.name}, which is being deleted: {sorted(added)}")
        result = {**new, "apiVersion": current.obj["apiVersion"], "kind": current.obj["kind"], "metadata": metadata}
        if current.kind.has_status:
            result.pop("status", None)
            if "status" in current.obj:
                result["status"] = current.obj["status"]
        return result

    def _commit(self, kind: Kind, before: Stored | None, obj: Json, owners: Mapping[str, frozenset[Path]], who: str) -> Stored:
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        stored = Stored(kind, {**obj, "metadata": metadata}, self.version, owners)
        self._objects[kind][stored.key] = stored
        self._by_uid[stored.uid] = stored
        self._tell(Change(kind, before, stored, self.version, who))
        return stored

    def _remove(self, current: Stored, who: str) -> Stored:
        self.version += 1
        last = Stored(current.kind, {**current.obj, "metadata": {**current.metadata, "resourceVersion": str(self.version)}}, self.version)
        del self._objects[current.kind][current.key]
        del self._by_uid[current.uid]
        self._tell(Change(current.kind, last, None, self.version, who))
        return last

    def _tell(self, change: Change) -> None:
        self._history[change.kind].append(change)
        for callback in tuple(self._subscribers):
            callback(change)

    def _new_uid(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    @staticmethod
    def _check_identity(current: Stored, asked: Mapping[str, Any]) -> None:
        version, uid = asked.get("resourceVersion") or "", asked.get("uid") or ""
        if version not in ("", str(current.version)):
            raise Failure(409, "Conflict", f"{current.kind.plural} {current.name}: the object has been modified")
        if uid not in ("", current.uid):
            raise Failure(409, "Conflict", f"{current.kind.plural} {current.name}: the uid in the precondition is {uid}, not {current.uid}")

    @staticmethod
    def _check_owners(current: Stored, body: Json, manager: str) -> None:
        now, wanted = values(current.obj), values(body)
        for owner, paths in current.owners.items():
            for path in paths if owner != manager else ():
                if path in wanted and now.get(path) != wanted[path]:
                    raise Failure(409, "Conflict", f"{'.'.join(path)} of {current.name} is owned by {owner}")


def timestamp(moment: datetime) -> str:
    """As metav1.Time writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _same(current: Stored, new: Json) -> bool:
    metadata = {**new["metadata"], "resourceVersion": current.metadata["resourceVersion"]}
    return current.obj == {**new, "metadata": metadata}


def _essence(obj: Json) -> Json:
    """What the generation counts changes of."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def _owners_after_update(current: Stored, new: Json, manager: str) -> dict[str, frozenset[Path]]:
    """Whoever changes a field by a plain write owns it alone from then on."""
    before, after = values(current.obj), values(new)
    gone = frozenset(path for path in before if path not in after)
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    owners = {owner: paths - gone - changed for owner, paths in current.owners.items()}
    owners[manager] = owners.get(manager, frozenset()) | changed
    return owners
