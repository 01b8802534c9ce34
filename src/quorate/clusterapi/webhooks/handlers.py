"""What is served under each path: the pure functions of `api`, with what they ask the management cluster about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from quorate.clusterapi.api import admission, webhooks
from quorate.clusterapi.api.conversion.converter import OLD, converter
from quorate.clusterapi.types.resources import KUBEADM_CONTROL_PLANES
from quorate.clusterapi.webhooks.api_versions import ApiVersions, referenced
from quorate.kubernetes.client import Client
from quorate.kubernetes.reflector import TROUBLE
from quorate.kubernetes.resource import Resource
from quorate.kubernetes.webhook import Admission, AdmissionHandler

_SLICE = 0.005  # seconds of conversion, after which whoever else asks has his turn
_AS_JSON: Resource[dict[str, Any]] = Resource(
    KUBEADM_CONTROL_PLANES.group, KUBEADM_CONTROL_PLANES.version, KUBEADM_CONTROL_PLANES.plural, KUBEADM_CONTROL_PLANES.kind, dict
)

Object = Mapping[str, Any]


def admission_handlers(client: Client, gates: Collection[str]) -> dict[str, AdmissionHandler]:
    """The admission handlers by path; `gates` are the feature gates that are on."""
    return {
        webhooks.DEFAULT.path: _at_once(admission.default),
        webhooks.VALIDATE.path: _at_once(partial(admission.validate, gates=gates)),
        webhooks.VALIDATE_TEMPLATE.path: _at_once(partial(admission.validate_template, gates=gates)),
        webhooks.VALIDATE_SCALE.path: partial(_validate_scale, client),
    }


def _at_once(decide: Callable[[Object], Admission]) -> AdmissionHandler:
    async def handle(request: Object) -> Admission:
        return decide(request)

    return handle


async def _validate_scale(client: Client, request: Object) -> Admission:
    namespace, name = admission.scaled(request)
    try:
        control_plane = await client.get(_AS_JSON, name, namespace)
    except TROUBLE as error:
        message = f"KubeadmControlPlane {namespace}/{name}, which is to be scaled, cannot be read: {error}"
        return Admission(allowed=False, message=message, code=500, reason="InternalError")
    return admission.validate_scaling(request, control_plane)


@dataclass(frozen=True, slots=True)
class ListConversion:
    """Converts lists of both kinds, a few milliseconds at a time."""

    versions: ApiVersions

    async def __call__(self, objects: Sequence[Object], desired: str) -> list[Object]:
        """The objects in the desired apiVersion; those that are in it already as they are. Raises ValueError."""
        to_convert = [obj for obj in objects if obj.get("apiVersion") != desired]
        convert = converter(await self.versions.of(map(referenced, to_convert) if desired == OLD else ()))
        clock = asyncio.get_running_loop().time
        converted, due = list[Object](), clock() + _SLICE
        for obj in objects:
            converted.append(obj if obj.get("apiVersion") == desired else convert(obj, desired))
            if clock() > due:
                await asyncio.sleep(0)
                due = clock() + _SLICE
        return converted
