"""The files of encryption providers: gives one API server after the other its next file, rewrites Secrets, and removes a key that nothing needs.

A key is generated once, for the whole cluster, and only where no control plane host has any. A file is replaced by one that has its keys too, unless etcd
itself says that nothing is stored with those that go (S18).
Source: kubernetes.io, "Encrypting Confidential Data at Rest".
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from quorate.core.health import Absent, Unknown
from quorate.core.hosts.encryption import IDENTITY, NEW, PLAIN, SECRETS, Configuration, label
from quorate.core.hosts.steps import ChangeEncryption, RewriteSecrets
from quorate.hosts.act.component_manifests import kubeadm_documents, replace_component
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.nodes import written as write
from quorate.hosts.act.placing import placing
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.settled import control_plane_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.connect.ssh.errors import NoSuchFile
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest import Secret
from quorate.hosts.manifest.values import NO_SECRET
from quorate.hosts.observe.encryption import common_file, flag_of, registry
from quorate.hosts.probe.facts import Fact, HostFacts, StaticPod
from quorate.hosts.render.component_arguments import encryption_path
from quorate.hosts.render.feature_files import feature_files
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.provider_files import (
    PATHS,
    RECORD,
    ProviderFile,
    generated,
    is_its_owners,
    is_stored_with,
    of_manifest,
    read,
    with_file,
    written,
)
from quorate.hosts.render.shell import quoted
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import Conflict, NotFound
from quorate.kubernetes.objects import Object, ObjectMeta
from quorate.kubernetes.resource import CONFIG_MAPS, Resource
from quorate.workload.static_pods import NAMESPACE, Component

WHERE = "the cluster"
_AT_ONCE = 8
"""Secrets that are written at the same time."""
_NAMED = 3
_DEADLINE = 60.0


class _Named(Object):
    metadata: ObjectMeta


_NAMES: Resource[_Named] = Resource("", "v1", "secrets", "Secret", _Named)
"""Secrets without what is in them."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The files of one host by path, as they are, and what they say."""

    contents: Mapping[str, bytes]
    files: Mapping[str, ProviderFile]

    @property
    def configuration(self) -> Configuration:
        """Every key that any of the files has, for each resource."""
        there = [each.configuration for each in self.files.values()]
        names = dict.fromkeys(name for each in there for name in each.names)
        return Configuration.made({name: tuple(dict.fromkeys(key for each in there for key in each.of(name))) for name in names})


# Steps.


async def change_encryption(tools: Tools, step: ChangeEncryption, observation: Observation) -> None:
    """Give the host's API server this configuration, and wait until it uses it. Idempotent.

    Raises StepFailed where a key would go that something is stored with, where keys cannot be read, and where the API server does not come up: it then has
    the file again that it had.
    """
    machine, host = observation.machines[step.host], observation.cluster.host(step.host)
    found = {each.name: await _files_of(tools, each.name) for each in observation.cluster.control_planes}
    configuration, content = _next_file(tools, step.configuration, found)
    before = found[step.host]
    await _forget_the_record(tools, configuration)
    await _nothing_needs(tools, observation, before.configuration, configuration)
    path = None if configuration == PLAIN else _path(tools, observation, step.host)
    changed = _given(tools, path, content)
    documents = await kubeadm_documents(changed, machine, host.components)
    files = tuple(file for file in feature_files(changed.manifest, changed.contents) if file.path == path)
    await make_ready(tools, step.host, observation)
    tools.report(step.host, f"its API server is to {configuration.in_words}")
    try:
        await replace_component(changed, step.host, Component.API_SERVER, documents, files, first=_as_found(before, files))
    except StepFailed:
        await _put_back(tools, step.host, before, files)
        raise
    await control_plane_is_back(tools, step.host)
    await _remove(tools, step.host, [other for other in before.contents if other != path])


