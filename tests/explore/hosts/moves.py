"""Everything that can happen beside an operator's run: to hosts, to the ring, to Nodes, and to the manifest.

A fault costs one of the few that a history may have; what comes back, or is put right by those who look after the hosts, costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from quorate.core.versions import Version
from quorate.simulation.engine.world import World
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.settings import configured
from quorate.simulation.hosts.site import Entry, Manifest, Site
from tests.explore.hosts.image import Image, freeze, thaw
from tests.explore.hosts.run import LOOP

Change = Callable[[Site], object]
Moves = Callable[[Image], Iterator[tuple[str, Image]]]

VERSIONS = (Version.parse("v1.34.2"), Version.parse("v1.35.1"))


def changed(image: Image, change: Change, manifest: Manifest | None = None) -> Image:
    """The state after a change of the site, when everything has followed it, and perhaps with another manifest."""

    async def follow() -> Image:
        site = thaw(image, World(0))
        change(site)
        site.settle()
        await asyncio.sleep(10.0)  # an election
        site.settle()
        return freeze(site, manifest or image.manifest)

    return LOOP.run_until_complete(follow())


# What comes back.


def hosts_come_back(image: Image) -> Iterator[tuple[str, Image]]:
    """What was switched off, cut off or could not start is well again."""
    for kept in image.machines:
        name, address = kept["name"], kept["address"]
        if kept["gone"]:
            continue
        if not kept["on"]:
            yield f"{name} is switched on", changed(image, partial(_power, address, on=True))
        for trouble, value, text in (
            ("reachable", True, "answers again"),
            ("isolated", False, "reaches the others again"),
            ("etcd_fails", False, "has an etcd that can start again"),
        ):
            if kept[trouble] is not value:
                yield f"{name} {text}", changed(image, partial(_set, address, trouble, value))


def lost_hosts_are_replaced(image: Image) -> Iterator[tuple[str, Image]]:
    """The name of a host that is gone for good gets another machine, or leaves the manifest."""
    for kept in image.machines:
        entry = image.manifest.entry(kept["name"])
        if not kept["gone"] or entry is None or entry.address != kept["address"]:
            continue
        new = _unused_address(image)
        manifest = image.manifest.with_entry(replace(entry, address=new))
        yield f"{entry.name} is another machine from now on", changed(image, partial(_add, entry.name, new), manifest)
        if len(image.manifest.control_planes) > 1:
            yield f"{entry.name} is taken out of the manifest", changed(image, _nothing, _without(image.manifest, entry))


def addresses_are_corrected(image: Image) -> Iterator[tuple[str, Image]]:
    """The manifest says again where each host is."""
    if any(entry.claim for entry in image.manifest.entries):
        right = replace(image.manifest, entries=tuple(replace(entry, claim="") for entry in image.manifest.entries))
        yield "the manifest's addresses are corrected", changed(image, _nothing, right)


RECOVERIES: tuple[Moves, ...] = (hosts_come_back, lost_hosts_are_replaced, addresses_are_corrected)
"""What costs nothing."""


# Faults.


def hosts_fall_silent(image: Image) -> Iterator[tuple[str, Image]]:
    """One is switched off, answers no operator, or is cut off from the others."""
    for kept in image.machines:
        name, address = kept["name"], kept["address"]
        if kept["gone"] or not kept["on"]:
            continue
        yield f"{name} is switched off", changed(image, partial(_power, address, on=False))
        if kept["reachable"]:
            yield f"{name} answers no operator", changed(image, partial(_set, address, "reachable", False))
        if not kept["isolated"]:
            yield (
                f"{name} is cut off from the others",
                changed(image, partial(_set, address, "isolated", True)),
            )


def data_is_lost(image: Image) -> Iterator[tuple[str, Image]]:
    """etcd's folder is emptied, with its process ended; the whole disk is; or the host is gone for good."""
    for kept in image.machines:
        name, address = kept["name"], kept["address"]
        if kept["gone"]:
            continue
        if kept["disk.data"] is not None:
            yield f"{name} loses its etcd's data", changed(image, partial(_to, address, _empty))
        if kept["disk.prepared"]:
            yield f"{name} is installed anew", changed(image, partial(_to, address, Machine.lose_disk))
        yield f"{name} is gone for good", changed(image, partial(_to, address, _lose))


def services_stop(image: Image) -> Iterator[tuple[str, Image]]:
    """A kubelet is stopped, or an etcd ends and cannot start."""
    for kept in image.machines:
        name, address = kept["name"], kept["address"]
        if kept["kubelet_runs"]:
            yield f"the kubelet of {name} is stopped", changed(image, partial(_to, address, _stop_kubelet))
        if kept["disk.etcd"] and not kept["etcd_fails"]:
            yield f"the etcd of {name} ends, and cannot start", changed(image, partial(_to, address, _fail_etcd))


