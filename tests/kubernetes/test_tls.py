"""Whom the client trusts, what it presents, and the ways through a proxy."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from quorate import tls
from quorate.kubernetes.config import ConfigError, RestConfig
from quorate.kubernetes.errors import ConnectionFailed, Unauthorized
from quorate.kubernetes.share import Share
from quorate.pki import KeyAlgorithm, KeyPair, generate_ca
from quorate.pki.issue import issue_server
from quorate.tls import client_context


@pytest.fixture
async def secure(serve: Any, certificates: Any, tmp_path: Path, fakes: Any) -> Any:
    """A server at 127.0.0.1 whose certificate is for api.example alone, and which reads client certificates."""
    context = certificates.context(certificates.server("api.example"), tmp_path, verify=ssl.CERT_OPTIONAL)
    server = await serve(context)
    server.replies = [fakes.reply("ok")]
    return server


class Proxy:
    """Tunnels CONNECT and passes on plain requests."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        method, target, _ = head.decode().split(" ", 2)
        host, port = target.removeprefix("http://").partition("/")[0].split(":")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1" if host == "unreachable" else host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            far_writer.write(head)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pump(reader, far_writer))
            tasks.create_task(self._pump(far_reader, writer))

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    found = Proxy()
    handled = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await found.serve(reader, writer)
        finally:
            handled.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield found
    server.close()
    async with asyncio.timeout(5):
        await handled.wait()


def trusting(certificates: Any, **more: Any) -> dict[str, Any]:
    return {"ca": certificates.ca.certificate, "tls_server_name": "api.example", **more}


async def test_the_server_is_checked_against_its_ca_and_its_tls_server_name(secure: Any, connected: Any, certificates: Any) -> None:
    assert await connected(secure, config=trusting(certificates)).get_raw("/") == b"ok"


async def test_a_server_under_another_name_is_not_trusted(secure: Any, connected: Any, certificates: Any) -> None:
    with pytest.raises(ConnectionFailed, match=r"get /: .*CERTIFICATE_VERIFY_FAILED"):
        await connected(secure, config=trusting(certificates, tls_server_name="")).get_raw("/")
    assert secure.seen == []


async def test_a_server_of_another_ca_is_not_trusted(secure: Any, connected: Any, certificates: Any) -> None:
    foreign = generate_ca(KeyAlgorithm.ECDSA_P256, now=certificates._now).certificate
    for ca in (foreign, b""):
        with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await connected(secure, config=trusting(certificates, ca=ca)).get_raw("/")
    assert secure.seen == []


async def test_insecure_checks_nothing(secure: Any, connected: Any) -> None:
    assert await connected(secure, config={"insecure": True}).get_raw("/") == b"ok"


async def test_the_client_certificate_is_who_one_is(secure: Any, connected: Any, certificates: Any) -> None:
    pair = certificates.user("admin")
    await connected(secure, config=trusting(certificates, certificate=pair.certificate, key=pair.key)).get_raw("/")
    await connected(secure, config=trusting(certificates)).get_raw("/")
    assert [seen.user for seen in secure.seen] == ["admin", ""]


class Issued:
    """Credentials that are a certificate, as of an exec plugin."""

    def __init__(self, *pairs: tuple[bytes, bytes]) -> None:
        self._pairs = list(pairs)

    async def token(self) -> str:
        return ""

    async def certificate(self) -> tuple[bytes, bytes]:
        return self._pairs[0]

    def reject(self) -> None:
        del self._pairs[0]


async def test_a_refused_certificate_is_renewed_on_a_new_connection(secure: Any, connected: Any, certificates: Any, fakes: Any) -> None:
    old, new = certificates.user("old"), certificates.user("new")
    secure.replies = [fakes.failure(401, "Unauthorized"), fakes.reply("ok")]
    credentials = Issued((old.certificate, old.key), (new.certificate, new.key))
    await connected(secure, config=trusting(certificates, credentials=credentials)).get_raw("/")
    assert [seen.user for seen in secure.seen] == ["old", "new"]


async def test_a_malformed_certificate_of_a_plugin_is_a_configuration_error(secure: Any, connected: Any, certificates: Any) -> None:
    client = connected(secure, config=trusting(certificates, credentials=Issued((b"c", b"k"))))
    with pytest.raises(ConfigError, match=r"the exec plugin for 127.0.0.1:.* do not make a pair"):
        await client.get_raw("/")


async def test_tls_goes_through_a_tunnel(secure: Any, connected: Any, certificates: Any, proxy: Proxy) -> None:
    port = secure.url.rpartition(":")[2]
    there = {"server": f"https://unreachable:{port}", "proxy_url": proxy.url.replace("//", "//me:hunter2@")}
    client = connected(secure, config=trusting(certificates, **there))
    assert await client.get_raw("/readyz") == b"ok"
    await client.close()
    assert proxy.heads[0].startswith(f"CONNECT unreachable:{port} ")
    assert "Proxy-Authorization: Basic" in proxy.heads[0]


