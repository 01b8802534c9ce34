"""How KubeadmConfigs differ from what their control plane wants, worked out once for every pair of contents and not in every pass.

One comparison takes 150 us, a control plane of three is looked at several times a second while it changes, and the contents hardly ever do.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.versions import Version
from quorate.kubeadm.compare import Compare, Difference, differences
from quorate.kubeadm.config import Spec
from quorate.kubeadm.known_fields import KnownFields
from quorate.kubernetes.controller import Request


@dataclass(frozen=True, slots=True)
class _Compared:
    desired: Spec
    current: Spec
    version: Version
    fields: KnownFields
    found: tuple[Difference, ...]


class Comparisons:
    """What was found in the last pass over each control plane: at most as many entries as it has Machines."""

    def __init__(self) -> None:
        self._last: dict[Request, list[_Compared]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._last.values()))

    def begin(self, request: Request, fields: KnownFields) -> Compare:
        """`differences` for one pass over a control plane, in these fields; what the pass does not ask for again is forgotten.

        It goes by the contents, not by resource versions: an answer that decides a rollout must not depend on who counts what.
        """
        before: list[_Compared] = self._last.get(request, [])
        now: list[_Compared] = []
        self._last[request] = now

        def compare(desired: Spec, current: Spec, version: Version) -> tuple[Difference, ...]:
            asked = (current, version, desired)
            known = (*now, *before)
            same = (entry for entry in known if entry.fields is fields and (entry.current, entry.version, entry.desired) == asked)
            entry = next(same, None) or _Compared(desired, current, version, fields, differences(desired, current, version, fields))
            if all(entry is not other for other in now):
                now.append(entry)
            return entry.found

        return compare

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._last.pop(request, None)
