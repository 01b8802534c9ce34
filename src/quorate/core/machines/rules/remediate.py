"""Replacing replicas that a health check failed: which one, whether it may go now, and the records that make a crash at any point harmless.

The order, the policy of retries and the reasons are upstream's; what may go is decided by what etcd itself says.
Source: cluster-api, controlplane/kubeadm/reconcilers/kubeadmcontrolplane/remediation.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from quorate.core.checks import Check, failed, passed
from quorate.core.health import Finding, Health, Unknown
from quorate.core.machines.checks import HOOK_HELD, dependable_ring
from quorate.core.machines.rules.loss import Reason, is_held, safe_to_remediate
from quorate.core.machines.rules.preflight import topology_arrived
from quorate.core.machines.rules.remove import exempt_before_initialization
from quorate.core.machines.state import ControlPlane, Remediation, RemediationPolicy, Replica
from quorate.core.machines.steps import ForgetRemediation, RecordRemediation, Remediate, Step
from quorate.core.proposal import NOTHING, Proposal, blocking
from quorate.core.quorum import quorum_survives_addition
from quorate.core.ring import Ring

NOT_DELETING = "the replica is not being deleted already"
PREVIOUS_FINISHED = "the previous remediation is finished"
RECORDS_READABLE = "the records of remediations can be read"
RETRY_PERIOD = "the retry period has passed"
RETRIES_LEFT = "retries are left"

_CORRECT = "Correct the annotation, or remove it: then the count of retries starts anew."
_COMPONENTS = ("EtcdPodHealthy", "APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy")


@dataclass(frozen=True, slots=True)
class Verdict:
    """May this replica be replaced now? The checks end with the first that does not pass; `reason` says what kind of refusal that is, None: it may go."""

    replica: str
    checks: tuple[Check, ...]
    reason: Reason | None
    retries: int  # as the record of this remediation would count them
    wake_at: datetime | None = None  # when time alone would change the answer

    @property
    def permitted(self) -> bool:
        """Whether nothing speaks against it."""
        return self.reason is None

    @property
    def refusal(self) -> Check | None:
        """The check that speaks against it."""
        return None if self.permitted else self.checks[-1]


def keep_the_records(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Keeps the records of a remediation true: finishes them after a crash, and clears them once the replacement exists, or none is wanted any more."""
    if control_plane.remediation_problem:
        return blocking(frozenset({Remediate}), failed(RECORDS_READABLE, control_plane.remediation_problem, _CORRECT))
    intended = control_plane.remediation_intended
    if _is_settled(control_plane, now):
        return Proposal(ForgetRemediation())
    if intended is not None and not _is_recorded(control_plane, intended) and not _stays(control_plane, intended.replica):
        return Proposal(RecordRemediation())
    return NOTHING


def remediate(control_plane: ControlPlane, now: datetime) -> Proposal[Step]:
    """Replaces the first replica that failed its health check and may go; reports for each of the others why it may not."""
    answers = verdicts(control_plane, now)
    for answer in answers:
        if answer.permitted:
            return Proposal(Remediate(answer.replica, answer.retries), _named(answer))
    refusals = tuple(check for answer in answers for check in _named(answer))
    return Proposal(checks=refusals, wake_at=min((answer.wake_at for answer in answers if answer.wake_at), default=None))


def verdicts(control_plane: ControlPlane, now: datetime) -> tuple[Verdict, ...]:
    """The verdict on each replica that a health check failed and that nobody is deleting, in the order in which they are to go. Pure.

    The report writes the answers into their OwnerRemediated conditions.
    """
    alone = _alone(control_plane, now)
    candidates = sorted((control_plane.replica(name) for name in alone), key=lambda replica: _rank(control_plane, replica))
    return tuple(_verdict(control_plane, replica, now, alone) for replica in candidates)


def verdict(control_plane: ControlPlane, replica: Replica, now: datetime) -> Verdict:
    """May this replica, which a health check failed, be replaced now? Pure."""
    return _verdict(control_plane, replica, now, _alone(control_plane, now))


Alone = Mapping[str, Verdict]
"""The verdict on each replica that a health check failed and that nobody is deleting, if it waited for no other one; by its name. Each is judged once."""


def _alone(control_plane: ControlPlane, now: datetime) -> Alone:
    failed_ones = [replica for replica in control_plane.staying if replica.unhealthy]
    return {replica.name: _judged(control_plane, replica, now, waits_for="") for replica in failed_ones}


def _verdict(control_plane: ControlPlane, replica: Replica, now: datetime, alone: Alone) -> Verdict:
    waits_for = _waits_for(control_plane, replica, alone)
    known = None if waits_for else alone.get(replica.name)
    return known or _judged(control_plane, replica, now, waits_for=waits_for)