async def test_a_plain_request_goes_to_the_proxy(api: Any, connected: Any, fakes: Any, proxy: Proxy) -> None:
    api.replies = [fakes.reply("ok", headers={"Connection": "close"})]
    client = connected(api, config={"proxy_url": proxy.url})
    assert await client.get_raw("/readyz") == b"ok"
    await client.close()
    assert proxy.heads[0].startswith(f"GET {api.url}/readyz ")


async def test_a_proxy_that_does_not_answer_is_named_without_its_password(connected: Any, secure: Any, unused_tcp_port: int) -> None:
    client = connected(secure, config={"insecure": True, "proxy_url": f"http://me:hunter2@127.0.0.1:{unused_tcp_port}"})
    with pytest.raises(ConnectionFailed, match=f"get /: .*127.0.0.1:{unused_tcp_port}") as caught:
        await client.get_raw("/")
    assert "hunter2" not in str(caught.value)


def test_a_context_trusts_the_given_ca_alone(certificates: Any) -> None:
    context = client_context(ca=certificates.ca.certificate)
    assert len(context.get_ca_certs()) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.fixture
def intermediate(certificates: Any) -> KeyPair:
    """A CA that another one has signed."""
    key, root = ec.generate_private_key(ec.SECP256R1()), certificates.ca
    signed = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "intermediate")]))
        .issuer_name(x509.load_pem_x509_certificate(root.certificate).subject)
        .public_key(key.public_key())
        .serial_number(2)
        .not_valid_before(certificates._now)
        .not_valid_after(certificates._now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(load_pem_private_key(root.key, None), hashes.SHA256())  # type: ignore[arg-type]
    )
    return KeyPair(signed.public_bytes(Encoding.PEM), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@pytest.mark.parametrize("around", [b"", "Gültig für alles:\n".encode()], ids=["alone", "with text around it"])
async def test_a_ca_that_another_has_signed_is_trusted_as_it_is(
    serve: Any, connected: Any, certificates: Any, intermediate: KeyPair, tmp_path: Path, fakes: Any, around: bytes
) -> None:
    validity = certificates._validity()
    pair = issue_server(
        intermediate, common_name="api", dns_names=("api.example",), ip_addresses=(), algorithm=KeyAlgorithm.ECDSA_P256, **validity
    )
    server = await serve(certificates.context(pair, tmp_path))
    server.replies = [fakes.reply("ok")]
    trusted = trusting(certificates, ca=around + intermediate.certificate + around)
    assert await connected(server, config=trusted).get_raw("/") == b"ok"
    with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):  # the server shows no certificate between
        await connected(server, config=trusting(certificates)).get_raw("/")


async def test_certificates_that_somebody_exchanges_in_their_files_are_read_again(
    secure: Any, connected: Any, certificates: Any, fakes: Any
) -> None:
    old, new = certificates.user("old"), certificates.user("new")
    foreign = generate_ca(KeyAlgorithm.ECDSA_P256, now=certificates._now).certificate
    files: dict[str, Any] = {}
    told: list[str] = []

    def reread() -> RestConfig:
        told.append("read")
        return RestConfig(server=secure.url, **files)

    files |= {"ca": certificates.ca.certificate, "certificate": new.certificate, "key": new.key}
    stale = {"certificate": old.certificate, "key": old.key, "reread": reread}
    assert await connected(secure, config=trusting(certificates, ca=foreign, **stale)).get_raw("/") == b"ok"
    secure.replies = [fakes.failure(401, "Unauthorized"), fakes.reply("ok")]
    assert await connected(secure, config=trusting(certificates, **stale)).get_raw("/") == b"ok"
    assert [seen.user for seen in secure.seen] == ["new", "old", "new"]
    secure.replies, files["key"] = [fakes.failure(401, "Unauthorized")], b"half"
    client = connected(secure, config=trusting(certificates, **stale))
    with pytest.raises(Unauthorized):
        await client.get_raw("/")
    assert told == ["read"] * 3


@pytest.mark.parametrize("ca", [b"nonsense", b"\xff", b"\n"])
def test_a_ca_that_is_no_pem_is_said(ca: bytes) -> None:
    with pytest.raises(ValueError, match="the CA is not PEM"):
        client_context(ca=ca)


def test_a_certificate_and_a_key_that_do_not_fit_are_said(certificates: Any) -> None:
    one, other = certificates.user("one"), certificates.user("other")
    for key in (other.key, b"", b"nonsense"):
        with pytest.raises(ValueError, match="do not make a pair"):
            client_context(ca=b"", certificate=one.certificate, key=key)


