"""The one next step for a control plane, and why.

Each rule of the table gives its opinion, a pure function of what was observed and the time: a step it wants, the checks behind it, the kinds of step that
must not happen meanwhile, and when time alone would change its mind. `decide` takes them in order: the first step that no earlier opinion bars wins.
A rule that refuses therefore stops what would be unsafe beside it, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quorate.core.checks import Check
from quorate.core.control_plane import ControlPlane
from quorate.core.opinion import Rule
from quorate.core.rules import adopt, certificates, delete, guard, initialize, remediate, remove, rollout, scale, strays, upkeep
from quorate.core.steps import EVERYTHING, Step


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next, which rule said so, and everything that was asked on the way."""

    rule: str
    step: Step | None
    checks: tuple[Check, ...]  # of every rule that spoke up to this one, so that a stall always has its reason
    wake_at: datetime | None  # when time alone could change the answer

    @property
    def refusals(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)


RULES: tuple[tuple[str, Rule], ...] = (
    ("keep the finalizer", guard.keep_the_finalizer),
    ("respect a pause", guard.respect_a_pause),
    ("take the control plane down", delete.take_down),
    ("refuse what is invalid", guard.refuse_what_is_invalid),
    ("adopt stand-alone machines", adopt.adopt_stand_alone_machines),
    ("leave others' machines alone", guard.leave_others_machines_alone),
    ("wait for infrastructure", guard.wait_for_infrastructure),
    ("provide certificates", certificates.provide_certificates),
    ("wait for the endpoint", guard.wait_for_the_endpoint),
    ("provide the kubeconfig", certificates.provide_the_kubeconfig),
    ("wait for the workload cluster", guard.wait_for_the_workload_cluster),
    ("members agree", strays.members_agree),
    ("remove strays", strays.remove_strays),
    ("release the leaving", remove.release_the_leaving),
    ("take back an abandoned creation", scale.take_back_an_abandoned_creation),
    ("keep the records", remediate.keep_the_records),
    ("remediate", remediate.remediate),
    ("prepare the workload", upkeep.prepare_the_workload),
    ("replace the outdated", rollout.replace_the_outdated),
    ("initialize", initialize.initialize),
    ("scale up", scale.scale_up),
    ("scale down", scale.scale_down),
    ("update add-ons", upkeep.update_addons),
    ("record expiries", upkeep.record_expiries),
)
"""In order. The documentation's table is made from this one."""


def decide(control_plane: ControlPlane, now: datetime) -> Decision:
    """The decision for what was observed at `now`. Pure and total."""
    barred: frozenset[type[Step]] = frozenset()
    checks: tuple[Check, ...] = ()
    wake: list[datetime] = []
    for name, rule in RULES:
        opinion = rule(control_plane, now)
        checks += opinion.checks
        wake += [opinion.wake_at] if opinion.wake_at else []
        if opinion.step is not None and type(opinion.step) not in barred:
            return Decision(name, opinion.step, checks, min(wake, default=None))
        barred |= opinion.bars
        if barred >= EVERYTHING:  # nothing later could win, and its refusals would only hide this one
            return Decision(name, None, checks, min(wake, default=None))
    return Decision("nothing to do", None, checks, min(wake, default=None))
