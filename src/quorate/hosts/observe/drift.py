"""How one host differs from what the manifest would make of it now: what it lacks before kubeadm, and in what its programs' flags and files differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from quorate.core import documents
from quorate.core.health import Absent, Unknown
from quorate.core.text import printable
from quorate.core.versions import Version
from quorate.hosts.manifest import Host, Manifest
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.manifest.values import NO_SECRET
from quorate.hosts.observe.flags import arguments, flag_differences, parsed
from quorate.hosts.observe.inspection import API_SERVER, KUBELET_CONFIGURATION, Inspection, Wanted
from quorate.hosts.observe.kernel import kernel_drift
from quorate.hosts.observe.known_flags import KUBEADMS
from quorate.hosts.observe.kubelet import kubelet_differences, read
from quorate.hosts.observe.values import difference
from quorate.hosts.probe.facts import Fact, HostFacts, Program, StaticPod
from quorate.hosts.render.component_arguments import (
    ADMISSION_CONFIGURATION,
    api_server,
    controller_manager,
    local_etcd,
    scheduler,
)
from quorate.hosts.render.component_configurations import kubelet_configuration, kubelet_settings
from quorate.hosts.render.feature_files import Contents, feature_files
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.host_settings import RESTARTS_DUE, looking_for_stale, settings_files
from quorate.hosts.render.kubeadm_configuration import certificate_names, image_repository
from quorate.hosts.render.prerequisites import ENTERPRISE, WITH_UFW
from quorate.hosts.render.provider_files import FLAG, PATHS, with_file
from quorate.pki.certificates import comparable
from quorate.workload.images import Image
from quorate.workload.static_pods import Component
from quorate.workload.updates import CannotUpdate

_PROGRAMS = ("containerd", "kubelet", "kubeadm", "kubectl")
_OF_THE_CLUSTER = ("kubelet", "kubeadm")
"""Programs that a host which is to join must have in exactly the cluster's version."""
_ENCRYPTION = (FLAG, f"{FLAG}-automatic-reload")
"""Flags that come and go with the file of encryption providers."""


def wanted_of(manifest: Manifest, contents: Contents, facts: HostFacts, system: OperatingSystem, *, control_plane: bool) -> Wanted:
    """What to look at on a host: the files that it needs before it joins and keeps; afterwards, the contents of those that its programs read too."""
    settings = settings_files(manifest, system, containerd_version(facts))
    if not _has_joined(facts):
        return Wanted(exactly=settings)
    stale = looking_for_stale(manifest, system, settings)
    if not control_plane:
        return Wanted(settings, (KUBELET_CONFIGURATION,), stale)
    features = [file.path for file in _compared(manifest, contents)]
    return Wanted(settings, (KUBELET_CONFIGURATION, *features, *PATHS), stale, read_at_start=(API_SERVER, *PATHS))


def lacking(manifest: Manifest, facts: HostFacts, system: OperatingSystem, inspection: Inspection) -> tuple[str, ...]:
    """What a host that has not joined lacks before kubeadm. Nothing of a host that has: what it was given then is not taken back from it.

    The kernel's settings are looked at through the files that make them: kubeadm's preflight checks what the host does not allow.
    """
    if _has_joined(facts):
        return ()
    if system is OperatingSystem.UNKNOWN:
        return ("an operating system that quorate knows",)
    return (*_programs(manifest, facts), *_files(inspection))


def guarded_by(facts: HostFacts, system: OperatingSystem) -> tuple[str, ...]:
    """What preparing a host that has not joined turns off on this system, as far as it is on, or not known to be off. Nothing of a host that has joined."""
    if _has_joined(facts):
        return ()
    state: dict[str, Fact[bool]] = {}
    if system in ENTERPRISE:
        state = {"firewalld": _firewalld(facts), "nftables": _nftables(facts), "SELinux (enforcing)": facts.selinux_enforcing}
        if facts.selinux_enforcing is not True:
            state["SELinux (enforcing at the next boot)"] = facts.selinux_at_boot
    elif system in WITH_UFW:
        state = {"ufw": facts.ufw, "nftables": _nftables(facts)}
    unknown = {name: f"{name}, of which it is not known whether it is on" for name, on in state.items() if isinstance(on, Unknown)}
    return tuple(unknown.get(name, name) for name, on in state.items() if on is True or name in unknown)


def _firewalld(facts: HostFacts) -> Fact[bool]:
    unit = facts.units["firewalld"]
    return unit if isinstance(unit, Absent | Unknown) else unit.is_running or unit.file == "enabled"


def _nftables(facts: HostFacts) -> Fact[bool]:
    """Its service does nothing but load rules, so that those count; where it loads them at the next boot only, they may be anything."""
    unit = facts.units["nftables"]
    if isinstance(unit, Absent | Unknown):
        return unit
    return facts.nftables if unit.active == "active" else unit.file == "enabled"


