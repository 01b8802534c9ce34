"""A manifest's own EncryptionConfiguration: whether the API server would start with it, told without showing any of it.

Source: Kubernetes' apiserver.config.k8s.io/v1. What is wrong here would keep every API server from starting, one host after the other.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from quorate.core import documents
from quorate.hosts.manifest.names import mounted
from quorate.hosts.manifest.values import Secret

API_VERSION = "apiserver.config.k8s.io/v1"
KIND = "EncryptionConfiguration"
PROVIDERS = ("identity", "aescbc", "aesgcm", "secretbox", "kms")
_KEY_SIZES = {"aescbc": (16, 24, 32), "aesgcm": (16, 24, 32), "secretbox": (32,)}  # bytes


def problems_of(configuration: Secret) -> Iterator[str]:
    """What is wrong with the configuration; no answer holds any of its values."""
    try:
        document = documents.load(configuration.reveal())
    except documents.NotADocument as error:
        yield f"cannot be read: {error}"
        return
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        yield f"must be an {KIND} of {API_VERSION}"
        return
    resources = document.get("resources")
    if not isinstance(resources, list) or not resources:
        yield "has no resources"
        return
    for index, resource in enumerate(resources):
        for problem in _resource(resource):
            yield f"resources[{index}] {problem}"


def kms_endpoints(configuration: Secret) -> tuple[str, ...]:
    """The endpoints of the KMS plugins that a valid configuration names: sockets that every API server has to reach."""
    document = documents.load(configuration.reveal()) if configuration else {}
    providers = [provider for resource in document.get("resources", ()) for provider in resource["providers"]]
    return tuple(dict.fromkeys(provider["kms"]["endpoint"] for provider in providers if "kms" in provider))


def _resource(resource: Any) -> Iterator[str]:
    names = resource.get("resources") if isinstance(resource, dict) else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        yield "names no resources"
    providers = resource.get("providers") if isinstance(resource, dict) else None
    if not isinstance(providers, list) or not providers:
        yield "has no providers"
        return
    for index, provider in enumerate(providers):
        for problem in _provider(provider):
            yield f"providers[{index}] {problem}"


def _provider(provider: Any) -> Iterator[str]:
    if not isinstance(provider, dict) or len(provider) != 1 or next(iter(provider)) not in PROVIDERS:
        yield f"must have one key, one of {', '.join(PROVIDERS)}"
        return
    name, settings = next(iter(provider.items()))
    if name == "kms":
        endpoint = settings.get("endpoint") if isinstance(settings, dict) else None
        if isinstance(settings, dict) and not isinstance(settings.get("name", ""), str):
            yield "kms has a name that is not text"
        if not isinstance(endpoint, str) or not endpoint.startswith("unix://"):
            yield "kms has no endpoint that begins with unix://"
        elif (socket := endpoint.removeprefix("unix://")).startswith("/@"):
            return  # an abstract socket has no folder
        elif problem := mounted(socket, shared=True):
            yield f"kms.endpoint: {problem}"
    elif name in _KEY_SIZES:
        yield from _keys(name, settings)


def _keys(name: str, settings: Any) -> Iterator[str]:
    keys = settings.get("keys") if isinstance(settings, dict) else None
    if not isinstance(keys, list) or not keys:
        yield f"{name} has no keys"
        return
    for index, key in enumerate(keys):
        if not isinstance(key, dict) or not isinstance(key.get("name"), str) or not key["name"]:
            yield f"{name}.keys[{index}] has no name"
        elif _length(key.get("secret")) not in _KEY_SIZES[name]:
            sizes = " or ".join(str(size) for size in _KEY_SIZES[name])
            yield f"{name}.keys[{index}].secret must be {sizes} bytes as base64"


def _length(secret: Any) -> int:
    """How many bytes the base64 text stands for; -1 where it is none."""
    try:
        return len(base64.b64decode(secret, validate=True))
    except (TypeError, ValueError, binascii.Error):
        return -1
