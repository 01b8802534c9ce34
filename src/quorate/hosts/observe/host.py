"""One host as the decision sees it, from everything that was learned of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.state import READYZ, Host, Kind, MissedProbes
from quorate.core.ring import Member
from quorate.core.versions import Version, parse_or_none
from quorate.etcd.log_file import LogIdentity
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.observe.drift import drift, guarded_by, lacking
from quorate.hosts.observe.encryption import encryption
from quorate.hosts.observe.inspection import Inspection
from quorate.hosts.observe.lasting import lasting_drift
from quorate.hosts.observe.membership import role
from quorate.hosts.observe.nodes import is_of_another_machine, metadata_drift, new_node_drift, seen
from quorate.hosts.probe.condition import Listing, condition
from quorate.hosts.probe.facts import RENEWED, RENEWED_KUBECONFIGS, EtcdData, Fact, HostFacts, Program, StaticPod, Unit
from quorate.hosts.probe.healthy import api_server, api_server_restarts
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.kubeadm_configuration import Machine
from quorate.kubernetes import objects

_LOST = (EtcdData.EMPTY, EtcdData.BEGUN_ANEW, EtcdData.WITHOUT_LOG)
"""What is in a data folder without what its member had acknowledged."""
BOOTING = timedelta(minutes=2)
"""How long after it was switched on a host may still be starting what runs on it: kubelet, etcd and API server take half a minute one after the other."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Everything that one observation learned of one host."""

    machine: Machine
    control_plane: bool
    facts: HostFacts | Unreachable
    member: Member | Absent | Unknown
    member_health: Finding | None
    node: objects.Node | Absent | Unknown
    ca: Fact[str]
    cluster_id: Fact[int]
    inspection: Inspection
    system: OperatingSystem
    missed_probes: MissedProbes | None = None


def core_host(manifest: Manifest, contents: Contents, learned: Learned, now: datetime) -> Host:
    """The host of the frozen view."""
    member = learned.member
    node = own_node(learned)
    host = Host(
        name=learned.machine.name,
        control_plane=learned.control_plane,
        kind=Kind.UNREACHABLE,
        missed_probes=learned.missed_probes,
        member=member.id if isinstance(member, Member) else member,
        member_health=learned.member_health,
        node=node if isinstance(node, Absent | Unknown) else seen(node),
        node_drift=_node_drift(learned, node),
        new_node_drift=new_node_drift(learned.machine.host, control_plane=learned.control_plane),
    )
    if isinstance(learned.facts, Unreachable):
        return replace(host, findings=(_unreachable(learned.facts),))
    return _reached(host, manifest, contents, learned, _as_its_member_answers(learned.facts, learned.member_health), now)


def own_node(learned: Learned) -> objects.Node | Absent | Unknown:
    """The Node of this host. One of its name is not its own where the host has joined nothing and the Node's addresses are another machine's: that machine was
    replaced by this one.
    """
    node, facts = learned.node, learned.facts
    if not isinstance(node, objects.Node) or isinstance(facts, Unreachable):
        return node
    joined_nothing = isinstance(facts.kubeconfigs["kubelet"], Absent)
    return Absent() if joined_nothing and is_of_another_machine(node, learned.machine.host) else node


def _reached(host: Host, manifest: Manifest, contents: Contents, learned: Learned, facts: HostFacts, now: datetime) -> Host:
    node = host.node if isinstance(host.node, Absent | Unknown) else host.node.name
    listing = Listing(ca=learned.ca, cluster_id=learned.cluster_id, etcd=role(learned.member), node=node)
    clock = facts.clock if isinstance(facts.clock, datetime) else None
    found = condition(facts, listing, control_plane=host.control_plane, now=clock or now)
    return replace(
        host,
        kind=found.kind,
        findings=found.findings,
        components=_components(facts),
        kubelet=_program(facts, "kubelet"),
        kubeadm=_program(facts, "kubeadm"),
        api_server=_api_server(facts),
        just_booted=isinstance(facts.running_for, timedelta) and facts.running_for < BOOTING,
        api_server_restarts=api_server_restarts(facts),
        lacks=lacking(manifest, facts, learned.system, learned.inspection),
        guarded_by=guarded_by(facts, learned.system),
        stopped=_stopped(facts),
        etcd_runs=_etcd_runs(facts),
        etcd_data_lost=data_lost(facts, learned.member),
        holds_a_copy=holds_a_copy(facts, learned.cluster_id),
        holds_other_data=host.control_plane and holds_other_data(facts, learned.cluster_id),
        drift=drift(manifest, contents, learned.machine.host, facts, learned.inspection, control_plane=host.control_plane),
        lasting_drift=lasting_drift(manifest, learned.machine.host, facts, control_plane=host.control_plane),
        certificates_expire=_expiry(facts) if host.control_plane else None,
        clock_ahead=clock - now if clock else None,
        encryption=encryption(manifest, facts, learned.inspection) if host.control_plane else None,
    )


