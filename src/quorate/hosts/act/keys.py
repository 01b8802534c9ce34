"""Reads the CAs of a cluster from one of its hosts and gives them to another: from memory to memory, never on the operator's disk, in argv or in a log.

kubeadm would keep them in a Secret, encrypted with a key that is then in a configuration file (--upload-certs); over SSH that is not needed.
Source: kubeadm's own list of what control planes share (phases/certs, SharedCertificateExists).
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field

from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.tools import Tools
from quorate.hosts.render.host_files import HostFile
from quorate.pki.certificates import verify_pair
from quorate.pki.keys import KeyPair, PkiError

PKI = "/etc/kubernetes/pki"
_PAIRS = {
    "ca": ("ca.crt", "ca.key"),
    "front-proxy-ca": ("front-proxy-ca.crt", "front-proxy-ca.key"),
    "etcd/ca": ("etcd/ca.crt", "etcd/ca.key"),
}
_SERVICE_ACCOUNT = {"sa": ("sa.pub", "sa.key")}
_READ_DEADLINE = 30.0
_NO_FILE = 44
_READ = f"""\
cd {PKI}
for file in {" ".join(name for pair in (_PAIRS | _SERVICE_ACCOUNT).values() for name in pair)}; do
    if [ ! -s "$file" ]; then
        echo "{PKI}/$file is missing or empty" >&2
        exit {_NO_FILE}
    fi
    printf '%s ' "$file"
    base64 -w 0 -- "$file"
    echo
done
"""


@dataclass(frozen=True, slots=True)
class CAs:
    """The three CAs and the key of service accounts. Never shown."""

    pairs: dict[str, KeyPair] = field(repr=False)

    @property
    def files(self) -> tuple[HostFile, ...]:
        """As kubeadm places them: keys for root alone."""
        return tuple(
            HostFile(f"{PKI}/{name}", content, mode=0o600 if name.endswith(".key") else 0o644)
            for key, names in (_PAIRS | _SERVICE_ACCOUNT).items()
            for name, content in zip(names, (self.pairs[key].certificate, self.pairs[key].key), strict=True)
        )

    @property
    def cluster(self) -> bytes:
        """What a joining host checks the cluster against, in PEM: the certificate of its CA, or several while one is replaced."""
        return self.pairs["ca"].certificate


async def read_cas(tools: Tools, host: str) -> CAs:
    """Read them from a host of the cluster, and make sure that each key belongs to its certificate. Raises StepFailed naming the file, and SshErrors."""
    remedy = "quorate needs the CAs' keys on a control-plane host to make another: put the file back there, or join the host by hand"
    outcome = await tools.look(host, _READ, doing="reading the cluster's CAs", deadline=_READ_DEADLINE, remedy=remedy)
    encoded = dict(line.split(b" ", 1) for line in outcome.stdout.splitlines() if b" " in line)

    def content(name: str) -> bytes:
        try:
            return base64.b64decode(encoded[name.encode()], validate=True)
        except (KeyError, ValueError):
            raise StepFailed(host, f"{PKI}/{name} was changed or cut off on the way", remedy) from None

    pairs = {}
    for key, (public, private) in (_PAIRS | _SERVICE_ACCOUNT).items():
        pairs[key] = KeyPair(content(public), content(private))
        try:
            await asyncio.to_thread(verify_pair, pairs[key])  # reading an RSA key checks its primes: 50 ms
        except PkiError as error:
            raise StepFailed(host, f"{PKI}/{public} and {PKI}/{private} cannot be used: {error}", remedy) from None
    return CAs(pairs)
