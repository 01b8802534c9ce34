"""What else the oracle holds a decision to: health, the hook, orphans, remediation and its records, gates and versions. In the form of `safety`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quorate.core.health import Health, Unknown
from quorate.core.machines.state import ControlPlane
from quorate.core.machines.steps import (
    CreateReplica,
    DeleteReplica,
    ForgetRemediation,
    RecordRemediation,
    ReleaseHook,
    Remediate,
    RemoveMember,
    RemoveOrphan,
    Step,
    UpdateInPlace,
)
from quorate.core.versions import Version
from tests.proof.counting import Going, Touching, counts, held, is_well, may_be_founded, never_came_up, serves, staying, voters, who_goes

ORPHAN_AGE = timedelta(minutes=2)  # a Machine or a Node that explains a member has appeared by then
GIVEN_UP = timedelta(minutes=20)  # a member that has never started by then is not going to: kubeadm has ended with an error
JOINING = timedelta(minutes=10)  # after the Node came; kubeadm has joined its etcd member, or given up, by then


def all_others_are_well(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Scaling and rolling out wait until every replica that stays is well; a replacement may come beside ill ones as long as one serves."""
    if not may_be_founded(plane) or not isinstance(step, CreateReplica | DeleteReplica | UpdateInPlace):
        return
    others = [r for r in staying(plane) if r is not who_goes(plane, step)]
    if isinstance(step, CreateReplica) and not others:
        others = held(plane)
    if isinstance(step, CreateReplica) and not others:
        yield "nobody is there to be joined"
    ill = [r.name for r in others if not is_well(r, etcd_managed=plane.desired.etcd_managed)]
    if isinstance(step, CreateReplica) and plane.remediating and any(serves(r) for r in others):
        return
    if ill:
        yield f"{', '.join(ill)} is not well"
    if not plane.desired.etcd_managed and plane.external_etcd and plane.external_etcd.health is not Health.GOOD:
        yield "the external etcd is not well"


