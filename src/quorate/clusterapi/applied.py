"""What was applied to which object, so that nothing is applied twice."""

from __future__ import annotations

from typing import Any

import msgspec

from quorate.kubernetes.metadata import metadata_of


class Applied:
    """What was applied last to each object, by uid, so that it is applied again only when it changes, and once after a start.

    A label that is wanted no more has to be given up by applying the rest; the object alone would not tell that it once was ours. As a handler of the caches
    that hold these objects it forgets each as it leaves.
    """

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._bodies)

    def remember(self, uid: str, body: dict[str, Any]) -> None:
        """`body` was applied to the object."""
        self._bodies[uid] = _essence(body)

    def is_current(self, uid: str, body: dict[str, Any]) -> bool:
        """Whether `body` is what was applied last."""
        return self._bodies.get(uid) == _essence(body)

    def forget(self, uid: str) -> None:
        """The object is gone, or somebody has changed what was applied."""
        self._bodies.pop(uid, None)

    def on_add(self, obj: Any, *, initial: bool) -> None:
        """Nothing was applied to it by this process, or it was remembered already."""

    def on_update(self, old: Any, new: Any) -> None:
        """What was applied stays applied."""

    def on_delete(self, obj: Any, *, final_state_unknown: bool) -> None:  # noqa: ARG002 (the handler's signature)
        """The object is gone."""
        self.forget(metadata_of(obj).uid)


def _essence(body: dict[str, Any]) -> bytes:
    metadata = {key: value for key, value in body["metadata"].items() if key != "uid"}
    return msgspec.json.encode({**body, "metadata": metadata}, order="sorted")
