"""What somebody does whom a check asks for it, by the words with which it has to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from quorate.core.hosts.rules.departures import AS_MANY_AS_SAID
from quorate.core.hosts.rules.found import NO_TRACES, SAME_VERSION
from quorate.core.hosts.rules.guard import QUORUM, RUNBOOK
from quorate.core.hosts.rules.join import REPAIR_AT_RUNNING_VERSION
from quorate.core.hosts.rules.leftovers import NO_MORE_COPIES, NODE_GOES
from quorate.core.hosts.rules.repair import CONTROL_PLANE_WELL
from quorate.core.hosts.rules.skew import NO_STEP_BACK
from quorate.core.versions import Version
from quorate.simulation.engine.ring import Member
from quorate.simulation.hosts.machines import EtcdManifest, KubeletConf
from quorate.simulation.hosts.site import Entry, Site
from tests.explore.hosts.image import Image
from tests.explore.hosts.moves import VERSIONS, Moves, changed


def kubelets_are_restarted(image: Image) -> Iterator[tuple[str, Image]]:
    """One that has joined makes its Node where that is missing. (That of a control plane then lacks kubeadm's marks, which nobody here looks at.)"""
    nodes = {node["name"] for node in image.nodes}
    for kept in _running(image):
        if kept["kubelet_runs"] and kept["disk.kubelet_conf"] and kept["name"] not in nodes and _entry_of(image, kept):
            yield f"somebody restarts the kubelet of {kept['name']}", changed(image, partial(_register, kept["address"]))


def kubelets_get_credentials(image: Image) -> Iterator[tuple[str, Image]]:
    """Of a CA whose key is on the host itself, since it is one of the control plane."""
    for kept in _running(image):
        if kept["disk.components"] and kept["disk.kubelet_conf"] is KubeletConf.NONE:
            yield f"somebody makes a kubelet.conf on {kept['name']}", changed(image, partial(_register, kept["address"]))


def _register(address: str, site: Site) -> None:
    site.give_credentials(site.machines[address])


def etcd_is_restored(image: Image) -> Iterator[tuple[str, Image]]:
    """A snapshot, on a host that runs what its manifests say; the data of the others is put away. Only where those that have data can never be a quorum."""
    if _may_have_quorum(image):
        return
    for machine in _running(image):
        if machine["disk.etcd"] is not EtcdManifest.NONE and _starts(machine) and _entry_of(image, machine):
            yield f"somebody restores a snapshot on {machine['name']}", changed(image, partial(_restore, machine["address"]))


def _restore(address: str, site: Site) -> None:
    own = max((*site.ring.members, *(machine.disk.data or 0 for machine in site.machines.values())), default=0) + 1
    for machine in site.machines.values():
        machine.disk.data = machine.member = machine.emptied_at = None
    restored = site.machines[address]
    restored.disk.data = own
    site.ring.members = {own: Member(own, f"https://{address}:2380", learner=False, name=restored.name)}


def control_planes_are_brought_back(image: Image) -> Iterator[tuple[str, Image]]:
    """Who has data of a member, and was taken out of the manifest or gave its name to another machine, gets into it again."""
    members = {member.id for member in image.members}
    for machine in image.machines:
        if machine["gone"] or machine["disk.data"] not in members or _entry_of(image, machine):
            continue
        others = tuple(entry for entry in image.manifest.entries if entry.name != machine["name"])
        manifest = replace(image.manifest, entries=(Entry(machine["name"], machine["address"]), *others))
        yield f"{machine['name']} is taken back into the manifest", changed(image, _nothing, manifest)


def hosts_are_freed(image: Image) -> Iterator[tuple[str, Image]]:
    """`quorate reset`, of hosts with traces of a cluster that is gone for good."""
    if _may_have_quorum(image):
        return
    traces = [machine["address"] for machine in _running(image) if machine["disk.ca"] and _entry_of(image, machine)]
    if traces:
        yield f"quorate reset {' '.join(traces)}", changed(image, partial(_free, traces))


def copies_are_freed(image: Image) -> Iterator[tuple[str, Image]]:
    """`quorate reset`, of hosts whose data are of no member any more, by whoever knows that the API lacks nothing."""
    members = {member.id for member in image.members}
    copies = [m["address"] for m in _running(image) if m["disk.data"] and m["disk.data"] not in members and _entry_of(image, m)]
    if copies:
        yield f"quorate reset {' '.join(copies)}", changed(image, partial(_free, copies))


def _free(addresses: list[str], site: Site) -> None:
    for machine in map(site.machines.__getitem__, addresses):
        machine.stop()
        machine.disk.forget()
        machine.containerd_runs = True


def _version_is_set(version: Version, image: Image) -> Iterator[tuple[str, Image]]:
    yield f"the manifest asks for {version}, as it is told to", changed(image, _nothing, replace(image.manifest, version=version))


def the_number_is_said(image: Image) -> Iterator[tuple[str, Image]]:
    """By who means it: of all that are in the cluster and not in the manifest, in a run of its own."""
    if image.said == 1:
        yield "quorate apply --remove-hosts, with as many as there are", replace(image, said=len(image.machines))


def nodes_of_other_machines_are_deleted(image: Image) -> Iterator[tuple[str, Image]]:
    """Those with the name of a host and an address that is not that host's."""
    for node in image.nodes:
        entry = image.manifest.entry(node["name"])
        if entry is not None and entry.address != node["address"]:
            yield f"somebody deletes Node {node['name']} of another machine", changed(image, _deleting(node["name"]))


def _deleting(name: str) -> Callable[[Site], object]:
    return lambda site: site.objects.nodes.pop(name)


def _nothing(_site: Site) -> None:
    """Only the manifest is another."""


def _may_have_quorum(image: Image) -> bool:
    """Once all that is not gone is back with the data that it has."""
    kept = {machine["disk.data"] for machine in image.machines if not machine["gone"]}
    voters = [member.id for member in image.members if not member.learner]
    return 2 * sum(voter in kept for voter in voters) > len(voters)


def _running(image: Image) -> Iterator[Mapping[str, Any]]:
    return (machine for machine in image.machines if machine["on"] and not machine["gone"])


def _starts(machine: Mapping[str, Any]) -> bool:
    """Whether its kubelet runs, or can be started by whoever looks at the host."""
    return bool(machine["kubelet_runs"] or machine["disk.kubelet_conf"])


def _entry_of(image: Image, machine: Mapping[str, Any]) -> Entry | None:
    entry = image.manifest.entry(machine["name"])
    return entry if entry is not None and entry.address == machine["address"] else None


_OTHER_VERSIONS = {f"Set versions.kubernetes to {version}": partial(_version_is_set, version) for version in VERSIONS}

WAITS: dict[str, Mapping[str, Moves]] = {
    CONTROL_PLANE_WELL: {
        "systemctl restart kubelet": kubelets_are_restarted,
        "kubeadm init phase kubeconfig kubelet": kubelets_get_credentials,
    },
    QUORUM: {RUNBOOK: etcd_is_restored},
    NO_TRACES: {"reset the hosts: `quorate reset": hosts_are_freed, "bring its control plane back": control_planes_are_brought_back},
    SAME_VERSION: _OTHER_VERSIONS,
    REPAIR_AT_RUNNING_VERSION: _OTHER_VERSIONS,
    NO_STEP_BACK: _OTHER_VERSIONS,
    NO_MORE_COPIES: {"reset those hosts by name: `quorate reset": copies_are_freed},
    AS_MANY_AS_SAID: {"Put them back into the manifest": control_planes_are_brought_back, "give --remove-hosts": the_number_is_said},
    NODE_GOES: {"delete Node": nodes_of_other_machines_are_deleted},
}
"""By the name of the check, and the words."""
