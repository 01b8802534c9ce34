"""The file that tells an API server with which providers to store what: read into ids that reveal no key, and written from them.

Source: Kubernetes' apiserver.config.k8s.io/v1 EncryptionConfiguration; for how a value begins, k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from quorate.core.documents import load
from quorate.core.hosts.encryption import IDENTITY, Configuration, Providers
from quorate.hosts.manifest import Manifest, Secret
from quorate.hosts.manifest.component_fields import EncryptionProviders
from quorate.hosts.manifest.encryption import API_VERSION, KIND, problems_of
from quorate.hosts.manifest.values import NO_SECRET
from quorate.hosts.render.component_arguments import CUSTOM_ENCRYPTION_CONFIGURATION, ENCRYPTION_CONFIGURATION
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.host_files import yaml_documents

FLAG = "encryption-provider-config"
"""The API server's flag that names the file."""
PATHS = (ENCRYPTION_CONFIGURATION, CUSTOM_ENCRYPTION_CONFIGURATION)
"""Where quorate and KubeOne keep it."""
RECORD = "quorate-encryption"
"""The ConfigMap in kube-system that says with which provider every Secret is stored, under the key `secrets`. It lies where the Secrets do: a restored etcd has
that of its own time.
"""
ENCRYPTED = b"k8s:enc:"
"""How every value begins that is not stored as plain text."""
_KEY_BYTES = 32
_NAME_BYTES = 4
_DIGEST = 8  # hexadecimal digits; keys are random, so that they tell apart and reveal nothing


@dataclass(frozen=True, slots=True)
class ProviderFile:
    """What a file says: by id, in its order, and each provider as it stands there."""

    configuration: Configuration
    entries: Mapping[str, Mapping[str, Any]] = field(repr=False)


def read(content: bytes) -> ProviderFile:
    """What the file says. Raises ValueError for one that an API server would not start with; the message holds none of its values."""
    text = Secret(content.decode(errors="replace"))
    if problem := next(problems_of(text), ""):
        raise ValueError(problem)
    resources: dict[str, Providers] = {}
    entries: dict[str, Mapping[str, Any]] = {}
    for each in load(text.reveal())["resources"]:
        named = [(_id(entry), entry) for provider in each["providers"] for entry in _single(provider)]
        entries |= named
        for resource in each["resources"]:
            resources.setdefault(resource, tuple(dict.fromkeys(name for name, _ in named)))
    return ProviderFile(Configuration.made(resources), entries)


def written(configuration: Configuration, entries: Mapping[str, Mapping[str, Any]]) -> Secret:
    """The file with this configuration, of which `entries` has every provider."""
    alike: dict[tuple[Providers, str], list[str]] = {}
    for resource, providers in configuration.resources:  # a wildcard may not stand in a list with what it means
        alike.setdefault((providers, resource if resource.startswith("*") else ""), []).append(resource)
    resources = [
        {"resources": names, "providers": list(_merged(entries.get(provider, {IDENTITY: {}}) for provider in providers))}
        for (providers, _), names in alike.items()
    ]
    return Secret(yaml_documents({"apiVersion": API_VERSION, "kind": KIND, "resources": resources}).decode())


def generated(random_bytes: Callable[[int], bytes]) -> tuple[str, Mapping[str, Any]]:
    """A new key, its id first. kubernetes.io rates secretbox strong, and aescbc weak."""
    key = {"name": f"quorate-{random_bytes(_NAME_BYTES).hex()}", "secret": base64.b64encode(random_bytes(_KEY_BYTES)).decode("ascii")}
    entry = {"secretbox": {"keys": [key]}}
    return _id(entry), entry


def is_stored_with(value: bytes, provider: str) -> bool:
    """Whether a value of etcd was written by this provider."""
    if provider == IDENTITY:
        return not value.startswith(ENCRYPTED)
    kind, name = provider.split(":")[:2]
    version = "" if "/" in kind else ":v1"
    return value.startswith(ENCRYPTED + f"{kind.replace('/', ':')}{version}:{unquote(name)}:".encode())


def of_manifest(manifest: Manifest) -> Configuration | None:
    """What the manifest wants; None: a key of quorate's making."""
    providers = manifest.features.encryption_providers
    if not providers.enable:
        return Configuration()
    custom = providers.custom_encryption_configuration
    return read(custom.reveal().encode()).configuration if custom else None


def is_its_owners(manifest: Manifest) -> bool:
    """Whether the manifest gives the API server the flag by itself: the file is its owner's then, and none of quorate's."""
    return FLAG in manifest.control_plane_components.api_server.flags


def with_file(manifest: Manifest, contents: Contents, path: str | None, content: Secret) -> tuple[Manifest, Contents]:
    """The manifest and contents for API servers that have this file at this path, one of PATHS, whatever the manifest wants; None: that have none."""
    providers = EncryptionProviders()
    if path is not None:
        custom = content if path == CUSTOM_ENCRYPTION_CONFIGURATION else NO_SECRET
        providers = EncryptionProviders(enable=True, custom_encryption_configuration=custom)
    features = replace(manifest.features, encryption_providers=providers)
    return replace(manifest, features=features), replace(contents, encryption_providers=content)


def _single(provider: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The provider, once for each of its keys."""
    kind, settings = next(iter(provider.items()))
    if kind in (IDENTITY, "kms"):
        yield provider
    else:
        yield from ({kind: {"keys": [key]}} for key in settings["keys"])


def _id(entry: Mapping[str, Any]) -> str:
    kind, settings = next(iter(entry.items()))
    if kind == IDENTITY:
        return IDENTITY
    if kind == "kms":
        return f"kms/{settings.get('apiVersion', 'v1')}:{quote(settings.get('name', ''), safe='')}:{_digest(settings.get('endpoint', ''))}"
    key = settings["keys"][0]
    return f"{kind}:{quote(str(key['name']), safe='')}:{_digest(key['secret'])}"


def _digest(value: object) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:_DIGEST]


def _merged(entries: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Keys of one kind that follow each other, in one provider."""
    last: dict[str, Any] = {}
    for entry in entries:
        kind, settings = next(iter(entry.items()))
        if "keys" in (settings or {}) and kind in last:
            last[kind]["keys"] += settings["keys"]
            continue
        if last:
            yield last
        last = {kind: deepcopy(settings or {})}  # one that is shared would be written as an alias
    if last:
        yield last
