"""Where kubelets and kube-proxy find the API server, beside where the manifest has it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from quorate.core import documents
from quorate.core.health import Absent, Unknown
from quorate.core.text import printable
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest import Manifest
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.probe.facts import HostFacts, Kubeconfig
from quorate.hosts.render.kubeadm_configuration import certificate_names
from quorate.pki.certificates import comparable


def lost_names(manifest: Manifest, facts: Mapping[str, HostFacts | Unreachable], api: ApiReading | Unknown | Absent) -> tuple[str, ...]:
    """Names by which somebody finds the API server, that its certificates have and the manifest has not, each as a problem.

    The next certificate that is made anew, for another name of the manifest or for a host that joins, would lack them, and cut those off who use them. The
    names and addresses of a host itself are in its certificate whatever the manifest says.
    """
    known = {name: each for name, each in facts.items() if isinstance(each, HostFacts)}
    certificates = [chain for each in known.values() if not isinstance(chain := each.certificates["apiserver"], Absent | Unknown)]
    certified = frozenset[str]().union(*(chain[0].names for chain in certificates))
    own = {*known, *(address for each in known.values() if isinstance(each.addresses, frozenset) for address in each.addresses)}
    at_stake = certified - set(map(comparable, (*certificate_names(manifest), *own)))
    users: dict[str, list[str]] = {}
    for user, server in _servers(known, api):
        if (name := comparable(address_of(server))) in at_stake:
            users.setdefault(name, []).append(user)
    return tuple(printable(_problem(name, by)) for name, by in users.items())


def server_of_kube_proxy(api: ApiReading) -> str:
    """Where kube-proxy finds the API server; empty where that is not told."""
    text = api.kube_proxy.get("kubeconfig.conf", "") if isinstance(api.kube_proxy, Mapping) else ""
    try:
        [cluster] = documents.load(text)["clusters"]
        return str(cluster["cluster"]["server"])
    except (documents.NotADocument, KeyError, TypeError, ValueError):
        return ""


def address_of(server: str) -> str:
    """The name or address in a URL; empty where it has none."""
    try:
        return urlsplit(server).hostname or ""
    except ValueError:
        return ""


def _servers(facts: Mapping[str, HostFacts], api: ApiReading | Unknown | Absent) -> Iterator[tuple[str, str]]:
    for name, each in facts.items():
        kubeconfig = each.kubeconfigs["kubelet"]
        if isinstance(kubeconfig, Kubeconfig):
            yield f"the kubelet of {name}", kubeconfig.server
    if isinstance(api, ApiReading):
        yield "kube-proxy", server_of_kube_proxy(api)


def _problem(name: str, users: list[str]) -> str:
    return (
        f"{', '.join(users)} finds the API server at {name}, which the manifest does not have: with a certificate without it that would end. "
        f"Add {name} to apiEndpoint.alternativeNames until those kubeconfigs have the new server"
    )