def _judged(control_plane: ControlPlane, replica: Replica, now: datetime, *, waits_for: str) -> Verdict:
    """The verdict on a replica that waits for the remediation of another, which was begun; empty: for none."""
    account = _account(control_plane.desired.remediation, replica.replaces, now)
    asked: list[Check] = []
    for check, reason in _questions(control_plane, replica, account, waits_for):
        asked.append(check)
        if not check.passed:
            wake_at = account.wake_at if check is account.check else None
            return Verdict(replica.name, tuple(asked), reason, account.retries, wake_at)
    overtaken = control_plane.remediating  # there is one record for both: the higher count stays
    return Verdict(replica.name, tuple(asked), None, max(account.retries, overtaken.retries if overtaken else 0))


def _questions(control_plane: ControlPlane, replica: Replica, account: _Account, waits_for: str) -> Iterator[tuple[Check, Reason]]:
    yield _not_deleting(replica), Reason.DELETING
    yield _records_readable(control_plane, replica), Reason.CANNOT
    yield _previous_finished(control_plane, replica, waits_for), Reason.WAITING
    yield topology_arrived(control_plane), Reason.DEFERRED
    yield account.check, account.reason
    yield _will_wait_for_us(replica), Reason.DEFERRED
    if control_plane.may_be_initialized:
        yield from safe_to_remediate(control_plane, replica)
    else:
        yield exempt_before_initialization(control_plane, replica), Reason.DEFERRED


def _not_deleting(replica: Replica) -> Check:
    return failed(NOT_DELETING, "its deletion is under way") if replica.deleting_since else passed(NOT_DELETING, "nobody deletes it")


def _will_wait_for_us(replica: Replica) -> Check:
    """Without our hook its Machine would end while its member is still in the ring."""
    return passed(HOOK_HELD, "it will") if replica.holds_hook else failed(HOOK_HELD, "it does not carry our pre-terminate hook")


def _records_readable(control_plane: ControlPlane, replica: Replica) -> Check:
    problem = control_plane.remediation_problem or replica.record_problem
    return failed(RECORDS_READABLE, problem, _CORRECT) if problem else passed(RECORDS_READABLE, "all of them")


def _previous_finished(control_plane: ControlPlane, replica: Replica, waits_for: str) -> Check:
    """Is no other remediation under way? One whose replica is held at our hook, or whose replacement cannot join, is overtaken: until this replica has gone."""
    done = control_plane.remediating
    overtaken = _overtaken(control_plane, done, replica) if done is not None else ""
    if done is not None and not overtaken:
        return failed(PREVIOUS_FINISHED, f"{done.replica} was deleted, and its replacement does not exist yet")
    if waits_for:
        return failed(PREVIOUS_FINISHED, f"{waits_for} is about to be replaced")
    return passed(PREVIOUS_FINISHED, overtaken or "none is under way")


def _waits_for(control_plane: ControlPlane, replica: Replica, alone: Alone) -> str:
    """The replica whose remediation was begun before that of this one; empty: none.

    One that is not wanted any more, beside another that is held, is not waited for: to clear its record would clear that of the one that is held.
    """
    done, begun = control_plane.remediating, control_plane.remediation_intended
    if begun is None or begun.replica == replica.name or (done is not None and _is_dropped(control_plane, begun, alone)):
        return ""
    return begun.replica


def _overtaken(control_plane: ControlPlane, record: Remediation, replica: Replica) -> str:
    """Why this remediation is not waited for before `replica` goes; empty: it is."""
    if _cannot_finish(control_plane, record):
        return f"{record.replica} was deleted, and cannot leave as things are"
    if _keeps_others_out(control_plane, replica) and all(other.name != record.replica for other in control_plane.replicas):
        return f"{record.replica} was deleted, and no replacement can join while the member of {replica.name} is in the ring"
    return ""


def _keeps_others_out(control_plane: ControlPlane, replica: Replica) -> bool:
    """Whether etcd tolerates one more member only without that of this replica."""
    ring = dependable_ring(control_plane)
    if isinstance(ring, Unknown) or not isinstance(replica.member, int) or not control_plane.desired.etcd_managed:
        return False
    left = Ring(tuple(member for member in ring.members if member.id != replica.member), ring.leader)
    return not quorum_survives_addition(ring).passed and quorum_survives_addition(left).passed


def _cannot_finish(control_plane: ControlPlane, record: Remediation) -> bool:
    """Whether its replica waits at our hook for something that time alone will not change."""
    return any(replica.name == record.replica and is_held(control_plane, replica) for replica in control_plane.leaving)