def drift(
    manifest: Manifest, contents: Contents, host: Host, facts: HostFacts, inspection: Inspection, *, control_plane: bool
) -> tuple[str, ...]:
    """In what a host that has joined differs, each as a sentence. What could not be read is no difference. Nothing of a host that has not (`lacking`)."""
    if not _has_joined(facts):
        return ()
    found = [*_settings(inspection), *kernel_drift(manifest, facts), *_kubelet(manifest, host, facts, inspection)]
    if control_plane:
        found += [
            *_images(manifest, facts),
            *_flags(manifest, facts),
            *_features(manifest, contents, inspection),
            *_certificate(manifest, facts),
        ]
    return tuple(map(printable, found))


def containerd_version(facts: HostFacts) -> Version | None:
    """The version of containerd; None where it is not known, or there is none."""
    return _version(facts.programs["containerd"])


def _has_joined(facts: HostFacts) -> bool:
    """Or may have: whoever cannot tell takes nothing of the host for granted."""
    return not isinstance(facts.kubeconfigs["kubelet"], Absent)


def _programs(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    for name in _PROGRAMS:
        program = facts.programs[name]
        version = _version(program)
        if isinstance(program, Absent):
            yield name
        elif name in _OF_THE_CLUSTER and version is not None and version != manifest.version:
            yield f"{name} {manifest.version} instead of {version}"


def _settings(inspection: Inspection) -> Iterator[str]:
    """By their files: what these hold may be secret, and is not told."""
    if not isinstance(inspection.differing, Unknown):
        yield from (f"{path}: differs from the manifest" for path in inspection.differing)
    for path in inspection.stale:
        yield f"{path}: the manifest leaves it out" if path != RESTARTS_DUE else "containerd: has yet to be restarted with its settings"


def _files(inspection: Inspection) -> Iterator[str]:
    if isinstance(inspection.differing, Unknown):
        yield f"what could not be looked at: {inspection.differing.reason}"
    else:
        yield from inspection.differing


def _version(program: Fact[Program]) -> Version | None:
    return program.version if isinstance(program, Program) and isinstance(program.version, Version) else None


def _flags(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    parts = {
        "kube-apiserver": api_server(manifest),
        "kube-controller-manager": controller_manager(manifest),
        "kube-scheduler": scheduler(manifest),
        "etcd": local_etcd(manifest),
    }
    for component, part in parts.items():
        pod = facts.manifest(component)
        if not isinstance(pod, Absent | Unknown):
            wanted, found = (
                {name: value for name, value in each.items() if name not in _ENCRYPTION} for each in (arguments(part), parsed(pod.flags))
            )
            yield from flag_differences(component, wanted, found, own=KUBEADMS[component])


def _images(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    """From which repository they are; of which version they are is an upgrade's concern."""
    for component in Component:
        pod = facts.manifest(component)
        if not isinstance(pod, StaticPod) or not pod.images:
            continue
        with suppress(CannotUpdate):  # what is no image is a host's that is broken
            found = Image.parse(pod.images[0])
            wanted = replace(found, repository=Image.parse(f"{image_repository(manifest)}/{found.name}").repository)
            if found != wanted:
                yield f"{component}: image {difference(str(found), str(wanted))}"


def _kubelet(manifest: Manifest, host: Host, facts: HostFacts, inspection: Inspection) -> Iterator[str]:
    content = inspection.content(KUBELET_CONFIGURATION)
    if isinstance(content, Absent | Unknown):  # without it the host is broken, which its kind says
        return
    flags = "" if isinstance(facts.kubelet_flags, Absent | Unknown) else facts.kubelet_flags
    try:
        found = read(content)
    except ValueError as error:
        yield f"kubelet: {KUBELET_CONFIGURATION}: {error}"
        return
    yield from kubelet_differences({**kubelet_configuration(manifest), **kubelet_settings(host.kubelet)}, found, flags)


def _features(manifest: Manifest, contents: Contents, inspection: Inspection) -> Iterator[str]:
    for file in _compared(manifest, contents):
        found = inspection.content(file.path)
        if isinstance(found, Absent):
            yield f"{file.path}: is missing"
        elif isinstance(found, bytes) and not _same(found, file.content):
            yield f"{file.path}: differs from the manifest"


def _certificate(manifest: Manifest, facts: HostFacts) -> Iterator[str]:
    chain = facts.certificates["apiserver"]
    if isinstance(chain, Absent | Unknown):
        return
    missing = set(map(comparable, certificate_names(manifest))) - chain[0].names
    if missing:
        yield f"kube-apiserver: its certificate lacks {', '.join(sorted(missing))}"


def _compared(manifest: Manifest, contents: Contents) -> tuple[HostFile, ...]:
    """The files whose content the manifest decides. Not that of encryption providers, which goes from one to another in stages (`observe.encryption`); nor the
    one that only names the others, whose form is KubeOne's where KubeOne wrote it.
    """
    files = feature_files(*with_file(manifest, contents, None, NO_SECRET))
    return tuple(file for file in files if file.path != ADMISSION_CONFIGURATION)


def _same(found: bytes, wanted: bytes) -> bool:
    return found == wanted or ((documents := _documents(found)) is not None and documents == _documents(wanted))


def _documents(content: bytes) -> list[Any] | None:
    try:
        return documents.load_all(content)
    except documents.NotADocument:
        return None
