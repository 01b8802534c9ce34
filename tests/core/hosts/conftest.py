"""Builders of clusters of hosts in plain words, handed to the tests as one fixture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.decide import Decision, decide
from quorate.core.hosts.state import WIPED, Cluster, Host, Kind, MissedProbes, Node, OrphanMember, RunOptions
from quorate.core.hosts.steps import Step
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version

LETTERS = {"g": Health.GOOD, "b": Health.BAD, "a": Health.BAD, "u": Health.UNKNOWN}
V134, V135 = Version.parse("v1.34.4"), Version.parse("v1.35.4")
GOOD = Finding(Health.GOOD, "Seen", "answers")
BAD = Finding(Health.BAD, "Seen", "does not answer")


@dataclass(frozen=True, slots=True)
class Build:
    """Makes values: hosts that are well, at noon, unless told otherwise. Host `cp-N` has member N, counted from 1."""

    noon: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def member(self, number: int, letter: str = "g", name: str | None = None) -> Member:
        """g, b, u by health; a: well but for an alarm; capital: a learner; - : a member that never started."""
        health = LETTERS.get(letter.lower(), Health.BAD)
        given = "" if letter == "-" else name or f"cp-{number}"
        return Member(number, given, health, learner=letter.isupper(), only_alarmed=letter == "a")

    def ring(self, letters: str, leader: int = 1) -> Ring:
        """One member a letter."""
        return Ring(tuple(self.member(number, letter) for number, letter in enumerate(letters, start=1)), leader)

    def host(self, number: int, **changes: Any) -> Host:
        """A control plane host that is well."""
        name = f"cp-{number}"
        well = Host(
            name=name,
            control_plane=True,
            kind=Kind.MEMBER,
            findings=(GOOD,),
            member=number,
            member_health=GOOD,
            node=Node(name, GOOD, kubelet=V134, control_plane=True),
            components=V134,
            kubelet=V134,
            kubeadm=V134,
            api_server=GOOD,
            certificates_expire=self.noon + timedelta(days=300),
        )
        return replace(well, **changes)

    def worker(self, number: int, **changes: Any) -> Host:
        """A worker that is well."""
        name = f"worker-{number}"
        well = Host(name, control_plane=False, kind=Kind.MEMBER, findings=(GOOD,), node=Node(name, GOOD, kubelet=V134), kubelet=V134)
        return replace(well, **changes)

    def prepared(self, number: int, *, control_plane: bool = True, **changes: Any) -> Host:
        """A host with packages, and without a trace of a cluster."""
        name = f"cp-{number}" if control_plane else f"worker-{number}"
        return replace(Host(name, control_plane=control_plane, kind=Kind.PACKAGES_ONLY, kubelet=V134, kubeadm=V134), **changes)

    def bare(self, number: int, *, control_plane: bool = True, **changes: Any) -> Host:
        """A host with nothing."""
        return self.prepared(
            number, control_plane=control_plane, **{"kind": Kind.BARE, "kubelet": None, "kubeadm": None, "lacks": ("kubeadm",), **changes}
        )

    def unreachable(self, number: int, **changes: Any) -> Host:
        """A control plane host that nobody can ask, with its member and its Node, which is not ready."""
        name = f"cp-{number}"
        host = Host(name, control_plane=True, kind=Kind.UNREACHABLE, member=number, node=Node(name, BAD, kubelet=V134, control_plane=True))
        return replace(host, missed_probes=MissedProbes(1, self.noon), **changes)

    def broken(self, number: int, **changes: Any) -> Host:
        """A control plane host of which something does not run."""
        return self.host(number, **{"kind": Kind.BROKEN, "findings": (BAD,), "member_health": BAD, "api_server": BAD, **changes})

    def wiped(self, number: int, **changes: Any) -> Host:
        """A host on which nothing is left, while the cluster lists its member and its Node."""
        found = (Finding(Health.BAD, WIPED, "nothing of the cluster is on it"),)
        gone = {"member_health": None, "api_server": None, "components": None, "certificates_expire": None}
        name = f"cp-{number}"
        return self.broken(
            number,
            **{"findings": found, **gone, "node": Node(name, BAD, kubelet=V134, control_plane=True), "etcd_data_lost": True, **changes},
        )

    def half_joined(self, number: int, **changes: Any) -> Host:
        """A control plane host whose join was cut short before it had a member."""
        found = (Finding(Health.BAD, "Incomplete", "kubelet.conf there; missing: the manifest of etcd"),)
        return self.prepared(number, **{"kind": Kind.HALF_JOINED, "findings": found, **changes})

    def half_initialized(self, number: int, **changes: Any) -> Host:
        """A control plane host whose initialization was cut short."""
        found = (Finding(Health.BAD, "Incomplete", "admin.conf there; missing: the manifest of etcd"),)
        return self.prepared(number, **{"kind": Kind.HALF_INITIALIZED, "findings": found, **changes})

    def silent(self, probes: int = 3, *, seconds_ago: float = 0) -> MissedProbes:
        """So many probes without an answer, the last so long ago."""
        return MissedProbes(probes, self.noon - timedelta(seconds=seconds_ago))

    def orphan(
        self, number: int, letter: str = "g", *, probes: int | None = None, name: str | None = None, without_vote_for: float = 180
    ) -> OrphanMember:
        """A member of no host. `probes`: it was silent so often; `without_vote_for`: so many seconds, of one that has none."""
        member = self.member(number, letter, name)
        seen = timedelta() if member.votes else timedelta(seconds=without_vote_for)
        return OrphanMember(member, None if probes is None else self.silent(probes), seen)

    def cluster(self, *hosts: Host, ring: str | Ring | Unknown | Absent | None = None, **changes: Any) -> Cluster:
        """A cluster of exactly these hosts at v1.34.4; its ring is of their members, all good, and of the orphans, unless given."""
        orphans: tuple[OrphanMember, ...] = changes.get("orphans", ())
        members = tuple(Member(host.member, host.name, Health.GOOD) for host in hosts if isinstance(host.member, int))
        made = Ring((*members, *(orphan.member for orphan in orphans)), leader=members[0].id if members else None)
        value = Cluster(
            name="demo",
            version=V134,
            hosts=hosts,
            leader="cp-1",
            ring=made if ring is None else self.ring(ring) if isinstance(ring, str) else ring,
            api=GOOD,
            running=V134,
            snapshot_taken=True,
        )
        return replace(value, **changes)

    def new(self, *hosts: Host, **changes: Any) -> Cluster:
        """Hosts without a cluster."""
        nothing = {"api": Finding(Health.UNKNOWN, "NoCluster"), "running": None, "snapshot_taken": False}
        return self.cluster(*hosts, **{"ring": Absent(), **nothing, **changes})

    def three(self, **changes: Any) -> Cluster:
        """Three hosts that are well, as desired."""
        return self.cluster(self.host(1), self.host(2), self.host(3), **changes)

    def decide(self, cluster: Cluster) -> Decision:
        """The decision at noon."""
        return decide(cluster, self.noon)

    def step(self, cluster: Cluster) -> Step | None:
        """The step at noon."""
        return self.decide(cluster).step

    def refused(self, cluster: Cluster) -> list[str]:
        """The names of the checks that do not pass, each once. There must be no step."""
        decision = self.decide(cluster)
        assert decision.step is None, f"unexpected: {decision.step}"
        return list(dict.fromkeys(check.name for check in decision.refusals))

    def said(self, cluster: Cluster) -> str:
        """Evidence and remedy of everything that does not pass."""
        return "\n".join(f"{check.evidence} | {check.remedy}" for check in self.decide(cluster).refusals)

    def options(self, **changes: Any) -> RunOptions:
        """What the operator asks for."""
        return replace(RunOptions(), **changes)


@pytest.fixture(scope="session")
def build() -> Build:
    """The builders."""
    return Build()
