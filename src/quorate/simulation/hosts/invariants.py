"""The safety invariants S1 to S18 of the design as far as hosts have them, judged by what is true on the site and not by what an operator believes.

Each is a function from one act to a sentence that says what is wrong, or None. An operator can only know what was true when it asked: the condition must have
held at some instant between the beginning of the reading that the act rests on and the act. None of them uses the decision that is under test. S6 and S11
are of Machines; S7 and S9 are about the order of calls in `quorate.hosts.act`, which carries the steps out here, and its own tests look at them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from quorate.core.hosts.steps import (
    ChangeEncryption,
    Initialize,
    Join,
    Prepare,
    Reconfigure,
    RemoveMember,
    RenewCertificates,
    Reset,
    StartServices,
    UpdateConfiguration,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.simulation.engine.ring import RingState
from quorate.simulation.hosts.acts import Act, Action
from quorate.simulation.hosts.lock_invariants import is_overtaken, s15_nobody_changes_what_another_has_locked
from quorate.simulation.hosts.machines import EtcdManifest, Machine
from quorate.simulation.hosts.site import Entry, Site

Invariant = Callable[[Site, Act], str | None]

_RENEWED_BEFORE = timedelta(days=31)
_CHANGES_WHAT_RUNS = (UpgradeControlPlane, UpgradeKubelet, Reconfigure, RenewCertificates, UpdateConfiguration, ChangeEncryption)


def s1_removal_keeps_quorum(site: Site, act: Act) -> str | None:
    """No removal while the ring cannot commit it, nor one that leaves fewer healthy voters than the quorum of the resulting ring."""
    if act.action is not Action.REMOVE or act.member not in site.ring.voters:
        return None
    if any(state.survives_without(act.member) for state in site.ring.states_since(act.since)):
        return None
    return f"member {act.member:x} is removed though of {len(site.ring.voters)} voters only {len(site.ring.well)} are well"


def s1_restart_keeps_quorum(site: Site, act: Act) -> str | None:
    """While one member is down for a restart the others keep quorum. A ring of one or two never has it: there, everybody has to be well before.

    Of a step that restarts an API server alone it is asked as well; of others that is not asked anew once etcd was restarted, since no member goes with it.
    """
    machine = act.machine
    judged = (Action.PUT_DOWN, Action.END_API_SERVER) if isinstance(act.step, ChangeEncryption) else (Action.PUT_DOWN,)
    if act.action not in judged or machine is None or machine.member not in site.ring.voters:
        return None
    if any(_bears(state, machine.member) for state in site.ring.states_since(act.since)):
        return None
    return f"{machine.name} is taken down though of {len(site.ring.voters)} voters only {len(site.ring.well)} are well"


def s1_one_host_at_a_time(site: Site, act: Act) -> str | None:
    """No control plane is taken down while another one is."""
    if act.action not in (Action.PUT_DOWN, Action.END_API_SERVER):
        return None
    others = [
        machine.name
        for machine in site.machines.values()
        if machine.is_taken_down and machine is not act.machine and _reaches(act, machine)
    ]
    return f"{act.host} is taken down while {', '.join(others)} is" if others else None


def s2_nobody_joins_beside_another(site: Site, act: Act) -> str | None:
    """A member is added only where all others vote, and where quorum survives one that fails; and never a second one of a name."""
    if act.action is not Action.ADD or act.machine is None:
        return None
    states = site.ring.states_since(act.since)
    if all(state.unsettled for state in states):
        return f"{act.machine.name} joins beside a member that does not vote yet"
    if not any(_bears_another(state) for state in states):
        return f"{act.machine.name} joins though of {len(site.ring.voters)} voters only {len(site.ring.well)} are well"
    same = [member for member in site.ring.members.values() if member.name == act.machine.name]
    return f"{act.machine.name} joins beside another member of its name" if same else None


def s3_founded_once(site: Site, act: Act) -> str | None:
    """Never a second ring, as long as a host of the manifest has data of the first. Of hosts that were taken out of it nobody can know."""
    if act.action is not Action.FOUND:
        return None
    holders = [
        machine.name
        for machine in site.machines.values()
        if machine.disk.data in site.ring.members and not machine.gone and _is_wanted(act, machine)
    ]
    return f"{act.host} founds a ring though {', '.join(holders)} has the data of one" if holders else None


def s4_data_stays(site: Site, act: Act) -> str | None:
    """No disk with a member's data is erased, and no removal is as much as begun while nobody of the manifest would hold the data afterwards."""
    if act.action is Action.ERASE and act.machine is not None and act.machine.disk.data in site.ring.members:
        return f"{act.machine.name} is erased though its member is in the ring"
    begun = act.step.member if act.action is Action.BEGIN and isinstance(act.step, RemoveMember) else None
    leaves = act.member if act.action is Action.REMOVE else begun
    if leaves is None:
        return None
    addresses = {f"https://{entry.address}:2380" for entry in act.actor.manifest.control_planes}
    holders = {member.id for member in site.ring.members.values() if member.peer_url in addresses}
    held = any((state.well & holders) - {leaves} for state in site.ring.states_since(act.since))
    return None if held else "nobody would hold the data"


