"""What would happen from here: `decide` played forward on a model in which every step succeeds and every machine comes up.

The model knows no faults and no edits. What is ill stays ill, so that a plan never counts on a recovery that nobody has promised; what is on its way
arrives. Names of machines that do not exist yet are placeholders (`new-1`, `new-2`, ...), in the order of their creation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quorate.core.checks import Check
from quorate.core.control_plane import Adoptable, Certificates, ControlPlane, Kubeconfig, Remediation, Replica, Upkeep
from quorate.core.decide import Decision, decide
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.ring import Member, Ring, Verdict
from quorate.core.steps import (
    AbandonCreation,
    AddFinalizer,
    AdoptReplicas,
    CreateReplica,
    DeleteAll,
    DeleteReplica,
    EnsureCertificates,
    ForgetRemediation,
    PrepareWorkload,
    RecordExpiries,
    RecordRemediation,
    ReleaseHook,
    Remediate,
    RemoveFinalizer,
    RemoveMember,
    RemoveStray,
    Step,
    UpdateAddons,
    WriteKubeconfig,
)

TICK = timedelta(minutes=5)
"""Between two states of the model: longer than any grace that a machine or a stray member is given."""
MOST_STEPS = 1000
"""A plan that has not ended by then is reported as it is; seven replicas replaced one by one take about forty."""

_WELL = Finding(Health.GOOD, "Expected", "as expected of a machine that comes up")


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One step of the plan, the rule behind it, the replica it makes (or "") and the ring's verdict before and after it; None: not known."""

    step: Step
    rule: str
    makes: str
    before: Verdict | None
    after: Verdict | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The steps in order, how it ends, and what stands in the way of more: no refusals and `converged` when the goal is reached."""

    steps: tuple[Foreseen, ...]
    end: ControlPlane
    converged: bool
    refusals: tuple[Check, ...]


def forecast(control_plane: ControlPlane, now: datetime) -> Forecast:
    """Every step that would be taken from here on, if nothing fails and nobody interferes. Pure and total."""
    world = _Model(control_plane, now)
    foreseen = tuple(world.play())
    return Forecast(foreseen, world.view, world.converged, world.decision.refusals)


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
        return self.decision.step is None and settled and not view.outdated and view.creation is None

    def play(self) -> Iterator[Foreseen]:
        """Steps until there is none and nothing more is on its way."""
        for _ in range(MOST_STEPS):
            step = self.decision.step
            if step is not None:
                yield self._taken(step, self.decision)
                if isinstance(step, AdoptReplicas | RemoveFinalizer):
                    return  # what follows depends on Machines that were not looked at yet; or nothing is left
            elif not self._arrive():
                return
            self.now += TICK
            self.decision = decide(self.view, self.now)

    def _taken(self, step: Step, decision: Decision) -> Foreseen:
        before, made = _verdict(self.view), self.made
        self.view = self._after(step)
        return Foreseen(step, decision.rule, f"new-{self.made}" if self.made > made else "", before, _verdict(self.view))

    def _after(self, step: Step) -> ControlPlane:
        match step:
            case CreateReplica():
                return self._create(step)
            case DeleteReplica(name) | Remediate(name):
                return self._delete(name, step)
            case RemoveMember(name, member):
                return self._change(self._without_member(member), name, holds_hook=False, waits_at_hook=False, member=Absent())
            case ReleaseHook(name):
                return self._change(self.view, name, holds_hook=False, waits_at_hook=False)
            case RemoveStray(member):
                return replace(self._without_member(member), strays=tuple(s for s in self.view.strays if s.member.id != member))
            case DeleteAll(names):
                return replace(self.view, replicas=tuple(self._released(r) if r.name in names else r for r in self.view.replicas))
        return self._kept_up(step)

    def _kept_up(self, step: Step) -> ControlPlane:
        view = self.view
        match step:
            case AddFinalizer() | RemoveFinalizer():
                return replace(view, has_finalizer=isinstance(step, AddFinalizer))
            case EnsureCertificates():
                return replace(view, certificates=Certificates())
            case WriteKubeconfig():
                return replace(view, kubeconfig=Kubeconfig(exists=True))
            case AbandonCreation():
                return replace(view, creation=None)
            case AdoptReplicas():
                return replace(view, adoptable=tuple[Adoptable, ...]())
            case PrepareWorkload():
                return replace(view, preparation=Upkeep())
            case UpdateAddons():
                return replace(view, addons=Upkeep())
            case RecordExpiries():
                return replace(view, replicas=tuple(replace(replica, expiry_known=True) for replica in view.replicas))
            case RecordRemediation():
                return replace(view, remediating=view.remediation_intended, remediation_intended=None)
            case ForgetRemediation():
                return replace(view, remediating=None, remediation_intended=None)
        raise AssertionError(f"no such step: {step!r}")

    def _create(self, step: CreateReplica) -> ControlPlane:
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

    def _delete(self, name: str, step: Step) -> ControlPlane:
        view = self._change(self.view, name, deleting_since=self.now)
        if isinstance(step, Remediate):
            view = replace(view, remediating=Remediation(name, self.now, step.retries), remediation_intended=None)
        return view

    def _released(self, replica: Replica) -> Replica:
        return replace(replica, deleting_since=replica.deleting_since or self.now, holds_hook=False, waits_at_hook=False)

    def _change(self, view: ControlPlane, name: str, **changes: object) -> ControlPlane:
        return replace(view, replicas=tuple(replace(r, **changes) if r.name == name else r for r in view.replicas))  # type: ignore[arg-type]

    def _without_member(self, member_id: int) -> ControlPlane:
        ring = self.view.ring
        if isinstance(ring, Unknown):
            return self.view
        members = tuple(member for member in ring.members if member.id != member_id)
        voters = (member.id for member in members if not member.learner and member.health is Health.GOOD)
        return replace(self.view, ring=Ring(members, next(voters, None) if ring.leader == member_id else ring.leader))

    def _arrive(self) -> bool:
        """Everything on its way arrives: the released are gone, the drained wait at the hook, the young are up. False: nothing was on its way."""
        before = self.view
        staying_or_held = tuple(replica for replica in before.replicas if replica not in before.vanishing)
        self.view = replace(before, replicas=tuple(replace(r, waits_at_hook=True) if r.deleting_since else r for r in staying_or_held))
        for replica in self.view.staying:
            if replica.node is None and not replica.unhealthy:
                self._come_up(replica)
        return self.view != before

    def _come_up(self, replica: Replica) -> None:
        view = self.view
        if not view.desired.etcd_managed:
            member: int | Absent | Unknown = Absent()
        else:
            member = replica.member if isinstance(replica.member, int) else self._join(replica.name)
        kinds = _kinds(view)
        view = self._change(
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


def _kinds(view: ControlPlane) -> tuple[str, ...]:
    """What is looked at on every replica, as those that are there show it."""
    default = ("APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy")
    return next((tuple(kind for kind, _ in replica.component_findings) for replica in view.replicas if replica.component_findings), default)


def _verdict(view: ControlPlane) -> Verdict | None:
    return view.ring.now if isinstance(view.ring, Ring) and view.ring.members else None
