"""The ExtensionConfig: where a runtime extension is, for which namespaces, and what core has discovered of it.

Source: cluster-api, api/runtime/v1beta2/extensionconfig_types.go.
"""

from __future__ import annotations

from msgspec import field

from quorate.clusterapi.types.schema import ApiStruct
from quorate.kubernetes.objects import Condition, ObjectMeta


class ServiceReference(ApiStruct):
    """A Service in the management cluster, behind which the extension listens. Without a port it is 443."""

    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int | None = None


class ClientConfig(ApiStruct):
    """How the extension is reached: by a URL or a Service; `ca_bundle` is base64 as it is stored, so that one that is none blinds no watch."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: str = ""


class LabelSelectorRequirement(ApiStruct):
    """What one label must, or must not, be."""

    key: str = ""
    operator: str = ""  # In, NotIn, Exists or DoesNotExist
    values: list[str] = field(default_factory=list)


class LabelSelector(ApiStruct):
    """Which labels are meant; an empty one means all."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: list[LabelSelectorRequirement] = field(default_factory=list)


class ExtensionConfigSpec(ApiStruct):
    """What is desired of an extension. `settings` may hold secrets of the extension's."""

    client_config: ClientConfig = ClientConfig()
    namespace_selector: LabelSelector | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class RequestHook(ApiStruct):
    """A hook in one version of it."""

    api_version: str = ""
    hook: str = ""


class ExtensionHandler(ApiStruct):
    """One hook that the extension answers, under a name with the ExtensionConfig's at its end."""

    name: str = ""
    request_hook: RequestHook = RequestHook()
    timeout_seconds: int = 0
    failure_policy: str = ""


class ExtensionConfigStatus(ApiStruct):
    """What core has discovered."""

    handlers: list[ExtensionHandler] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)


class ExtensionConfig(ApiStruct):
    """One extension."""

    metadata: ObjectMeta
    spec: ExtensionConfigSpec = ExtensionConfigSpec()
    status: ExtensionConfigStatus = ExtensionConfigStatus()
