"""How KubeadmConfigs differ from what their control plane wants, worked out once for every pair of contents and not in every pass.

One comparison takes 150 us, a control plane of three is looked at several times a second while it changes, and the contents hardly ever do.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.versions import Version
from quorate.kubeadm.compare import Difference, differences
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


class Comparing:
    """`differences` for one pass over a control plane, in these fields. It goes by the contents, not by resource versions: an answer that decides a rollout
    must not depend on who counts what.
    """

    def __init__(self, fields: KnownFields, before: list[_Compared]) -> None:
        self._fields, self._before = fields, before
        self.made: list[_Compared] = []
        self.news = False
        """Whether something differs, in a known field, that did not in the pass before."""

    def __call__(self, desired: Spec, current: Spec, version: Version) -> tuple[Difference, ...]:
        """How `current` differs."""
        asked, known = (current, version, desired), (*self.made, *self._before)
        same = (entry for entry in known if entry.fields is self._fields and (entry.current, entry.version, entry.desired) == asked)
        entry = next(same, None) or self._compared(desired, current, version)
        if all(entry is not other for other in self.made):
            self.made.append(entry)
        return entry.found

    def _compared(self, desired: Spec, current: Spec, version: Version) -> _Compared:
        found = differences(desired, current, version, self._fields)
        self.news = self.news or any(difference.known for difference in found)
        return _Compared(desired, current, version, self._fields, found)


class Comparisons:
    """What was found in the last pass over each control plane: at most as many entries as it has Machines."""

    def __init__(self) -> None:
        self._last: dict[Request, list[_Compared]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._last.values()))

    def begin(self, request: Request, fields: KnownFields) -> Comparing:
        """For one pass over a control plane; what the pass does not ask for again is forgotten."""
        comparing = Comparing(fields, self._last.get(request, []))
        self._last[request] = comparing.made
        return comparing

    def forget(self, request: Request) -> None:
        """The control plane is gone."""
        self._last.pop(request, None)
