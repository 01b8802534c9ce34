"""Whose the control-plane Machines of a cluster are, and which of those without an owner can be adopted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from quorate.clusterapi.connect.caches import is_ours
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import Label
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS
from quorate.core.machines.state import Adoptable
from quorate.core.versions import minor_distance, parse_or_none

MOST_MINORS = 1
"""How many minor versions a Machine may be away from the control plane that adopts it."""


class Owner(StrEnum):
    """Whose a Machine is, as what is said of it."""

    CONTROL_PLANE = "this control plane's"
    NONE = "without an owner"
    OTHER = "somebody else's"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The control-plane Machines of a cluster, by whose they are."""

    ours: tuple[Machine, ...]
    adoptable: tuple[
        Adoptable, ...
    ]  # without an owner, by name; none while the control plane is being deleted, when nothing is adopted any more
    foreign: tuple[str, ...]  # somebody else's, by name


def is_of_control_plane(machine: Machine, kcp: KubeadmControlPlane) -> bool:
    """Whether it is a control-plane Machine: it has the label, whatever its value, as for all of Cluster API; or the control plane's own has lost it."""
    return Label.CONTROL_PLANE in machine.metadata.labels or is_ours(machine.metadata, kcp)


def owner_of(machine: Machine, kcp: KubeadmControlPlane) -> Owner:
    """Whose it is, by the controller among its owners."""
    if is_ours(machine.metadata, kcp):
        return Owner.CONTROL_PLANE
    return Owner.OTHER if any(owner.controller for owner in machine.metadata.owner_references) else Owner.NONE


def ownership(control_plane: Iterable[Machine], kcp: KubeadmControlPlane) -> Ownership:
    """Tell them apart. Pure."""
    of: dict[Owner, list[Machine]] = {owner: [] for owner in Owner}
    for machine in sorted(control_plane, key=lambda machine: machine.metadata.name):
        of[owner_of(machine, kcp)].append(machine)
    unowned = [] if kcp.metadata.deletion_timestamp else of[Owner.NONE]
    return Ownership(
        ours=tuple(of[Owner.CONTROL_PLANE]),
        adoptable=tuple(Adoptable(machine.metadata.name, _problem(machine, kcp)) for machine in unowned),
        foreign=tuple(machine.metadata.name for machine in of[Owner.OTHER]),
    )


def _problem(machine: Machine, kcp: KubeadmControlPlane) -> str:
    """Why the Machine cannot be adopted; empty where it can. A Machine without a version is its owner's word that it fits."""
    reference = machine.spec.bootstrap.config_ref
    if machine.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if reference is None or reference.kind != KUBEADM_CONFIGS.kind:
        return f"its spec.bootstrap.configRef names {f'a {reference.kind}' if reference else 'nothing'}, not a {KUBEADM_CONFIGS.kind}"
    if machine.spec.infrastructure_ref is None:
        return "its spec.infrastructureRef names nothing"
    ours, its = parse_or_none(kcp.spec.version), parse_or_none(machine.spec.version)
    if not machine.spec.version or ours is None:
        return ""
    if its is None:
        return f"its version {machine.spec.version!r} is not one"
    distance = minor_distance(ours, its)
    if distance is None or abs(distance) > MOST_MINORS:
        return f"its version {its} is more than {MOST_MINORS} minor version away from {ours}, which the control plane asks for"
    return ""
