"""What a host is, as far as its own facts and the cluster's lists say: one kind, and every finding behind it.

The first row that applies gives the kind. Files are traces: kubelet.conf, bootstrap-kubelet.conf, admin.conf, ca.crt, the four
manifests of kubeadm, etcd data. Needed packages are containerd, kubelet and kubeadm.

| what is found                                                                              | kind             |
|---|---|
| CAs on the host, none of them this cluster's                                       | FOREIGN; BROKEN where this cluster lists it, see below |
| CAs of this cluster and of another                                                 | BROKEN           |
| a fact that the rows below need is unknown, or it is not known which cluster is this one   | UNKNOWN          |
| no CA, and data of an etcd that are not of the ring, which has no member of it      | FOREIGN; UNKNOWN where that cannot be told |
| no trace, and the ring or the API lists the host                                           | BROKEN           |
| no trace, and a Kubernetes runs that kubeadm did not make                                  | FOREIGN          |
| no trace                                                                                   | BARE; PACKAGES_ONLY with all needed packages |
| our mark of an initialization that has not ended, and an etcd manifest that founds a ring  | HALF_INITIALIZED |
| files incomplete, a voter                                                                  | BROKEN           |
| files incomplete, super-admin.conf, an etcd manifest that founds a ring, or that mark      | HALF_INITIALIZED; BROKEN where it may have served |
| files incomplete                                                                           | HALF_JOINED      |
| complete, a learner                                                                        | HALF_JOINED      |
| complete, something is not healthy, or the ring or the API does not list it                | BROKEN           |
| complete, also where certificates have expired which a renewal makes anew                  | MEMBER           |

A founder has served once kubelet.conf names a file for the kubelet's certificate: `kubeadm init` writes that when the API server has answered, so etcd had
data. What is missing then was lost since, and another `kubeadm init` without the data would found a second cluster. So HALF_INITIALIZED is then only a host
that has our mark and etcd's data. Without our mark nobody knows when an initialization was begun: it is one that was cut short only where super-admin.conf is
there, and neither etcd's data nor a certificate of the kubelet's, which that writes when it first starts (client-go 1.34, util/certificate).

kubeadm makes a CA before anything of etcd, and takes it away after etcd's manifest. So an etcd beside no CA is somebody else's, of which this
host may have the only copy, unless its log is of the ring. A worker has none of ours in any case. And a control plane host with another cluster's CA
that the ring does not list is FOREIGN, whatever Node it left behind.

Marks that kubeadm leaves are no proof: a kind says where to go on, and no kind alone is leave to remove data. Continue a half-initialized host, do not reset
it: its etcd may hold the only copy. A kind without a BAD finding may have UNKNOWN ones, which are never to be read as good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from http import HTTPStatus

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.state import (
    ANOTHER_ETCD,
    CLUSTERS_DIFFER,
    EXPIRED,
    INITIALIZING,
    JOINED_AS_WORKER,
    JOINED_HALF,
    LEADERLESS,
    NODE_NOT_LISTED,
    WIPED,
    Kind,
)
from quorate.etcd.log_file import LogIdentity
from quorate.hosts.probe.facts import INITIALIZING as MARK
from quorate.hosts.probe.facts import OTHERS, Answer, EtcdData, Fact, HostFacts, Kubeconfig
from quorate.hosts.probe.healthy import findings, kubeadm_runs
from quorate.pki.certificates import Certificate

_NEEDED = ("containerd", "kubelet", "kubeadm")
_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_SERVE = {"kubelet": 10250, "kube-apiserver": 6443}
_NO_DATA = (EtcdData.EMPTY, EtcdData.INCOMPLETE, EtcdData.WITHOUT_LOG)
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


class EtcdRole(Enum):
    """What a host's member is in the ring."""

    VOTER = "voter"
    LEARNER = "learner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What the cluster says of a host. `etcd` of a worker, or with an external etcd, is not looked at."""

    ca: Fact[str]  # fingerprint of this cluster's CA; Absent while there is no cluster
    cluster_id: Fact[int]  # etcd's own, of the ring; Absent while there is no cluster
    etcd: Fact[EtcdRole]
    node: Fact[str]  # the name of its Node


