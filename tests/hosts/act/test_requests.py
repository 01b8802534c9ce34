"""A kubelet's request for a serving certificate is approved only when every part of it is what the manifest says of that host."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from collections.abc import Iterable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from quorate.core.hosts.steps import Initialize, Join
from quorate.hosts.act.executor import Executor
from quorate.hosts.act.requests import SIGNER, Approvals, problem_of
from quorate.hosts.manifest import Host
from quorate.hosts.render.kubeadm_configuration import Machine
from quorate.kubernetes.errors import Forbidden
from tests.hosts.act.world import API_SERVER, World, tools_for
from tests.hosts.manifests import document, load

MACHINE = Machine(Host(public_address="192.0.2.1", private_address="10.0.0.1", ipv6_addresses=("2001:DB8::1",), hostname="h1"), "h1")
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NAMES = (x509.DNSName("h1"), x509.IPAddress(ipaddress.ip_address("10.0.0.1")))


def request(
    *,
    names: Iterable[x509.GeneralName] = NAMES,
    common_name: str = "system:node:h1",
    organizations: Iterable[str] = ("system:nodes",),
    **spec: Any,
) -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    )
    if asked := list(names):
        builder = builder.add_extension(x509.SubjectAlternativeName(asked), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return {
        "metadata": {"name": "csr-1"},
        "spec": {
            "signerName": SIGNER,
            "username": "system:node:h1",
            "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(pem).decode(),
            **spec,
        },
    }


def test_a_request_that_is_all_of_the_host_has_no_problem() -> None:
    assert problem_of(request(), MACHINE) == ""
    assert problem_of(request(names=[x509.IPAddress(ipaddress.ip_address("2001:db8::1")), x509.DNSName("H1")]), MACHINE) == ""


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (request(names=[*NAMES, x509.DNSName("kubernetes.default")]), "kubernetes.default is not of this host"),
        (request(names=[*NAMES, x509.IPAddress(ipaddress.ip_address("10.0.0.2"))]), "10.0.0.2 is not of this host"),
        (request(names=[*NAMES, x509.UniformResourceIdentifier("https://h1")]), "UniformResourceIdentifier https://h1"),
        (request(names=[*NAMES, x509.RFC822Name("h1")]), "RFC822Name h1"),
        (request(names=[]), "names no address"),
        (request(common_name="system:node:h2"), "its subject"),
        (request(organizations=["system:nodes", "system:masters"]), "its subject"),
        (request(organizations=[]), "its subject"),
        (request(username="system:node:h2"), "not made by the host's kubelet"),
        (request(username="admin"), "not made by the host's kubelet"),
        (request(groups=["system:authenticated"]), "is not in"),
        (request(usages=["digital signature", "client auth"]), "asks for client auth, digital signature"),
        (request(usages=["server auth", "client auth"]), "asks for client auth, server auth"),
        (request(usages=[]), "asks for nothing"),
        (request(signerName="kubernetes.io/kube-apiserver-client-kubelet"), "not made by the host's kubelet"),
        (request(request="bm9uc2Vuc2U="), "cannot be read"),
        (request(request="%%%"), "cannot be read"),
        (request(request=""), "cannot be read"),
    ],
)
def test_a_request_that_is_not_is_told_apart(made: dict[str, Any], problem: str) -> None:
    assert problem in problem_of(made, MACHINE)


def test_a_request_signed_with_another_key_is_refused() -> None:
    made = request()
    pem = base64.b64decode(made["spec"]["request"])
    der = bytearray(base64.b64decode(b"".join(pem.splitlines()[1:-1])))
    der[-1] ^= 1
    broken = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bytes(der)) + b"-----END CERTIFICATE REQUEST-----\n"
    made["spec"]["request"] = base64.b64encode(broken).decode()
    assert problem_of(made, MACHINE)


@pytest.fixture
def world() -> World:
    made = World(load(document()))
    made.hosts["h1"].files[API_SERVER] = b""
    return made


def approved(world: World) -> list[str]:
    return [line for line in world.api.log if line.endswith("/approval")]


async def never(_seconds: float) -> None:
    raise AssertionError("nobody is waited for")


async def settle(world: World) -> None:
    approvals = Approvals(tools_for(world))
    approvals.expect(["h1"])
    await approvals.settle(world.observed().machines)


async def test_what_matches_is_approved_once_and_the_host_is_waited_for_no_longer(world: World) -> None:
    world.api.put(f"{REQUESTS}/csr-1", request())
    approvals = Approvals(tools_for(world))
    approvals.expect(["h1"])
    approvals._tools.waits._sleep = never
    await approvals.settle(world.observed().machines)
    await approvals.settle(world.observed().machines)
    assert approved(world) == [f"PATCH {REQUESTS}/csr-1/approval"]
    condition = world.api.objects[f"{REQUESTS}/csr-1"]["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("Approved", "True")


async def test_what_does_not_match_is_left_alone_and_said_with_the_way_out(world: World) -> None:
    world.api.put(f"{REQUESTS}/csr-1", request(names=[x509.DNSName("evil")]))
    await settle(world)
    assert approved(world) == []
    told = [what for host, what in world.reports if host == "h1"]
    assert len(told) == 1
    assert "evil is not of this host" in told[0]
    assert "kubectl certificate approve csr-1" in told[0]


async def test_strangers_and_what_others_have_decided_are_left_alone(world: World) -> None:
    world.api.put(f"{REQUESTS}/csr-1", request(username="system:node:elsewhere", common_name="system:node:elsewhere"))
    world.api.put(f"{REQUESTS}/csr-2", request() | {"status": {"conditions": [{"type": "Denied", "status": "True"}]}})
    await settle(world)
    assert approved(world) == []


async def test_a_request_of_a_former_life_does_not_end_the_wait(world: World) -> None:
    world.api.put(f"{REQUESTS}/old", request() | {"status": {"conditions": [{"type": "Approved", "status": "True"}]}})
    approvals = Approvals(tools_for(world))
    await approvals.look(world.observed().machines)
    approvals.expect(["h1"])
    waited: list[float] = []

    async def ask_later(seconds: float) -> None:
        waited.append(seconds)
        world.api.put(f"{REQUESTS}/csr-1", request())

    approvals._tools.waits._sleep = ask_later
    await approvals.settle(world.observed().machines)
    assert len(waited) == 1
    assert len(approved(world)) == 1


async def test_where_nobody_joined_nobody_is_asked(world: World) -> None:
    world.api.put(f"{REQUESTS}/csr-1", request())
    await Approvals(tools_for(world)).settle(world.observed().machines)
    assert world.api.log == []


async def test_hosts_that_joined_are_waited_for_in_the_end_and_not_before(world: World) -> None:
    executor = Executor(tools := tools_for(world))
    waited: list[float] = []

    async def asks(seconds: float) -> None:
        waited.append(seconds)
        world.api.put(f"{REQUESTS}/csr-2", request(names=[x509.DNSName("h2")], common_name="system:node:h2", username="system:node:h2"))

    await executor.carry_out(Initialize("h1"), world.observed())
    world.api.put(f"{REQUESTS}/csr-1", request())
    await executor.carry_out(Join("h2"), world.observed())
    assert approved(world) == [f"PATCH {REQUESTS}/csr-1/approval"]
    tools.waits._sleep = asks
    await executor.settle(world.observed())
    assert approved(world) == [f"PATCH {REQUESTS}/csr-1/approval", f"PATCH {REQUESTS}/csr-2/approval"]
    assert len(waited) == 1


async def test_a_host_that_never_asks_holds_nobody_up(world: World) -> None:
    await settle(world)
    world.api.failing[REQUESTS] = Forbidden("not allowed", code=403)
    await settle(world)
    assert approved(world) == []


async def test_an_api_server_that_has_gone_holds_nobody_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.hosts.act.requests.TIMEOUT", 0.5)
    approvals = Approvals(tools_for(world))
    approvals.expect(["h1"])

    async def silence(_machines: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(approvals, "_look", silence)
    await approvals.settle(world.observed().machines)
