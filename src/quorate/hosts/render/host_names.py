"""What a host is called. Its Node and its etcd member have that name too.

One that has joined has the name in its kubelet's client certificate, whatever a manifest or a name service says today (S13). One that has not is called what
the manifest says or else what it calls itself.
Source: KubeOne takes `hostname -f` where the manifest names no host, the short name on Azure, and the short name where the long one is a localhost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.core.health import Absent, Unknown
from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.names import dns_name
from quorate.pki.certificates import Certificate, read_certificates
from quorate.pki.keys import PkiError

HOST_NAMES = """\
hostname -f 2>/dev/null || echo
uname -n
conf=/etc/kubernetes/kubelet.conf
if [ -e $conf ]; then
    echo joined
    data=$(sed -n 's/^ *client-certificate-data: *//p' $conf | head -n 1)
    if [ -n "$data" ]; then printf %s "$data" | base64 -d; else cat /var/lib/kubelet/pki/kubelet-client-current.pem; fi 2>/dev/null |
        sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p'
fi
"""
"""Prints the long name, or an empty line where the host has none, and the short one; where the host has joined, that word and its kubelet's certificate."""
NAMING_DEADLINE = 10.0
"""Seconds; a resolver that does not answer lets `hostname -f` wait for 5."""


def own_name(answer: bytes, *, fully_qualified: bool) -> str:
    """What the host calls itself, from the output of `HOST_NAMES`; empty where it did not say, or says what no Node can be called, which scripts and files
    are never told. In small letters, as kubeadm names Nodes.
    """
    long, short, *_ = (*(line.strip().lower() for line in answer.decode(errors="replace").splitlines()[:2]), "", "")
    name = long if long and fully_qualified and not long.startswith("localhost") else short
    return "" if dns_name(name) else name


_JOINED = b"joined"
_USER = "system:node:"


@dataclass(frozen=True, slots=True)
class Naming:
    """What a host said of its name: what it calls itself (empty: nothing), and the Node that it has joined as."""

    own: str
    node: str | Absent | Unknown


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the manifest's hosts, in its order and each only once; of these the ones that are only addresses, since nobody could ask; what is wrong."""

    names: tuple[str, ...]
    unnamed: frozenset[str]
    problems: tuple[str, ...]


def naming(answer: bytes, *, fully_qualified: bool) -> Naming:
    """From the output of `HOST_NAMES`."""
    _, joined, certificate = answer.partition(b"\n" + _JOINED + b"\n")
    own = own_name(answer, fully_qualified=fully_qualified)
    if not joined:
        return Naming(own, Absent())
    try:
        return Naming(own, node_of(read_certificates(certificate)[0]))
    except PkiError as error:
        return Naming(own, Unknown(f"its kubelet's certificate cannot be read: {error}"))


def node_of(certificate: Certificate) -> str | Unknown:
    """The Node whose kubelet has this client certificate. Source: Kubernetes' Node authorization, by the common name."""
    prefix, user, node = certificate.common_name.partition(_USER)
    if prefix or not user or dns_name(node):
        return Unknown("its kubelet's certificate is that of no Node")
    return node


def names_of(manifest: Manifest, namings: Mapping[str, Naming]) -> Names:
    """What the hosts are called. `namings` is by the public addresses of hosts that the manifest does not name, as far as they answered."""
    names: list[str] = []
    unnamed: set[str] = set()
    problems: list[str] = []
    for host in manifest.hosts:
        address = host.public_address
        said = namings.get(address, Naming("", Absent()))
        problems += [] if host.hostname else _contradictions(address, said)
        name = host.hostname or (said.node if isinstance(said.node, str) else "" if isinstance(said.node, Unknown) else said.own)
        if name in names:
            problems.append(
                f"two hosts are called {name}, one of them {address}: give each a hostname in the manifest, or name the machine"
            )
            name = ""
        if not name:
            unnamed.add(address)
        names.append(name or address)
    return Names(tuple(names), frozenset(unnamed), tuple(problems))


def _contradictions(address: str, said: Naming) -> list[str]:
    match said.node:
        case Unknown(reason):
            return [
                f"it is not known which Node {address} is, though it has joined a cluster: {reason}; give it its hostname in the manifest"
            ]
        case str(node) if said.own and node != said.own:
            return [
                f"{address} is Node {node} by its kubelet's certificate, and calls itself {said.own}: give it `hostname: {node}` in the manifest"
            ]
    return []
