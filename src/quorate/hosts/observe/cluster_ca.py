"""Which cluster is the one to be worked on: that of the CA which most of the control plane's hosts trust."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorate.core.health import Absent, Unknown
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.probe.condition import cas, fingerprint
from quorate.hosts.probe.facts import HostFacts
from quorate.pki.certificates import read_certificates


def cluster_ca(facts: Mapping[str, HostFacts | Unreachable], control_planes: Iterable[str]) -> str | Absent | Unknown:
    """The fingerprint of the cluster's CA. Absent where no host that answered trusts any; Unknown where as many trust one as another.

    While a CA is replaced hosts trust two: then it is the one that more of them trust, or either where all trust both.
    """
    trusting: dict[str, set[str]] = {}
    for name in control_planes:
        for each in trusted(facts[name]):
            trusting.setdefault(each, set()).add(name)
    if not trusting:
        return Absent()
    most = max(len(hosts) for hosts in trusting.values())
    candidates = sorted(each for each, hosts in trusting.items() if len(hosts) == most)
    if len({frozenset(trusting[each]) for each in candidates}) > 1:
        told = "; ".join(f"{', '.join(sorted(trusting[each]))} trust {each[:16]}..." for each in candidates)
        remedy = "Remove the hosts that do not belong to this cluster from the manifest, or reset them"
        return Unknown(f"the hosts belong to different clusters, and it is not known which one you mean: {told}", remedy)
    return candidates[0]


def fingerprints(pem: bytes) -> frozenset[str]:
    """Those of the certificates in it; none where it has none that can be read."""
    try:
        return frozenset(map(fingerprint, read_certificates(pem)))
    except ValueError:
        return frozenset()


def trusted(facts: HostFacts | Unreachable) -> frozenset[str]:
    """The fingerprints of every CA that a host trusts as a cluster's."""
    return frozenset() if isinstance(facts, Unreachable) else frozenset().union(*cas(facts).values())
