"""What must be true once a run has said that everything is as the manifest says, judged by what is true on the site."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.hosts.encryption import IDENTITY
from quorate.core.hosts.rules.settings import RENEW_BEFORE
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.operators import Operations
from quorate.simulation.hosts.site import Entry


def unfinished(operations: Operations) -> list[str]:
    """What is not as the manifest says; empty: all is."""
    return list(_unfinished(operations))


def _unfinished(operations: Operations) -> Iterator[str]:
    site, manifest = operations.site, operations.manifest
    for entry in manifest.entries:
        machine = site.machine_of(entry)
        if machine is None:
            yield f"{entry.name} is gone"
        else:
            yield from (f"{entry.name}: {problem}" for problem in _of_host(operations, entry, machine))
    names = {member.name for member in site.ring.members.values()}
    wanted = {entry.name for entry in manifest.control_planes}
    if names != wanted or len(site.ring.well) != len(wanted):
        yield f"the ring has {sorted(names)}, of whom {len(site.ring.well)} vote and are well"
    ours = {node.name for node in site.objects.nodes.values() if node.control_plane or node.static_worker}
    if lost := ours - {entry.name for entry in manifest.entries}:
        yield f"Nodes are left over: {', '.join(sorted(lost))}"
    if site.objects.running != manifest.version or site.objects.settings != {manifest.settings}:
        yield f"the configuration in the cluster is {site.objects.running}, {site.objects.settings}"
    yield from _of_keys(operations)
    if not (site.objects.discovery and site.objects.addons):
        yield "the cluster's information or its add-ons were never made"


def _of_keys(operations: Operations) -> Iterator[str]:
    site, manifest = operations.site, operations.manifest
    servers = [machine for entry in manifest.control_planes if (machine := site.machine_of(entry)) is not None]
    writers = {machine.api_providers.secrets[0] for machine in servers}
    if len(writers) != 1 or (IDENTITY in writers) is manifest.encrypts or set(site.objects.stored) != writers:
        yield f"Secrets are written with {sorted(writers)}, and stored with {site.objects.stored}"
    if any(machine.disk.keys != writers - {IDENTITY} for machine in servers):
        yield "a key is left over, or missing"


def _of_host(operations: Operations, entry: Entry, machine: Machine) -> Iterator[str]:
    site, manifest, disk = operations.site, operations.manifest, machine.disk
    if entry.control_plane and not site.serves(machine):
        yield "its control plane does not serve"
    yield from _of_containers(operations, machine)
    if entry.control_plane and disk.components != manifest.version:
        yield f"its control plane is of {disk.components}"
    if {disk.kubelet, machine.kubelet_version} != {manifest.version}:
        yield f"its kubelet is of {disk.kubelet}, and {machine.kubelet_version} runs"
    if disk.revisions != {manifest.settings}:
        yield f"its settings are {disk.revisions}"
    node = site.objects.nodes.get(entry.name)
    if node is None or node.address != entry.address or not site.is_ready(node):
        yield "its Node is not there, or not ready"
    elif node.labels != manifest.labels or node.control_plane != entry.control_plane or node.cordoned_by_us:
        yield "its Node is not as it should be"


def _of_containers(operations: Operations, machine: Machine) -> Iterator[str]:
    """What runs with what it read as it started."""
    if any(container.manifest != machine.disk.manifest(component) for component, container in machine.containers.items()):
        yield "something on it runs with a manifest that was replaced"
    soon = operations.site.world.now() + RENEW_BEFORE
    if any(container.valid is not None and container.valid < soon for container in machine.containers.values()):
        yield "something on it runs with a certificate that is about to expire"
