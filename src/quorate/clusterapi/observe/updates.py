"""What is seen of updates in place: the marks that are on a Machine, and what an extension says of one that is to be updated. Pure, but for what asks.

Source: cluster-api, internal/util/inplace and internal/hooks for the marks, controlplane/kubeadm/pkg/filters.go for who may be updated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from quorate.clusterapi.connect.foreign import ForeignObject
from quorate.clusterapi.extensions.asking import Extensions, Subject
from quorate.clusterapi.extensions.registry import Found, Handler, Unusable
from quorate.clusterapi.observe.observation import ObservedMachine
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.names import UPDATE_MACHINE_HOOK, Annotation, MachineCondition, UpdatableInPlaceReason, UpdatingReason
from quorate.core.machines.state import Answer, InPlace, Update
from quorate.core.text import printable


class Updates(Protocol):
    """Who says whether Machines may be updated in place."""

    def in_place(
        self, kcp: KubeadmControlPlane, cluster: str, observed: ObservedMachine, template: ForeignObject | None, *, eligible: bool
    ) -> InPlace | None:
        """What is said of a Machine; None where it may only be replaced, or is to be left as it is."""
        ...


def update_of(machine: Machine) -> Update | None:
    """The update in place that the marks on a Machine tell of. It is begun with the first, and over once both are gone."""
    annotations = machine.metadata.annotations
    marked, started = Annotation.UPDATE_IN_PROGRESS in annotations, is_pending(machine)
    if not marked and not started:
        return None
    told = next((each for each in machine.status.conditions if each.type == MachineCondition.UPDATING and each.status == "True"), None)
    failed = started and told is not None and told.reason == UpdatingReason.IN_PLACE_UPDATE_FAILED
    mark = Annotation.UPDATE_IN_PROGRESS if marked else Annotation.PENDING_HOOKS
    return Update(mark, started, told.message if told and started else "", failed)


def is_pending(machine: Machine) -> bool:
    """Whether core may call the extension, or is about to tidy up after it."""
    return UPDATE_MACHINE_HOOK in pending_hooks(machine.metadata.annotations.get(Annotation.PENDING_HOOKS, ""))


def pending_hooks(annotation: str) -> frozenset[str]:
    """The hooks that an annotation lists."""
    return frozenset(filter(None, (hook.strip() for hook in annotation.split(","))))


def is_eligible(observed: ObservedMachine) -> bool:
    """Whether a Machine that is outdated may be updated at all: not where its owner, or time, asks for another host, nor what somebody deletes."""
    annotations = observed.machine.metadata.annotations
    marked = Annotation.DELETE_MACHINE in annotations or Annotation.REMEDIATE_MACHINE in annotations
    return bool(observed.outdated) and not marked and not observed.deleting and not any(way.by_time for way in observed.outdated)


@dataclass(frozen=True, slots=True)
class ByExtensions:
    """As extensions answer, of which the manager remembers what they said."""

    extensions: Extensions

    def in_place(
        self, kcp: KubeadmControlPlane, cluster: str, observed: ObservedMachine, template: ForeignObject | None, *, eligible: bool
    ) -> InPlace | None:
        """See Updates."""
        update = update_of(observed.machine)
        begun = update is not None and not update.started and not observed.deleting
        if not eligible and not begun:
            return None
        return self.extensions.known(subject(kcp, cluster, observed), template, begun=begun)


class AsReported:
    """For whoever cannot ask: as the manager has told it of each Machine in a condition. That was said of what is stored; of an edit nobody was asked yet.

    `stored` gives a control plane by namespace and name as it is stored, `configured` is who would be asked.
    """

    def __init__(self, stored: Callable[[str, str], KubeadmControlPlane | None], configured: Found) -> None:
        self._stored = stored
        self.configured = configured

    def in_place(
        self,
        kcp: KubeadmControlPlane,
        cluster: str,  # noqa: ARG002 (the signature is that of whoever asks)
        observed: ObservedMachine,
        template: ForeignObject | None,  # noqa: ARG002
        *,
        eligible: bool,
    ) -> InPlace | None:
        """See Updates."""
        update = update_of(observed.machine)
        if not eligible and (update is None or update.started):
            return None
        stored = self._stored(kcp.metadata.namespace, kcp.metadata.name)
        if stored is None or stored.metadata.resource_version != kcp.metadata.resource_version:
            return self._of_an_edit()
        conditions = observed.machine.status.conditions
        told = next((each for each in conditions if each.type == MachineCondition.UPDATABLE_IN_PLACE), None)
        if told is None:
            return None
        extension, _, reason = told.message.partition(": ")
        return InPlace(_ANSWERS.get(told.reason, Answer.UNKNOWN), printable(extension), printable(reason))

    def _of_an_edit(self) -> InPlace | None:
        match self.configured:
            case Handler(name=name):
                return InPlace(Answer.UNASKED, name)
            case Unusable(extension, reason, remedy):
                return InPlace(Answer.UNKNOWN, extension, reason, remedy)
        return None


_ANSWERS: Mapping[str, Answer] = {
    UpdatableInPlaceReason.UPDATABLE: Answer.YES,
    UpdatableInPlaceReason.NOT_UPDATABLE: Answer.NO,
}


def subject(kcp: KubeadmControlPlane, cluster: str, observed: ObservedMachine) -> Subject:
    """The Machine as an extension is asked about it."""
    return Subject(kcp, cluster, observed.machine, observed.config, observed.infrastructure)