def s4_hosts_that_may_come_back_stay(site: Site, act: Act) -> str | None:
    """A voter whose host is in the manifest and has its data is not removed, however long it is silent; unless its join was cut short before it had a Node."""
    if act.action is not Action.REMOVE or act.member not in site.ring.voters:
        return None
    owner = site.owner_of(act.member)
    if owner is None or owner.disk.data != act.member or not _is_wanted(act, owner) or not owner.disk.kubelet_conf:
        return None
    return f"the member of {owner.name} is removed, which is in the manifest and has its data"


def s4_nothing_starts_on_an_empty_folder(site: Site, act: Act) -> str | None:
    """No member that could be seen to have lost its data is started: it has forgotten what it voted for."""
    machine = act.machine
    if act.action is not Action.START or machine is None or machine.disk.etcd is EtcdManifest.NONE or machine.disk.data is not None:
        return None
    if machine.emptied_at is not None and machine.emptied_at >= act.actor.observed:
        return None
    member = site.member_at(machine.address)
    return f"{machine.name} is started, whose member {member:x} has lost its data" if member is not None else None


def s5_one_membership_change_at_a_time(site: Site, act: Act) -> str | None:
    """Nobody is added or removed while kubeadm, which could be seen to run, is about to make a member vote."""
    if act.action not in (Action.ADD, Action.REMOVE):
        return None
    for member in site.ring.members.values():
        machine = site.owner_of(member.id) if member.learner or not member.name else None
        if (
            machine is None
            or (machine is act.machine and act.action is Action.ADD)
            or not _reaches(act, machine)
            or not _is_wanted(act, machine)
        ):
            continue
        if machine.kubeadm_since is not None and machine.kubeadm_since < act.actor.observed:
            return f"{act.action} {act.host} while {machine.name} is joining"
    return None


def s8_equal_hosts_are_left_alone(site: Site, act: Act) -> str | None:
    """A host that is as the manifest says is not touched. Whoever has lost the lock may begin what he decided before: nothing of it takes effect (S15)."""
    machine, manifest, options = act.machine, act.actor.manifest, act.actor.options
    if act.action is not Action.BEGIN or machine is None or is_overtaken(site, act):
        return None
    match act.step:
        case UpgradeControlPlane():
            needed = options.force_upgrade or machine.disk.components != manifest.version or site.objects.running != manifest.version
        case UpgradeKubelet():
            node = site.objects.nodes.get(machine.name)
            versions = {machine.disk.kubelet, machine.kubelet_version or machine.disk.kubelet, node.kubelet if node else None}
            needed = versions != {manifest.version}
        case Reconfigure():
            needed = machine.disk.revisions != {manifest.settings}
        case RenewCertificates():
            expires = machine.disk.certificates_expire
            needed = options.renew_certificates or (expires is not None and expires - site.world.now() < _RENEWED_BEFORE)
        case Reset():
            needed = not (site.member_is_well(machine) and site.serves(machine))
        case _:
            needed = True
    return None if needed else f"{act.step}, although nothing is to be done there"


def snapshot_comes_first(site: Site, act: Act) -> str | None:
    """A snapshot was taken in this run before the ring or a version of a standing cluster changes for the first time."""
    if act.action is not Action.BEGIN or not isinstance(act.step, Join | RemoveMember | UpgradeControlPlane) or act.actor.snapshot_taken:
        return None
    return f"{act.step} without a snapshot" if site.objects.running is not None else None


