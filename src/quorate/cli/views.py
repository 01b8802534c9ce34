"""What commands say of a control plane, of Machines and of existing hosts alike: texts are made of these values, and `-o json` prints them.

Whoever fills them puts the same thing into the same field, whichever way of working it comes from. What only one of the two has is empty in the other.
docs/schema.json is made from them (`make rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, TypeVar

from msgspec import Meta

from quorate.core import plan, proposal, ring
from quorate.core.checks import Check
from quorate.core.health import Absent, Health, Unknown

AnyStep = TypeVar("AnyStep")
Instant = Annotated[datetime, Meta(tz=True)]


def says(meaning: str) -> Meta:
    """What a field means, for the schema."""
    return Meta(description=meaning)


class Mode(Enum):
    """What a control plane runs on: Machines of Cluster API, or existing hosts."""

    MACHINES = "machines"
    HOSTS = "hosts"


class Standing(Enum):
    """Where a control plane is on the way to what is desired of it."""

    CONVERGED = "converged"
    PROGRESSING = "progressing"
    STALLED = "stalled"  # it waits for something that neither time nor a step under way will bring


STARTING, LEAVING = "starting", "leaving"
ON_THE_WAY = (STARTING, LEAVING)
"""States of a Machine that was just made or is being deleted: what is wrong with it is no illness."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether etcd has its quorum, and by how much."""

    voters: Annotated[int, says("how many members vote")]
    healthy: Annotated[int, says("how many of them are known to be healthy")]
    quorum: Annotated[int, says("how many of them must agree")]
    tolerates: Annotated[int, says("how many more may fail; below zero: how many are missing")]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of etcd."""

    id: Annotated[str, says("hexadecimal, as etcdctl prints it")]
    name: Annotated[str, says("empty: it has never started")]
    role: Annotated[str, says("leader, voter or learner")]
    health: Health
    evidence: Annotated[str, says("why its health is what it is")]


@dataclass(frozen=True, slots=True)
class Etcd:
    """The ring of etcd's members."""

    summary: Annotated[str, says("the verdict in words, or why there is none")]
    verdict: Annotated[Verdict | None, says("null: there is no ring, or it could not be read")]
    members: tuple[Member, ...]
    orphans: Annotated[tuple[str, ...], says("members that belong to no Machine and to no host")]
    alarms: Annotated[tuple[str, ...], says("why etcd refuses writes though every member is healthy")]


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done next, and why."""

    rule: Annotated[str, says("that decided it")]
    step: Annotated[str, says("empty: none can be taken, or nothing is left to do")]
    wake_at: Annotated[Instant | None, says("when time alone could change the decision")]
    checks: Annotated[tuple[Check, ...], says("all that led to the decision")]


@dataclass(frozen=True, slots=True)
class Finding:
    """The health of one part of a Machine or host."""

    part: Annotated[str, says("the name of a Machine's condition; empty: the whole machine")]
    health: Health
    reason: Annotated[str, says("in one word")]
    message: str


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many Machines there are, as the status of a KubeadmControlPlane counts them."""

    desired: int
    current: int
    ready: int
    available: int
    up_to_date: int

    @property
    def settled(self) -> bool:
        """Whether every count is the desired one."""
        return {self.current, self.ready, self.available, self.up_to_date} == {self.desired}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A Machine, or an existing host."""

    name: str
    role: Annotated[str, says("control plane, or worker")]
    state: Annotated[
        str,
        says("in a word or two: well, ill, unknown; of Machines starting, leaving; of hosts bare, packages only, unreachable and so on"),
    ]
    health: Annotated[Health, says("the worst of its components, its member and its Node; unknown if nothing was found")]
    version: Annotated[str, says("of its control plane; empty: not known, or there is none")]
    kubelet: Annotated[str, says("its version; empty: not known, or there is none")]
    node: Annotated[str, says("its Node's name; empty: not known, or there is none")]
    node_state: Annotated[str, says("ready, not ready or unknown, then cordoned and its pressures; empty: there is none")]
    api_server: Annotated[str, says("good, bad or unknown; empty: there is none")]
    etcd_role: Annotated[str, says("leader, voter, learner, or unknown; empty: it has no member")]
    etcd_health: Annotated[str, says("of its member: good, bad or unknown; empty: as its role")]
    wrong: Annotated[tuple[str, ...], says("every finding that is not good")]
    findings: Annotated[tuple[Finding, ...], says("every finding, good ones too")]
    differs: Annotated[tuple[str, ...], says("differences from what is desired that steps will change")]
    lasting: Annotated[tuple[str, ...], says("differences that no step changes, and what to do")]
    steps: Annotated[tuple[str, ...], says("planned steps that concern it")]
    waits_for: Annotated[str, says("what a Machine waits for until it is ready, or gone; empty: nothing")] = ""
    fate: Annotated[str, says("why a Machine goes, or which one it replaces; empty: neither")] = ""
    remedy: Annotated[str, says("what to do so that a Machine gets its Node; empty: it has one, or time may bring it")] = ""
    not_compared: Annotated[tuple[str, ...], says("fields of a Machine's KubeadmConfig that differ without a consequence")] = ()
    packages: Annotated[str, says("of a host: ready, how many are missing, or unknown")] = ""
    missing: Annotated[tuple[str, ...], says("packages and settings that a host lacks")] = ()
    guarded_by: Annotated[tuple[str, ...], says("firewalls and SELinux that are on before a host is prepared")] = ()
    certificates: Annotated[str, says("how long a host's certificates are valid; empty: it has none")] = ""
    missed_probes: Annotated[int, says("silent probes of a host's member in a row")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A control plane as it is, and what comes next."""

    mode: Mode
    namespace: Annotated[str, says("of the KubeadmControlPlane; empty for hosts")]
    name: Annotated[str, says("of the KubeadmControlPlane; for hosts the cluster's")]
    cluster: Annotated[str, says("empty: no Cluster owns the control plane")]
    version: Annotated[str, says("the desired one")]
    running: Annotated[str, says("the oldest that runs; for hosts as kubeadm's configuration says; empty: not known, or there is none")]
    standing: Standing
    replicas: Annotated[Replicas | None, says("null for hosts")]
    api: Annotated[str, says("whether the cluster's API answers, in words")]
    locked_by: Annotated[str, says("the operator who works on these hosts; empty: nobody")]
    etcd: Etcd
    next: Annotated[str, says("the next step, or what it waits for; empty: nothing is left to do")]
    decision: Decision
    in_the_way: Annotated[tuple[Check, ...], says("the checks of the decision that did not pass, each once")]
    machines: tuple[Machine, ...]
    lost_nodes: Annotated[
        tuple[str, ...], says("Nodes of control planes that belong to no Machine, Nodes that are no host of the manifest")
    ]
    differs: Annotated[tuple[str, ...], says("differences of the cluster itself from what is desired that steps will change")]
    lasting: Annotated[tuple[str, ...], says("differences of the cluster itself that no step changes")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A control plane of Machines in a row."""

    namespace: str
    name: str
    cluster: Annotated[str, says("empty: no Cluster owns the control plane")]
    version: Annotated[str, says("the desired one")]
    standing: Standing
    replicas: Replicas
    available: Annotated[str, says("the condition Available: True, False or Unknown")]
    etcd: Etcd
    next: Annotated[str, says("the next step, or what it waits for; empty: nothing is left to do")]
    created: Instant | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan."""

    number: int
    step: str
    kind: Annotated[str, says("in one word")]
    rule: Annotated[str, says("that wants it")]
    machines: Annotated[tuple[str, ...], says("the Machines or hosts that it is about; none: the cluster")]
    makes: Annotated[str, says("a placeholder for the Machine that it creates; empty: none")]
    before: Annotated[Verdict | None, says("etcd before the step; null: there is none, or it is not known")]
    after: Annotated[Verdict | None, says("etcd after the step")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every step that would be taken from here on, if nothing fails and nobody interferes."""

    status: Annotated[Status, says("the status that the plan starts from; with an edit, as edited")]
    steps: tuple[Step, ...]
    converges: Annotated[bool, says("whether everything is as desired after all steps")]
    in_the_way: Annotated[tuple[Check, ...], says("what prevents that")]
    lasting: Annotated[tuple[str, ...], says("what differs after all steps, each with whom it concerns")]
    keeps_firewalls: Annotated[bool, says("whether prepared hosts keep their firewalls and SELinux")] = False

    @property
    def changes(self) -> bool:
        """Whether there is anything to do, or to want and not to be able to."""
        return bool(self.steps) or not self.converges


# How they are filled, of either way of working.


def verdict(found: ring.Verdict | None) -> Verdict | None:
    """The numbers of a verdict."""
    return None if found is None else Verdict(found.voters, found.good, found.quorum, found.margin)


def etcd(found: ring.Ring | Unknown | Absent, orphans: Iterable[ring.Member] = (), alarms: Iterable[str] = ()) -> Etcd:
    """A ring as it is shown."""
    return Etcd(ring.in_words(found), verdict(ring.verdict(found)), members(found), tuple(map(_orphan, orphans)), tuple(alarms))


def _orphan(member: ring.Member) -> str:
    return f"{member.name} ({member.id:x})" if member.name else member.label


def members(found: ring.Ring | Unknown | Absent) -> tuple[Member, ...]:
    """The members of a ring as they are shown; none where it is not known."""
    if not isinstance(found, ring.Ring):
        return ()
    return tuple(
        Member(f"{each.id:x}", each.name, found.role(each), each.health, each.evidence or ("" if each.name else "never started"))
        for each in found.members
    )


def decision(found: proposal.Decision[AnyStep]) -> Decision:
    """A decision as it is shown."""
    return Decision(found.rule, str(found.step or ""), found.wake_at, found.checks)


def coming(found: proposal.Decision[AnyStep]) -> str:
    """The step that comes next, or what it waits for: a refusal that somebody must act on, or else the first; empty where nothing is left to do."""
    if found.step is not None:
        return str(found.step)
    first = min(found.refusals, key=lambda check: not check.remedy, default=None)
    return "" if first is None else f"waits until {first.name}: {first.evidence}"


def steps(foreseen: Iterable[plan.Foreseen[AnyStep]], involved: Callable[[AnyStep], tuple[str, ...]]) -> tuple[Step, ...]:
    """The steps of a plan; `involved` says whom each is about."""
    return tuple(
        Step(
            number=number,
            step=str(each.step),
            kind=type(each.step).__name__,
            rule=each.rule,
            machines=involved(each.step),
            makes=each.makes,
            before=verdict(each.before),
            after=verdict(each.after),
        )
        for number, each in enumerate(foreseen, 1)
    )
