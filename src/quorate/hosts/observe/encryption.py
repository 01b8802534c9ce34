"""How an API server stores Secrets, by the file that its flag names, and what the manifest wants instead. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping

from quorate.core.documents import load
from quorate.core.health import Absent, Unknown
from quorate.core.hosts.encryption import PLAIN, Configuration, Desired, Encryption
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest import Manifest, Secret
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.observe.inspection import API_SERVER, Inspection
from quorate.hosts.probe.facts import Fact, HostFacts
from quorate.hosts.render.provider_files import FLAG, PATHS, is_its_owners, of_manifest, read

_ELSEWHERE = (
    "Name it in controlPlaneComponents.apiServer.flags as it was, or move it to {path} on every control plane host and change the flag"
)
_MISSING = (
    "Bring {path} back to that host from another control plane host or a backup: Secrets stored with its keys cannot be read without it"
)
_REGISTRY = "/registry"
"""Before which keys an API server keeps everything in etcd, unless its flag `etcd-prefix` says otherwise."""
_IN_ONE_PLACE = "Exchange keys by hand: quorate looks for what is stored with a key below one prefix of the control plane's own etcd"


def desired(manifest: Manifest, api: ApiReading | Unknown | Absent, control_planes: Mapping[str, HostFacts | Unreachable]) -> Desired:
    """What the manifest wants, with which provider every Secret is known to be stored, and why etcd cannot be asked that."""
    if is_its_owners(manifest):
        return Desired()
    record = api.encryption if isinstance(api, ApiReading) else Absent()
    where = registry(control_planes)
    return Desired(
        of_manifest(manifest),
        record.get("secrets", "") if isinstance(record, Mapping) else "",
        unasked=where.reason if isinstance(where, Unknown) else "",
    )


def registry(control_planes: Mapping[str, HostFacts | Unreachable]) -> Fact[str]:
    """Below which prefix of etcd's keys all API servers keep everything, by their own static Pods: a cluster may have one that no manifest names.

    Absent where there is no API server, Unknown where it is not one place, or where a host that may have one was not asked.
    """
    places: dict[str, str] = {}
    for name, facts in control_planes.items():
        pod = Unknown("it was not asked") if isinstance(facts, Unreachable) else facts.manifest("kube-apiserver")
        if isinstance(pod, Absent):
            continue
        if isinstance(pod, Unknown):
            return Unknown(f"where {name} has everything in etcd is not known: {pod.reason}", pod.remedy)
        if pod.flag("etcd-servers-overrides") is not None:
            return Unknown(f"the API server of {name} has some of it in other servers (--etcd-servers-overrides)", _IN_ONE_PLACE)
        prefix = pod.flag("etcd-prefix")
        if prefix == "":
            return Unknown(f"the API server of {name} has everything below a prefix that cannot be read", "Write --etcd-prefix=/PREFIX")
        places[name] = posixpath.normpath(f"/{(prefix or _REGISTRY).strip('/')}").rstrip("/")
    if not places:
        return Absent()
    first, *others = places
    if other := next((each for each in others if places[each] != places[first]), ""):
        where = f"the API server of {first} has everything below {places[first]} in etcd, and {other} below {places[other]}"
        return Unknown(where, "Find out which of them serves the cluster's objects, and correct --etcd-prefix of the other")
    return places[first]


def encryption(manifest: Manifest, facts: HostFacts, inspection: Inspection) -> Encryption | Unknown | None:
    """How the host's API server stores Secrets; None where it has none, or the file is its owner's."""
    flag = flag_of(facts)
    if is_its_owners(manifest) or isinstance(facts.manifest("kube-apiserver"), Absent):
        return None
    if isinstance(flag, Unknown):
        return flag
    if not isinstance(flag, Absent) and flag not in PATHS:
        return Unknown(f"its API server reads {flag}, which the manifest does not name", _ELSEWHERE.format(path=PATHS[0]))
    try:
        spare = tuple(_spare(inspection, flag))
        if isinstance(flag, Absent):
            return Encryption(in_use=not spare or API_SERVER not in inspection.younger, spare=_together(spare))
        found = inspection.content(flag)
        if isinstance(found, Absent):
            return Unknown(f"its API server reads {flag}, which is not there", _MISSING.format(path=flag))
        if isinstance(found, Unknown):
            return found
        configuration = read(found).configuration
    except ValueError as error:
        return Unknown(f"a file of encryption providers {error}", f"Correct it, or move it away if no flag names it: {', '.join(PATHS)}")
    as_given = configuration != of_manifest(manifest) or _says_the_same(found, manifest)
    return Encryption(
        configuration, flagged=True, in_use=inspection.younger.isdisjoint((flag, API_SERVER)), as_given=as_given, spare=_together(spare)
    )


def flag_of(facts: HostFacts) -> Fact[str]:
    """The file that its API server reads."""
    pod = facts.manifest("kube-apiserver")
    if isinstance(pod, Absent | Unknown):
        return pod
    path = pod.flag(FLAG)
    return Absent() if path is None else path


def common_file(facts: Iterable[HostFacts]) -> Fact[str] | None:
    """The file that every one of these API servers reads, so that whoever joins them is told to read it too; Absent where one reads none, None where there is
    no API server. Unknown where they read different ones.
    """
    flags = [flag_of(each) for each in facts if not isinstance(each.manifest("kube-apiserver"), Absent | Unknown)]
    named = sorted({flag for flag in flags if isinstance(flag, str)})
    if len(named) > 1:
        remedy = "Have every API server read the same path, with --encryption-provider-config in its manifest"
        return Unknown(f"API servers read different files of encryption providers: {', '.join(named)}", remedy)
    return next((Absent() for flag in flags if not isinstance(flag, str)), next(iter(named), None))


def _spare(inspection: Inspection, flag: Fact[str]) -> Iterator[Configuration]:
    """Files that no flag names. What could not be read is none: it is looked at again before any is written."""
    for path in PATHS:
        found = inspection.content(path)
        if path != flag and isinstance(found, bytes):
            yield read(found).configuration


def _together(spare: tuple[Configuration, ...]) -> Configuration | None:
    if len(spare) < len(PATHS):
        return next(iter(spare), None)
    names = dict.fromkeys(name for each in spare for name in each.names)
    return (
        Configuration.made({name: tuple(dict.fromkeys(key for each in spare for key in each.of(name))) for name in names})
        if names
        else PLAIN
    )


def _says_the_same(found: bytes, manifest: Manifest) -> bool:
    """Whether the file says what the manifest's own configuration says, in whatever form."""
    custom: Secret = manifest.features.encryption_providers.custom_encryption_configuration
    return not custom or load(found) == load(custom.reveal())
