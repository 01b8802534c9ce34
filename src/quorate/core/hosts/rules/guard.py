"""Preconditions of every step: no other operator works here, the hosts match the manifest, etcd has its quorum and the API answers."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts.gates import readable
from quorate.core.hosts.rules.facts import HOLDS_THE_DATA, data_lost, names, told
from quorate.core.hosts.state import BELONGING, EXPIRED, Cluster, Host, Kind
from quorate.core.hosts.steps import EVERYTHING, Prepare, Reconfigure, StartServices, Step
from quorate.core.proposal import NOTHING, Proposal, blocking
from quorate.core.ring import Member, Ring

ALONE = "nobody else works on these hosts"
KUBEADM_ENDED = "no kubeadm is running"
HOSTS_FIT = "the hosts do not contradict each other"
OURS = "no control plane host belongs to another cluster"
KNOWN = "the state of every control plane host is known"
UNIQUE = "every host is the one machine that the manifest means"
QUORUM = "etcd has its quorum"
TAKES_WRITES = "etcd takes writes"
API = "the API answers"
KUBEADM_WANTED = "kubeadm is left alone"

LOOK_AGAIN = timedelta(seconds=2)
"""Until it is asked again whether kubeadm still runs; a join takes 10 to 30 s."""
RUNBOOK = "restore etcd from a snapshot (docs/restore.md)"

BUT_START: frozenset[type[Step]] = EVERYTHING - {StartServices}
"""To start what should run only adds, and may be what is missing."""


def work_alone(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Waits while another operator works on these hosts."""
    if not cluster.locked_by:
        return NOTHING
    remedy = "Wait until it has ended; the lock of a run that was killed expires by itself."
    return blocking(EVERYTHING, failed(ALONE, cluster.locked_by, remedy))