async def rewrite_secrets(tools: Tools, step: RewriteSecrets, observation: Observation) -> None:
    """Write every Secret anew, look into etcd whether all are stored as they should, and record that. Idempotent. Raises StepFailed with those that are not."""
    _registry(observation)  # before anything is written
    secrets = (await (await tools.access.api()).list(_NAMES)).items
    turns, failures = asyncio.Semaphore(_AT_ONCE), list[StepFailed]()

    async def one(secret: _Named) -> None:
        name = f"{secret.metadata.namespace}/{secret.metadata.name}"
        async with turns:
            try:
                await write(tools, WHERE, f"Secret {name} to be written", partial(_touch, secret))
            except StepFailed as failure:
                failures.append(StepFailed(failure.where, f"Secret {name}: {failure.cause}", failure.remedy))

    tools.report(WHERE, f"writing {len(secrets)} Secrets anew")
    async with asyncio.TaskGroup() as group:
        for secret in secrets:
            group.create_task(one(secret))
    if failures:
        raise failures[0]
    counted, others = 0, []
    async for key, value in _stored(tools, observation, f"{SECRETS}/"):
        counted += 1
        others += [] if is_stored_with(value, step.provider) else [key]
    if others:
        cause = f"{len(others)} of {counted} Secrets are still not stored {_told(step.provider)}: {_some(others)}"
        raise StepFailed(WHERE, cause, "Find out which API server writes them; quorate removes no key until then")
    await _record_provider(tools, step.provider)
    tools.report(WHERE, f"all {counted} Secrets are stored {_told(step.provider)}")


# The file that a host is to have because others have it.


async def as_they_have_it(tools: Tools, observation: Observation, host: str = "") -> Tools:
    """The tools for a host that joins, is upgraded or is told of in kubeadm's configuration: with the providers that all API servers have.

    The content is that of `host`, or of another control plane host. Raises StepFailed where none has it any more.
    """
    known = [each for name in _names(observation) if isinstance(each := observation.facts[name], HostFacts)]
    path = common_file(known)
    if isinstance(path, Unknown):
        raise StepFailed(WHERE, path.reason, path.remedy)
    return await _with(tools, observation, host, path)


async def as_it_has_it(tools: Tools, observation: Observation, host: str) -> Tools:
    """The tools for a host that keeps the providers which it has."""
    facts = observation.facts[host]
    if isinstance(facts, Unreachable) or isinstance(facts.manifest("kube-apiserver"), Absent | Unknown):
        return await as_they_have_it(tools, observation, host)
    return await _with(tools, observation, host, flag_of(facts))


async def as_first(tools: Tools, observation: Observation, host: str) -> Tools:
    """The tools for the host that founds the cluster: the file that an earlier attempt has left there, none where its API server reads none, or else what the
    manifest wants, with a new key.

    Secrets may be stored with what an earlier attempt had, or as plain text, whatever the manifest says by now: it comes in stages, once the cluster stands.
    """
    if is_its_owners(tools.manifest):
        return tools
    facts = observation.facts[host]
    flag = Absent() if isinstance(facts, Unreachable) else flag_of(facts)
    if isinstance(facts, HostFacts) and isinstance(facts.manifest("kube-apiserver"), StaticPod) and isinstance(flag, Absent):
        return _given(tools, None, NO_SECRET)
    for path in sorted(PATHS, key=lambda path: path != flag):
        try:
            return _given(tools, path, await _read_file(tools, host, path))
        except NoSuchFile:
            continue
    if not _is_ours_to_make(tools):
        return tools
    key, entry = generated(tools.random_bytes)
    found = written(Configuration.made({SECRETS: (key, IDENTITY)}), {key: entry})
    return replace(tools, contents=replace(tools.contents, encryption_providers=found))


async def record_of_first(tools: Tools) -> None:
    """Record with which provider the cluster that was just founded has stored every Secret from its beginning. Idempotent. Raises StepFailed."""
    made = tools.contents.encryption_providers
    configuration = of_manifest(tools.manifest) or (read(made.reveal().encode()).configuration if made else PLAIN)
    if configuration != PLAIN and not is_its_owners(tools.manifest):
        await _record_provider(tools, configuration.secrets[0])


