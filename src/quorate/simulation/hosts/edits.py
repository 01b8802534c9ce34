"""What users do: they edit the manifest at any moment, and do what the remedies of a run that stalled ask them for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

from quorate.core.versions import Version
from quorate.hosts.run.events import Ended
from quorate.simulation.hosts.operators import Operations

Edit = Callable[[Operations, Random], str | None]
"""Does something. Returns what, or None where it made no sense now."""

_SET_VERSION = re.compile(r"Set versions\.kubernetes to (?:a version of )?(v\d+\.\d+)(\.\d+)?")
_REMOVE = re.compile(r"--remove-hosts (\d+)")
_RESET = re.compile(r"`quorate reset -m MANIFEST ([^`]+)`")
_DELETE_NODE = re.compile(r"delete Node (\S+) yourself")
_MAKE_CREDENTIALS = re.compile(r"`kubeadm init phase kubeconfig kubelet --node-name (\S+) ")
_BRING_BACK = (
    "bring a host back",
    "put it back into the manifest",
    "put one of them back into the manifest",
    "with its data, or restore",
)
_NEWEST_MINOR = 36


def add_host(operations: Operations, random: Random) -> str | None:
    """One more control plane, or worker."""
    if len(operations.manifest.entries) > 6:
        return None
    return operations.add_host(control_plane=random.random() < 0.6)


def remove_host(operations: Operations, random: Random) -> str | None:
    """One host fewer. The machine runs on."""
    entry = random.choice(operations.manifest.entries)
    if entry.control_plane and not operations.has_votes_beside(entry):
        return None
    operations.remove_host(entry)
    return f"{entry.name} is taken out"


def replace_host(operations: Operations, random: Random) -> str | None:
    """A host's name gets another machine, while the old one runs on."""
    entry = random.choice(operations.manifest.entries)
    if entry.control_plane and not operations.has_votes_beside(entry):
        return None
    operations.replace_host(entry)
    return f"{entry.name} is another machine"


def raise_version(operations: Operations, random: Random) -> str | None:
    """The next patch, or the next minor."""
    version = operations.manifest.version
    if operations.site.objects.running != version and random.random() < 0.8:
        return None
    minor = random.random() < 0.5 and version.minor < _NEWEST_MINOR
    text = f"v{version.major}.{version.minor + 1}.0" if minor else f"v{version.major}.{version.minor}.{version.patch + 1}"
    operations.manifest = replace(operations.manifest, version=Version.parse(text))
    return f"version {text}"


def change_settings(operations: Operations, random: Random) -> str | None:
    """Another flag of an API server; one in six is one with which it does not start."""
    settings = operations.manifest.settings + 1
    if random.random() < 1 / 6:
        operations.site.broken_settings.add(settings)
    operations.manifest = replace(operations.manifest, settings=settings)
    return f"settings {settings}"


def change_labels(operations: Operations, _random: Random) -> str | None:
    """Other labels of Nodes."""
    operations.manifest = replace(operations.manifest, labels=operations.manifest.labels + 1)
    return f"labels {operations.manifest.labels}"


def switch_encryption(operations: Operations, _random: Random) -> str | None:
    """Secrets are to be stored encrypted, or as plain text again."""
    operations.manifest = replace(operations.manifest, encrypts=not operations.manifest.encrypts)
    return f"encryption {'on' if operations.manifest.encrypts else 'off'}"


def rotate_the_key(operations: Operations, _random: Random) -> str | None:
    """The next run is to store Secrets with another key."""
    if not operations.manifest.encrypts:
        return None
    operations.rotates = True
    return "the key is to be exchanged"


def let_certificates_age(operations: Operations, random: Random) -> str | None:
    """A year has nearly passed since the certificates of a host were made."""
    machine = random.choice(operations.machines) if operations.machines else None
    if machine is None or machine.disk.certificates_expire is None:
        return None
    expire = operations.world.now() + timedelta(days=random.randint(2, 29))
    machine.disk.certificates = dict.fromkeys(machine.disk.certificates, expire)
    machine.containers |= {component: replace(container, valid=expire) for component, container in machine.containers.items()}
    return f"the certificates of {machine.name} are about to expire"


EDITS: tuple[Edit, ...] = (
    add_host,
    remove_host,
    replace_host,
    raise_version,
    raise_version,
    change_settings,
    change_labels,
    let_certificates_age,
    switch_encryption,
    rotate_the_key,
)


def obey(operations: Operations, ended: Ended) -> str | None:
    """Do what the remedies of a run say, where that is somebody's to do. Returns what was done."""
    text = " ".join((ended.message, *(check.remedy for check in ended.because)))
    if any(words in text for words in _BRING_BACK) and (taken := operations.take_back()) is not None:
        return taken  # first, since where it is asked for nothing else can be done before
    if (found := _REMOVE.search(text)) is not None and operations.may_leave != int(found[1]):
        operations.may_leave = int(found[1])
        return f"{found[1]} hosts may leave"
    if (found := _SET_VERSION.search(text)) is not None:
        operations.manifest = replace(operations.manifest, version=Version.parse(found[1] + (found[2] or ".0")))
        return f"version {operations.manifest.version}"
    if (found := _RESET.search(text)) is not None:
        return operations.reset_host(found[1].split()[0])
    if (found := _DELETE_NODE.search(text)) is not None and operations.site.objects.nodes.pop(found[1], None) is not None:
        return f"Node {found[1]} is deleted"
    if (found := _MAKE_CREDENTIALS.search(text)) is not None:
        return operations.finish_join(found[1])
    return None
