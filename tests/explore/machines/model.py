"""The first way of working, explored: from control planes that are well, every interleaving of quorate's passes, their deaths, and what else happens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from quorate.core.checks import Check
from tests.explore.machines.moves import FAULTS, ORDINARY, another_provider_founds_the_cluster, as_core_reports
from tests.explore.machines.process import Pass, late_pass, one_pass
from tests.explore.machines.promises import broken, converged
from tests.explore.machines.starts import start
from tests.explore.machines.state import State
from tests.explore.machines.waits import WAITS
from tests.explore.search import Judged, Next, Way


@dataclass(frozen=True, slots=True)
class Machines:
    """A control plane of this size that is well, with a backup of its management objects of another size. Size 0: nothing was made yet."""

    name: str
    size: int
    backup_of: int | None

    def starts(self) -> Iterator[tuple[str, State]]:
        """The one."""
        yield self.name, start(self.size, backup_of=self.backup_of)

    def judge(self, state: State, *, may_fail: bool) -> Judged[State]:
        """One pass, cut off after each of its writes, and every other move."""
        judged = Judged[State](converged=converged(state))
        done = one_pass(state)
        if done is not None:
            judged.broken = broken(state, done)
            # Whatever was decided: a step may be of what is not modelled, such as CoreDNS, and changes nothing here.
            judged.idle = all(after.identity == state.identity for _, after in done.after)
            judged.said = tuple(dict.fromkeys(check.name for check in done.decision.refusals))
            judged.nexts += _of_pass(done, "quorate")
        if done is not None and judged.idle:
            self._waits(state, done.decision.refusals, judged)
        for moves in ORDINARY:
            judged.nexts += [Next(label, as_core_reports(new)) for label, new in moves(state)]
        if state.stopped is not None:
            self._goes_on(state, state.stopped, judged)
        if may_fail:
            decided = str(done.decision.step or "") if done is not None else ""
            self._goes_wrong(state, decided, judged)
        return judged

    @staticmethod
    def _waits(state: State, refusals: Iterable[Check], judged: Judged[State]) -> None:
        """Whether what is said is so, and that somebody does what is asked for. Nothing else goes wrong after that, or there would be far more states."""
        judged.untrue = tuple(name for name in judged.said if name not in WAITS or not WAITS[name].is_so(state))
        for check in refusals:
            for words, moves in WAITS[check.name].remedies.items() if check.name in WAITS else ():
                if words in check.remedy:
                    judged.nexts += [Next(label, as_core_reports(new), Way.ASKED_AT_LAST) for label, new in moves(state)]

    @staticmethod
    def _goes_on(state: State, seen: State, judged: Judged[State]) -> None:
        """A process that was stopped goes on, and somebody else has the Lease since."""
        now = replace(state, stopped=None)
        if (late := late_pass(seen, now, leads=False)) is not None:
            judged.broken += broken(now, late)
            judged.nexts += _of_pass(late, "the process that was stopped")

    @staticmethod
    def _goes_wrong(state: State, decided: str, judged: Judged[State]) -> None:
        """Each fault: now, and, where something was decided, before that is done."""
        if decided and state.stopped is None:
            stopped = replace(state, stopped=state)
            judged.nexts.append(Next(f"quorate decides to {decided}, and is stopped: another process takes over", stopped, Way.FAULT))
        for moves in FAULTS:
            for label, moved in moves(state):
                new = as_core_reports(moved)
                judged.nexts.append(Next(label, new, Way.FAULT))
                if decided and (late := late_pass(state, new, leads=moves is not another_provider_founds_the_cluster)) is not None:
                    judged.broken += [f"{how} (decided before {label})" for how in broken(new, late)]
                    judged.nexts += [
                        replace(each, way=Way.FAULT) for each in _of_pass(late, f"{label}, and then quorate, which has decided before,")
                    ]


def _of_pass(done: Pass, who: str) -> Iterator[Next[State]]:
    what = str(done.decision.step or "keep what is there up to date")
    for written, state in done.after[:-1]:
        yield Next(f"{who} begins to {what}, and dies after: {written}", as_core_reports(state), Way.DEATH)
    for _, state in done.after[-1:]:
        yield Next(f"{who}: {what}" + (f" (then refused: {done.refused})" if done.refused else ""), as_core_reports(state))
