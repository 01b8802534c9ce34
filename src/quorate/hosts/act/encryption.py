"""The provider file of encryption at rest: made once, when the cluster is, and the same on every control-plane host before its API server starts.

Whoever loses it loses every Secret that was written with it. So it is never made where a cluster may have one, and read from a host that has it instead.
Source: kubernetes.io, "Encrypting Confidential Data at Rest", which rates secretbox strong, and aescbc weak.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace

from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.component_arguments import encryption_path
from quorate.hosts.feature_files import Contents
from quorate.hosts.host_files import yaml_documents
from quorate.hosts.manifest import Manifest, Secret
from quorate.hosts.manifest.encryption import API_VERSION, KIND
from quorate.hosts.ssh.errors import NoSuchFile

_KEY_BYTES = 32
_NAME_BYTES = 4


async def contents_of(tools: Tools, host: str) -> Contents:
    """The contents of all feature files, with the provider file as this host of the cluster has it. Raises StepFailed where it should and has none."""
    if not is_generated(tools.manifest):
        return tools.contents
    path = encryption_path(tools.manifest.features)
    try:
        found = await tools.access.ssh(host).read_file(path)
    except NoSuchFile:
        remedy = f"Bring {path} back to that host from another control-plane host or a backup; without it Secrets written with its key cannot be read"
        raise StepFailed(host, f"features.encryptionProviders is on, and the host has no {path}", remedy) from None
    return replace(tools.contents, encryption_providers=Secret(found.decode()))


async def contents_for_first(tools: Tools, host: str) -> Contents:
    """The same for the host that founds the cluster: the file that an earlier attempt has left there, whose key may be in use already, or else a new one."""
    if not is_generated(tools.manifest):
        return tools.contents
    try:
        found = Secret((await tools.access.ssh(host).read_file(encryption_path(tools.manifest.features))).decode())
    except NoSuchFile:
        found = generated(tools.random_bytes)
    return replace(tools.contents, encryption_providers=found)


def is_generated(manifest: Manifest) -> bool:
    """Whether the provider file is ours to make: the feature is on, and the manifest brings no configuration of its own."""
    providers = manifest.features.encryption_providers
    return providers.enable and not providers.custom_encryption_configuration


def generated(random_bytes: Callable[[int], bytes]) -> Secret:
    """A provider file with one new key for Secrets; what was written before it can be read still."""
    key = {"name": f"quorate-{random_bytes(_NAME_BYTES).hex()}", "secret": base64.b64encode(random_bytes(_KEY_BYTES)).decode("ascii")}
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "resources": [{"resources": ["secrets"], "providers": [{"secretbox": {"keys": [key]}}, {"identity": {}}]}],
    }
    return Secret(yaml_documents(document).decode())
