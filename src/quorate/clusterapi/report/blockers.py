"""What a decision without a step waits for, as the lines that several conditions give their reasons in."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quorate.clusterapi.report.facts import Facts
from quorate.core.checks import Check
from quorate.core.machines import checks
from quorate.core.machines.rules.certificates import KUBECONFIG
from quorate.core.machines.rules.maintenance import ADDONS, COREDNS, EXPIRIES
from quorate.core.machines.rules.orphans import AGED, HAS_NO_OWNER, IS_OF_NO_NEWCOMER, RING_IS_READ

_ELSEWHERE = frozenset({KUBECONFIG, ADDONS, COREDNS, EXPIRIES, AGED, HAS_NO_OWNER, IS_OF_NO_NEWCOMER, RING_IS_READ})
"""Checks that hold up something else than a change of the number of Machines; other conditions tell of them."""

_ORDER = (checks.TOPOLOGY, checks.NOBODY_LEAVES, checks.CERTIFICATES, checks.COMPONENTS_HEALTHY, checks.MEMBERS_HEALTHY)
"""Upstream's order of what holds up a change of the number of Machines; everything else follows in the order of the rules."""


def blockers(facts: Facts, *, not_counting: Collection[str] = ()) -> list[str]:
    """What the decision waits for, one bullet each; nothing while there is a step to take. `not_counting` names checks that hold up something else."""
    if facts.decision.step is not None:
        return []
    ignored = _ELSEWHERE.union(not_counting)
    # A refused remediation stands in the Machine's own condition; the rule puts the Machine's name before the evidence.
    remediations = {f"{verdict.replica}: {verdict.refusal.evidence}" for verdict in facts.remediations if verdict.refusal}
    refusals = [check for check in facts.decision.refusals if check.name not in ignored and check.evidence not in remediations]
    counting = sorted(refusals, key=_rank)
    return list(dict.fromkeys(f"* {check.evidence}" for check in counting))


def sentence(check: Check) -> str:
    """A refusal with what somebody can do about it."""
    return ". ".join(filter(None, [check.evidence, check.remedy]))


def first_refusal(facts: Facts) -> str:
    """The refusal that a reader should see first: one that somebody must act on, or else the first; empty where nothing is refused."""
    ordered = sorted(facts.decision.refusals, key=lambda check: not check.remedy)
    return ordered[0].evidence if ordered else ""


def because(what: str, lines: Sequence[str], would: str = "is") -> str:
    """A headline with what blocks it; the headline alone where nothing does."""
    return "\n".join([f"{what} {would} blocked because:", *lines]) if lines else what


def _rank(check: Check) -> int:
    return _ORDER.index(check.name) if check.name in _ORDER else len(_ORDER)
