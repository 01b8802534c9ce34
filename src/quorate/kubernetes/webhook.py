"""The webhook server: admission (admission.k8s.io/v1) and conversion (apiextensions.k8s.io/v1) reviews over TLS.

What decides is a pure function on dicts. This module is the envelope around it: it checks the review, answers with the same uid, and says no in the words
and with the codes that the API server passes on to the user.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import structlog
from aiohttp import web

from quorate.kubernetes.jsonpatch import json_patch
from quorate.kubernetes.webserver import Running

_MAX_BODY = 64 * 1024**2  # bytes; a conversion review carries a whole list, of objects of up to 1.5 MiB
_RELOAD_INTERVAL = 10.0  # seconds between two looks at the certificate; controller-runtime's certwatcher polls as often

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to an admission request: allowed, with JSON patch operations if the object is to be changed, or not, and why.

    `code` and `reason` are those of the Status the user gets when not allowed (403 Forbidden; 422 Invalid with `causes` for fields). `warnings` are shown
    either way.
    """

    allowed: bool = True
    message: str = ""
    code: int = 403
    reason: str = "Forbidden"
    causes: Sequence[Mapping[str, str]] = ()
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()


AdmissionHandler = Callable[[Mapping[str, Any]], Admission]  # of the review's `request`
Converter = Callable[
    [Mapping[str, Any], str], dict[str, Any]
]  # (object, desired apiVersion) -> a new object; ValueError says why it cannot


def defaulting(default: Callable[[Mapping[str, Any]], dict[str, Any]]) -> AdmissionHandler:
    """A mutating handler from a function that returns the object with its defaults, leaving its argument as it is."""

    def handle(request: Mapping[str, Any]) -> Admission:
        return Admission(patch=json_patch(request["object"], default(request["object"])))

    return handle


class Certificate:
    """The server's certificate and key, from files that may be replaced while it runs: new connections get the new pair, old ones go on."""

    def __init__(self, certificate: Path, key: Path, *, minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> None:
        """Load the pair. Raises OSError when a file cannot be read and ssl.SSLError when the two do not fit."""
        self._paths = certificate, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = minimum_version
        self._loaded = self._fingerprint()
        self.context.load_cert_chain(*self._paths)

    def reload(self) -> bool:
        """Load the pair again if a file changed; True if it did. Raises as the constructor does and then keeps the old pair: call again later."""
        fingerprint = self._fingerprint()
        if fingerprint == self._loaded:
            return False
        # Tried on a context nobody uses: a certificate whose key does not follow would leave the live one without any key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._paths)
        self.context.load_cert_chain(*self._paths)
        self._loaded = fingerprint
        return True

    def _fingerprint(self) -> list[tuple[int, int, int]]:
        return [(status.st_ino, status.st_mtime_ns, status.st_size) for status in map(os.stat, self._paths)]


@dataclass
class WebhookServer:
    """Serves the `admission` handlers by path, and the `converters` by kind under `/convert`, on `address` with `certificate`."""

    address: str
    certificate: Certificate
    admission: Mapping[str, AdmissionHandler] = field(default_factory=dict)
    converters: Mapping[str, Converter] = field(default_factory=dict)
    reload_interval: float = _RELOAD_INTERVAL
    state: Running = field(default_factory=Running)

    def check(self) -> str:
        """The health check of upstream's `webhook` probe: "" once the server listens."""
        return "" if self.state.started.is_set() else "the webhook server has not started yet"

    async def run(self) -> None:
        """Serve until cancelled, and look for a new certificate every `reload_interval` seconds."""
        application = web.Application(client_max_size=_MAX_BODY)
        application.add_routes([web.post(path, self._admit) for path in self.admission])
        application.add_routes([web.post("/convert", self._convert)])
        async with self.state.listening(application, self.address, self.certificate.context):
            while True:
                await asyncio.sleep(self.reload_interval)
                self._reload()

    def _reload(self) -> None:
        try:
            if self.certificate.reload():
                _log.info("webhook certificate reloaded")
        except OSError as error:  # ssl.SSLError is one
            _log.warning("webhook certificate not reloaded, the old one stays", error=str(error))

    async def _admit(self, http: web.Request) -> web.Response:
        review, request = await _review(http)
        admission = self.admission[http.path](request)
        return _answer(review, {"uid": request["uid"], **_admission_response(admission)})

    async def _convert(self, http: web.Request) -> web.Response:
        review, request = await _review(http)
        try:
            converted = [self._converted(item, request["desiredAPIVersion"]) for item in request["objects"]]
        except ValueError as error:
            return _answer(review, {"uid": request["uid"], "result": {"status": "Failure", "message": str(error)}})
        return _answer(review, {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}})

    def _converted(self, item: Mapping[str, Any], desired: str) -> Mapping[str, Any]:
        if item["apiVersion"] == desired:
            return item
        converter = self.converters.get(item["kind"])
        if converter is None:
            raise ValueError(f"no conversion is known for kind {item['kind']}")
        return converter(item, desired)


async def _review(http: web.Request) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        review = msgspec.json.decode(await http.read(), type=dict[str, Any])
    except msgspec.DecodeError as error:
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
    if admission.causes:
        status["details"] = {"causes": list(admission.causes)}
    return status
