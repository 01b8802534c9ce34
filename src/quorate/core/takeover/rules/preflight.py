"""What has to hold before anything is changed: the two providers fit, nobody else manages the one that leaves, no control plane is in for a surprise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.proposal import NOTHING, Proposal, blocking, wanting
from quorate.core.takeover.state import ControlPlane, Prospect, Provider, Side, View
from quorate.core.takeover.steps import EVERYTHING, Begin, Step, Turn

THERE = "the provider that leaves is installed"
RELEASE = "the release of Cluster API is one that both know"
NAMES = "clusterctl can tell the two providers apart"
GATES = "the feature gates agree"
SCOPE = "both look after the same control planes"
ELECTION = "both elect their leader by one Lease"
VERSIONS = "every version of the API stays readable"
KINDS = "every kind of the installation is served"
OWNERS = "nobody applies the leaving provider's objects again"

SUPPORTED = ("v1.13", "v1.14")
"""The minor releases of Cluster API's core provider that quorate works with."""
_MINOR = re.compile(r"v[0-9]+\.[0-9]+")
CONCERNED = frozenset({"MachinePool", "ClusterTopology", "KubeadmBootstrapFormatIgnition", "InPlaceUpdates", "MachineTaintPropagation"})
"""Gates that change what a control plane, or its object, may be."""


def refuse_what_does_not_fit(view: View, _now: datetime) -> Proposal[Step]:
    """Versions, gates, flags, definitions and owners are asked before anything is changed; once something is, the way back stays open whatever they say."""
    if view.under_way or _reached(view):
        return NOTHING
    return blocking(
        EVERYTHING,
        _there(view),
        _release(view),
        _names(view),
        _gates(view),
        _scope(view.coming, view.leaving),
        _election(view.coming, view.leaving),
        *_versions(view),
        *_kinds(view),
        *_owners(view),
    )


def judge_the_control_planes(view: View, _now: datetime) -> Proposal[Step]:
    """A control plane at rest stays as it is, and one in motion goes on; whatever else would come is refused, unless the operator vouches for it."""
    if view.under_way or _reached(view) or view.goal is Side.UPSTREAM:
        return NOTHING
    if view.control_planes is None:
        return blocking(EVERYTHING, unknown("the control planes are judged", "nobody has looked at them"))
    return blocking(EVERYTHING, *(_prospect(each, view) for each in view.control_planes))


def begin(view: View, _now: datetime) -> Proposal[Step]:
    """Nothing is changed before both installations are written down in the management cluster."""
    if view.journal is not None:
        return NOTHING
    return wanting(Begin())


def follow_the_command(view: View, _now: datetime) -> Proposal[Step]:
    """The direction is the command's, unless everything is just being put back for a reason: that ends first."""
    journal = view.journal
    if journal is None or journal.toward is view.goal or (journal.returning and not journal.done):
        return NOTHING
    return wanting(Turn(view.goal))


def _reached(view: View) -> bool:
    return view.journal is not None and view.journal.done and view.journal.toward is view.goal


def _there(view: View) -> Check:
    leaving = view.leaving
    if leaving.exists and leaving.desired:
        return passed(THERE, f"{leaving.deployment} of {leaving.version or 'an unknown version'} wants {leaving.desired} Pods")
    state = "wants no Pods" if leaving.exists else "is not there"
    remedy = "Start it: what nobody runs cannot be taken over while it runs. Where it is meant to be off, install the other one with clusterctl or kubectl."
    return failed(THERE, f"{leaving.deployment} {state}", remedy)


def _release(view: View) -> Check:
    known = {name: found for name, found in (("core", view.core_version), ("upstream's provider", _upstream(view).version)) if found}
    if not known:
        remedy = "Name Cluster API's release with --core-version; see the images of its Deployments."
        return unknown(RELEASE, "neither clusterctl's inventory nor the provider's image says", remedy)
    evidence = ", ".join(f"{name} {found}" for name, found in known.items())
    if view.coming.side is Side.UPSTREAM and len({_minor(found) for found in known.values()}) > 1:
        return failed(
            RELEASE,
            f"{evidence}: what was saved is of another release",
            "Give upstream's manifests of the core's release with --components.",
        )
    if all(_minor(found) in SUPPORTED for found in known.values()):
        return passed(RELEASE, evidence)
    return failed(RELEASE, f"{evidence}; quorate knows {', '.join(SUPPORTED)}", "Bring Cluster API to one of these releases first.")


