"""One state of a site of existing hosts, frozen: what is on every disk, what runs, the members of etcd, what the API has, and the operator's manifest.

Time is patient: between two moves so much of it passes that no grace period is left, and whatever an operator or a script had begun has ended or is dead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from quorate.simulation.engine.ring import Member
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.machines import CERTIFICATES, Before, Disk, Machine
from quorate.simulation.hosts.site import Manifest, Node, Objects, Site

_LONG_AGO = -100_000.0  # seconds
_STILL_VALID = timedelta(days=300)
_NO_STATE = ("disk", "lock", "containers", "ended", "started")
"""Of a machine: disks have names of their own, locks are of runs, and the kubelet starts anew what was ended, in containers with other ids."""


@dataclass(frozen=True)
class Image:
    """The site at one moment. Each mapping of a machine's, a Node's or a member's fields is never changed."""

    machines: tuple[Mapping[str, Any], ...]
    members: tuple[Member, ...]
    removed: tuple[int, ...]  # those whose data is on a disk yet
    leader: int
    nodes: tuple[Mapping[str, Any], ...]
    objects: Mapping[str, Any]
    founding: tuple[int, int, int]  # CAs made so far, that of the cluster, and clusters founded
    manifest: Manifest
    said: int = 1  # how many hosts may leave, as the operator has said for the run that is under way

    @property
    def identity(self) -> bytes:
        """Equal for states that nobody could tell apart."""
        told = (
            [sorted(machine.items(), key=_by_name) for machine in self.machines],
            [(member.id, member.peer_url, member.learner, member.name) for member in self.members],
            self.removed,
            self.leader,
            [sorted(node.items(), key=_by_name) for node in self.nodes],
            sorted(self.objects.items(), key=_by_name),
            self.founding,
            self.manifest,
            self.said,
        )
        return hashlib.blake2b(repr(told).encode(), digest_size=16).digest()

    def machine(self, name: str) -> Mapping[str, Any]:
        """The machine of this name that is not gone."""
        return next(machine for machine in self.machines if machine["name"] == name and not machine["gone"])


def _by_name(item: tuple[str, Any]) -> str:
    return item[0]


def freeze(site: Site, manifest: Manifest) -> Image:
    """The site as it would be found once every script on it is dead and time has passed."""
    return Image(
        machines=tuple(_frozen(machine) for _, machine in sorted(site.machines.items())),
        members=tuple(replace(member) for _, member in sorted(site.ring.members.items())),
        removed=tuple(sorted(site.ring.removed.intersection(machine.disk.data or 0 for machine in site.machines.values()))),
        leader=site.ring.leader,
        nodes=tuple(_of_node(node) for _, node in sorted(site.objects.nodes.items())),
        objects={
            name: getattr(site.objects, name)
            for name in ("kubeadm", "kubelet", "kube_proxy", "discovery", "addons", "budget", "stored", "written")
        },
        founding=(site.cas, site.ca, site.founded),
        manifest=manifest,
    )


def thaw(image: Image, world: World) -> Site:
    """A site in a world that is as the image has it, with everything settled."""
    site = Site(world)
    site.cas, site.ca, site.founded = image.founding
    for kept in image.machines:
        disk = Disk(**{name: kept[f"disk.{name}"] for name in Disk.__slots__})
        disk.certificates = dict.fromkeys(CERTIFICATES if disk.certificates else (), world.now() + _STILL_VALID)
        disk.before = {component: Before(manifest, frozenset()) for component, manifest in kept["disk.before"]}
        of_machine = {name: value for name, value in kept.items() if not name.startswith("disk.")}
        machine = Machine(**of_machine, disk=disk)
        machine.emptied_at = _LONG_AGO if kept["emptied_at"] is not None else None
        site.machines[machine.address] = machine
    site.objects = Objects(nodes={node["name"]: Node(**node) for node in image.nodes}, **image.objects)
    site.ring = ring = site._new_ring()
    ring.members = {member.id: replace(member) for member in image.members}
    ring.removed, ring.leader = set(image.removed), image.leader
    ring._new_id = lambda: _unused(site)  # type: ignore[method-assign]
    site._new_ring = lambda: _renumbered(site)  # type: ignore[method-assign]
    site.settle()
    _elect(site)
    return site


def _renumbered(site: Site) -> Any:
    ring = Site._new_ring(site)
    ring._new_id = lambda: _unused(site)  # type: ignore[method-assign]
    return ring


def _unused(site: Site) -> int:
    used = set(site.ring.members) | {machine.disk.data for machine in site.machines.values()} | {m.member for m in site.machines.values()}
    return next(number for number in range(1, len(used) + 2) if number not in used)


def _elect(site: Site) -> None:
    """Elections are over."""
    ring = site.ring
    if not ring.leader and ring.has_quorum:
        ring.leader = min(ring.well)
    site.settle()


def _frozen(machine: Machine) -> Mapping[str, Any]:
    """kubeadm and restarts that were under way are dead."""
    kept = {each.name: getattr(machine, each.name) for each in fields(Machine) if each.name not in _NO_STATE}
    kept |= {"kubeadm_since": None, "emptied_at": None if machine.emptied_at is None else 0.0}
    disk = {f"disk.{name}": getattr(machine.disk, name) for name in Disk.__slots__}
    disk["disk.before"] = tuple((component, before.manifest) for component, before in sorted(machine.disk.before.items()))
    disk["disk.certificates"] = bool(machine.disk.certificates)
    return kept | disk


def _of_node(node: Node) -> Mapping[str, Any]:
    kept = {each.name: getattr(node, each.name) for each in fields(Node)}
    return kept | {"silent_since": None if node.silent_since is None else _LONG_AGO, "heard_since": _LONG_AGO}