def only_what_waits_at_our_hook_is_let_go(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A Machine is let go when it was deleted, waits at our hook and for nobody else; and none is deleted that our hook would not hold."""
    goes = who_goes(plane, step)
    if goes is None:
        return
    if not goes.holds_hook:
        yield "our hook does not hold it"
    if isinstance(step, RemoveMember | ReleaseHook):
        if not (goes.deleting_since and goes.waits_at_hook):
            yield "it does not wait at our hook"
        if goes.other_hooks:
            yield "it waits for others first"
        if isinstance(step, RemoveMember) and goes.member != step.member:
            yield "the member is not its own"
    elif goes.deleting_since:
        yield "it is being deleted already"


def an_orphan_has_no_owner(plane: ControlPlane, step: Step, now: datetime) -> Iterator[str]:
    """A member is removed as nobody's only when it has been so for a while, and nobody is on the way whose it could be.

    Whoever waits at our hook is not on the way any more; if the member could be its own, the others must be able to do without that replica as well.
    """
    if not isinstance(step, RemoveOrphan):
        return
    orphan = next((orphan for orphan in plane.orphans if orphan.member.id == step.member), None)
    if orphan is None or not counts(plane) or any(r.member == step.member for r in plane.replicas):
        yield "it is not nobody's"
        return
    down = orphan.member.health is Health.BAD and not orphan.member.only_alarmed
    if orphan.node and not orphan.consented and (orphan.node_ready or not down):
        yield "it lives on somebody's Node"
    if now - orphan.since < ORPHAN_AGE:
        yield "it was seen just now"
    if not orphan.member.name and now - orphan.since >= GIVEN_UP:
        return
    for owner in held(plane):
        young = now - max(owner.created, owner.node_created or owner.created) < JOINING
        could_be = owner.node is None or owner.name in orphan.may_be_of or (not orphan.member.name and young)
        if isinstance(owner.member, int) or not could_be:
            continue
        if not (owner.deleting_since and owner.waits_at_hook and not owner.other_hooks):
            if orphan.consented:
                continue
            yield f"it may be of {owner.name}, which is on the way"
        elif not [r for r in held(plane) if r is not owner and r.member in voters(plane)]:
            yield f"it may be of {owner.name}, without which no other replica has the data"
        elif not never_came_up(plane, owner) and not [r for r in held(plane) if r is not owner and serves(r)]:
            yield f"it may be of {owner.name}, without which nobody serves"


def a_remediation_has_its_reason(plane: ControlPlane, step: Step, now: datetime) -> Iterator[str]:
    """Only a replica that a health check failed, as often as its owner allows, never the only one, and not while another that nobody failed comes up."""
    if not isinstance(step, Remediate):
        return
    goes = plane.replica(step.replica)
    if not goes.unhealthy:
        yield "no health check failed it"
    if plane.remediation_problem or goes.record_problem:
        yield "its record cannot be read"
    policy, before = plane.desired.remediation, goes.replaces
    if before and before.at and now - before.at < policy.min_healthy_period:
        if now - before.at < policy.retry_period:
            yield "its predecessor failed a moment ago"
        if policy.max_retry is not None and before.retries >= policy.max_retry:
            yield "its old_containers failed too often"
    if may_be_founded(plane) and len(plane.replicas) <= 1:
        yield "it is the only one"
    if may_be_founded(plane) and [r for r in staying(plane) if r is not goes and not r.unhealthy and r.node is None]:
        yield "another is on its way"


def before_initialization_only_the_first_goes(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """Nobody joins what was never founded: who is not alone in it stays, whatever is called proven."""
    if not may_be_founded(plane) and isinstance(step, Going) and len(plane.replicas) > 1:
        yield "it is not the only one"


def a_replacement_carries_its_record(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A remediation whose replica is gone is on record before its replacement is made, and stays so until the replacement exists or none is to come (S12)."""
    begun, done = plane.remediation_intended, plane.remediating
    gone = begun is not None and begun.replica not in {r.name for r in staying(plane)}
    recorded = begun is not None and done is not None and done.replica == begun.replica
    if isinstance(step, CreateReplica) and gone and not recorded:
        yield "the replacement would not know whose it is"
    if isinstance(step, RecordRemediation) and (not gone or recorded):
        yield "there is nothing to record"
    if not isinstance(step, ForgetRemediation):
        return
    records = [record for record in (begun, done) if record is not None]
    made = any(r.replaces == record or record.at is None or r.created > record.at for r in plane.replicas for record in records)
    none_to_come = done is not None and len(staying(plane)) >= plane.desired.replicas
    if not made and not none_to_come and not (begun and not done and not gone and not _is_wanted(plane, begun.replica)):
        yield "its replacement is still to come"


def _is_wanted(plane: ControlPlane, replica: str) -> bool:
    others = [r for r in staying(plane) if r.unhealthy and r.name != replica]
    return plane.replica(replica).unhealthy and not others


def nothing_moves_behind_a_gate(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """What cannot be seen, is not ours, is not valid, or is not ready, is not changed."""
    if not isinstance(step, Touching):
        return
    shut = {
        "the specification is not valid": plane.invalid or plane.unsupported,
        "others own Machines of it, or nobody does": plane.foreign or plane.adoptable,
        "the Cluster names another": plane.not_the_clusters,
        "there is no infrastructure": not plane.infrastructure_ready,
        "there is no endpoint": not plane.endpoint,
        "its members disagree": plane.membership_problem and counts(plane),
        "whether there is a cluster is not known": isinstance(plane.initialized, Unknown),
        "the workload cluster does not answer": may_be_founded(plane) and plane.workload.health is not Health.GOOD,
        "it is being deleted": plane.deletion,
    }
    yield from (why for why, is_shut in shut.items() if is_shut)
    by_the_specification = _needs_a_newcomer(plane, step) or isinstance(step, UpdateInPlace)
    if by_the_specification and plane.template_problem:
        yield "there is no template"
    if by_the_specification and may_be_founded(plane) and plane.preparation.pending:
        yield "a newcomer would read an old configuration"
    if _needs_a_newcomer(plane, step) and (plane.certificates.missing or plane.certificates.problem):
        yield "there are no certificates"
    if isinstance(step, CreateReplica | DeleteReplica | Remediate | UpdateInPlace) and plane.topology_pending:
        yield "another version is about to be asked for"


def _needs_a_newcomer(plane: ControlPlane, step: Step) -> bool:
    """It makes one, or leaves fewer than desired, so that one must be made."""
    return isinstance(step, CreateReplica) or (isinstance(step, DeleteReplica) and len(staying(plane)) <= plane.desired.replicas)


def versions_stay_close(plane: ControlPlane, step: Step, _now: datetime) -> Iterator[str]:
    """A replica joins at most one minor from everybody who is there, and never below all of them; and none goes whose replacement could not join."""
    if not may_be_founded(plane) or not (_needs_a_newcomer(plane, step) or isinstance(step, UpdateInPlace)):
        return
    target, goes = plane.desired.version, who_goes(plane, step)
    texts = [text for r in plane.replicas if r is not goes for text in (r.version, r.kubelet_version) if text]
    if any(v.major != target.major or abs(v.minor - target.minor) > 1 for v in map(Version.parse, texts)):
        yield "more than one minor lies between them"
    running = [Version.parse(r.version) for r in held(plane) if r is not goes]
    if running and all(target < v for v in running):
        yield "everybody runs something newer"
