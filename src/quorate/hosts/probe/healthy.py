"""The health of a host that has joined, by its own facts: each thing that must run, with evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.state import EXPIRED, KUBEADM_RUNS, LIVEZ, READYZ
from quorate.hosts.probe.facts import RENEWED, Answer, EtcdData, Fact, HostFacts, StaticPod, Unit

_DOORS_CLOSED = (401, 403)
"""It answers, but does not say how it does: anonymous requests are off, and the certificate that the probe used is not accepted either."""
_CAS = ("ca", "front-proxy-ca", "etcd/ca")


def findings(facts: HostFacts, *, control_plane: bool, local_etcd: bool, now: datetime) -> Iterator[Finding]:
    """Every finding, good ones too: containerd, the kubelet, certificates and, of a control plane, its API server and etcd where it has one."""
    yield _unit("Containerd", facts.units["containerd"])
    yield _unit("Kubelet", facts.units["kubelet"])
    yield endpoint("KubeletHealthz", facts.kubelet_healthz)
    if control_plane:
        yield api_server(LIVEZ, facts.api_server_livez, facts)
        yield api_server(READYZ, facts.api_server_readyz, facts)
        if local_etcd:
            yield endpoint("EtcdHealth", facts.etcd_health)
            if facts.etcd_data is EtcdData.BEGUN_ANEW:
                message = "etcd finds no log, or one that lacks what its member had acknowledged, and ends: the data was lost"
                yield Finding(Health.BAD, "EtcdDataBegunAnew", message)
    renewed = frozenset(RENEWED) if control_plane else frozenset[str]()
    if expired := _expired(facts, now, renewed):
        yield Finding(Health.BAD, EXPIRED, expired)
    yield _certificates(facts, now, apart_from=renewed)


def kubeadm_runs(facts: HostFacts) -> Iterator[Finding]:
    """Whether kubeadm runs now: then what was found may be otherwise in a moment."""
    if isinstance(facts.processes, frozenset) and "kubeadm" in facts.processes:
        yield Finding(Health.UNKNOWN, KUBEADM_RUNS, "kubeadm is still running on it")


def _unit(name: str, unit: Fact[Unit]) -> Finding:
    match unit:
        case Absent():
            return Finding(Health.BAD, f"{name}Unit", "there is no such unit")
        case Unknown(reason):
            return Finding(Health.UNKNOWN, f"{name}Unit", reason)
        case Unit():
            message = f"{unit.active} ({unit.sub}), {unit.restarts} restarts"
            return Finding(Health.GOOD if unit.is_running else Health.BAD, f"{name}Unit", message)


def endpoint(name: str, answer: Fact[Answer]) -> Finding:
    """What an endpoint of the host said of itself, as a finding of this name."""
    match answer:
        case Absent():
            return Finding(Health.BAD, name, "nothing listens there")
        case Unknown(reason):
            return Finding(Health.UNKNOWN, name, reason)
        case Answer(status, body) if status in _DOORS_CLOSED:
            return Finding(Health.UNKNOWN, name, f"it answers, but does not let the probe in ({status}): {body}")
        case Answer(status, body):
            return Finding(Health.GOOD if status == 200 else Health.BAD, name, f"{status} {body}")


def api_server_restarts(facts: HostFacts) -> bool:
    """Whether an API server runs on the host, and nobody listens where its own does: one that was asked to end stops to listen at once and stays for a minute,
    and one that has just been started takes some seconds.
    """
    runs = isinstance(facts.processes, frozenset) and "kube-apiserver" in facts.processes
    return runs and isinstance(facts.manifest("kube-apiserver"), StaticPod) and isinstance(facts.api_server_livez, Absent)


def api_server(name: str, answer: Fact[Answer], facts: HostFacts) -> Finding:
    """What the API server of the host said of itself."""
    found = endpoint(name, answer)
    if isinstance(answer, Absent) and api_server_restarts(facts):
        return replace(found, message=f"{found.message}, though it runs: it was asked to end, or has just been started")
    return found


def _certificates(facts: HostFacts, now: datetime, *, apart_from: Collection[str]) -> Finding:
    """What has expired and nobody renews. What cannot be read is unknown; a file that is not there is no finding: an external CA or etcd leaves some
    out.
    """
    if expired := _expired(facts, now, facts.certificates.keys() - apart_from):
        return Finding(Health.BAD, "Certificates", expired)
    unread = [f"{name}: {fact.reason}" for name, fact in facts.certificates.items() if isinstance(fact, Unknown)]
    if unread:
        return Finding(Health.UNKNOWN, "Certificates", "; ".join(unread))
    return Finding(Health.GOOD, "Certificates", "no other has expired" if _expired(facts, now, apart_from) else "none has expired")


def _expired(facts: HostFacts, now: datetime, names: Collection[str]) -> str:
    """Which of these have expired, and when; empty: none that could be read."""
    expired = []
    for name, certificates in facts.certificates.items():
        if name in names and not isinstance(certificates, Absent | Unknown):
            # a bundle of CAs may keep an old one beside the new
            ends = max(each.not_after for each in certificates) if name in _CAS else certificates[0].not_after
            if ends <= now:
                expired.append(f"{name} expired on {ends:%Y-%m-%d %H:%M} UTC")
    return "; ".join(expired)