def let_kubeadm_end(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Waits for a kubeadm that an interrupted run left behind: until it has ended, its host may still change."""
    busy = [host for host in cluster.hosts if host.kubeadm_runs]
    if not busy:
        return NOTHING
    check = failed(
        KUBEADM_ENDED,
        f"kubeadm runs on {names(busy)}",
        "It ends by itself: kubeadm limits each of its waits, most of them to 4 or 5 minutes.",
    )
    return Proposal(checks=(check,), blocks=EVERYTHING, wake_at=now + LOOK_AGAIN)


def refuse_what_does_not_fit(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Changes nothing if hosts contradict each other, or a control plane host belongs to another cluster: the manifest is then not of these hosts."""
    foreign = [host for host in cluster.control_planes if host.kind is Kind.FOREIGN]
    checks = [failed(HOSTS_FIT, problem, "Correct the manifest or the hosts.") for problem in cluster.problems]
    if foreign:
        evidence = "; ".join(f"{host.name}: {_why(host)}" for host in foreign)
        remedy = f"Remove it from the manifest, or reset it: `quorate reset -m MANIFEST {foreign[0].name}`."
        checks.append(failed(OURS, evidence, remedy))
    return blocking(EVERYTHING, *checks)


def refuse_what_is_unknown(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Changes nothing while a control plane host answers but its state is unknown: it may be anything."""
    puzzling = [host for host in cluster.control_planes if host.kind is Kind.UNKNOWN and host.name not in cluster.options.without]
    if not puzzling:
        return NOTHING
    evidence = "; ".join(f"{host.name}: {_why(host)}" for host in puzzling)
    return blocking(BUT_START, unknown(KNOWN, evidence, "Make these facts readable, then run the command again."))


def keep_the_quorum(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Changes nothing while etcd has no quorum: etcd accepts no change then, and work on a host could make the loss final.

    Services that should run are started before it is asked. Nothing after it is, since what else does not hold follows from it.
    """
    if not cluster.stands:
        return NOTHING
    match readable(cluster.ring):
        case Unknown(reason):
            return blocking(EVERYTHING, _unread(cluster, reason))
        case Ring() as ring if not ring.commits:
            verdict = ring.commits
            silent = ", ".join(member.label for member in ring.voters if not member.takes_part)
            evidence = f"{verdict.good} of {verdict.voters} voters take part, quorum {verdict.quorum}; {silent} do not"
            remedy = _or_renew(cluster.control_planes, f"Bring back {-verdict.margin} of {silent}, or {RUNBOOK}.")
            return blocking(EVERYTHING, failed(QUORUM, evidence, remedy))
        case Ring() as ring:
            return Proposal(checks=(passed(QUORUM, str(ring.now)),))


def keep_the_data(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Reports first of all that the last members with etcd's data belong to no host of the manifest: everything else waits for that, and only their owner can
    change it."""
    last = _well_elsewhere(cluster)
    may_hold = [host for host in cluster.control_planes if not isinstance(host.member, Absent) and not data_lost(host)]
    if not cluster.stands or may_hold or not last:
        return NOTHING
    labels = ", ".join(member.label for member in last)
    remedy = f"Keep the machine of {labels} running, and put it back into the manifest; or {RUNBOOK}."
    evidence = f"no host of the manifest has etcd's data any more; the last with the data is {labels}, whose host is not in the manifest"
    return Proposal(checks=(failed(HOLDS_THE_DATA, evidence, remedy),))


def need_writes(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Waits while an alarm of no present member makes etcd refuse every write: no step could finish, and only an administrator can disarm it."""
    return blocking(BUT_START, *(failed(TAKES_WRITES, alarm) for alarm in cluster.alarms))


def need_the_api(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Once there is a cluster, adds nothing to it and removes nothing from it while its API does not answer.

    What broke the only API server may be a setting: a host that is broken and differs from the manifest can be repaired without the API.
    """
    if not cluster.stands:
        return NOTHING
    if cluster.api.health is Health.GOOD:
        return Proposal(checks=(passed(API, told(cluster.api)),))
    answer = failed if cluster.api.health is Health.BAD else unknown
    look = "Bring an API server back: `crictl ps -a` and `crictl logs` on a control plane host show why it does not run."
    remedy = _or_renew(cluster.control_planes, look)
    if others := ", ".join(member.label for member in _well_elsewhere(cluster)):
        remedy += f" Those beside the members {others} cannot be asked, since their hosts are not in the manifest: put one of them back into the manifest."
    return blocking(BUT_START - {Reconfigure}, answer(API, told(cluster.api), remedy))


def name_what_is_not_unique(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Neither prepares nor joins a new host that cannot be told from another, or is not the machine that the manifest means; goes on with the others."""
    whys = dict.fromkeys(why for host in cluster.hosts for why in host.not_unique)
    return Proposal(checks=tuple(failed(UNIQUE, why) for why in whys))


def stop_before_kubeadm(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """With `--no-init`, prepares hosts and does nothing more."""
    if cluster.options.initialize:
        return NOTHING
    return Proposal(checks=(passed(KUBEADM_WANTED, "you asked to prepare the hosts only"),), blocks=EVERYTHING - {Prepare})


def _well_elsewhere(cluster: Cluster) -> list[Member]:
    """The members of no host of the manifest that vote and answer."""
    return [orphan.member for orphan in cluster.orphans if orphan.member.votes_well and orphan.missed_probes is None]


def _unread(cluster: Cluster, reason: str) -> Check:
    """The ring cannot be read, so hosts tell what is left: those that can be reached and have their data."""
    concerned = [host for host in cluster.control_planes if host.kind in BELONGING or host.kind in (Kind.UNREACHABLE, Kind.UNKNOWN)]
    left = [host for host in concerned if host.kind in BELONGING and not data_lost(host)]
    gone = [host for host in concerned if host not in left]
    quorum = len(concerned) // 2 + 1
    states = "; ".join(f"{host.name}: {_state(host)}" for host in concerned)
    evidence = (
        f"the ring could not be read: {reason}. {len(left)} of {len(concerned)} hosts are left with their data, quorum {quorum}. {states}"
    )
    if len(left) < quorum:
        return failed(QUORUM, evidence, _or_renew(left, f"Bring back {quorum - len(left)} of {names(gone)} with its data, or {RUNBOOK}."))
    look = f"Find out why etcd does not answer on {names(left)}: `crictl ps -a` and `crictl logs` there show it"
    return unknown(QUORUM, evidence, _or_renew(left, f"{look}. If it waits for members whose data are gone for good, {RUNBOOK}."))


def _or_renew(hosts: Collection[Host], remedy: str) -> str:
    """The remedy, unless certificates of these hosts have expired: nobody who answers with one is believed, or can be asked whether a restart is safe."""
    expired = [host for host in hosts if any(finding.reason == EXPIRED for finding in host.findings)]
    if not expired:
        return remedy
    return (
        f"Renew the certificates that have expired on {names(expired)}, one host after the other: `kubeadm certs renew all` there; then restart its static "
        f"Pods: `mkdir -p /etc/kubernetes/stopped`, move the files of /etc/kubernetes/manifests into it, wait until neither etcd nor kube-apiserver runs, and "
        f"move them back. Then apply again. You do not need to restore anything."
    )


def _state(host: Host) -> str:
    if host.kind is Kind.UNREACHABLE:
        return "unreachable"
    if data_lost(host):
        return "its etcd data is lost"
    return told(host.member_health) if host.member_health is not None else _why(host, (Health.BAD,))


def _why(host: Host, healths: Collection[Health] = (Health.BAD, Health.UNKNOWN)) -> str:
    """Its findings of these healths; what it is, where there are none."""
    return ", ".join(told(finding) for finding in host.findings if finding.health in healths) or host.kind.value
