"""The files that the API server's arguments name: the audit policy, the configuration of admission plugins, the encryption providers.

They have to be on every control-plane host before it is initialized or joins: its API server does not start without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.hosts.manifest import Manifest, Secret
from quorate.hosts.manifest.component_fields import Features
from quorate.hosts.render.component_arguments import (
    ADMISSION_CONFIGURATION,
    ADMISSION_FOLDER,
    AUDIT_POLICY,
    encryption_path,
    has_admission_configuration,
)
from quorate.hosts.render.host_files import HostFile, yaml_documents


class MissingContent(Exception):
    """A feature is on, and the content of its file was not given: a mistake of the caller, not of the user."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What the files beside the manifest hold, and the provider file that was generated once or read from a host that has it. None where there is none."""

    audit_policy: bytes | None = None
    event_rate_limit: bytes | None = None
    pod_node_selector: bytes | None = None
    encryption_providers: Secret | None = field(default=None, repr=False)


def feature_files(manifest: Manifest, contents: Contents) -> tuple[HostFile, ...]:
    """The files of every control-plane host, mode 0600 and root's, whom the API server runs as. Raises MissingContent for a feature without its content."""
    features = manifest.features
    return (*_audit(features, contents), *_admission(features, contents), *_encryption(features, contents))


def _audit(features: Features, contents: Contents) -> Iterator[HostFile]:
    if features.static_audit_log.enable:
        yield HostFile(AUDIT_POLICY, _given(contents.audit_policy, "features.staticAuditLog"))


def _admission(features: Features, contents: Contents) -> Iterator[HostFile]:
    if not has_admission_configuration(features):
        return
    plugins: list[dict[str, str]] = []
    for name, feature, content in (
        ("EventRateLimit", features.event_rate_limit, contents.event_rate_limit),
        ("PodNodeSelector", features.pod_node_selector, contents.pod_node_selector),
    ):
        if feature.enable:
            file = HostFile(f"{ADMISSION_FOLDER}/{name.lower()}.yaml", _given(content, f"features.{name[0].lower()}{name[1:]}"))
            plugins.append({"name": name, "path": file.path})
            yield file
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    yield HostFile(ADMISSION_CONFIGURATION, yaml_documents(document))


def _encryption(features: Features, contents: Contents) -> Iterator[HostFile]:
    if not features.encryption_providers.enable:
        return
    configuration = features.encryption_providers.custom_encryption_configuration or contents.encryption_providers
    content = configuration.reveal().encode() if configuration else None
    yield HostFile(encryption_path(features), _given(content, "features.encryptionProviders"))


def _given(content: bytes | None, feature: str) -> bytes:
    if content is None:
        raise MissingContent(f"{feature} is on, and the content of its file was not given")
    return content
