"""Which runtime extension answers a hook for a namespace, by the ExtensionConfigs that there are. Pure.

Upstream knows handlers, or none, and without one replaces the Machine. Here an extension that is configured and cannot be used is a third answer: whoever
installed it did not ask for replacements, and waits (cluster-api#13863). Core discovers; an ExtensionConfig is used as long as what was discovered is of its
current generation. Source: cluster-api, internal/runtime/registry and core/reconcilers/extensionconfig.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from quorate.clusterapi.types.extension_config import (
    ClientConfig,
    ExtensionConfig,
    ExtensionHandler,
    LabelSelector,
    LabelSelectorRequirement,
)
from quorate.core.text import printable

HOOKS = "hooks.runtime.cluster.x-k8s.io"
HOOKS_VERSION = f"{HOOKS}/v1alpha1"
CAN_UPDATE_MACHINE, UPDATE_MACHINE = "CanUpdateMachine", "UpdateMachine"

_DISCOVERED, _PAUSED = "Discovered", "Paused"
_DEFAULT_TIMEOUT, _LONGEST_TIMEOUT = 10, 30  # seconds; a handler that says 0 has the default


@dataclass(frozen=True, slots=True)
class Handler:
    """Who is asked: `name` as people know it, the URL of the hook, the CA that its server's certificate must have, the deadline in seconds."""

    name: str
    url: str
    ca: bytes = field(repr=False)
    timeout: int
    ignores_failure: bool  # where nobody answers, that counts as an answer without patches
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    generation: tuple[str, int] = ("", 0)  # uid and generation of its ExtensionConfig