@dataclass(frozen=True, slots=True)
class Condition:
    """What a host is, and why."""

    kind: Kind
    findings: tuple[Finding, ...]


def fingerprint(certificate: Certificate) -> str:
    """SHA-256 of the certificate's DER in hexadecimal."""
    return hashlib.sha256(certificate.der).hexdigest()


def cas(facts: HostFacts) -> Mapping[str, frozenset[str]]:
    """The fingerprints of the cluster CAs that the host trusts, by the file that says so. A bundle has several while a CA is replaced."""
    found = {"ca.crt": facts.certificates["ca"]}
    for name in ("kubelet", "bootstrap-kubelet", "admin"):
        kubeconfig = facts.kubeconfigs[name]
        if not isinstance(kubeconfig, Absent | Unknown):
            found[f"{name}.conf"] = kubeconfig.cas
    return {where: frozenset(map(fingerprint, known)) for where, known in found.items() if not isinstance(known, Absent | Unknown)}


def has_local_etcd(facts: HostFacts) -> bool:
    """False only where the API server is told of servers elsewhere, and there is no etcd manifest."""
    if not isinstance(facts.manifest("etcd"), Absent):
        return True
    api_server = facts.manifest("kube-apiserver")
    servers = None if isinstance(api_server, Absent | Unknown) else api_server.flag("etcd-servers")
    return servers is None or any(f"//{address}:" in servers for address in _LOCAL)


def other_etcd(facts: HostFacts, cluster_id: Fact[int]) -> Fact[str]:
    """The data of etcd on the host, in words, that are not of the ring of this id. Absent: there are none, or they are the ring's, or were."""
    log = facts.etcd_identity
    if not _has_etcd_data(facts) or (isinstance(log, LogIdentity) and log.cluster_id == cluster_id):
        return Absent()
    if isinstance(log, LogIdentity):
        whose = f"data of etcd cluster {log.cluster_id:x} in {facts.etcd_folder}"
        return cluster_id if isinstance(cluster_id, Unknown) else whose
    return log if isinstance(log, Unknown) else f"files in {facts.etcd_folder}"


def condition(facts: HostFacts, listing: Listing, *, control_plane: bool, now: datetime) -> Condition:
    """What the host is. `control_plane` is what the manifest wants it to be; `now` tells which certificates have expired. Total."""
    host = _Host(facts, listing, control_plane)
    for rule in (_another_cluster, _not_known, _another_etcd, _untouched, _being_initialized, _incomplete):
        if (found := rule(host)) is not None:
            return _with_its_etcd(host, Condition(found.kind, (*found.findings, *kubeadm_runs(facts), *_listed(host))))
    return _with_its_etcd(host, _complete(host, now))