def _upstream(view: View) -> Provider:
    return view.leaving if view.leaving.side is Side.UPSTREAM else view.coming


def _minor(version: str) -> str:
    found = _MINOR.match(version)
    return found.group() if found else ""


def _names(view: View) -> Check:
    coming, leaving = view.coming, view.leaving
    if coming.label != leaving.label and coming.deployment != leaving.deployment:
        return passed(NAMES, f"{leaving.label} and {coming.label}")
    remedy = (
        "Take the components of quorate's own name: under upstream's, `clusterctl upgrade` would bring upstream's back for a newer release."
    )
    return failed(NAMES, f"both are {coming.label}, with {coming.deployment}", remedy)


def _gates(view: View) -> Check:
    coming, leaving = view.coming.gates & CONCERNED, view.leaving.gates & CONCERNED
    if coming == leaving:
        return passed(GATES, ", ".join(sorted(coming)) or "all are off")
    on = [f"{gate} is on for {each.side} alone" for each in (view.coming, view.leaving) for gate in sorted(each.gates & (coming ^ leaving))]
    return failed(GATES, "; ".join(on), f"Set --feature-gates of {view.coming.deployment} as {view.leaving.side} has them.")


def _scope(coming: Provider, leaving: Provider) -> Check:
    ours, theirs = (coming.watches, coming.filters), (leaving.watches, leaving.filters)
    if ours == theirs:
        return passed(SCOPE, f"namespace {coming.watches or 'any'}, label {coming.filters or 'any'}")
    evidence = "; ".join(f"{each.side}: --namespace={each.watches} --watch-filter={each.filters}" for each in (leaving, coming))
    return failed(SCOPE, evidence, f"Set --namespace and --watch-filter of {coming.deployment} as {leaving.side} has them.")


def _election(coming: Provider, leaving: Provider) -> Check:
    if coming.lease and coming.lease == leaving.lease:
        return passed(ELECTION, coming.lease)
    evidence = "; ".join(f"{each.side}: {each.lease or 'it does not elect'}" for each in (leaving, coming))
    return failed(ELECTION, evidence, "Give both --leader-elect, the same namespace and the same --leader-elect-resource-name.")


def _versions(view: View) -> Iterator[Check]:
    for each in view.definitions:
        lost = (each.leaving | each.stored) - each.coming
        if lost:
            evidence = f"{each.name}: {', '.join(sorted(lost))} would not be served any more"
            yield failed(VERSIONS, evidence, f"Take components of {view.coming.side} that serve it, or migrate whoever uses it first.")
        else:
            yield passed(VERSIONS, f"{each.name}: {', '.join(sorted(each.coming))}; stored {', '.join(sorted(each.stored))}")


def _kinds(view: View) -> Iterator[Check]:
    for kind in view.unserved:
        remedy = "Install what defines it, as cert-manager does its kinds, or take the components that do without."
        yield failed(KINDS, f"{kind} is not served", remedy)


def _owners(view: View) -> Iterator[Check]:
    for name, mark in view.owners:
        if view.owners_told:
            yield passed(OWNERS, f"{name}: {mark}; told, as the operator says")
            continue
        remedy = "Take it out of there, or suspend that, or it brings the provider back; then say so with --owners-told."
        yield failed(OWNERS, f"{name}: {mark}", remedy)


def _prospect(control_plane: ControlPlane, view: View) -> Check:
    name, evidence = f"{control_plane.name} goes on as it is", f"{control_plane.prospect.value}: {control_plane.evidence}"
    if control_plane.prospect in (Prospect.AT_REST, Prospect.IN_MOTION):
        return passed(name, evidence)
    if control_plane.name in view.accepted:
        return passed(name, f"{evidence}; accepted")
    remedy = f"Look at it with `quorate explain`. To go on all the same: --accept {control_plane.name}."
    kind = unknown if control_plane.prospect is Prospect.UNCLEAR else failed
    return kind(name, evidence, remedy)