async def _with(tools: Tools, observation: Observation, host: str, path: Fact[str] | None) -> Tools:
    if is_its_owners(tools.manifest):
        return tools
    if path is None:  # there is no API server yet: the manifest is all that there is to go by
        path = encryption_path(tools.manifest.features) if tools.manifest.features.encryption_providers.enable else Absent()
    if not isinstance(path, str):
        return _given(tools, None, NO_SECRET)
    return _given(tools, path, await _read_from_any(tools, path, (host, *_names(observation))))


def _given(tools: Tools, path: str | None, content: Secret) -> Tools:
    manifest, contents = with_file(tools.manifest, tools.contents, path, content)
    return replace(tools, manifest=manifest, contents=contents)


async def _read_file(tools: Tools, host: str, path: str) -> Secret:
    """A file of encryption providers. Raises NoSuchFile, and StepFailed for one that is not text."""
    try:
        return Secret((await tools.access.ssh(host).read_file(path)).decode())
    except UnicodeDecodeError:
        raise StepFailed(host, f"{path} is not text", "Correct it, or bring it back from another control plane host or a backup") from None


async def _read_from_any(tools: Tools, path: str, hosts: Iterable[str]) -> Secret:
    asked = [name for name in dict.fromkeys(hosts) if name and not isinstance(tools.access.states[name], Unreachable)]
    for name in asked:
        try:
            return await _read_file(tools, name, path)
        except NoSuchFile:
            continue
    remedy = f"Bring {path} back to a control plane host from a backup; without it Secrets written with its key cannot be read"
    raise StepFailed(", ".join(asked) or WHERE, f"Secrets are encrypted, and no host has {path}", remedy)


def _names(observation: Observation) -> list[str]:
    return [host.name for host in observation.cluster.control_planes]


def _is_ours_to_make(tools: Tools) -> bool:
    return not is_its_owners(tools.manifest) and of_manifest(tools.manifest) is None


# The next file of a host.


async def _files_of(tools: Tools, host: str) -> _Found:
    """Read now. A host that cannot be asked may have a key: no other is made beside it."""
    contents = {}
    for path in PATHS:
        try:
            contents[path] = await tools.access.ssh(host).read_file(path)
        except NoSuchFile:
            continue
    try:
        return _Found(contents, {path: read(content) for path, content in contents.items()})
    except ValueError as error:
        raise StepFailed(host, f"a file of encryption providers {error}", f"Correct it, or move it away: {', '.join(PATHS)}") from None


def _next_file(tools: Tools, wanted: Configuration, found: Mapping[str, _Found]) -> tuple[Configuration, Secret]:
    """The configuration with a key in the place of a new one, and the file that says it: the manifest's own words where it wants just that."""
    own = tools.manifest.features.encryption_providers.custom_encryption_configuration
    entries: dict[str, Any] = {}
    for each in found.values():
        for file in each.files.values():
            entries |= file.entries
    if of_manifest(tools.manifest) == wanted and own:
        return wanted, own
    if own:
        entries |= read(own.reveal().encode()).entries
    if NEW in wanted.secrets:
        key = _new_key(tools, wanted, entries)
        wanted = Configuration.made(
            {name: tuple(key if provider == NEW else provider for provider in each) for name, each in wanted.resources}
        )
    if missing := sorted(wanted.keys - entries.keys()):
        raise StepFailed(WHERE, f"no host has key {label(missing[0])} any more", "Run the command again: it observes which keys there are")
    return wanted, written(wanted, entries)


def _new_key(tools: Tools, wanted: Configuration, entries: dict[str, Any]) -> str:
    """Never one beside another that is not known to the decision: that one may be the key of all Secrets."""
    if unknown := sorted(entries.keys() - wanted.keys - {IDENTITY}):
        raise StepFailed(
            WHERE, f"no key is made, since a host has key {label(unknown[0])}", "Run the command again: it goes on with that key"
        )
    key, entry = generated(tools.random_bytes)
    entries[key] = entry
    return key