@pytest.mark.parametrize("place", ["key", "certificate"])
def test_the_password_of_an_encrypted_key_is_neither_tried_nor_asked_for(
    certificates: Any, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    loaded: list[bytes] = []
    pair = certificates.user("one")
    key = load_pem_private_key(pair.key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2"))
    written = tls._file

    def noted(content: bytes) -> AbstractContextManager[str]:
        loaded.append(content)
        return written(content)

    monkeypatch.setattr(tls, "_file", noted)
    if place == "key":
        with pytest.raises(ValueError, match="the key is encrypted"):
            client_context(ca=b"", certificate=pair.certificate, key=key)
    else:
        client_context(ca=b"", certificate=key + pair.certificate, key=pair.key)
    assert not [content for content in loaded if b"ENCRYPTED" in content]


def test_one_file_for_both_and_parameters_before_the_key_are_usual(certificates: Any) -> None:
    pair = certificates.user("one")
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    both = pair.certificate + parameters + pair.key
    client_context(ca=b"", certificate=both, key=both)


@pytest.mark.parametrize(("prime", "modulus"), [(20_000, 40_000), (20_000, 2048)], ids=["large", "larger than it says"])
def test_a_key_that_signs_for_seconds_is_refused(certificates: Any, prime: int, modulus: int) -> None:
    half = (1 << prime) | 1
    key = rsa_key(0, (1 << modulus) | 1, 65537, *[half] * 6)
    with pytest.raises(ValueError, match=r"an RSA key of (40001|20001) bits; use one of at most 8192 bits"):
        client_context(ca=b"", certificate=certificates.user("one").certificate, key=key)


def rsa_key(*numbers: int) -> bytes:
    """A PKCS#1 key of these numbers, whether they fit or not."""

    def element(tag: int, content: bytes) -> bytes:
        size = len(content).to_bytes((len(content).bit_length() + 7) // 8 or 1)
        return bytes((tag, *((0x80 | len(size),) if len(content) > 127 else ()), *size)) + content

    fields = (element(2, number.to_bytes(number.bit_length() // 8 + 1)) for number in numbers)
    der = base64.encodebytes(element(0x30, b"".join(fields)))
    return b"-----BEGIN RSA PRIVATE KEY-----\n" + der + b"-----END RSA PRIVATE KEY-----\n"


def test_what_is_no_key_or_a_very_long_one_is_refused(certificates: Any) -> None:
    for key in (b"nonsense", b"x" * 100_000):
        with pytest.raises(ValueError, match="the key"):
            client_context(ca=b"", certificate=certificates.user("one").certificate, key=key)


def test_no_server_chooses_the_numbers_of_a_key_exchange() -> None:
    names = [cipher["name"] for cipher in client_context(ca=b"").get_ciphers()]
    assert names
    assert [name for name in names if not name.startswith(("TLS_", "ECDHE-"))] == []


@pytest.mark.parametrize("system", ["Linux", "Linux without /proc", "macOS"])
def test_the_key_s_file_is_gone_afterwards(certificates: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if system == "macOS":
        monkeypatch.delattr("os.memfd_create")
    if system != "Linux":
        monkeypatch.setattr("quorate.tls._DESCRIPTORS", tmp_path / "nowhere")
    pair = certificates.user("one")
    client_context(ca=b"", certificate=pair.certificate, key=pair.key)
    assert list(tmp_path.iterdir()) == []


async def test_a_server_that_shows_certificates_without_end_is_not_listened_to(
    serve: Any, connected: Any, certificates: Any, tmp_path: Path, fakes: Any
) -> None:
    """Each is verified, in the event loop that all share: 75 with a public exponent of 3,000 bits take half a second, with each connection."""
    pair = certificates.server("api.example")

    def shown(more: int) -> KeyPair:
        return KeyPair(pair.certificate + certificates.ca.certificate * more, pair.key)

    for more in (10, 100):
        server = await serve(certificates.context(shown(more), tmp_path))
        server.replies = [fakes.reply("ok")]
        client = connected(server, config=trusting(certificates))
        if more == 10:
            assert await client.get_raw("/") == b"ok"
        else:
            with pytest.raises(ConnectionFailed, match="the server sends more than 32 KiB before TLS is agreed on"):
                await client.get_raw("/")
            assert server.seen == []


async def test_what_a_handshake_takes_counts_towards_the_server_s_share(secure: Any, connected: Any, certificates: Any) -> None:
    share = Share(1e-9, 10.0)
    assert share.wait() == 0
    await connected(secure, config=trusting(certificates), share=share).get_raw("/")
    assert share.wait() == 0
    assert 0.0001 < 10.0 - share._left < 5