def _as_its_member_answers(facts: HostFacts, health: Finding | None) -> HostFacts:
    """A member that is well by its own answer has what it acknowledged, whatever is in its log."""
    served = facts.etcd_data is EtcdData.BEGUN_ANEW and health is not None and health.health is Health.GOOD
    return replace(facts, etcd_data=EtcdData.MEMBER) if served else facts


def _unreachable(state: Unreachable) -> Finding:
    return Finding(Health.UNKNOWN, state.kind, f"{state.reason}{'. ' if state.remedy else ''}{state.remedy}")


def _node_drift(learned: Learned, node: objects.Node | Absent | Unknown) -> tuple[str, ...]:
    if not isinstance(node, objects.Node):
        return ()
    return metadata_drift(node, learned.machine.host, control_plane=learned.control_plane)


def _components(facts: HostFacts) -> Version | None:
    """The lowest version of its static Pods: kubeadm upgrades one after the other, and an upgrade that was cut short between two is not over."""
    pods = map(facts.manifest, ("kube-apiserver", "kube-controller-manager", "kube-scheduler"))
    versions = (parse_or_none(pod.version) for pod in pods if isinstance(pod, StaticPod))
    return min((version for version in versions if version is not None), default=None)


def _program(facts: HostFacts, name: str) -> Version | None:
    program = facts.programs[name]
    return program.version if isinstance(program, Program) and isinstance(program.version, Version) else None


def _api_server(facts: HostFacts) -> Finding | None:
    """The API server by its own word; None where the host has none."""
    return None if isinstance(facts.manifest("kube-apiserver"), Absent) else api_server(READYZ, facts.api_server_readyz, facts)


def _stopped(facts: HostFacts) -> tuple[str, ...]:
    """Units that a host which has joined must run. One that keeps failing is not stopped, and a start would not help it; nor one that is masked.

    None where the kubelet would start an etcd without its data, whatever the ring says of its member: as the founder it would begin a second cluster.
    """
    if isinstance(facts.kubeconfigs["kubelet"], Absent | Unknown) or starts_without_data(facts):
        return ()
    units = {name: facts.units[name] for name in ("containerd", "kubelet")}
    return tuple(
        f"{name}.service"
        for name, unit in units.items()
        if isinstance(unit, Unit) and unit.load == "loaded" and unit.active in ("inactive", "failed") and unit.file != "masked"
    )


def _etcd_runs(facts: HostFacts) -> bool:
    """Whether its member may run. A process of that name may be in any container; the one of kubeadm's manifest listens."""
    may_run = not isinstance(facts.processes, frozenset) or "etcd" in facts.processes
    return may_run and not (isinstance(facts.manifest("etcd"), StaticPod) and isinstance(facts.etcd_health, Absent))


def starts_without_data(facts: HostFacts) -> bool:
    """Whether the etcd of the host has a manifest and none of its data: a kubelet starts it on an empty folder."""
    return isinstance(facts.manifest("etcd"), StaticPod) and _has_no_data(facts)


def data_lost(facts: HostFacts, member: Member | Absent | Unknown) -> bool:
    """Whether the host had a member, by the ring or, where that cannot be read, by its etcd manifest, and has none of its data any more. A folder
    that etcd has begun anew since holds none of it; without its log etcd begins it anew, whatever else is there. With its log no vote is lost.

    While kubeadm runs, an empty folder may be one that a join is about to fill.
    """
    if not isinstance(facts.processes, frozenset) or "kubeadm" in facts.processes:
        return False
    had = isinstance(member, Member) or (isinstance(member, Unknown) and isinstance(facts.manifest("etcd"), StaticPod))
    return had and _has_no_data(facts)


def holds_a_copy(facts: HostFacts, cluster_id: Fact[int]) -> bool:
    """Whether the data on it are of the ring of this id, as far as they go. An etcd of the same names and addresses that begins anew has the same id."""
    log = facts.etcd_identity
    return isinstance(log, LogIdentity) and log.cluster_id == cluster_id and facts.etcd_data not in _LOST


def holds_other_data(facts: HostFacts, cluster_id: Fact[int]) -> bool:
    """Whether the data on it are of another ring than the one of this id, as after a restore, which gives the ring another one."""
    known = isinstance(facts.etcd_identity, LogIdentity) and isinstance(cluster_id, int) and facts.etcd_data not in _LOST
    return known and not holds_a_copy(facts, cluster_id)


def _has_no_data(facts: HostFacts) -> bool:
    return facts.etcd_data in _LOST or isinstance(facts.etcd_data, Absent)


def _expiry(facts: HostFacts) -> datetime | None:
    """When the first certificate that kubeadm renews expires; None where none could be read."""
    chains = [facts.certificates[name] for name in RENEWED]
    for name in RENEWED_KUBECONFIGS:
        kubeconfig = facts.kubeconfigs[name]
        chains += [] if isinstance(kubeconfig, Absent | Unknown) else [kubeconfig.client]
    return min((chain[0].not_after for chain in chains if not isinstance(chain, Absent | Unknown)), default=None)
