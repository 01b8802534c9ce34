"""The steps ahead: `decide` played forward on a model in which every step succeeds and every machine comes up.

The model knows no faults and no edits. What is ill stays ill, so that a plan never counts on a recovery that nobody has promised; what is on its way
arrives. Names of machines that do not exist yet are placeholders (`new-1`, `new-2`, ...), in the order of their creation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from quorate.core import plan
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.state import Certificates, ControlPlane, Kubeconfig, Remediation, Replica
from quorate.core.machines.steps import (
    AbandonCreation,
    AddFinalizer,
    AdoptReplicas,
    AskExtension,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    ForgetRemediation,
    MoveCoreDNS,
    PrepareWorkload,
    RecordExpiries,
    RecordRemediation,
    ReleaseHook,
    Remediate,
    RemoveFinalizer,
    RemoveMember,
    RemoveOrphan,
    Step,
    UpdateAddons,
    UpdateInPlace,
    WriteKubeconfig,
)
from quorate.core.maintenance import Maintenance
from quorate.core.ring import Member, Ring

TICK = timedelta(minutes=5)
"""Between two states of the model: longer than any grace that a machine or an orphan member is given."""
_WELL = Finding(Health.GOOD, "Expected", "as expected of a machine that comes up")


Foreseen = plan.Foreseen[Step]
"""One step of the plan."""
Forecast = plan.Forecast[ControlPlane, Step]
"""The plan."""


def forecast(control_plane: ControlPlane, now: datetime) -> Forecast:
    """Every step that would be taken from here on, if nothing fails and nobody interferes. Pure and total."""
    world = _Model(control_plane, now)
    foreseen = plan.play(world)
    return plan.Forecast(foreseen, world.view, world.converged, world.decision.refusals)


class _Model:
    """The control plane as the plan leaves it, step by step."""

    def __init__(self, view: ControlPlane, now: datetime) -> None:
        self.view, self.now = view, now
        self.made = 0
        self.decision = decide(view, now)

    @property
    def converged(self) -> bool:
        """Whether what is desired is there."""
        view = self.view
        if view.deletion is not None:
            return not view.has_finalizer
        settled = len(view.replicas) == len(view.staying) == view.desired.replicas
        return self.decision.step is None and not self.decision.refusals and settled and not view.outdated and view.creation is None

    @property
    def ring(self) -> Ring | Unknown:
        """The ring as the plan leaves it."""
        return self.view.ring

    def decide(self) -> Decision:
        """What would be done next."""
        return self.decision

    def take(self, step: Step) -> str:
        """The step succeeds."""
        made = self.made
        self.view = EFFECTS[type(step)](self, step)
        if not self.is_last(step):
            self._go_on()
        return f"new-{self.made}" if self.made > made else ""

    def is_last(self, step: Step) -> bool:
        """What follows depends on Machines that were not looked at yet, or on an answer; or nothing is left."""
        return isinstance(step, AdoptReplicas | RemoveFinalizer | AskExtension)

    def wait(self) -> bool:
        """Everything on its way arrives."""
        arrived = self._arrive()
        if arrived:
            self._go_on()
        return arrived

    def _go_on(self) -> None:
        self.now += TICK
        self.decision = decide(self.view, self.now)

    def create(self, step: CreateReplica) -> ControlPlane:
        """With one more replica, which has yet to come up."""
        self.made += 1
        new = Replica(
            name=f"new-{self.made}",
            version=self.view.desired.version.text,
            created=self.now,
            member=Absent(),
            failure_domain=step.failure_domain,
            replaces=self.view.remediating,
        )
        return replace(self.view, replicas=(*self.view.replicas, new), creation=None, remediating=None)

    def delete(self, step: DeleteReplica | Remediate) -> ControlPlane:
        """With the replica on its way out."""
        return _changed(self.view, step.replica, deleting_since=self.now)

    def remediate(self, step: Remediate) -> ControlPlane:
        """The same, with the record of it."""
        return replace(self.delete(step), remediating=Remediation(step.replica, self.now, step.retries), remediation_intended=None)

    def delete_all(self, step: DeleteAll) -> ControlPlane:
        """With all of them on their way out, and not held."""
        gone = {"holds_hook": False, "waits_at_hook": False}
        view = self.view
        for replica in (replica for replica in view.replicas if replica.name in step.replicas):
            view = _changed(view, replica.name, deleting_since=replica.deleting_since or self.now, **gone)
        return view

    def update(self, step: UpdateInPlace) -> ControlPlane:
        """With the replica as desired, once whoever carries that out is through."""
        version = self.view.desired.version.text
        return _changed(self.view, step.replica, version=version, kubelet_version=version, outdated=(), in_place=None, update=None)

    def _arrive(self) -> bool:
        """Everything on its way arrives: the released are gone, the drained wait at the hook, the young are up. False: nothing was on its way."""
        before = self.view
        over = tuple(replica.name for replica in before.updating)
        staying_or_held = tuple(replica for replica in before.replicas if replica not in before.vanishing)
        self.view = replace(before, replicas=tuple(replace(r, waits_at_hook=True) if r.deleting_since else r for r in staying_or_held))
        for name in over:
            self.view = _changed(self.view, name, update=None)
        for replica in self.view.staying:
            if replica.node is None and not replica.unhealthy and before.knows_nodes:
                self._come_up(replica)
        return self.view != before

    def _come_up(self, replica: Replica) -> None:
        view = self.view
        if not view.desired.etcd_managed:
            member: int | Absent | Unknown = Absent()
        else:
            member = replica.member if isinstance(replica.member, int) else self._join(replica.name)
        kinds = _kinds(view)
        view = _changed(
            self.view,
            replica.name,
            node=replica.name,
            member=member,
            component_findings=tuple((kind, _WELL) for kind in kinds),
            member_findings=(("EtcdMemberHealthy", _WELL),) if view.desired.etcd_managed else (),
        )
        self.view = replace(view, initialized=True, workload=_WELL)

    def _join(self, name: str) -> int:
        """A new voter, or the member that was waiting for exactly this: it becomes one."""
        ring = self.view.ring if isinstance(self.view.ring, Ring) else Ring((), None)
        waiting = next(iter(ring.unsettled), None)
        new_id = waiting.id if waiting else max((member.id for member in ring.members), default=0) + 1
        others = tuple(member for member in ring.members if member.id != new_id)
        self.view = replace(self.view, ring=Ring((*others, Member(new_id, name, Health.GOOD)), ring.leader or new_id))
        return new_id


def _changed(view: ControlPlane, name: str, **changes: object) -> ControlPlane:
    return replace(view, replicas=tuple(replace(r, **changes) if r.name == name else r for r in view.replicas))  # type: ignore[arg-type]


def _let_go(view: ControlPlane, name: str, **changes: object) -> ControlPlane:
    return _changed(view, name, holds_hook=False, waits_at_hook=False, **changes)


def _without_member(view: ControlPlane, member_id: int) -> ControlPlane:
    return view if isinstance(view.ring, Unknown) else replace(view, ring=plan.without(view.ring, member_id))


def _without_orphan(view: ControlPlane, member_id: int) -> ControlPlane:
    orphans = tuple(orphan for orphan in view.orphans if orphan.member.id != member_id)
    return _matched_anew(replace(_without_member(view, member_id), orphans=orphans))


def _matched_anew(view: ControlPlane) -> ControlPlane:
    """With fewer orphans: one that alone fits a replica is its own, and where none is left nobody has one that is not known."""
    fitting = Counter(name for orphan in view.orphans for name in orphan.may_be_of)
    alone = [orphan for orphan in view.orphans if len(orphan.may_be_of) == 1 and fitting[orphan.may_be_of[0]] == 1]
    own = {orphan.may_be_of[0]: orphan.member.id for orphan in alone}
    left = tuple(orphan for orphan in view.orphans if orphan not in alone)
    missing = Absent() if not left else None

    def matched(replica: Replica) -> Replica:
        member = own.get(replica.name, missing) if isinstance(replica.member, Unknown) else None
        return replica if member is None else replace(replica, member=member)

    return replace(view, orphans=left, replicas=tuple(map(matched, view.replicas)))


def _kinds(view: ControlPlane) -> tuple[str, ...]:
    """What is looked at on every replica, as those that are there show it."""
    default = ("APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy")
    return next((tuple(kind for kind, _ in replica.component_findings) for replica in view.replicas if replica.component_findings), default)


EFFECTS: Mapping[type[Step], Callable[[_Model, Any], ControlPlane]] = {
    AddFinalizer: lambda model, _: replace(model.view, has_finalizer=True),
    RemoveFinalizer: lambda model, _: replace(model.view, has_finalizer=False),
    EnsureCertificates: lambda model, _: replace(model.view, certificates=Certificates()),
    WriteKubeconfig: lambda model, _: replace(model.view, kubeconfig=Kubeconfig(exists=True)),
    AdoptReplicas: lambda model, _: replace(model.view, adoptable=()),
    CreateReplica: _Model.create,
    AbandonCreation: lambda model, _: replace(model.view, creation=None),
    DeleteReplica: _Model.delete,
    AskExtension: lambda model, _: model.view,
    UpdateInPlace: _Model.update,
    Remediate: _Model.remediate,
    RecordRemediation: lambda model, _: replace(model.view, remediating=model.view.remediation_intended, remediation_intended=None),
    ForgetRemediation: lambda model, _: replace(model.view, remediating=None, remediation_intended=None),
    RemoveMember: lambda model, step: _let_go(_without_member(model.view, step.member), step.replica, member=Absent()),
    ReleaseHook: lambda model, step: _let_go(model.view, step.replica),
    RemoveOrphan: lambda model, step: _without_orphan(model.view, step.member),
    DeleteAll: _Model.delete_all,
    PrepareWorkload: lambda model, _: replace(model.view, preparation=Maintenance()),
    MoveCoreDNS: lambda model, step: _changed(model.view, step.replica, coredns=Maintenance()),
    UpdateAddons: lambda model, _: replace(model.view, addons=Maintenance()),
    RecordExpiries: lambda model, _: replace(model.view, replicas=tuple(replace(each, expiry_known=True) for each in model.view.replicas)),
}
"""What each step leaves behind where it succeeds; every one there is has its entry (`tests/core/test_forecast.py`)."""