def _path(tools: Tools, observation: Observation, host: str) -> str:
    """Where the API servers have the file already, or else where the manifest wants it."""
    known = [facts for name in (host, *_names(observation)) if isinstance(facts := observation.facts[name], HostFacts)]
    flags = [flag for each in known if isinstance(flag := flag_of(each), str)]
    return flags[0] if flags else encryption_path(tools.manifest.features)


def _as_found(before: _Found, files: Iterable[HostFile]) -> str:
    """The part of a script that ends it where a file is about to be replaced that is not the one which was read."""
    lines = [_IS]
    for file in files:
        found = before.contents.get(file.path)
        digests = ("" if found is None else _digest(found), _digest(file.content))  # the second where an attempt was cut short
        lines.append(f"is {quoted(file.path)} {quoted('|'.join(digests))}")
    return "\n".join((*lines, ""))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def _put_back(tools: Tools, host: str, before: _Found, files: Iterable[HostFile]) -> None:
    """It is one stage behind, and so reads what the others write."""
    old = [HostFile(file.path, before.contents[file.path]) for file in files if file.path in before.contents]
    if old:
        await tools.run(host, placing(old), doing="putting the old file of encryption providers back", deadline=_DEADLINE)


async def _remove(tools: Tools, host: str, paths: Iterable[str]) -> None:
    if gone := " ".join(map(quoted, paths)):
        await tools.run(host, f"rm -f -- {gone}", doing="removing a file of encryption providers", deadline=_DEADLINE)


# What is stored.


async def _nothing_needs(tools: Tools, observation: Observation, before: Configuration, after: Configuration) -> None:
    """Raises StepFailed where a value in etcd was written with a key that its resource has before, and not after."""
    names = (*before.names, *after.names)
    lost = sorted({key for name in names for key in before.of(name) if key not in after.of(name)} - {IDENTITY})
    if not lost:
        return
    below = f"{SECRETS}/" if set(names) <= {SECRETS} else ""
    needed: list[str] = []
    tools.report(WHERE, f"looking whether anything is stored with {', '.join(map(label, lost))}")
    prefix = f"{_registry(observation)}/"
    async for name, value in _stored(tools, observation, below):
        stay = _read_there(after, name.removeprefix(prefix))
        needed += [name for key in lost if key not in stay and is_stored_with(value, key)]
    if needed:
        cause = f"{len(needed)} objects are stored with {', '.join(map(label, lost))}, which would go: {_some(needed)}"
        remedy = "Keep that key: with features.encryptionProviders on, quorate writes Secrets anew; write other objects anew yourself"
        raise StepFailed(WHERE, cause, remedy)


_KEPT_BELOW = {"services/endpoints": "endpoints", "services/specs": "services", "controllers": "replicationcontrollers", "minions": "nodes"}
"""Resources that are kept below another name than their own.
Source: kubernetes, pkg/kubeapiserver/default_storage_factory_builder.go, SpecialDefaultResourcePrefixes."""


def _read_there(configuration: Configuration, key: str) -> frozenset[str]:
    """With which providers an object of this key in etcd can certainly be read. A key begins with the resource, or with its group and the resource; of what
    no name in the configuration fits the group is not known, and every wildcard may be meant.
    """
    special = next((kept for kept in _KEPT_BELOW if key.startswith(f"{kept}/")), None)
    if special is not None:
        key = f"{_KEPT_BELOW[special]}{key.removeprefix(special)}"
    for name in configuration.names:
        resource, _, group = name.partition(".")
        if not name.startswith("*") and key.startswith((f"{resource}/", f"{group}/{resource}/")):
            return frozenset(configuration.of(name))
    wildcards = {name for name in configuration.names if name.startswith("*")} | {"*.*"}
    return frozenset.intersection(*(frozenset(configuration.of(name)) for name in wildcards))


