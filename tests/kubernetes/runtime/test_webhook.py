"""The webhook server over real TLS: the reviews' envelopes, and the certificate that changes while it runs."""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from quorate.kubernetes.jsonpatch import json_patch
from quorate.kubernetes.serving_pairs import CertificateFiles
from quorate.kubernetes.webhook import Admission, WebhookServer

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def write_pair(folder: Path, name: str) -> None:
    """A self-signed certificate for localhost with this common name, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(LONG_AGO)
        .not_valid_after(LONG_AGO + timedelta(days=365 * 100))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for file, data in ((folder / "tls.key", private), (folder / "tls.crt", certificate.public_bytes(serialization.Encoding.PEM))):
        replacement = file.with_suffix(".new")
        replacement.write_bytes(data)
        replacement.replace(file)


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    write_pair(tmp_path, "first")
    return tmp_path


def files_in(folder: Path, *, interval: float = 10.0) -> CertificateFiles:
    return CertificateFiles(folder / "tls.crt", folder / "tls.key", interval=interval)


async def with_replicas(request: Mapping[str, Any]) -> Admission:
    item = request["object"]
    return Admission(patch=json_patch(item, {**item, "spec": {"replicas": 1, **item["spec"]}}))


async def odd_replicas(request: Mapping[str, Any]) -> Admission:
    if request["object"]["spec"]["replicas"] % 2:
        return Admission(warnings=["think of five"])
    causes = [{"field": "spec.replicas", "reason": "FieldValueForbidden", "message": "cannot be an even number"}]
    message, details = "spec.replicas: cannot be an even number", {"kind": "KubeadmControlPlane", "causes": causes}
    return Admission(allowed=False, message=message, code=422, reason="Invalid", details=details)


async def convert(objects: Sequence[Mapping[str, Any]], desired: str) -> list[dict[str, Any]]:
    if any("broken" in item for item in objects):
        raise ValueError("kcp-2: the field broken has no counterpart")
    return [{**item, "apiVersion": desired} for item in objects]


@asynccontextmanager
async def running(folder: Path, *, interval: float = 10.0) -> AsyncIterator[WebhookServer]:
    admission = {"/default": with_replicas, "/validate": odd_replicas}
    server = WebhookServer("127.0.0.1:0", files_in(folder, interval=interval), admission, convert)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        await server.state.started.wait()
        yield server
        task.cancel()


async def post(server: WebhookServer, path: str, body: bytes) -> tuple[int, str]:
    url = f"https://127.0.0.1:{server.state.port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=io.BytesIO(body), ssl=False) as answer:
        return answer.status, await answer.text()


async def review(server: WebhookServer, path: str, request: dict[str, Any], *, kind: str = "AdmissionReview") -> dict[str, Any]:
    group = "admission.k8s.io" if kind == "AdmissionReview" else "apiextensions.k8s.io"
    body = {"apiVersion": f"{group}/v1", "kind": kind, "request": {"uid": "705ab4f5", **request}}
    status, text = await post(server, path, msgspec.json.encode(body))
    answer: dict[str, Any] = msgspec.json.decode(text)
    assert (status, answer["apiVersion"], answer["kind"]) == (200, body["apiVersion"], kind)
    response: dict[str, Any] = answer["response"]
    assert response.pop("uid") == "705ab4f5"
    return response


async def test_a_mutating_review_is_answered_with_a_json_patch(pair: Path) -> None:
    async with running(pair) as server:
        response = await review(server, "/default", {"object": {"spec": {"version": "v1.34.0"}}})
        assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
        assert msgspec.json.decode(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/spec/replicas", "value": 1}]


async def test_an_object_that_needs_no_change_gets_no_patch(pair: Path) -> None:
    async with running(pair) as server:
        assert await review(server, "/default", {"object": {"spec": {"replicas": 3}}}) == {"allowed": True}


async def test_a_refusal_carries_status_and_causes_and_a_permission_its_warnings(pair: Path) -> None:
    async with running(pair) as server:
        assert await review(server, "/validate", {"object": {"spec": {"replicas": 3}}}) == {"allowed": True, "warnings": ["think of five"]}
        assert await review(server, "/validate", {"object": {"spec": {"replicas": 2}}}) == {
            "allowed": False,
            "status": {
                "status": "Failure",
                "message": "spec.replicas: cannot be an even number",
                "reason": "Invalid",
                "code": 422,
                "details": {
                    "kind": "KubeadmControlPlane",
                    "causes": [{"field": "spec.replicas", "reason": "FieldValueForbidden", "message": "cannot be an even number"}],
                },
            },
        }


def kcp(name: str, version: str = "g/v1beta1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "KubeadmControlPlane", "metadata": {"name": name}, **more}


async def test_converted_objects_come_back_in_their_order(pair: Path) -> None:
    async with running(pair) as server:
        request = {"desiredAPIVersion": "g/v1beta2", "objects": [kcp("1"), kcp("2"), kcp("3")]}
        assert await review(server, "/convert", request, kind="ConversionReview") == {
            "convertedObjects": [kcp(name, "g/v1beta2") for name in "123"],
            "result": {"status": "Success"},
        }


async def test_one_object_that_cannot_be_converted_fails_the_review_with_the_reason(pair: Path) -> None:
    async with running(pair) as server:
        request = {"desiredAPIVersion": "g/v1beta2", "objects": [kcp("1"), kcp("2", broken=True)]}
        response = await review(server, "/convert", request, kind="ConversionReview")
        assert response == {"result": {"status": "Failure", "message": "kcp-2: the field broken has no counterpart"}}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"request": {}}', b'{"request": 1}', b"[" * 100_000])
async def test_what_is_no_review_is_a_bad_request(pair: Path, body: bytes) -> None:
    async with running(pair) as server:
        status, text = await post(server, "/validate", body)
        assert status == 400
        assert "not a review" in text


async def test_big_reviews_are_taken(pair: Path) -> None:
    async with running(pair) as server:
        item = {"spec": {"replicas": 3, "padding": "x" * 3 * 1024**2}}
        assert (await review(server, "/validate", {"object": item, "oldObject": item}))["allowed"]


async def served_name(server: WebhookServer) -> str:
    """The common name on the certificate that a new connection gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", server.state.port, ssl=context)
    data = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    [attribute] = x509.load_der_x509_certificate(data).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attribute.value)


