"""Approves kubelets' requests for serving certificates if everything in them matches the manifest's host; leaves others for a human.

A kubelet may ask for any name and address, and whoever has a kubelet's credentials can ask in its name: the certificate would let it pass for another host.
Source: Kubernetes' signer kubernetes.io/kubelet-serving (certificate-signing-requests, "Kubernetes signers") for what a request must look like.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.render.kubeadm_configuration import Machine
from quorate.kubernetes.resource import Resource
from quorate.pki.certificates import MALFORMED, comparable

REQUESTS: Resource[dict[str, Any]] = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", dict, namespaced=False
)
SIGNER = "kubernetes.io/kubelet-serving"
TIMEOUT = 10.0
"""Seconds that hosts are given to ask once the rest is done. A kubelet tries 2, 6 and 14 s after its start, and cannot before its Node has addresses."""
_LOOK_EVERY = 0.5
_USER = "system:node:"
_GROUPS = {"system:nodes", "system:authenticated"}
_USAGES = {"digital signature", "key encipherment", "server auth"}
_ORGANIZATION = "system:nodes"


class Approvals:
    """Approves what may be approved in one run. What it leaves alone is told once.

    A kubelet asks up to 10 s after its host has joined, and nothing that follows needs its answer: it is served before the next host joins, or in the end.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._seen: set[str] = set()
        self._expected: set[str] = set()

    def expect(self, hosts: Iterable[str]) -> None:
        """These hosts join: whatever they have asked in a former life, their kubelets will ask anew."""
        self._expected.update(hosts)

    async def settle(self, machines: Mapping[str, Machine]) -> None:
        """Look until every host that is expected to ask has asked, for TIMEOUT seconds at most; not at all where none is. Never fails, as `look`.

        With a cloud's own controller manager a kubelet asks when that has told the Node's addresses, which nobody waits for here.
        """
        if not self._expected:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):  # an API server that has gone meanwhile is silent for longer
                await self._look_until_asked(machines)

    async def _look_until_asked(self, machines: Mapping[str, Machine]) -> None:
        looks = 1 if self._tools.manifest.cloud_provider.external else int(TIMEOUT / _LOOK_EVERY)
        await self.look(machines)
        for _ in range(looks - 1):
            if not self._expected:
                return
            await self._tools.waits.pause(_LOOK_EVERY)
            await self.look(machines)

    async def look(self, machines: Mapping[str, Machine]) -> None:
        """Approve every request that waits and matches its host. Never fails: a kubelet without it serves no logs, and its Node is fine all the same."""
        with suppress(StepFailed, *EXPECTED):
            await self._look(machines)

    async def _look(self, machines: Mapping[str, Machine]) -> None:
        for request in await self._requests():
            host, name = str(request["spec"].get("username", "")).removeprefix(_USER), request["metadata"]["name"]
            if host not in machines or name in self._seen:
                continue
            if not _is_decided(request):
                await self._answer(name, host, problem_of(request, machines[host]))
            self._seen.add(name)
            self._expected.discard(host)

    async def _answer(self, name: str, host: str, problem: str) -> None:
        if problem:
            way_out = f"If that is right: kubectl certificate approve {name}"
            self._tools.report(host, f"its request {name} for a serving certificate is left alone: {problem}. {way_out}")
            return
        await (await self._tools.access.api()).merge_patch(REQUESTS, name, _APPROVAL, subresource="approval")
        self._tools.report(host, "the serving certificate of its kubelet is approved")

    async def _requests(self) -> list[dict[str, Any]]:
        return (await (await self._tools.access.api()).list(REQUESTS, field_selector=f"spec.signerName={SIGNER}")).items


def problem_of(request: Mapping[str, Any], machine: Machine) -> str:
    """What about a request does not match the host; empty where all of it does."""
    spec = request["spec"]
    if spec.get("signerName") != SIGNER or spec.get("username") != f"{_USER}{machine.name}":
        return "it was not made by the host's kubelet"
    if not set(spec.get("groups") or ()) >= _GROUPS:
        return f"its creator is not in {' and '.join(sorted(_GROUPS))}"
    usages = set(spec.get("usages") or ())
    if "server auth" not in usages or not usages <= _USAGES:
        return f"it asks for {', '.join(sorted(usages)) or 'nothing'}"
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or "", validate=True))
        return _problem_of_subject(asked, machine) or _problem_of_names(asked, machine)
    except (*MALFORMED, TypeError, InvalidSignature):
        return "it cannot be read as a certificate request"


def _problem_of_subject(asked: x509.CertificateSigningRequest, machine: Machine) -> str:
    if not asked.is_signature_valid:
        return "its signature is not of the key that it is about"
    names = [str(each.value) for each in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = [str(each.value) for each in asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if names != [f"{_USER}{machine.name}"] or organizations != [_ORGANIZATION]:
        return f"its subject is {asked.subject.rfc4514_string()}"
    return ""


def _problem_of_names(asked: x509.CertificateSigningRequest, machine: Machine) -> str:
    try:
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "it names no address"
    known = names_of(machine)
    strange = [_shown(name) for name in names if _shown(name) not in known]
    return f"{', '.join(strange)} is not of this host in the manifest" if strange else ""


def names_of(machine: Machine) -> frozenset[str]:
    """Every name and address that a serving certificate of this host may have, addresses in their one canonical form."""
    host = machine.host
    given = (machine.name, host.hostname, host.public_address, host.private_address, *host.ipv6_addresses)
    return frozenset(comparable(name) for name in given if name)


def _shown(name: x509.GeneralName) -> str:
    """The name in canonical form where it is a DNS name or an address; with its kind, so that it matches nothing, where it is an email address or a URI."""
    if isinstance(name, x509.DNSName | x509.IPAddress):
        return comparable(str(name.value))
    return f"{type(name).__name__} {name.value}"


def _is_decided(request: Mapping[str, Any]) -> bool:
    status = request.get("status") or {}
    return any(condition.get("type") in ("Approved", "Denied", "Failed") for condition in status.get("conditions") or ())


_APPROVAL = {
    "status": {
        "conditions": [
            {
                "type": "Approved",
                "status": "True",
                "reason": "QuorateApprove",
                "message": "Its user, groups, usages, names and addresses are those of the host in quorate's manifest",
            }
        ]
    }
}