def repair_comes_first(site: Site, act: Act) -> str | None:
    """What runs is changed only while every control plane host of the manifest votes and is well.

    A host that does not serve may be repaired by it, while all others that have joined are well. What those who join read may change before they do.
    """
    if act.action is not Action.BEGIN or not isinstance(act.step, _CHANGES_WHAT_RUNS) or _comes_before_a_join(site, act):
        return None
    at = {entry.name: site.machine_of(entry) for entry in act.actor.manifest.control_planes}
    ill = [machine for machine in at.values() if machine is not None and machine.traces and not _served_all_the_time(site, act, machine)]
    if isinstance(act.step, UpdateConfiguration):
        repairs = len(ill) == 1
    else:
        repairs = act.machine in ill
        at = {name: machine for name, machine in at.items() if machine is not act.machine}
    if repairs:
        at = {name: machine for name, machine in at.items() if machine is not None and machine.traces and machine not in ill[:1]}
    addresses = {entry.name: entry.address for entry in act.actor.manifest.control_planes}
    members = {name: site.member_at(addresses[name]) for name in at}  # of a host, too, that was lost since the run looked
    if any(all(member in state.well for member in members.values()) for state in site.ring.states_since(act.actor.observed)):
        return None
    return f"{act.step}, although not every one of {', '.join(members)} is well"


def _comes_before_a_join(site: Site, act: Act) -> bool:
    machines = map(site.machine_of, act.actor.manifest.entries)
    return isinstance(act.step, UpdateConfiguration) and any(machine is None or not machine.traces for machine in machines)


def nothing_happens_without_quorum(site: Site, act: Act) -> str | None:
    """While a standing cluster has lost its quorum nothing is done, but to start what should run, and to prepare hosts on which nothing runs.

    Of a cluster that has left its traces on hosts alone that were taken out of the manifest nobody can know: traces of another one, whose initialization was
    cut short before its etcd ran, tell nothing of it. An initialization that has not ended may go on on the only host that has the data, whose etcd is brought
    up by just that.
    """
    if act.action is not Action.BEGIN or isinstance(act.step, StartServices | Prepare) or not site.stands or _goes_on_alone(site, act):
        return None
    if not any(_tells_of_the_cluster(site, machine) and _is_wanted(act, machine) for machine in site.machines.values()):
        return None
    states = site.ring.states_since(act.actor.observed)
    return None if any(_has_quorum(state) for state in states) else f"{act.step}, although quorum is lost"


def version_skew_is_kept(site: Site, act: Act) -> str | None:
    """One minor at a time, never back, kubelets at most three minors behind and never above an API server."""
    servers = [machine.disk.components for entry in act.actor.manifest.control_planes if (machine := site.machine_of(entry)) is not None]
    known = [version for version in servers if version is not None]
    if act.action is Action.UPGRADE and act.version is not None:
        kubelets = [
            machine.kubelet_version
            for machine in site.machines.values()
            if machine.on and machine.kubelet_version and _joined(site, machine)
        ]
        if any(version > act.version or act.version.minor - version.minor > 1 for version in known):
            return f"{act.host} is upgraded to {act.version} beside {', '.join(map(str, sorted(set(known))))}"
        if any(act.version.minor - version.minor > 3 for version in kubelets):
            return f"{act.host} is upgraded to {act.version}, too far from a kubelet"
    kubelet = (
        act.version
        if act.action is Action.KUBELET
        else act.machine.disk.kubelet
        if act.action is Action.JOIN_WORKER and act.machine
        else None
    )
    if kubelet is not None and any(version < kubelet for version in known):
        return f"the kubelet of {act.host} is of {kubelet}, above the API server of {min(known)}"
    return None


def nodes_of_members_stay(site: Site, act: Act) -> str | None:
    """No Node is deleted whose host is in the manifest and whose member votes and is well."""
    node = site.objects.nodes.get(act.node)
    if act.action is not Action.DELETE_NODE or node is None:
        return None
    machine = site.machines.get(node.address)
    if machine is None or not _is_wanted(act, machine) or not site.member_is_well(machine):
        return None
    return f"Node {node.name} is deleted, whose host is well"


def pods_leave_first(site: Site, act: Act) -> str | None:
    """No worker's Node is deleted while its kubelet reports, unless nothing new came to it before: its Pods would run on and nobody would know of them."""
    node = site.objects.nodes.get(act.node)
    if act.action is not Action.DELETE_NODE or node is None or node.control_plane or node.unschedulable:
        return None
    if node.silent_since is not None or node.heard_since >= act.actor.observed:
        return None
    return f"Node {node.name} is deleted, which is ready and was not drained"


