"""The webhook server over real TLS: the reviews' envelopes, and the certificate that changes while it runs."""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
from collections.abc import AsyncIterator, Mapping
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

from quorate.kubernetes.webhook import Admission, Certificate, WebhookServer, defaulting

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


def certificate_in(folder: Path) -> Certificate:
    return Certificate(folder / "tls.crt", folder / "tls.key")


def with_replicas(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "spec": {"replicas": 1, **item["spec"]}}


def odd_replicas(request: Mapping[str, Any]) -> Admission:
    if request["object"]["spec"]["replicas"] % 2:
        return Admission(warnings=["think of five"])
    causes = [{"field": "spec.replicas", "reason": "FieldValueForbidden", "message": "cannot be an even number"}]
    return Admission(allowed=False, message="spec.replicas: cannot be an even number", code=422, reason="Invalid", causes=causes)


def convert(item: Mapping[str, Any], desired: str) -> dict[str, Any]:
    if "broken" in item:
        raise ValueError("kcp-2: the field broken has no counterpart")
    return {**item, "apiVersion": desired}


@asynccontextmanager
async def running(folder: Path, *, reload_interval: float = 10.0) -> AsyncIterator[WebhookServer]:
    server = WebhookServer(
        "127.0.0.1:0",
        certificate_in(folder),
        admission={"/default": defaulting(with_replicas), "/validate": odd_replicas},
        converters={"KubeadmControlPlane": convert},
        reload_interval=reload_interval,
    )
    assert server.check() == "the webhook server has not started yet"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        await server.state.started.wait()
        assert server.check() == ""
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
                    "causes": [{"field": "spec.replicas", "reason": "FieldValueForbidden", "message": "cannot be an even number"}],
                },
            },
        }


def kcp(name: str, version: str = "g/v1beta1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "KubeadmControlPlane", "metadata": {"name": name}, **more}


async def test_conversion_keeps_the_order_and_what_is_converted_already(pair: Path) -> None:
    async with running(pair) as server:
        request = {"desiredAPIVersion": "g/v1beta2", "objects": [kcp("1"), kcp("2", "g/v1beta2"), kcp("3")]}
        assert await review(server, "/convert", request, kind="ConversionReview") == {
            "convertedObjects": [kcp(name, "g/v1beta2") for name in "123"],
            "result": {"status": "Success"},
        }


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (kcp("2", broken=True), "kcp-2: the field broken has no counterpart"),
        ({**kcp("2"), "kind": "Machine"}, "no conversion is known for kind Machine"),
    ],
)
async def test_one_object_that_cannot_be_converted_fails_the_review_with_the_reason(pair: Path, item: dict[str, Any], message: str) -> None:
    async with running(pair) as server:
        request = {"desiredAPIVersion": "g/v1beta2", "objects": [kcp("1"), item]}
        response = await review(server, "/convert", request, kind="ConversionReview")
        assert response == {"result": {"status": "Failure", "message": message}}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"request": {}}', b'{"request": 1}'])
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


async def test_a_new_certificate_is_served_without_a_restart(pair: Path) -> None:
    async with running(pair, reload_interval=0.01) as server:
        assert await served_name(server) == "first"
        write_pair(pair, "second")
        names = {"first"}
        async with asyncio.timeout(5):
            while "second" not in names:
                await asyncio.sleep(0.01)
                names.add(await served_name(server))


def test_nothing_is_loaded_while_the_files_stay_as_they_are(pair: Path) -> None:
    certificate = certificate_in(pair)
    assert not certificate.reload()
    write_pair(pair, "second")
    assert certificate.reload()
    assert not certificate.reload()


async def test_a_half_written_pair_keeps_the_old_one_until_it_is_whole(pair: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_pair(other, "second")
    async with running(pair) as server:
        (pair / "tls.crt").write_bytes((other / "tls.crt").read_bytes())
        with pytest.raises(ssl.SSLError):
            server.certificate.reload()
        assert await served_name(server) == "first"
        (pair / "tls.key").write_bytes((other / "tls.key").read_bytes())
        assert server.certificate.reload()
        assert await served_name(server) == "second"


async def test_the_server_outlives_a_certificate_that_vanishes(pair: Path) -> None:
    async with running(pair, reload_interval=0.01) as server:
        for file in ("tls.crt", "tls.key"):
            (pair / file).unlink()
        await asyncio.sleep(0.05)
        assert await served_name(server) == "first"


def test_a_key_that_does_not_fit_is_an_error_at_the_start(pair: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_pair(other, "other")
    with pytest.raises(ssl.SSLError):
        Certificate(pair / "tls.crt", other / "tls.key")
