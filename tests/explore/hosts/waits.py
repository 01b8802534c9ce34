"""What somebody does whom a check asks for it, by the words with which it has to ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from quorate.core.in_place.rules.guard import QUORUM, RUNBOOK
from quorate.core.in_place.rules.repair import CONTROL_PLANE_WELL
from quorate.simulation.in_place.machines import EtcdManifest
from quorate.simulation.in_place.site import Site
from quorate.simulation.ring import Member
from tests.explore.hosts.image import Image
from tests.explore.hosts.moves import Moves, changed


def kubelets_are_restarted(image: Image) -> Iterator[tuple[str, Image]]:
    """One that has joined makes its Node where that is missing. (That of a control plane then lacks kubeadm's marks, which nobody here looks at.)"""
    nodes = {node["name"] for node in image.nodes}
    for kept in image.machines:
        if kept["on"] and not kept["gone"] and kept["kubelet_runs"] and kept["name"] not in nodes:
            yield f"somebody restarts the kubelet of {kept['name']}", changed(image, partial(_register, kept["address"]))


def _register(address: str, site: Site) -> None:
    machine = site.machines[address]
    if site.reaches_api(machine) and machine.disk.authority == site.authority:
        site.register(machine, control_plane=machine.disk.components is not None)


def etcd_is_restored(image: Image) -> Iterator[tuple[str, Image]]:
    """A snapshot, on a host that still has its manifests; the data of the others is put away. Only where those that have data can never be a quorum again."""
    kept = {machine["disk.data"] for machine in image.machines if not machine["gone"]}
    voters = [member.id for member in image.members if not member.learner]
    if 2 * sum(voter in kept for voter in voters) > len(voters):
        return
    for machine in image.machines:
        if (
            machine["on"]
            and not machine["gone"]
            and machine["disk.etcd"] is not EtcdManifest.NONE
            and image.manifest.entry(machine["name"])
        ):
            yield f"somebody restores a snapshot on {machine['name']}", changed(image, partial(_restore, machine["address"]))


def _restore(address: str, site: Site) -> None:
    own = max((*site.ring.members, *(machine.disk.data or 0 for machine in site.machines.values())), default=0) + 1
    for machine in site.machines.values():
        machine.disk.data = machine.member = machine.emptied_at = None
    restored = site.machines[address]
    restored.disk.data = own
    site.ring.members = {own: Member(own, f"https://{address}:2380", learner=False, name=restored.name)}


WAITS: dict[str, Mapping[str, Moves]] = {
    CONTROL_PLANE_WELL: {"systemctl restart kubelet": kubelets_are_restarted},
    QUORUM: {RUNBOOK: etcd_is_restored},
}
"""By the name of the check, and the words."""
