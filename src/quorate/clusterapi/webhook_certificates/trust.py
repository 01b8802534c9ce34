"""What tells the API server which CAs to trust, for conversion and for admission: two CustomResourceDefinitions and two webhook configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from msgspec import field

from quorate.clusterapi.api.crd import DEFINITIONS
from quorate.clusterapi.api.webhooks import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION
from quorate.kubernetes.client import Client
from quorate.kubernetes.objects import Object, ObjectMeta
from quorate.kubernetes.resource import CRDS, Resource
from quorate.pki import PkiError, read_certificates

FIELD_MANAGER = "quorate-webhook-certificates"

_log = structlog.get_logger(__name__)


class ClientConfig(Object):
    """How the API server calls a webhook: what it trusts."""

    ca_bundle: bytes = b""


class Webhook(Object):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()


class Configuration(Object):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: ObjectMeta
    webhooks: list[Webhook] = field(default_factory=list)


class ConversionWebhook(Object):
    """The webhook that converts."""

    client_config: ClientConfig = ClientConfig()


class Conversion(Object):
    """How a CRD's versions are converted; by no webhook where there is none."""

    webhook: ConversionWebhook | None = None


class DefinitionSpec(Object):
    """Of a CustomResourceDefinition, what concerns conversion."""

    conversion: Conversion = Conversion()


class Definition(Object):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta
    spec: DefinitionSpec = DefinitionSpec()


Teller = Configuration | Definition
_ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Place:
    """One object by its name, and its kind."""

    resource: Resource[Any]
    name: str


def _configurations(kind: str) -> Resource[Any]:
    return Resource(_ADMISSION, "v1", f"{kind.lower()}s", kind, Configuration, namespaced=False)


_DEFINITIONS = Resource(CRDS.group, CRDS.version, CRDS.plural, CRDS.kind, Definition, namespaced=False)
PLACES = (
    *(Place(_DEFINITIONS, definition.name) for definition in DEFINITIONS),
    Place(_configurations("MutatingWebhookConfiguration"), MUTATING_CONFIGURATION),
    Place(_configurations("ValidatingWebhookConfiguration"), VALIDATING_CONFIGURATION),
)
"""Where the API server is told, under the names that they are installed by."""


def told(item: Teller) -> Iterator[frozenset[bytes]]:
    """What each webhook of the object has the API server trust: certificates, PEM. What cannot be read is nothing."""
    for bundle in _bundles(item):
        try:
            yield frozenset(certificate.pem for certificate in read_certificates(bundle)) if bundle else frozenset()
        except PkiError as error:
            _log.warning("a caBundle cannot be read and is replaced", object=item.metadata.name, error=str(error))
            yield frozenset()


def _bundles(item: Teller) -> list[bytes]:
    if isinstance(item, Configuration):
        return [webhook.client_config.ca_bundle for webhook in item.webhooks]
    return [item.spec.conversion.webhook.client_config.ca_bundle] if item.spec.conversion.webhook else []


async def tell(client: Client, place: Place, item: Teller, trusted: Iterable[bytes]) -> bool:
    """Have the object tell to trust these, if it does not already; True if it was changed. What else is in it stays as it is."""
    wanted = tuple(trusted)
    if all(each == set(wanted) for each in told(item)):
        return False
    metadata = {"name": place.name, "uid": item.metadata.uid}
    body = {"apiVersion": place.resource.api_version, "kind": place.resource.kind, "metadata": metadata}
    await client.apply(place.resource, body | _telling(item, {"caBundle": b"".join(wanted)}), field_manager=FIELD_MANAGER)
    return True


def _telling(item: Teller, config: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item, Configuration):
        return {"webhooks": [{"name": webhook.name, "clientConfig": config} for webhook in item.webhooks]}
    return {"spec": {"conversion": {"webhook": {"clientConfig": config}}}}
