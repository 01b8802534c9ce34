"""The loop of `quorate manager`: observe, decide, act, report; for one control plane at a time, whenever something that concerns it has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

import msgspec
import structlog

from quorate.clusterapi.act.creation import CreationFailed
from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.act.refusal import Refused
from quorate.clusterapi.act.step import Actor
from quorate.clusterapi.connect.clients import Clients
from quorate.clusterapi.inputs import Inputs
from quorate.clusterapi.observe.observation import Observation, is_coming_up
from quorate.clusterapi.observe.observer import Observer
from quorate.clusterapi.pace import LONGEST_AFTER_CONFLICT, Pace
from quorate.clusterapi.report import Report, report
from quorate.clusterapi.report.publish import Publisher
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.clusterapi.types.names import KUBEADM_CONTROL_PLANE_KIND, EventReason
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES, MACHINES
from quorate.core.health import Health, Unknown
from quorate.core.machines.decide import Decision, decide
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import RemoveFinalizer, Step, UpdateInPlace
from quorate.kubernetes.controller import Request, Result
from quorate.kubernetes.errors import Conflict, NotFound
from quorate.kubernetes.events import EventRecorder, ObjectReference
from quorate.kubernetes.tasks import sole

_log = structlog.get_logger(__name__)

MOST_STEPS = 10  # in one pass; certificates, kubeconfig and the first Machine are three

# Seconds until another look where nothing will tell of a change. Nodes, Pods and everything in the management cluster are watched.
INITIALIZING = 0.5  # kubeadm-config appears once in a cluster's life, and CABPK's next join waits for our word about it
RING_IN_MOTION = 1.0  # a member joins, leaves or has yet to become a voter
RING_ILL = 5.0  # a member is silent, though its Pod may look well; is an orphan, or of another ring; an alarm is of none; or an external etcd is not reached
RING_AT_REST = 240.0  # nothing is expected, and what ails a member shows in its Pod: a rare look, spread by a fifth, over connections that are kept for 300 s


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Reconciles KubeadmControlPlanes. Everything it knows between two passes is in caches and connections; what must survive is in the objects."""

    clients: Clients
    observer: Observer
    actor: Actor
    publisher: Publisher
    recorder: EventRecorder
    clock: Callable[[], datetime]
    random: Random
    grace: timedelta
    pace: Pace
    inputs: Inputs

    async def reconcile(self, request: Request) -> Result:
        """Take every step that may be taken now, then report. Raises what a step failed with, after reporting that too."""
        for _ in range(MOST_STEPS):
            observation = await self.observer.observe(request)
            if observation is None or observation.view is None:
                if observation is None:
                    self._forget(request)
                return Result()
            decision = decide(observation.view, self.clock())
            if decision.step is None:
                early = 0.0 if _others_wait(observation) else self.pace.too_early(request)
                return Result(requeue_after=early) if early else await self._keep_up(request, observation, decision)
            _log.info("step", rule=decision.rule, step=str(decision.step), reaction_ms=self._reaction(request))
            try:
                await self._perform(decision, observation)
            except Exception as error:
                wait = self.pace.conflicted(request) if _is_only(error, Conflict) else 0.0
                if 0 < wait < LONGEST_AFTER_CONFLICT:
                    _log.info("the control plane has changed meanwhile", error=_text(error))
                    return Result(requeue_after=wait)
                await self._report(request, observation, decision, error)
                if wait:
                    return Result(requeue_after=wait)
                if _is_only(error, Refused):
                    return Result(requeue_after=RING_IN_MOTION)
                raise
            self._tell_of(decision.step, observation)
            self.pace.agreed(request)
            self.inputs.settled(request)
            if isinstance(decision.step, RemoveFinalizer):
                return Result()
            if self.clients.expectations.pending(request):
                return Result()  # the caches bring it back as soon as they have seen what was written
        return Result(requeue_after=1.0)

    async def _perform(self, decision: Decision, observation: Observation) -> None:
        if decision.step is None:
            return
        try:
            await self.actor.perform(decision.step, observation)
        except BaseExceptionGroup as errors:
            raise sole(errors) from None
        finally:
            if observation.cluster is not None:
                self.observer.rings.forget(f"{observation.cluster.metadata.namespace}/{observation.cluster.metadata.name}")

    def _forget(self, request: Request) -> None:
        for kept in (self.clients.expectations, self.clients.progress, self.pace, self.inputs):
            kept.forget(request)
        if self.actor.extensions is not None:
            self.actor.extensions.answers.forget(request)

    def _tell_of(self, step: Step, observation: Observation) -> None:
        """What upstream has an event for once it is done."""
        if not isinstance(step, UpdateInPlace):
            return
        metadata = next(machine.machine.metadata for machine in observation.machines if machine.name == step.replica)
        about = ObjectReference(MACHINES.api_version, MACHINES.kind, metadata.namespace, metadata.name, metadata.uid)
        self.recorder.normal(about, EventReason.SUCCESSFUL_START_IN_PLACE_UPDATE, "Machine starting in-place update")

    async def _keep_up(self, request: Request, observation: Observation, decision: Decision) -> Result:
        """Maintenance where it may be, then the report; what maintenance fails with is reported too, and raised."""
        try:
            if observation.view and not observation.view.paused:
                await maintain(self.clients, observation)
        except ExceptionGroup as errors:
            if not _is_only(errors, Conflict, NotFound):
                await self._report(request, observation, decision, errors)
                raise sole(errors) from None
            _log.info("what is kept up to date has changed meanwhile", error=_text(errors))
            await self._report(request, observation, decision)
            return Result(requeue_after=0.2)
        return await self._report(request, observation, decision)

    async def _report(self, request: Request, observation: Observation, decision: Decision, error: Exception | None = None) -> Result:
        if not self.clients.leads():
            return Result(requeue_after=RING_IN_MOTION)  # another one may speak for this control plane now; the process ends in a moment
        machines = tuple(replace(observed, machine=self.publisher.newest.of(observed.machine)) for observed in observation.machines)
        newest = replace(observation, kcp=self._with_newest_status(observation.kcp), machines=machines)
        now = self.clock()
        result = self._reported(newest, decision, error, now)
        changes = self.publisher.changes(observation.kcp, result)
        early = 0.0 if error else self.pace.too_early_for_wording(request)
        due = [change for change in changes if change.is_news or not early]
        if early and not due:
            return Result(requeue_after=min([early, *self._looks_again(observation)]))
        self.pace.begun(request, wording=not early)
        for event in result.events:
            self.recorder.warning(_reference(observation), event.reason, event.message)
        try:
            await self.publisher.publish(due)
        except ExceptionGroup as errors:
            if not _is_only(errors, Conflict, NotFound):
                raise sole(errors) from None
            _log.info("the report is made anew", error=_text(errors))
            return Result(requeue_after=0.2)
        finally:
            self.pace.written(request)
        moments = [moment for moment in (decision.wake_at, result.wake_at) if moment is not None]
        waits = [max(0.0, (moment - now).total_seconds()) for moment in moments] + self._looks_again(observation)
        waits += [early] if len(due) < len(changes) else []
        return Result(requeue_after=min(waits, default=None))

    def _reported(self, observation: Observation, decision: Decision, error: Exception | None, now: datetime) -> Report:
        if error is None:
            return report(observation, decision, now=now, grace=self.grace)
        parts = [failure.reason for failure in _failures(error) if isinstance(failure, CreationFailed)]
        refused, part = _is_only(error, Refused), next(iter(parts), None)
        return report(observation, decision, error=_text(error), refused=refused, creation_failed=part, now=now, grace=self.grace)

    def _reaction(self, request: Request) -> float | None:
        """Milliseconds from the last change that this control plane was told of to the step that is about to be taken."""
        seconds = self.inputs.since_last(request)
        return None if seconds is None else round(seconds * 1000, 1)

    def _with_newest_status(self, kcp: KubeadmControlPlane) -> KubeadmControlPlane:
        return msgspec.structs.replace(kcp, status=self.publisher.newest.of(kcp).status)

    def _somebody_comes_up(self, view: ControlPlane) -> bool:
        """Whether a Machine is so young that its member's first answer may come at any moment."""
        return any(is_coming_up(replica.created, self.clock()) for replica in view.replicas)

    def _looks_again(self, observation: Observation) -> list[float]:
        """When to look again at what cannot be watched."""
        view = observation.view
        if view is None or view.paused or view.deletion or observation.connection.health is not Health.GOOD:
            return []
        if not observation.initialized:
            return [INITIALIZING] if view.replicas else []
        if not any(replica.node for replica in view.replicas):
            return []
        if view.external_etcd is not None:
            return [RING_ILL if view.external_etcd.health is Health.BAD else self._at_rest()]
        if isinstance(view.ring, Unknown) or view.ring.unsettled or any(not isinstance(r.member, int) and r.node for r in view.replicas):
            return [RING_IN_MOTION]
        odd = view.orphans or view.membership_problem or observation.alarms
        if odd or any(member.health is not Health.GOOD for member in view.ring.members):
            return [RING_IN_MOTION if self._somebody_comes_up(view) else RING_ILL]
        return [self._at_rest()]

    def _at_rest(self) -> float:
        return RING_AT_REST * self.random.uniform(0.8, 1.2)


def _others_wait(observation: Observation) -> bool:
    """Whether there is news without which others do not go on: no join is prepared before the control plane is called initialized."""
    return observation.initialized and not observation.kcp.status.initialization.control_plane_initialized


def _reference(observation: Observation) -> ObjectReference:
    metadata = observation.kcp.metadata
    return ObjectReference(
        api_version=KUBEADM_CONTROL_PLANES.api_version,
        kind=KUBEADM_CONTROL_PLANE_KIND,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )


def _is_only(error: BaseException, *kinds: type[BaseException]) -> bool:
    """Whether an exception, or everything inside a group, is of these kinds."""
    return all(isinstance(failure, kinds) for failure in _failures(error))


def _failures(error: BaseException) -> list[BaseException]:
    return [leaf for inner in error.exceptions for leaf in _failures(inner)] if isinstance(error, BaseExceptionGroup) else [error]


def _text(error: BaseException) -> str:
    return "; ".join(dict.fromkeys(str(failure) or type(failure).__name__ for failure in _failures(error)))
