"""The webhook server: admission (admission.k8s.io/v1) and conversion (apiextensions.k8s.io/v1) reviews over TLS.

What decides is given to it as functions on dicts. This module is the envelope around them: it checks the review, answers with the same uid, and says no in the
words and with the codes that the API server passes on to the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from aiohttp import web

from quorate.kubernetes.serving_pairs import CertificateSource
from quorate.kubernetes.webserver import Running
from quorate.tls import present_another, server_context

_MAX_BODY = 64 * 1024**2  # bytes; a conversion review carries a whole list, of objects of up to 1.5 MiB

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to an admission request: allowed, with JSON patch operations if the object is to be changed, or not, and why.

    `code`, `reason` and `details` are those of the Status the user gets when not allowed: 403 Forbidden, or 422 Invalid with the causes in the details.
    `warnings` are shown either way.
    """

    allowed: bool = True
    message: str = ""
    code: int = 403
    reason: str = "Forbidden"
    details: Mapping[str, Any] = field(default_factory=dict)
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()


AdmissionHandler = Callable[[Mapping[str, Any]], Awaitable[Admission]]
"""Of the review's `request`."""
Conversion = Callable[[Sequence[Mapping[str, Any]], str], Awaitable[Sequence[Mapping[str, Any]]]]
"""(objects, desired apiVersion) -> as many objects, in this order. ValueError says which cannot be converted, and why."""


@dataclass
class WebhookServer:
    """Serves the `admission` handlers by path, and the `conversion` under `/convert`, on `address`, presenting what `certificates` gives."""

    address: str
    certificates: CertificateSource
    admission: Mapping[str, AdmissionHandler]
    conversion: Conversion
    state: Running = field(default_factory=Running)

    async def run(self) -> None:
        """Serve, once there is a certificate, until cancelled. Raises what the source of certificates raises before the first, and OSError for the address."""
        application = web.Application(client_max_size=_MAX_BODY)
        application.add_routes([web.post(path, self._admit) for path in self.admission])
        application.add_routes([web.post("/convert", self._convert)])
        pairs = self.certificates.pairs()
        first = await anext(pairs)
        context = server_context(first.certificate, first.key)
        async with self.state.listening(application, self.address, context):
            async for pair in pairs:
                present_another(context, pair.certificate, pair.key)
                _log.info("webhook certificate replaced")
            await asyncio.Event().wait()

    async def _admit(self, http: web.Request) -> web.Response:
        review, request = await _review(http)
        admission = await self.admission[http.path](request)
        return _answer(review, {"uid": request["uid"], **_admission_response(admission)})

    async def _convert(self, http: web.Request) -> web.Response:
        review, request = await _review(http)
        try:
            converted = await self.conversion(request.get("objects") or (), request.get("desiredAPIVersion", ""))
        except ValueError as error:
            return _answer(review, {"uid": request["uid"], "result": {"status": "Failure", "message": str(error)}})
        return _answer(review, {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}})


async def _review(http: web.Request) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        review = msgspec.json.decode(await http.read(), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise web.HTTPBadRequest(text=f"the body is not a review: {error}") from error
    request = review.get("request")
    if not isinstance(request, dict) or "uid" not in request:
        raise web.HTTPBadRequest(text="the body is not a review: it has no request with a uid")
    return review, request


def _answer(review: Mapping[str, Any], response: Mapping[str, Any]) -> web.Response:
    body = {"apiVersion": review.get("apiVersion"), "kind": review.get("kind"), "response": response}
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _admission_response(admission: Admission) -> dict[str, Any]:
    response: dict[str, Any] = {"allowed": admission.allowed}
    if admission.warnings:
        response["warnings"] = list(admission.warnings)
    if admission.allowed and admission.patch:
        response |= {"patchType": "JSONPatch", "patch": msgspec.json.encode(list(admission.patch))}  # bytes become base64, as the API wants
    if not admission.allowed:
        response["status"] = _status(admission)
    return response


def _status(admission: Admission) -> dict[str, Any]:
    status: dict[str, Any] = {"status": "Failure", "message": admission.message, "reason": admission.reason, "code": admission.code}
    return status | ({"details": dict(admission.details)} if admission.details else {})