@dataclass(frozen=True, slots=True)
class _Host:
    facts: HostFacts
    listing: Listing
    control_plane: bool

    @property
    def traces(self) -> tuple[str, ...]:
        """The files that only a cluster leaves."""
        facts = self.facts
        files: dict[str, object] = {f"{name}.conf": facts.kubeconfigs[name] for name in ("kubelet", "bootstrap-kubelet", "admin")}
        files["pki/ca.crt"] = facts.certificates["ca"]
        files |= {f"the manifest of {name}": facts.manifest(name) for name in ("etcd", *_COMPONENTS)}
        if facts.etcd_data is not EtcdData.EMPTY:
            files["etcd data"] = facts.etcd_data
        return tuple(name for name, fact in files.items() if not isinstance(fact, Absent))

    @property
    def founded_the_ring(self) -> bool:
        """Its etcd was told no initial cluster state, which is what `kubeadm init` does; a join says `existing`."""
        etcd = self.facts.manifest("etcd")
        return not isinstance(etcd, Absent | Unknown) and etcd.flag("initial-cluster-state") != "existing"

    @property
    def has_joined_as_worker(self) -> bool:
        """A join as a control plane writes admin.conf and the components' manifests before the kubelet gets its kubeconfig."""
        kubeconfigs = self.facts.kubeconfigs
        before = (kubeconfigs["admin"], *map(self.facts.manifest, ("etcd", *_COMPONENTS)))
        return self.control_plane and isinstance(kubeconfigs["kubelet"], Kubeconfig) and all(isinstance(fact, Absent) for fact in before)

    @property
    def may_be_continued(self) -> bool:
        """Whether its initialization may have been cut short, so that `kubeadm init` can go on with what is there."""
        facts = self.facts
        kubelet, data = facts.kubeconfigs["kubelet"], facts.etcd_data
        has_served = isinstance(kubelet, Kubeconfig) and not kubelet.inline
        if not isinstance(facts.initialization, Absent):
            return not has_served or (not isinstance(data, Absent) and data not in _NO_DATA)
        never_started = isinstance(facts.certificates["kubelet"], Absent) and not _has_etcd_data(facts)
        return not has_served and never_started and not isinstance(facts.kubeconfigs["super-admin"], Absent)

    @property
    def missing(self) -> tuple[str, ...]:
        """What a complete host has on disk, and this one has not."""
        facts = self.facts
        files: dict[str, object] = {
            "kubelet.conf": facts.kubeconfigs["kubelet"],
            "the kubelet's config.yaml": facts.digests["kubelet_configuration"],
        }
        if self.control_plane:
            files |= {"pki/ca.crt": facts.certificates["ca"]}
            files |= {f"the manifest of {name}": facts.manifest(name) for name in _COMPONENTS}
            if has_local_etcd(self.facts):
                files |= {"the manifest of etcd": facts.manifest("etcd"), "etcd's data": facts.etcd_data}
        return tuple(name for name, fact in files.items() if isinstance(fact, Absent) or fact in _NO_DATA)


def _another_cluster(host: _Host) -> Condition | None:
    ours, found = host.listing.ca, cas(host.facts)
    if isinstance(ours, Absent | Unknown):
        return None
    strangers = [where for where, known in found.items() if ours not in known]
    if not strangers:
        return None
    shown = min(found[strangers[0]])
    message = f"{', '.join(strangers)} of another CA ({shown[:16]}..., this cluster's is {ours[:16]}...)"
    if len(strangers) < len(found):
        kept = ", ".join(where for where in found if where not in strangers)
        return Condition(Kind.BROKEN, (Finding(Health.BAD, "CAsDiffer", f"{message}, but {kept} of this one"),))
    left = host.control_plane and isinstance(host.listing.etcd, Absent)  # whatever Node was left behind
    listed = isinstance(host.listing.etcd, EtcdRole) or (isinstance(host.listing.node, str) and not left)
    return Condition(Kind.BROKEN if listed else Kind.FOREIGN, (Finding(Health.BAD, "AnotherCA", message),))


def _not_known(host: _Host) -> Condition | None:
    facts = host.facts
    needed: dict[str, object] = {
        f"{name}.conf": facts.kubeconfigs[name] for name in ("kubelet", "bootstrap-kubelet", "admin", "super-admin")
    }
    needed |= {f"program {name}": facts.programs[name] for name in _NEEDED}
    needed |= {"pki/ca.crt": facts.certificates["ca"], "manifests": facts.manifests, "etcd data": facts.etcd_data}
    needed |= {
        "the kubelet's config.yaml": facts.digests["kubelet_configuration"],
        "quorate's mark of an initialization": facts.initialization,
    }
    if isinstance(facts.manifests, Mapping):
        needed |= {f"the manifest {name}": pod for name, pod in facts.manifests.items()}
    unknown = list(_by_reason(needed))
    found = cas(facts)
    if found and not isinstance(host.listing.ca, str):
        differ = host.listing.ca if isinstance(host.listing.ca, Unknown) else None
        message = f"{', '.join(found)} of a cluster, but it is not known which cluster is this one{f': {differ.reason}' if differ else ''}"
        unknown.append(Finding(Health.UNKNOWN, CLUSTERS_DIFFER if differ else "ClusterNotKnown", message))
    if not found and not isinstance(facts.kubeconfigs["kubelet"], Absent | Unknown):
        unknown.append(Finding(Health.UNKNOWN, "CANotKnown", "kubelet.conf names no CA that can be read"))
    return Condition(Kind.UNKNOWN, tuple(unknown)) if unknown else None


