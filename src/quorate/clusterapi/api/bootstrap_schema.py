"""Which fields of a KubeadmConfig count in a comparison: those that both quorate and the installed bootstrap provider know."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog

from quorate.clusterapi.api.crd import struct_schema
from quorate.clusterapi.types.kubeadm_config import KubeadmConfigSpec
from quorate.clusterapi.types.resources import KUBEADM_CONFIGS
from quorate.kubeadm.known_fields import KnownFields
from quorate.kubernetes.client import Client
from quorate.kubernetes.errors import Forbidden, NotFound
from quorate.kubernetes.objects import CustomResourceDefinition
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import CRDS

LASTS = 60.0  # seconds; a definition changes when somebody installs another release, and machines are compared in every pass

_OURS = struct_schema(KubeadmConfigSpec)
PUBLISHED = KnownFields((_OURS,))
"""What quorate publishes, whoever is installed."""

_log = structlog.get_logger(__name__)


class BootstrapSchema:
    """The installed definition of KubeadmConfigs, read when it is asked for, and again after LASTS."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._known, self._read_at, self._tried_at = PUBLISHED, float("-inf"), float("-inf")

    async def known_fields(self) -> KnownFields:
        """The fields that count: the same object as long as they are the same. A definition that cannot be read leaves them as they were known last."""
        async with self._lock:
            if self._tried_at < asyncio.get_running_loop().time() - LASTS:
                try:
                    await self._read()
                except TROUBLE as error:
                    _log.debug("the definition of KubeadmConfigs could not be read", error=str(error))
            return self._known

    async def known_fields_now(self) -> KnownFields:
        """The same of a definition that is read after this was asked for. Raises what the API answered, but where nobody may read it, or there is none."""
        asked = asyncio.get_running_loop().time()
        async with self._lock:
            if self._read_at < asked:
                with suppress(Forbidden, NotFound):
                    await self._read()
            return self._known

    async def _read(self) -> None:
        self._tried_at = began = asyncio.get_running_loop().time()
        installed = _spec_of(await self._client.get(CRDS, f"{KUBEADM_CONFIGS.plural}.{KUBEADM_CONFIGS.group}"))
        known = KnownFields((_OURS, installed)) if installed else self._known
        self._known, self._read_at = (self._known if known == self._known else known), began


def _spec_of(definition: CustomResourceDefinition) -> Mapping[str, Any] | None:
    """The schema of `spec` in our version of the kind; None where the definition has none."""
    schemas = [version.schema.open_apiv3_schema for version in definition.spec.versions if version.name == KUBEADM_CONFIGS.version]
    spec: Mapping[str, Any] | None = next(((schema.get("properties") or {}).get("spec") for schema in schemas), None)
    return spec