def s18_a_key_goes_only_when_nothing_is_stored_with_it(site: Site, act: Act) -> str | None:
    """No key leaves a host that something is stored with, whichever other host has it, too."""
    machine, step = act.machine, act.step
    if act.action is not Action.KEYS or machine is None or not isinstance(step, ChangeEncryption):
        return None
    needed = (machine.disk.keys - step.configuration.keys).intersection(site.objects.stored)
    return f"{machine.name} loses {', '.join(sorted(needed))}, and Secrets are stored with it" if needed else None


def s18_every_api_server_reads_what_is_stored(site: Site, _act: Act) -> str | None:
    """At no moment is there a Secret that an API server which serves cannot read."""
    for machine in site.serving():
        if unread := set(site.objects.stored).difference(machine.api_providers.secrets):
            return f"{machine.name} cannot read what is stored with {', '.join(sorted(unread))}"
    return None


def s10_a_reading_is_made_for_each_act(site: Site, act: Act) -> str | None:
    """Nothing is removed from the ring or taken down on the reading alone on which that was decided."""
    if (
        act.action not in (Action.REMOVE, Action.PUT_DOWN, Action.END_API_SERVER)
        or act.machine is None
        or act.machine.member not in site.ring.voters
    ):
        return None
    return None if act.since > act.observed else f"{act.action} {act.host}, and the ring was not read for it"


def hosts_in_use_are_not_prepared(site: Site, act: Act) -> str | None:
    """Packages and settings are not touched on a host that was in the cluster all the time since it was looked at."""
    if act.action is not Action.BEGIN or not isinstance(act.step, Prepare):
        return None
    entries = (act.actor.manifest.entry(name) for name in act.step.hosts)
    machines = [machine for entry in entries if entry is not None and (machine := site.machine_of(entry)) is not None]
    used = [machine.name for machine in machines if site.member_is_well(machine)]
    return f"{', '.join(used)} is prepared, whose member is well" if used else None


def _tells_of_the_cluster(site: Site, machine: Machine) -> bool:
    """Whether anything on it is of the cluster that stands, or might be."""
    return machine.traces and not machine.gone and (machine.disk.ca in (0, site.ca) or machine.disk.data is not None)


def _goes_on_alone(site: Site, act: Act) -> bool:
    machine = act.machine
    if not isinstance(act.step, Initialize) or not act.step.resume or machine is None:
        return False
    return machine.disk.initializing and set(site.ring.members) == {machine.disk.data}


def _bears(state: RingState, member: int) -> bool:
    small = len(state.voters) <= 2 and state.well == state.voters and not state.unsettled
    return small or len(state.well - {member}) > len(state.voters) // 2


def _bears_another(state: RingState) -> bool:
    after = len(state.voters) + 1
    return _has_quorum(state) and (after == 2 or len(state.well) > after // 2)


def _has_quorum(state: RingState) -> bool:
    return len(state.well) > len(state.voters) // 2


def _reaches(act: Act, machine: Machine) -> bool:
    return machine.answers and machine not in act.actor.cut_off


def _is_wanted(act: Act, machine: Machine) -> bool:
    return any(_is_at(entry, machine) for entry in act.actor.manifest.entries)


def _is_at(entry: Entry, machine: Machine) -> bool:
    return entry.address == machine.address


def _joined(site: Site, machine: Machine) -> bool:
    node = site.objects.nodes.get(machine.name)
    return node is not None and node.address == machine.address


def _served_all_the_time(site: Site, act: Act, machine: Machine) -> bool:
    """Since it was looked at: one that has come back in this very second was seen without a member that follows a leader."""
    member, states = site.member_at(machine.address), site.ring.states_since(act.actor.observed)
    return site.serves(machine) and _joined(site, machine) and all(state.leader and member in state.well for state in states)


INVARIANTS: tuple[Invariant, ...] = (
    s1_removal_keeps_quorum,
    s1_restart_keeps_quorum,
    s1_one_host_at_a_time,
    s2_nobody_joins_beside_another,
    s3_founded_once,
    s4_data_stays,
    s4_hosts_that_may_come_back_stay,
    s4_nothing_starts_on_an_empty_folder,
    s5_one_membership_change_at_a_time,
    s8_equal_hosts_are_left_alone,
    snapshot_comes_first,
    repair_comes_first,
    nothing_happens_without_quorum,
    version_skew_is_kept,
    nodes_of_members_stay,
    pods_leave_first,
    s15_nobody_changes_what_another_has_locked,
    s18_a_key_goes_only_when_nothing_is_stored_with_it,
    s18_every_api_server_reads_what_is_stored,
    s10_a_reading_is_made_for_each_act,
    hosts_in_use_are_not_prepared,
)
