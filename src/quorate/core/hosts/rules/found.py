"""How a cluster begins: prepare hosts, initialize on one of them, continue an interrupted initialization. Never a second one (S3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Unknown
from quorate.core.hosts.rules.clocks import clock_fits
from quorate.core.hosts.rules.facts import names
from quorate.core.hosts.rules.guard import RUNBOOK
from quorate.core.hosts.rules.members import PROBE_INTERVAL
from quorate.core.hosts.state import LEADERLESS, UNTOUCHED, Cluster, Host, Kind
from quorate.core.hosts.steps import EVERYTHING, Initialize, Prepare, Step
from quorate.core.proposal import NOTHING, Proposal, wanting
from quorate.core.ring import Ring

NO_CLUSTER_HIDDEN = "every host that may hold the cluster was asked"
SAID_EMPTY = "exempt: the operator says that these hosts hold no cluster"
NO_TRACES = "no host has traces of a cluster"
NO_RING = "there is no etcd yet"
LEADER_READY = "a host is ready to initialize the cluster"
FOUNDED_ONCE = "only one host has begun to initialize the cluster"
DATA_MOUNTED = "what the initialization has written is there"
SAME_VERSION = "the initialization continues with the version that it began with"


def prepare_hosts(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Prepares hosts that belong to no cluster, all at once: nothing runs on them that could be disturbed."""
    lacking = tuple(host.name for host in cluster.hosts if host.kind in UNTOUCHED and not host.not_unique and not is_ready(host))
    return Proposal(Prepare(lacking)) if lacking else NOTHING


def is_ready(host: Host) -> bool:
    """Whether kubeadm may run on it: it has everything, no trace of a cluster, and is certainly the machine that is meant."""
    return host.kind is Kind.PACKAGES_ONLY and not host.lacks and not host.not_unique


