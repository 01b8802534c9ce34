"""What was applied to which object, so that nothing is applied twice."""

from __future__ import annotations

from typing import Any

import msgspec

from quorate.kubernetes.objects import ObjectMeta


class Applied:
    """What was applied last to each object, by uid, so that it is applied again only when it changes.

    A label that is wanted no more has to be given up by applying the rest; the object alone would not tell that it once was ours. As a handler of the caches
    that hold these objects it forgets each as it leaves, and when somebody takes away or changes a label or an annotation of what was applied.
    """

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}  # empty: to be applied whatever the caches show, which may be older
        self._found: set[str] = set()  # those whose body an earlier process had applied
        self.looked_for: set[str] = set()  # Machines, by uid, whose KubeadmConfig the caches do not have: the API was asked for it

    def __len__(self) -> int:
        return len(self._bodies)

    def remember(self, uid: str, body: dict[str, Any], *, found: bool = False) -> None:
        """`body` was applied to the object; `found`: by an earlier process, as the caches show."""
        self._bodies[uid] = _essence(body)
        (self._found.add if found else self._found.discard)(uid)

    def is_current(self, uid: str, body: dict[str, Any]) -> bool:
        """Whether `body` is what was applied last."""
        return self._bodies.get(uid) == _essence(body)

    def knows(self, uid: str) -> bool:
        """Whether this process has applied something to the object, or found it applied, since it holds it."""
        return uid in self._bodies

    def forget(self, uid: str) -> None:
        """Somebody has changed what was applied."""
        if uid in self._bodies:
            self._bodies[uid] = b""

    def on_add(self, obj: Any, *, initial: bool) -> None:
        """Nothing was applied to it by this process, or it was remembered already."""

    def on_update(self, old: Any, new: Any) -> None:
        """Somebody may have undone what was applied, or applied something else since it was found."""
        before, after = old.metadata, new.metadata
        if not self._bodies.get(after.uid):
            return
        changed = (before.labels, before.annotations) != (after.labels, after.annotations)
        undone = changed and _lacks(after, msgspec.json.decode(self._bodies[after.uid])["metadata"])
        if undone or (after.uid in self._found and before.managed_fields != after.managed_fields):
            self.forget(after.uid)

    def on_delete(self, obj: Any, *, final_state_unknown: bool) -> None:  # noqa: ARG002 (the handler's signature)
        """The object is gone."""
        uid = obj.metadata.uid
        self._bodies.pop(uid, None)
        self._found.discard(uid)
        self.looked_for.discard(uid)


def _lacks(metadata: ObjectMeta, applied: dict[str, Any]) -> bool:
    labels, annotations = applied.get("labels") or {}, applied.get("annotations") or {}
    return not (labels.items() <= metadata.labels.items() and annotations.items() <= metadata.annotations.items())


def _essence(body: dict[str, Any]) -> bytes:
    metadata = {key: value for key, value in body["metadata"].items() if key != "uid"}
    return msgspec.json.encode({**body, "metadata": metadata}, order="sorted")