def nodes_are_deleted(image: Image) -> Iterator[tuple[str, Image]]:
    """Somebody deletes a Node; its kubelet does not make it anew before it starts again."""
    for node in image.nodes:
        yield f"somebody deletes Node {node['name']}", changed(image, partial(_delete_node, node["name"]))


def the_ring_is_changed(image: Image) -> Iterator[tuple[str, Image]]:
    """An operator removes a member by hand."""
    voters = [member for member in image.members if not member.learner]
    for member in voters if image.leader and len(voters) > 1 else ():
        yield f"somebody removes member {member.id} of {member.name}", changed(image, partial(_remove, member.id))


def the_manifest_is_edited(image: Image) -> Iterator[tuple[str, Image]]:
    """A host comes, a host is taken out, a name is given to another machine, or the version is raised."""
    manifest = image.manifest
    for entry in manifest.control_planes:
        if len(manifest.control_planes) > 1:
            yield f"{entry.name} is taken out of the manifest", changed(image, _nothing, _without(manifest, entry))
        new = _unused_address(image)
        yield (
            f"the name {entry.name} is given to another machine",
            changed(image, partial(_add, entry.name, new), manifest.with_entry(replace(entry, address=new))),
        )
    if len(manifest.entries) < 4:
        name = f"cp-{len(image.machines) + 1}"
        new = _unused_address(image)
        grown = replace(manifest, entries=(*manifest.entries, Entry(name, new)))
        yield f"{name} is added to the manifest", changed(image, partial(_add, name, new), grown)
    if manifest.version == VERSIONS[0] and configured(image.objects["kubeadm"]).version == VERSIONS[0]:
        yield f"the manifest asks for {VERSIONS[1]}", changed(image, _nothing, replace(manifest, version=VERSIONS[1]))


def addresses_are_wrong(image: Image) -> Iterator[tuple[str, Image]]:
    """The manifest says of hosts that they are where nobody is, or where others are."""
    entries = [entry for entry in image.manifest.control_planes if not entry.claim]
    for entry in entries:
        yield f"the manifest gives {entry.name} an address of nobody", _claiming(image, {entry.name: "10.9.9.9"})
        for other in entries:
            if other.name != entry.name:
                yield f"the manifest gives {entry.name} the address of {other.name}", _claiming(image, {entry.name: other.address})
    if len(entries) > 1:
        yield "the manifest gives all hosts addresses of nobody", _claiming(image, {e.name: f"10.9.9.{n}" for n, e in enumerate(entries)})
        turned = dict(zip([entry.name for entry in entries], [entry.address for entry in entries[1:] + entries[:1]], strict=True))
        yield "the manifest gives each host the address of the next", _claiming(image, turned)


def _claiming(image: Image, claims: Mapping[str, str]) -> Image:
    entries = tuple(replace(entry, claim=claims.get(entry.name, entry.claim)) for entry in image.manifest.entries)
    return changed(image, _nothing, replace(image.manifest, entries=entries))


FAULTS: tuple[Moves, ...] = (
    hosts_fall_silent,
    data_is_lost,
    services_stop,
    nodes_are_deleted,
    the_ring_is_changed,
    the_manifest_is_edited,
    addresses_are_wrong,
)
"""What a history may have a few of."""
MEANWHILE: tuple[Moves, ...] = (hosts_fall_silent, data_is_lost)
"""Those that may also come between a decision and what is done."""


def _unused_address(image: Image) -> str:
    used = {machine["address"] for machine in image.machines}
    return next(address for number in range(1, 99) if (address := f"10.0.0.{number}") not in used)


def _without(manifest: Manifest, entry: Entry) -> Manifest:
    return replace(manifest, entries=tuple(other for other in manifest.entries if other != entry))


def _nothing(_site: Site) -> None:
    """Only the manifest is another."""


def _add(name: str, address: str, site: Site) -> None:
    site.machines[address] = Machine(name, address)


def _to(address: str, change: Callable[[Machine], None], site: Site) -> None:
    change(site.machines[address])


def _power(address: str, site: Site, *, on: bool) -> None:
    site.power(site.machines[address], on=on)


def _set(address: str, what: str, value: bool, site: Site) -> None:
    setattr(site.machines[address], what, value)


def _delete_node(name: str, site: Site) -> None:
    del site.objects.nodes[name]


def _empty(machine: Machine) -> None:
    machine.disk.data, machine.member, machine.emptied_at = None, None, 0.0


def _lose(machine: Machine) -> None:
    machine.gone = True
    machine.stop()


def _stop_kubelet(machine: Machine) -> None:
    machine.kubelet_runs, machine.kubelet_version = False, None


def _fail_etcd(machine: Machine) -> None:
    machine.etcd_fails, machine.member = True, None


def _remove(member: int, site: Site) -> None:
    del site.ring.members[member]
    site.ring.removed.add(member)