@dataclass(frozen=True, slots=True)
class NotConfigured:
    """No extension is meant for the namespace."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """An extension is meant for the namespace, and cannot be used; with what somebody has to do."""

    extension: str
    reason: str
    remedy: str


Found = Handler | NotConfigured | Unusable

_DISCOVERY = (
    "Bring the extension to where core can reach it, see its ExtensionConfig's condition Discovered; or delete the ExtensionConfig."
)
_ONE = "Leave one extension for it, by the ExtensionConfigs' namespaceSelectors."


class _Wrong(Exception):
    """Why an ExtensionConfig cannot be used."""


def find(configs: Iterable[ExtensionConfig], namespace: str, labels: Mapping[str, str] | None) -> Found:
    """Who is asked whether a Machine of a namespace can be updated in place; `labels` are the namespace's, None where they are not known.

    A handler of UpdateMachine must be there too, or core would never begin the update that was approved.
    """
    meant: list[ExtensionConfig] = []
    for config in sorted((config for config in configs if _may_serve(config)), key=lambda config: config.metadata.name):
        try:
            if _selects(config.spec.namespace_selector, labels):
                meant.append(config)
        except _Wrong as error:
            return Unusable(config.metadata.name, str(error), "Correct the ExtensionConfig's namespaceSelector.")
    if not meant:
        return NotConfigured(f"no runtime extension is configured for namespace {namespace}")
    for config in meant:
        if why := _not_ready(config):
            return Unusable(config.metadata.name, why, _DISCOVERY)
    return _chosen(meant, namespace)


def _chosen(meant: list[ExtensionConfig], namespace: str) -> Found:
    asked, updating = (
        [(config, handler) for config in meant for handler in config.status.handlers if handler.request_hook.hook == hook]
        for hook in (CAN_UPDATE_MACHINE, UPDATE_MACHINE)
    )
    if not asked:
        return NotConfigured(f"no runtime extension answers {CAN_UPDATE_MACHINE} for namespace {namespace}")
    for hook, found in ((CAN_UPDATE_MACHINE, asked), (UPDATE_MACHINE, updating)):
        names = ", ".join(printable(handler.name) for _, handler in found)
        if len(found) > 1:
            return Unusable(names, f"several handlers answer {hook} for namespace {namespace}, and core calls one", _ONE)
        if not found:
            without = printable(asked[0][1].name)
            return Unusable(without, f"no handler answers {hook} for namespace {namespace}, so that core would wait for ever", _DISCOVERY)
    config, handler = asked[0]
    try:
        return _handler(config, handler)
    except _Wrong as error:
        return Unusable(printable(handler.name), str(error), "Correct the ExtensionConfig.")


def _may_serve(config: ExtensionConfig) -> bool:
    """Whether it answers the hook, or nobody knows yet what it answers. One that goes counts no more."""
    if config.metadata.deletion_timestamp is not None:
        return False
    if not config.status.handlers:
        return bool(_not_ready(config))
    return any(handler.request_hook.hook in (CAN_UPDATE_MACHINE, UPDATE_MACHINE) for handler in config.status.handlers)


def _not_ready(config: ExtensionConfig) -> str:
    """Why it cannot be used; empty: it can."""
    conditions = {condition.type: condition for condition in config.status.conditions}
    if _PAUSED in conditions and conditions[_PAUSED].status == "True":
        return "its ExtensionConfig is paused"
    if not config.spec.client_config.ca_bundle:
        return "its ExtensionConfig has no caBundle"
    discovered = conditions.get(_DISCOVERED)
    if discovered is None:
        return "core has yet to discover what it answers"
    if discovered.status != "True":
        return printable(f"core could not discover what it answers: {discovered.message or discovered.reason}")
    if discovered.observed_generation != config.metadata.generation:
        return "core has yet to discover what it answers since its ExtensionConfig was changed"
    return ""


def _handler(config: ExtensionConfig, handler: ExtensionHandler) -> Handler:
    name, hook = handler.name, handler.request_hook
    if hook.api_version != HOOKS_VERSION:
        raise _Wrong(printable(f"it answers {hook.hook} in {hook.api_version}, and {HOOKS_VERSION} is spoken"))
    if not 0 <= handler.timeout_seconds <= _LONGEST_TIMEOUT:
        raise _Wrong(f"its timeout is {handler.timeout_seconds} s, which is not between 0 and {_LONGEST_TIMEOUT}")
    path = f"{HOOKS_VERSION}/{hook.hook.lower()}/{name.removesuffix(f'.{config.metadata.name}').lower()}"
    return Handler(
        name=printable(name),
        url=f"{_base(config.spec.client_config)}/{path}",
        ca=_ca(config.spec.client_config),
        timeout=handler.timeout_seconds or _DEFAULT_TIMEOUT,
        ignores_failure=handler.failure_policy == "Ignore",
        settings=config.spec.settings,
        generation=(config.metadata.uid, config.metadata.generation),
    )


def _base(client: ClientConfig) -> str:
    """Where the paths of all hooks begin."""
    if client.service is not None:
        service = client.service
        return f"https://{service.name}.{service.namespace}.svc:{service.port or 443}/{service.path.strip('/')}".rstrip("/")
    try:
        url = urlsplit(client.url)
        legible = url.scheme == "https" and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        legible = False
    if not legible or url.query or url.fragment or url.username is not None:
        raise _Wrong("its URL is none that begins with https:// and names a host, without a query or a user")
    return client.url.rstrip("/")


def _ca(client: ClientConfig) -> bytes:
    try:
        return base64.b64decode(client.ca_bundle, validate=True)
    except binascii.Error as error:
        raise _Wrong(f"its caBundle is not base64: {error}") from error


def _selects(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a namespace with these labels is meant. Without a selector none is, as for any selector in Kubernetes; admission makes that an empty one."""
    if selector is None:
        return False
    if not selector.match_labels and not selector.match_expressions:
        return True
    if labels is None:
        raise _Wrong("the labels of the namespace are not known yet")
    meant = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return meant & all(_holds(requirement, labels) for requirement in selector.match_expressions)


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "In" if values:
            return labels.get(key) in values
        case "NotIn" if values:
            return labels.get(key) not in values
        case "Exists" if not values:
            return key in labels
        case "DoesNotExist" if not values:
            return key not in labels
    raise _Wrong(printable(f"its namespaceSelector has the operator {requirement.operator!r} with {len(values)} values, which is none"))
