"""Looking at every control plane as a provider would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from quorate.clusterapi.inspection import Finding, Inspector
from quorate.clusterapi.takeover.judgement import prospect, unreported
from quorate.core.takeover.state import ControlPlane, Side
from quorate.kubernetes.controller import Request

Look = Callable[[Inspector, Iterable[Request]], Awaitable[dict[Request, Finding]]]
"""A look at each of these that exist, once it is known whether its workload cluster answers."""


@dataclass(frozen=True, slots=True)
class Judges:
    """Judges all control planes that an inspector sees, by the manager's own decision. `now` is aware."""

    inspector: Inspector
    look: Look
    now: Callable[[], datetime]

    async def judge(self, coming: Side) -> tuple[ControlPlane, ...]:
        """Each control plane, with what the coming provider would do, and in what its status is not yet what that says. Upstream's judgement is its own: of
        it only the generation that it has observed is known.
        """
        found = await self.look(self.inspector, self.inspector.control_planes())
        return tuple(self._judged(found[request], coming) for request in sorted(found))

    def _judged(self, finding: Finding, coming: Side) -> ControlPlane:
        reported = coming is Side.UPSTREAM or finding.observation.view is None or self.inspector.is_reported(finding)
        return replace(prospect(finding, self.now()), unreported=unreported(finding.observation.kcp, reported=reported))
