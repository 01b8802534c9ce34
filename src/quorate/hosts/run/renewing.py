"""The decision of a run that only renews certificates: the same rules, but other steps that they want are for `quorate apply`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from quorate.core.checks import failed
from quorate.core.hosts.decide import Decision, decide
from quorate.core.hosts.forecast import Forecast, forecast
from quorate.core.hosts.state import Cluster
from quorate.core.hosts.steps import RenewCertificates

FIRST = "nothing else comes first"


def decide_renewal(cluster: Cluster, now: datetime) -> Decision:
    """The decision where it is to renew a host's certificates. Another step that comes before one is refused by name; one that comes after is not wanted."""
    decision = decide(cluster, now)
    if decision.step is None or isinstance(decision.step, RenewCertificates):
        return decision
    if not any(isinstance(each.step, RenewCertificates) for each in forecast(cluster, now).steps):
        return Decision("left to `quorate apply`", None, tuple(check for check in decision.checks if check.passed), None)
    refused = failed(
        FIRST, f"next: {decision.step}", "Run `quorate apply` first; it renews certificates too, where they are about to expire."
    )
    return replace(decision, step=None, checks=(*decision.checks, refused))


def only_renewal(foreseen: Forecast) -> Forecast:
    """Of a plan, what this run is for: the renewals, if nothing comes before them."""
    steps = foreseen.steps
    before = next((number for number, each in enumerate(steps) if not isinstance(each.step, RenewCertificates)), len(steps))
    return replace(foreseen, steps=steps[:before])