async def _stored(tools: Tools, observation: Observation, below: str) -> AsyncIterator[tuple[str, bytes]]:
    """What API servers have in etcd, all of it or what is below a key such as `secrets/`: keys and values. Raises StepFailed, at the latest in the end, where a
    Secret was not among it that the API lists: then it is somewhere else.
    """
    prefix = _registry(observation)
    secrets = f"{prefix}/{SECRETS}/"
    listed, seen = await _listed(tools), set[str]()
    async for key, value in (await tools.access.etcd()).values(f"{prefix}/{below}".encode()):
        name = key.decode(errors="replace")
        seen |= {name.removeprefix(secrets)} if name.startswith(secrets) else set()
        yield name, value
    missing = listed.keys() - seen
    if missing and (missing := {name for name, uid in (await _listed(tools)).items() if name in missing and listed[name] == uid}):
        count = f"{len(missing)} Secret{'s' if len(missing) > 1 else ''}"
        cause = f"etcd does not have {count} below {prefix} that the API lists: {_some(sorted(missing))}"
        raise StepFailed(
            WHERE, cause, "Check with which --etcd-prefix and --etcd-servers its API servers run; quorate removes no key until then"
        )


async def _listed(tools: Tools) -> dict[str, str]:
    """Every Secret by its name below `secrets/` in etcd, with its uid."""
    secrets = (await (await tools.access.api()).list(_NAMES)).items
    return {f"{each.metadata.namespace}/{each.metadata.name}": each.metadata.uid for each in secrets}


def _registry(observation: Observation) -> str:
    """Below which prefix everything is. Raises StepFailed where that is not known."""
    found = registry({name: observation.facts[name] for name in _names(observation)})
    if isinstance(found, str):
        return found
    if isinstance(found, Absent):
        raise StepFailed(WHERE, "no host has an API server", "Run the command again: it observes which there are")
    raise StepFailed(WHERE, found.reason, found.remedy)


async def _forget_the_record(tools: Tools, configuration: Configuration) -> None:
    """Before anybody stores Secrets otherwise than the record says, it says nothing."""

    async def forget(api: Client) -> None:
        try:
            record = await api.get(CONFIG_MAPS, RECORD, NAMESPACE)
            if record.data.get(SECRETS) != configuration.secrets[0]:
                await api.delete(CONFIG_MAPS, RECORD, NAMESPACE, resource_version=record.metadata.resource_version)
        except NotFound:
            return

    await write(tools, WHERE, f"ConfigMap {NAMESPACE}/{RECORD} to be deleted", forget)


async def _record_provider(tools: Tools, provider: str) -> None:
    await write(tools, WHERE, f"ConfigMap {NAMESPACE}/{RECORD} to be written", partial(_record, provider))


async def _record(provider: str, api: Client) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": RECORD}, "data": {SECRETS: provider}}
    try:
        await api.merge_patch(CONFIG_MAPS, RECORD, {"data": {SECRETS: provider}}, NAMESPACE)
    except NotFound:
        await api.create(CONFIG_MAPS, body, NAMESPACE)


async def _touch(secret: _Named, api: Client) -> None:
    """A write that changes nothing: the API server stores an object anew where it is not stored with the first provider. One that is gone, or was made anew
    meanwhile, needs none. Source: k8s.io/apiserver/pkg/storage/etcd3/store.go, GuaranteedUpdate, on stale data.
    """
    try:
        await api.merge_patch(_NAMES, secret.metadata.name, {"metadata": {"uid": secret.metadata.uid}}, secret.metadata.namespace)
    except (NotFound, Conflict):
        return


def _told(provider: str) -> str:
    return "as plain text" if provider == IDENTITY else f"with key {label(provider)}"


def _some(keys: list[str]) -> str:
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")


_IS = """\
is() {
    found=$([ ! -e "$1" ] || sha256sum <"$1")
    case "|$2|" in *"|${found%% *}|"*) ;; *)
        echo "$1 is not the file that it was: nothing was written over it" >&2
        exit 1 ;;
    esac
}"""
