"""One observation: hosts, ring and API asked once, as far as possible at the same time, and made into the one value that is judged.

Nothing that a host, a member or an API server does or leaves out makes it fail: what could not be learned is in the answer, as unknown and with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.state import Cluster, Node, RunOptions
from quorate.core.ring import Ring
from quorate.hosts.connect.access import Access
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest import Manifest, Secret
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.manifest.values import NO_SECRET
from quorate.hosts.observe.api import ApiReading, read_api
from quorate.hosts.observe.cluster_ca import cluster_ca, trusted
from quorate.hosts.observe.configuration import addon_drift, configuration_drift, fixed_problems, running_version
from quorate.hosts.observe.drift import wanted_of
from quorate.hosts.observe.duplicates import doubts, set_apart
from quorate.hosts.observe.encryption import common_file, desired
from quorate.hosts.observe.endpoint import lost_names
from quorate.hosts.observe.etcd_folder import with_etcd_data
from quorate.hosts.observe.host import Learned, core_host, own_node
from quorate.hosts.observe.inspection import Inspection, inspect_all
from quorate.hosts.observe.lasting import lasting_configuration_drift
from quorate.hosts.observe.machine_deployments import machine_deployments
from quorate.hosts.observe.membership import Membership, claims_of, cluster_id, membership, orphan_members
from quorate.hosts.observe.memory import Memory
from quorate.hosts.observe.nodes import is_at, lost_nodes, seen
from quorate.hosts.observe.observation import Observation
from quorate.hosts.observe.problems import problems
from quorate.hosts.observe.ring import read_members, silent_members
from quorate.hosts.observe.systems import system_of
from quorate.hosts.probe.facts import EtcdData, HostFacts
from quorate.hosts.probe.probe import probe
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.kubeadm_configuration import Machine, node_address
from quorate.hosts.render.provider_files import PATHS, is_its_owners, with_file
from quorate.kubernetes import objects
from quorate.workload.membership import RingReading, alarms_without_member

Facts = Mapping[str, HostFacts | Unreachable]
_NO_OPTIONS = RunOptions()


async def observe(
    access: Access, manifest: Manifest, memory: Memory, contents: Contents, now: Callable[[], datetime], options: RunOptions = _NO_OPTIONS
) -> Observation:
    """Observe the cluster once. `access` is entered; `memory` is the run's; `contents` are the files beside the manifest; `now` is aware.

    Takes as long as the slowest host: a second where all is well, up to 15 s more where one does not let us connect, 5 where a member does not answer. The
    snapshot and the lock are the session's to fill in.
    """
    at = now()
    facts = await probe(await access.connect())
    control_planes = access.control_planes
    memory.hosts.note(facts, (name for name, each in facts.items() if isinstance(each, Unreachable)), at)
    ca = cluster_ca(facts, control_planes)
    access.avoid(name for name in control_planes if isinstance(ca, str) and trusted(facts[name]) and ca not in trusted(facts[name]))
    machines = {name: Machine(host, name) for name, host in access.hosts.items()}
    systems = {name: _system(machines[name], each) for name, each in facts.items()}
    async with asyncio.TaskGroup() as group:
        asking_ring = group.create_task(_ring(access, facts, ca, now))
        asking_api = group.create_task(_api(access, facts, ca))
        inspecting = group.create_task(_inspect(access, manifest, contents, facts, systems))
    facts = await with_etcd_data(access, facts, asking_api.result())
    read = asking_ring.result()
    ring = _no_member_to_ask(facts, control_planes, ca, asking_api.result()) if read is None else read
    if isinstance(ring, RingReading):
        memory.note_members(ring.ring, silent_members(ring), at)
    answers = _Answers(facts, machines, systems, ca, ring, asking_api.result(), inspecting.result(), access.naming_problems, access.unnamed)
    cluster = _cluster(manifest, contents, answers, memory, at, options)
    return Observation(cluster, facts, machines, ca, ring, answers.api, at)


@dataclass(frozen=True, slots=True)
class _Answers:
    """What everybody said."""

    facts: Facts
    machines: Mapping[str, Machine]
    systems: Mapping[str, OperatingSystem]
    ca: str | Absent | Unknown
    ring: RingReading | Unknown | Absent
    api: ApiReading | Unknown | Absent
    inspections: Mapping[str, Inspection]
    naming_problems: tuple[str, ...]
    unnamed: frozenset[str]


# Asking.


async def _ring(access: Access, facts: Facts, ca: str | Absent | Unknown, now: Callable[[], datetime]) -> RingReading | Unknown | None:
    """None: there is nobody to ask."""
    hosts = _with_member(facts, access.control_planes, ca)
    return await read_members(access, hosts, now) if hosts else None


def _with_member(facts: Facts, control_planes: tuple[str, ...], ca: str | Absent | Unknown) -> tuple[str, ...]:
    """Whom to ask for the ring: hosts of this cluster that have an etcd manifest, or of which that is not known."""
    known = {name: each for name in control_planes if isinstance(each := facts[name], HostFacts)}
    return tuple(
        name
        for name, each in known.items()
        if isinstance(ca, str) and ca in trusted(each) and not isinstance(each.manifest("etcd"), Absent)
    )


def _no_member_to_ask(
    facts: Facts, control_planes: tuple[str, ...], ca: str | Absent | Unknown, api: ApiReading | Unknown | Absent
) -> Unknown | Absent:
    """That there is no ring is proven by hosts of which none has any data of it; a cluster whose API answers has one, and a host that cannot be asked may."""
    if isinstance(ca, Unknown):
        return ca
    with_data = [name for name in control_planes if isinstance(each := facts[name], HostFacts) and _may_have_data(each)]
    if with_data:
        remedy = f"Look at /etc/kubernetes/manifests/etcd.yaml of {', '.join(with_data)}, and at the folder of its data"
        return Unknown(f"{', '.join(with_data)} may have etcd's data, but no etcd that could be asked", remedy)
    if isinstance(api, ApiReading):
        return Unknown("an API server answers, and no host has an etcd that could be asked", "Look for etcd.yaml, which was moved away")
    missing = [name for name in control_planes if isinstance(facts[name], Unreachable)]
    if missing and isinstance(ca, str):
        return Unknown(f"no host that could be asked has an etcd member, and {', '.join(missing)} could not be asked", "Bring them back")
    return Absent()


def _may_have_data(facts: HostFacts) -> bool:
    return not isinstance(facts.etcd_data, Absent) and facts.etcd_data is not EtcdData.EMPTY


async def _api(access: Access, facts: Facts, ca: str | Absent | Unknown) -> ApiReading | Unknown | Absent:
    if isinstance(ca, Absent):
        missing = [name for name in access.control_planes if isinstance(facts[name], Unreachable)]
        return (
            Unknown(f"no host that could be asked belongs to a cluster, and {', '.join(missing)} could not be asked")
            if missing
            else Absent()
        )
    return ca if isinstance(ca, Unknown) else await read_api(access.api)


async def _inspect(
    access: Access, manifest: Manifest, contents: Contents, facts: Facts, systems: Mapping[str, OperatingSystem]
) -> Mapping[str, Inspection]:
    wanted = {
        name: wanted_of(manifest, contents, each, systems[name], control_plane=name in access.control_planes)
        for name, each in facts.items()
        if isinstance(each, HostFacts)
    }
    return await inspect_all({name: access.ssh(name) for name in wanted}, wanted)


def _system(machine: Machine, facts: HostFacts | Unreachable) -> OperatingSystem:
    return machine.host.operating_system if isinstance(facts, Unreachable) else system_of(machine, facts)


# Making one value of it.


def _cluster(manifest: Manifest, contents: Contents, answers: _Answers, memory: Memory, at: datetime, options: RunOptions) -> Cluster:
    claims = claims_of(manifest, answers.machines)
    reading = answers.ring
    ring = reading.ring if isinstance(reading, RingReading) else reading
    members = membership(reading, claims, answers.facts)
    learned = {name: _learned(name, answers, members, memory, control_plane=name in claims.control_planes) for name in answers.machines}
    addresses = {name: node_address(manifest, machine.host) for name, machine in answers.machines.items()}
    found = [core_host(manifest, contents, each, at) for each in learned.values()]
    hosts, not_told_apart = set_apart(found, doubts(answers.facts, addresses))
    return Cluster(
        name=manifest.name,
        version=manifest.version,
        hosts=hosts,
        leader=next(name for name, machine in answers.machines.items() if machine.host.is_leader),
        ring=ring,
        api=_api_finding(answers.api),
        running=running_version(answers.api),
        orphans=orphan_members(members.orphans, memory),
        lost_nodes=_lost_nodes(answers.api, learned),
        other_nodes=_other_nodes(answers.api, learned),
        members_missed_probes=tuple(
            (member.id, missed_probes)
            for member in (ring.members if isinstance(ring, Ring) else ())
            if member not in members.orphans and (missed_probes := memory.members.of(member.id)) is not None
        ),
        membership_problem=reading.disagreement if isinstance(reading, RingReading) else "",
        alarms=alarms_without_member(reading),
        addon_drift=addon_drift(manifest, answers.api),
        configuration_drift=configuration_drift(_as_the_hosts(manifest, contents, answers, list(claims.control_planes)), answers.api),
        lasting_drift=lasting_configuration_drift(manifest, answers.api),
        encryption=desired(manifest, answers.api, {name: answers.facts[name] for name in claims.control_planes}),
        machine_deployments=machine_deployments(manifest, answers.api),
        problems=(
            *members.contradictions,
            *not_told_apart,
            *answers.naming_problems,
            *problems(answers.facts, answers.ca),
            *fixed_problems(manifest, answers.api),
            *lost_names(manifest, answers.facts, answers.api),
        ),
        options=options,
    )


def _as_the_hosts(manifest: Manifest, contents: Contents, answers: _Answers, control_planes: list[str]) -> Manifest:
    """The manifest with the encryption that all API servers have: kubeadm tells whoever joins to have it, too, and no sooner."""
    known = {name: each for name in control_planes if isinstance(each := answers.facts[name], HostFacts)}
    path = common_file(known.values())
    if path is None or isinstance(path, Unknown) or is_its_owners(manifest):
        return manifest
    if isinstance(path, Absent) or path not in PATHS:
        return with_file(manifest, contents, None, NO_SECRET)[0]
    found = (answers.inspections[name].content(path) for name in known if name in answers.inspections)
    content = next((Secret(each.decode(errors="replace")) for each in found if isinstance(each, bytes)), NO_SECRET)
    return with_file(manifest, contents, path, content)[0]


def _learned(name: str, answers: _Answers, members: Membership, memory: Memory, *, control_plane: bool) -> Learned:
    return Learned(
        machine=answers.machines[name],
        control_plane=control_plane,
        facts=answers.facts[name],
        member=members.member(name),
        member_health=members.health(name),
        node=_node(name, answers),
        ca=answers.ca,
        cluster_id=cluster_id(answers.ring, answers.ca),
        inspection=answers.inspections.get(name, Inspection()),
        system=answers.systems[name],
        missed_probes=memory.hosts.of(name),
    )


def _node(name: str, answers: _Answers) -> objects.Node | Absent | Unknown:
    """The Node of this name. Of a host that nobody could ask for its name, any Node may be its own; and a Node at its address, where none has its name."""
    if not isinstance(answers.api, ApiReading):
        return answers.api
    if name in answers.unnamed:
        return Unknown("what it is called is not known", "Bring it back, or give it its hostname in the manifest")
    node = answers.api.node(name)
    if isinstance(node, Absent) and isinstance(answers.facts[name], Unreachable) and not isinstance(answers.api.nodes, Unknown):
        host = answers.machines[name].host
        others = [each.metadata.name for each in answers.api.nodes if each.metadata.name not in answers.machines and is_at(each, host)]
        if others:
            return Unknown(f"it cannot be asked, and Node {', '.join(others)} has its address", "Bring it back, or correct its hostname")
    return node


def _api_finding(api: ApiReading | Unknown | Absent) -> Finding:
    match api:
        case ApiReading(nodes=Unknown(reason)):
            return Finding(Health.BAD, "APINotAnswering", reason)
        case ApiReading():
            return Finding(Health.GOOD, "APIAnswers", "the API answers")
        case Unknown(reason, remedy):
            return Finding(Health.BAD, "APINotAnswering", f"{reason}{'. ' if remedy else ''}{remedy}")
        case Absent():
            return Finding(Health.UNKNOWN, "NoCluster", "there is no cluster yet")


def _lost_nodes(api: ApiReading | Unknown | Absent, learned: Mapping[str, Learned]) -> tuple[str, ...]:
    """Nodes of no host, and those of hosts that were replaced by others of the same name."""
    if not isinstance(api, ApiReading) or isinstance(api.nodes, Unknown):
        return ()
    return (*lost_nodes(api.nodes, learned), *_replaced(learned))


def _other_nodes(api: ApiReading | Unknown | Absent, learned: Mapping[str, Learned]) -> tuple[Node, ...]:
    """Every Node that no host is, by its name."""
    if not isinstance(api, ApiReading) or isinstance(api.nodes, Unknown):
        return ()
    hosts = learned.keys() - _replaced(learned)
    others = (seen(node) for node in api.nodes if node.metadata.name not in hosts)
    return tuple(sorted(others, key=lambda node: node.name))


def _replaced(learned: Mapping[str, Learned]) -> list[str]:
    return [name for name, each in learned.items() if isinstance(each.node, objects.Node) and isinstance(own_node(each), Absent)]