async def until_served(server: WebhookServer, name: str) -> None:
    async with asyncio.timeout(5):
        while await served_name(server) != name:  # noqa: ASYNC110 (only a new connection shows it)
            await asyncio.sleep(0.01)


async def test_a_new_certificate_is_served_without_a_restart(pair: Path) -> None:
    async with running(pair, interval=0.01) as server:
        assert await served_name(server) == "first"
        write_pair(pair, "second")
        await until_served(server, "second")


async def test_a_half_written_pair_keeps_the_old_one_until_it_is_whole(pair: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_pair(other, "second")
    async with running(pair, interval=0.01) as server:
        with capture_logs() as logged:
            (pair / "tls.crt").write_bytes((other / "tls.crt").read_bytes())
            async with asyncio.timeout(5):
                while not logged:  # noqa: ASYNC110 (a log sets no Event)
                    await asyncio.sleep(0.01)
        assert "do not make a pair" in logged[0]["error"]
        assert await served_name(server) == "first"
        (pair / "tls.key").write_bytes((other / "tls.key").read_bytes())
        await until_served(server, "second")


async def test_the_server_outlives_a_certificate_that_vanishes(pair: Path) -> None:
    async with running(pair, interval=0.01) as server:
        with capture_logs() as logged:
            for file in ("tls.crt", "tls.key"):
                (pair / file).unlink()
            async with asyncio.timeout(5):
                while not logged:  # noqa: ASYNC110 (a log sets no Event)
                    await asyncio.sleep(0.01)
        assert await served_name(server) == "first"


async def test_a_key_that_does_not_fit_is_an_error_at_the_start(pair: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_pair(other, "other")
    server = WebhookServer("127.0.0.1:0", CertificateFiles(pair / "tls.crt", other / "tls.key"), {}, convert)
    with pytest.raises(ValueError, match="do not make a pair"):
        await server.run()


async def test_files_that_stay_as_they_are_give_no_second_pair(pair: Path) -> None:
    pairs = files_in(pair, interval=0.001).pairs()
    first = await anext(pairs)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await anext(pairs)
    assert "PRIVATE" not in repr(first)