def _by_reason(facts: Mapping[str, object]) -> Iterator[Finding]:
    """A host that told nothing has one reason for everything, which is said once."""
    names: dict[str, list[str]] = {}
    for name, fact in facts.items():
        if isinstance(fact, Unknown):
            names.setdefault(fact.reason, []).append(name)
    for reason, unknown in names.items():
        yield Finding(Health.UNKNOWN, "NotKnown", f"{', '.join(unknown)}: {reason}")


def _another_etcd(host: _Host) -> Condition | None:
    if cas(host.facts) or isinstance(host.listing.etcd, EtcdRole):
        return None
    match other_etcd(host.facts, host.listing.cluster_id):
        case str(etcd):
            return Condition(Kind.FOREIGN, (Finding(Health.BAD, ANOTHER_ETCD, f"{etcd}, and no CA of a cluster"),))
        case Unknown(reason):
            message = f"etcd is on it, and no CA of a cluster; it is not known whose it is: {reason}"
            return Condition(Kind.UNKNOWN, (Finding(Health.UNKNOWN, ANOTHER_ETCD, message),))
    return None


def _with_its_etcd(host: _Host, found: Condition) -> Condition:
    """A worker that has another etcd is not one that only a reset can help."""
    if host.control_plane or found.kind is not Kind.HALF_JOINED:
        return found
    etcd = other_etcd(host.facts, host.listing.cluster_id)
    if isinstance(etcd, Absent):
        return found
    kept = f"{etcd}, which a reset would take" if isinstance(etcd, str) else f"it is not known whose the etcd on it is: {etcd.reason}"
    return Condition(Kind.BROKEN, (Finding(Health.BAD, ANOTHER_ETCD, kept), *found.findings))


def _untouched(host: _Host) -> Condition | None:
    if host.traces:
        return None
    if isinstance(host.listing.node, str) or isinstance(host.listing.etcd, EtcdRole):
        return Condition(Kind.BROKEN, (Finding(Health.BAD, WIPED, "the cluster lists this host, but nothing of the cluster is on it"),))
    if others := _of_another_distribution(host.facts):
        message = f"{', '.join(others)}: of a Kubernetes that kubeadm did not make, such as RKE2 or k3s; remove it with its own program"
        return Condition(Kind.FOREIGN, (Finding(Health.BAD, "AnotherDistribution", message),))
    missing = [name for name in _NEEDED if isinstance(host.facts.programs[name], Absent)]
    if missing:
        return Condition(Kind.BARE, (Finding(Health.GOOD, "NotInstalled", f"{', '.join(missing)} not installed, no trace of a cluster"),))
    return Condition(Kind.PACKAGES_ONLY, (Finding(Health.GOOD, "Installed", f"{', '.join(_NEEDED)} installed, no trace of a cluster"),))


def _of_another_distribution(facts: HostFacts) -> list[str]:
    """What runs of it. A program that only runs may be in a container's own network; and the kubelet of the package may be that of a host which was wiped."""
    processes = facts.processes if isinstance(facts.processes, frozenset) else frozenset[str]()
    ports = facts.ports if isinstance(facts.ports, frozenset) else frozenset[int]()
    packaged = facts.units["kubelet"]
    serve = {name: port for name, port in _SERVE.items() if name in processes and port in ports}
    if not isinstance(packaged, Absent) and (isinstance(packaged, Unknown) or packaged.is_running):
        serve.pop("kubelet", None)
    return [
        *(f"{name} runs" for name in OTHERS if name in processes),
        *(f"{name} runs and {port} is taken" for name, port in serve.items()),
    ]


