"""What is in the files that steps carry: the CAs of each cluster, and the keys of encryption providers. Machines keep their numbers and ids.

None of it is in a trace or in what is judged, so that it may be drawn anew in each process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any

from quorate.core.hosts.encryption import IDENTITY, SECRETS, Configuration
from quorate.hosts.render import provider_files
from quorate.pki.issue import generate_ca, generate_service_account, issue_server
from quorate.pki.keys import KeyAlgorithm, KeyPair
from quorate.simulation.engine.world import EPOCH

PKI = "/etc/kubernetes/pki/"
NAMESPACE = "default"
"""Of all Secrets."""
_CAS = ("ca", "front-proxy-ca", "etcd/ca")
_entries: dict[str, Mapping[str, Any]] = {}


@cache
def cas(number: int) -> Mapping[str, bytes]:
    """The files of the cluster's CAs below PKI that all its control planes share."""
    files: dict[str, bytes] = {}
    for name in _CAS:
        made = generate_ca(KeyAlgorithm.ECDSA_P256, now=EPOCH, common_name=f"{name} {number}")
        files |= {f"{name}.crt": made.certificate, f"{name}.key": made.key}
    account = generate_service_account(KeyAlgorithm.ECDSA_P256)
    return files | {"sa.pub": account.certificate, "sa.key": account.key}


@cache
def serving_certificate() -> bytes:
    """An API server's, with every name of the manifest; until when it is valid, machines know."""
    ca, key = cas(1)["ca.crt"], cas(1)["ca.key"]
    until = EPOCH + timedelta(days=1)
    names = ["api.example.com"]
    algorithm = KeyAlgorithm.ECDSA_P256
    pair = KeyPair(ca, key)
    return issue_server(pair, common_name="server", dns_names=names, algorithm=algorithm, not_before=EPOCH, not_after=until).certificate


def ca_of(certificate: bytes, made: int) -> int:
    """Whose CA a file ca.crt is, of those made so far."""
    return next(number for number in range(1, made + 1) if cas(number)["ca.crt"] == certificate)


@cache
def key(number: int) -> str:
    """The id of a key that is the same in every world."""
    found, entry = provider_files.generated(Random(f"key {number}").randbytes)  # noqa: S311 (a simulation, not a secret)
    _entries[found] = entry
    return found


def written(configuration: Configuration) -> bytes:
    """A file of encryption providers."""
    return provider_files.written(configuration, _entries).reveal().encode()


@cache
def read(content: bytes) -> Configuration:
    """What such a file says."""
    found = provider_files.read(content)
    _entries.update(found.entries)
    return found.configuration


def name_of(provider: str) -> str:
    """What the Secrets are called that are stored with this provider."""
    return f"stored-with-{provider.replace(':', '-')}"


def stored(providers: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
    """What etcd has of the Secrets that are stored with these."""
    for provider in providers:
        kind, _, rest = provider.partition(":")
        value = "plain" if provider == IDENTITY else f"{provider_files.ENCRYPTED.decode()}{kind}:v1:{rest.partition(':')[0]}:"
        yield f"/registry/{SECRETS}/{NAMESPACE}/{name_of(provider)}".encode(), value.encode()