def initialize(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Initializes the cluster on the manifest's leader, once it is certain that no host, reachable or not, holds a cluster already.

    Only where the leader is one of the hosts that the operator declared empty, the first other control plane host that is ready takes its place.
    """
    if cluster.is_provisioned:
        return NOTHING
    ready = [host for host in cluster.control_planes if is_ready(host)]
    chosen = next((host for host in ready if host.name == cluster.leader), None)
    if chosen is None and cluster.leader in cluster.options.without:
        chosen = next(iter(ready), None)
    checks = (*_nothing_hidden(cluster), _no_traces(cluster, cluster.hosts), _no_ring(cluster))
    if chosen is None:
        remedy = "Name it with --without to have another host initialize the cluster, if it holds none."
        return _nothing_else(*checks, failed(LEADER_READY, f"{cluster.leader} is {cluster.host(cluster.leader).kind.value}", remedy))
    ready_too = passed(LEADER_READY, f"{chosen.name} has everything that kubeadm needs")
    return _or_nothing_else(Initialize(chosen.name), *checks, ready_too, clock_fits(cluster, chosen))


def continue_the_initialization(cluster: Cluster, now: datetime) -> Proposal[Step]:
    """Continues an interrupted initialization, and never starts it over: the host's etcd and keys may be the only ones."""
    if not cluster.is_being_founded:
        return NOTHING
    founders = [host for host in cluster.control_planes if host.kind is Kind.HALF_INITIALIZED]
    if len(founders) > 1:
        remedy = (
            "Find the one whose etcd holds what you need, save the data of the others, and reset them: `quorate reset -m MANIFEST HOST`."
        )
        return _nothing_else(failed(FOUNDED_ONCE, names(founders), remedy))
    (founder,) = founders
    proposal = _or_nothing_else(
        Initialize(founder.name, resume=True),
        *_nothing_hidden(cluster),
        _no_traces(cluster, (host for host in cluster.control_planes if host is not founder)),
        _alone(cluster, founder),
        _is_mounted(founder),
        _same_version(cluster, founder),
    )
    return replace(proposal, wake_at=now + PROBE_INTERVAL) if _may_be_mounted_later(founder) else proposal


def _or_nothing_else(step: Step, *checks: Check) -> Proposal[Step]:
    proposal = wanting(step, *checks)
    return proposal if proposal.step is not None else _nothing_else(*checks)


def _nothing_else(*checks: Check) -> Proposal[Step]:
    """Without a cluster there is nothing else to do."""
    return Proposal(checks=checks, blocks=EVERYTHING)


def _nothing_hidden(cluster: Cluster) -> tuple[Check, ...]:
    """A cluster may be on any control plane host that cannot be asked, as long as nobody who knows says that it is not."""
    silent = [host for host in cluster.control_planes if host.kind in (Kind.UNREACHABLE, Kind.UNKNOWN)]
    vouched = [host for host in silent if host.name in cluster.options.without]
    hidden = [host for host in silent if host not in vouched]
    exempt = (passed(SAID_EMPTY, names(vouched)),) if vouched else ()
    if not hidden:
        return (*exempt, passed(NO_CLUSTER_HIDDEN, "every other control plane host answered"))
    options = " ".join(f"--without {host.name}" for host in hidden)
    remedy = f"Bring them back; or, if you know that they hold no cluster, say so: {options}."
    evidence = f"{names(hidden)} cannot be asked, and may hold the cluster already"
    return (*exempt, failed(NO_CLUSTER_HIDDEN, evidence, remedy))


def _no_traces(cluster: Cluster, hosts: Iterable[Host]) -> Check:
    """Traces on a worker too say that there was a cluster: its data may be somewhere, and a new one would not know these hosts.

    Nobody joins an initialization that was cut short, so that a control plane host beside it has traces of a cluster that was there before.
    """
    asked = [host for host in hosts if host.kind is not Kind.UNREACHABLE and host.name not in cluster.options.without]
    traces = [host for host in asked if host.kind not in (*UNTOUCHED, Kind.UNKNOWN)]
    puzzling = [host for host in asked if host.kind is Kind.UNKNOWN]
    if puzzling and not traces:
        commands = ", ".join(f"`quorate explain -m MANIFEST {host.name}`" for host in puzzling)
        remedy = f"Find out what they are ({commands}). If their cluster still runs on hosts that you removed, put one of them back into the manifest."
        return unknown(NO_TRACES, f"{names(puzzling)} may have some", remedy)
    if not traces:
        return passed(NO_TRACES, "on none that answered")
    evidence = "; ".join(f"{host.name} is {host.kind.value}" for host in traces)
    everything = not isinstance(cluster.ring, Absent) or all(host in traces for host in cluster.control_planes)  # `reset` would ask for it
    command = f"quorate reset -m MANIFEST {'--all' if everything else ' '.join(host.name for host in traces)}"
    gone = f"If that cluster is gone for good, reset the hosts: `{command}`."
    goes_on = "If not, bring its control plane back; if you removed its hosts, put one of them back into the manifest."
    return failed(NO_TRACES, evidence, f"{gone} {goes_on}")


def _no_ring(cluster: Cluster) -> Check:
    match cluster.ring:
        case Absent():
            return passed(NO_RING, "no member on any host")
        case Unknown(reason, remedy):
            return unknown(NO_RING, reason, remedy)
        case Ring() as ring:
            return failed(
                NO_RING, f"there is one: {', '.join(member.label for member in ring.members)}", "Find out which cluster it belongs to."
            )


def _alone(cluster: Cluster, founder: Host) -> Check:
    """A ring with others is no beginning: there was more of this cluster than the hosts show. One alone in its ring is its leader."""
    leaderless = [finding.message for finding in founder.findings if finding.reason == LEADERLESS]
    if isinstance(cluster.ring, Unknown) and leaderless:
        remedy = f"Bring the other members back; or {RUNBOOK}."
        return unknown(NO_RING, f"{founder.name} may be one of several members: {', '.join(leaderless)}", remedy)
    others = [member.label for member in cluster.ring.members if member.id != founder.member_id] if isinstance(cluster.ring, Ring) else []
    if not others:
        return passed(NO_RING, f"beside that of {founder.name}")
    return failed(NO_RING, f"its ring has other members: {', '.join(others)}", "Bring their hosts back, or add them to the manifest.")


def _may_be_mounted_later(founder: Host) -> bool:
    return founder.just_booted and founder.etcd_data_lost


def _is_mounted(founder: Host) -> Check:
    """Without the data of what it has begun, kubeadm would found another cluster."""
    if not _may_be_mounted_later(founder):
        return passed(DATA_MOUNTED, founder.name)
    evidence = f"{founder.name} has no etcd data, but was switched on a moment ago: the disk with them may not be mounted yet"
    return unknown(DATA_MOUNTED, evidence)


def _same_version(cluster: Cluster, founder: Host) -> Check:
    if founder.components in (None, cluster.version):
        return passed(SAME_VERSION, str(cluster.version))
    remedy = f"Set versions.kubernetes to {founder.components}, continue, then upgrade."
    return failed(SAME_VERSION, f"{founder.name} began with {founder.components}, the manifest says {cluster.version}", remedy)