def _being_initialized(host: _Host) -> Condition | None:
    """Whatever the host looks like: `kubeadm init` gives rights, uploads its configuration and installs add-ons when all components run and are well."""
    if isinstance(host.facts.initialization, Absent) or not host.founded_the_ring or not host.may_be_continued:
        return None
    finding = Finding(Health.BAD, INITIALIZING, f"an initialization that quorate began on it has not ended: it has {MARK}")
    etcd = host.facts.etcd_health
    if not isinstance(etcd, Answer) or etcd.status == HTTPStatus.OK:
        return Condition(Kind.HALF_INITIALIZED, (finding,))
    return Condition(Kind.HALF_INITIALIZED, (finding, Finding(Health.BAD, LEADERLESS, f"its etcd says: {etcd.status} {etcd.body}")))


def _incomplete(host: _Host) -> Condition | None:
    if not host.missing:
        return None
    finding = Finding(Health.BAD, "Incomplete", f"{', '.join(host.traces)} there; missing: {', '.join(host.missing)}")
    if host.control_plane and host.listing.etcd is EtcdRole.VOTER:
        credentials = (host.facts.kubeconfigs["kubelet"], host.facts.certificates["kubelet"])
        never_a_node = not host.founded_the_ring and all(isinstance(fact, Absent) for fact in credentials)
        return Condition(Kind.BROKEN, (replace(finding, reason=JOINED_HALF) if never_a_node else finding,))
    marks = (host.facts.kubeconfigs["super-admin"], host.facts.initialization)
    if host.founded_the_ring or not all(isinstance(mark, Absent) for mark in marks):
        return Condition(Kind.HALF_INITIALIZED if host.may_be_continued else Kind.BROKEN, (finding,))
    return Condition(Kind.HALF_JOINED, (replace(finding, reason=JOINED_AS_WORKER) if host.has_joined_as_worker else finding,))


def _complete(host: _Host, now: datetime) -> Condition:
    healths = findings(host.facts, control_plane=host.control_plane, local_etcd=has_local_etcd(host.facts), now=now)
    found = (*healths, *kubeadm_runs(host.facts), *_listed(host))
    bad = {finding.reason for finding in found if finding.health is Health.BAD}
    if host.control_plane and has_local_etcd(host.facts) and host.listing.etcd is EtcdRole.LEARNER:
        return Condition(Kind.HALF_JOINED, found)
    return Condition(Kind.BROKEN if bad - {EXPIRED} else Kind.MEMBER, found)


def _has_etcd_data(facts: HostFacts) -> bool:
    return not isinstance(facts.etcd_data, Absent) and facts.etcd_data is not EtcdData.EMPTY


def _listed(host: _Host) -> tuple[Finding, ...]:
    """What the cluster's lists say, as findings: to be listed is good, and not to be is bad for a host that is complete."""
    return tuple(_listings(host))


def _listings(host: _Host) -> Iterator[Finding]:
    not_listed = Health.GOOD if not host.traces else Health.BAD
    match host.listing.node:
        case str(name):
            yield Finding(Health.GOOD, "NodeListed", f"the API has Node {name}")
        case Absent():
            yield Finding(not_listed, NODE_NOT_LISTED, "the API has no Node for it")
        case Unknown(reason):
            yield Finding(Health.UNKNOWN, "NodeNotKnown", f"whether it has a Node is not known: {reason}")
    if not (host.control_plane and has_local_etcd(host.facts)):
        return
    match host.listing.etcd:
        case EtcdRole() as role:
            yield Finding(
                Health.GOOD if role is EtcdRole.VOTER else Health.BAD, f"Etcd{role.name.title()}", f"the ring has it as a {role.value}"
            )
        case Absent():
            yield Finding(not_listed, "NotInRing", "the ring has no member of it")
        case Unknown(reason):
            yield Finding(Health.UNKNOWN, "RingNotKnown", f"whether the ring has it is not known: {reason}")