@dataclass(frozen=True, slots=True)
class _Account:
    """What the policy of retries says: its check with the kind of refusal, the count if it goes ahead, and when time alone changes the answer."""

    check: Check
    reason: Reason
    retries: int
    wake_at: datetime | None = None


def _account(policy: RemediationPolicy, previous: Remediation | None, now: datetime) -> _Account:
    """Count a failure against the remediation that this replica was made for, unless that was so long ago that they have nothing to do with each other.

    A record without a time counts as long ago. `max_retry` counts retries: 3 allows the first remediation and three more.
    """
    if previous is None or previous.at is None or previous.at + policy.min_healthy_period <= now:
        return _Account(passed(RETRIES_LEFT, "this is no repeated failure"), Reason.CANNOT, 0)
    if previous.at + policy.retry_period > now:
        evidence = f"{previous.replica} was replaced by it within the last {policy.retry_period}, which is the retry period"
        return _Account(failed(RETRY_PERIOD, evidence), Reason.DEFERRED, previous.retries, previous.at + policy.retry_period)
    if policy.max_retry is not None and previous.retries >= policy.max_retry:
        evidence = f"its kind failed {previous.retries + 1} times, each within {policy.min_healthy_period} of the last, and maxRetry is {policy.max_retry}"
        return _Account(failed(RETRIES_LEFT, evidence), Reason.CANNOT, previous.retries, previous.at + policy.min_healthy_period)
    return _Account(passed(RETRIES_LEFT, f"this is retry {previous.retries + 1}"), Reason.CANNOT, previous.retries + 1)


def _rank(control_plane: ControlPlane, replica: Replica) -> tuple[object, ...]:
    """Who goes first: one whose remediation was begun, one that its owner marked, one without a Node, then by what is not known to be well, then the oldest.

    A finding that is absent or unknown counts as not well. Source: getMachineToBeRemediated.
    """
    begun = control_plane.remediation_intended
    components = _COMPONENTS if control_plane.desired.etcd_managed else _COMPONENTS[1:]
    return (
        begun is None or begun.replica != replica.name,
        not replica.remediate_first,
        replica.node is not None,
        not control_plane.desired.etcd_managed or _all_good(replica.member_findings),
        *(_is_good(replica.component_findings, component) for component in components),
        _all_good(replica.node_findings),
        replica.created,
        replica.name,
    )


def _is_good(findings: tuple[tuple[str, Finding], ...], component: str) -> bool:
    return any(name == component and finding.health is Health.GOOD for name, finding in findings)


def _all_good(findings: tuple[tuple[str, Finding], ...]) -> bool:
    return bool(findings) and all(finding.health is Health.GOOD for _, finding in findings)


def _is_settled(control_plane: ControlPlane, now: datetime) -> bool:
    """Whether nothing waits for the records any more."""
    done, begun = control_plane.remediating, control_plane.remediation_intended
    if any(_is_replaced(control_plane, record) for record in (done, begun) if record is not None):
        return True
    if done is not None:
        return _nobody_is_missing(control_plane)
    return begun is not None and _is_dropped(control_plane, begun, _alone(control_plane, now))


def _is_replaced(control_plane: ControlPlane, record: Remediation) -> bool:
    """Whether its replacement exists: it names the record, or is younger; a record without a time is older than everything, as it is for upstream."""
    return any(replica.replaces == record or record.at is None or replica.created > record.at for replica in control_plane.replicas)


def _nobody_is_missing(control_plane: ControlPlane) -> bool:
    """Whether no replacement will come: as many as desired stay, and no rollout is about to make one; or another failed, which would wait for it in vain."""
    enough = len(control_plane.staying) >= control_plane.desired.replicas
    return enough and (not control_plane.outdated or any(replica.unhealthy for replica in control_plane.staying))


def _is_recorded(control_plane: ControlPlane, intended: Remediation) -> bool:
    """Whether upstream's record is of this remediation, and not of an earlier one that it has overtaken."""
    return control_plane.remediating is not None and control_plane.remediating.replica == intended.replica


def _is_dropped(control_plane: ControlPlane, intended: Remediation, alone: Alone) -> bool:
    """Whether a remediation that was recorded and not begun is not wanted: the replica recovered, or another may go and this one may not."""
    if not _stays(control_plane, intended.replica):
        return False
    own = alone.get(intended.replica)
    return own is None or (not own.permitted and any(other.permitted for other in alone.values()))


def _stays(control_plane: ControlPlane, name: str) -> bool:
    return any(replica.name == name for replica in control_plane.staying)


def _named(answer: Verdict) -> tuple[Check, ...]:
    """The checks as they stand among those of other replicas: with the replica's name."""
    shown = answer.checks if answer.permitted else answer.checks[-1:]
    return tuple(replace(check, evidence=f"{answer.replica}: {check.evidence}") for check in shown)
