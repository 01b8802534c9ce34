"""What would happen to the hosts from here: `decide` played forward on a model in which every step succeeds.

The model knows no faults and no edits. What is ill stays ill, what is silent stays silent, and what cannot be reached stays so: a plan never counts on a
recovery that nobody has promised. A host that joins is well afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias, assert_never

from quorate.core import plan
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.decide import decide, is_converged
from quorate.core.hosts.encryption import IDENTITY, NEW, PLAIN, SECRETS, Configuration, Encryption
from quorate.core.hosts.rules.clocks import own_time
from quorate.core.hosts.rules.members import PROBES, PROMOTED_WITHIN
from quorate.core.hosts.state import EXPIRED, Cluster, Host, Kind, MissedProbes, Node, OrphanMember
from quorate.core.hosts.steps import (
    ChangeEncryption,
    DeleteNode,
    EnsureMachineDeployments,
    Initialize,
    Join,
    JoinWorkers,
    Prepare,
    Reconfigure,
    RemoveMember,
    RenewCertificates,
    Reset,
    RewriteSecrets,
    StartServices,
    Step,
    TakeSnapshot,
    Uncordon,
    UpdateConfiguration,
    UpdateNodes,
    UpgradeControlPlane,
    UpgradeKubelet,
)
from quorate.core.maintenance import Maintenance
from quorate.core.proposal import Decision
from quorate.core.ring import Member, Ring

VALIDITY = timedelta(days=365)
"""Of a certificate that kubeadm has just made."""

_WELL = Finding(Health.GOOD, "Expected", "as expected of a host on which the step succeeded")
_GONE = Finding(Health.BAD, "Expected", "as expected of a Node whose host is gone")

Foreseen = plan.Foreseen[Step]
"""One step of the plan."""
Forecast = plan.Forecast[Cluster, Step]
"""The plan."""


def forecast(cluster: Cluster, now: datetime) -> Forecast:
    """Every step that would be taken from here on, if nothing fails and nobody interferes. Pure and total."""
    world = _Model(cluster, now)
    foreseen = plan.play(world)
    last = world.decide()
    return plan.Forecast(foreseen, world.cluster, is_converged(last), last.refusals)


_Kept: TypeAlias = (
    Prepare | TakeSnapshot | ChangeEncryption | RewriteSecrets | UpdateConfiguration | UpdateNodes | Uncordon | EnsureMachineDeployments
)
"""What takes no member from the ring, nor adds one."""


class _Model:
    """The hosts as the plan leaves them, step by step."""

    def __init__(self, cluster: Cluster, now: datetime) -> None:
        self.cluster, self.now = cluster, now

    @property
    def ring(self) -> Ring | Unknown | Absent:
        """The ring as the plan leaves it."""
        return self.cluster.ring

    def decide(self) -> Decision[Step]:
        """What would be done next."""
        return decide(self.cluster, self.now)

    def is_last(self, step: Step) -> bool:
        """What services bring up shows only when they run: of a ring that could not be read before, nothing is known after."""
        return isinstance(step, StartServices) and not isinstance(self.cluster.ring, Ring)

    def wait(self) -> bool:
        """Probes find silent what was silent, and Nodes without a host are called not ready. False: waiting brings nothing."""
        before, then, wake_at = self.cluster, self.now, self.decide().wake_at
        if wake_at is None:
            return False
        self.now = max(wake_at, then)
        self.cluster = replace(
            before,
            hosts=tuple(_with_node(host, ready=_GONE) if host.is_wiped else host for host in before.hosts),
            orphans=tuple(_seen_again(orphan, then, self.now) for orphan in before.orphans),
            members_missed_probes=tuple(
                (member, _probed(missed_probes, self.now) or missed_probes) for member, missed_probes in before.members_missed_probes
            ),
        )
        return self.cluster != before

    def take(self, step: Step) -> str:
        """The step succeeds. It makes no host that is not in the manifest."""
        if isinstance(step, UpgradeControlPlane | UpgradeKubelet | Reconfigure | ChangeEncryption | RenewCertificates):
            self._hand_over(self.cluster.host(step.host).member_id)
        self.cluster = self._after(step)
        return ""

    def _hand_over(self, member: int | None) -> None:
        """A member that leads hands leadership over before it is restarted."""
        ring = self.cluster.ring
        if isinstance(ring, Ring) and member is not None and ring.leader == member and (to := ring.successor) is not None:
            self.cluster = replace(self.cluster, ring=Ring(ring.members, to.id))

    def _after(self, step: Step) -> Cluster:
        match step:
            case Initialize(host):
                return self._initialized(host)
            case Join(host):
                return self._joined(host)
            case JoinWorkers(hosts):
                cluster = self.cluster
                for host in hosts:
                    cluster = _changed(cluster, (host,), **self._member_facts(host))
                return cluster
            case RemoveMember(member):
                return self._without_member(member)
            case DeleteNode(node):
                return self._without_node(node)
            case Reset(host):
                return self._reset(host)
            case StartServices(host):
                return self._mended(host, stopped=())
            case UpgradeControlPlane() | UpgradeKubelet() | Reconfigure() | RenewCertificates():
                return self._changed_in_place(step)
        return self._kept_up(step)

    def _changed_in_place(self, step: UpgradeControlPlane | UpgradeKubelet | Reconfigure | RenewCertificates) -> Cluster:
        cluster, version = self.cluster, self.cluster.version
        match step:
            case UpgradeControlPlane(host):
                cluster = self._mended(host, components=version, kubeadm=version, drift=())
                return replace(cluster, running=version, regenerated=(*cluster.regenerated, host))
            case UpgradeKubelet(host):
                changed = _with_node(cluster.host(host), kubelet=version, unschedulable=False, cordoned_by_us=False)
                return self._change((host,), kubelet=version, node=changed.node)
            case Reconfigure(host):
                return self._mended(host, drift=())
            case RenewCertificates(host):
                findings = tuple(finding for finding in self.cluster.host(host).findings if finding.reason != EXPIRED)
                cluster = self._change((host,), findings=findings, certificates_expire=self._renewed(host))
                return replace(cluster, renewed=(*cluster.renewed, host))

    def _kept_up(self, step: _Kept) -> Cluster:
        cluster = self.cluster
        match step:
            case Prepare(hosts):
                return self._change(hosts, kind=Kind.PACKAGES_ONLY, lacks=(), kubelet=cluster.version, kubeadm=cluster.version)
            case TakeSnapshot():
                return replace(cluster, snapshot_taken=True)
            case ChangeEncryption():
                return self._encrypting(step)
            case RewriteSecrets(provider):
                return replace(cluster, encryption=replace(cluster.encryption, written=provider))
            case UpdateConfiguration():
                return replace(cluster, configuration_drift=(), addon_drift=())
            case UpdateNodes(hosts):
                return self._change(hosts, node_drift=())
            case Uncordon(host):
                node = _with_node(cluster.host(host), unschedulable=False, cordoned_by_us=False).node
                return self._change((host,), node=node)
            case EnsureMachineDeployments():
                return replace(cluster, machine_deployments=Maintenance())
        assert_never(step)

    def _encrypting(self, step: ChangeEncryption) -> Cluster:
        """kubeadm's configuration follows as soon as all API servers have providers, or one has none any more."""
        before = self.cluster
        encryption = Encryption(step.configuration, flagged=step.configuration != PLAIN)
        cluster = replace(
            self._change((step.host,), encryption=encryption), rotated=before.rotated or before.exchanges_keys or step.exchanges_keys
        )
        told = ("encryption",) if cluster.encrypts != before.encrypts else ()
        return replace(cluster, configuration_drift=(*cluster.configuration_drift, *told))

    def _initialized(self, name: str) -> Cluster:
        """A ring of one; that of an initialization that goes on keeps its member."""
        had = self.cluster.host(name).member_id
        member = Member(1 if had is None else had, name, Health.GOOD)
        cluster = self._change((name,), member=member.id, **self._control_plane_facts(name))
        stored = next(iter(cluster.api_servers.values()), Encryption()).configuration
        desired = replace(cluster.encryption, written=stored.secrets[0] if stored != PLAIN else "")
        ring = Ring((member,), member.id)
        return replace(cluster, ring=ring, api=_WELL, running=cluster.version, lasting_drift=(), encryption=desired)

    def _joined(self, name: str) -> Cluster:
        ring = self.cluster.ring if isinstance(self.cluster.ring, Ring) else Ring((), None)
        member = Member(max((other.id for other in ring.members), default=0) + 1, name, Health.GOOD)
        cluster = self._change((name,), member=member.id, **self._control_plane_facts(name))
        return replace(cluster, ring=Ring((*ring.members, member), ring.leader))

    def _mended(self, name: str, **changes: object) -> Cluster:
        """The host after a step that succeeds only when it is well: if it was broken, it and its member are well now."""
        host = self.cluster.host(name)
        if host.kind is not Kind.BROKEN:
            return self._change((name,), **changes)
        asked: dict[str, object] = {"member_health": _WELL, "api_server": _WELL} if host.control_plane else {}
        cluster = self._change((name,), kind=Kind.MEMBER, findings=(_WELL,), **{**asked, **changes})
        if not isinstance(cluster.ring, Ring) or host.member_id is None:
            return cluster
        members = tuple(replace(m, health=Health.GOOD, only_alarmed=False) if m.id == host.member_id else m for m in cluster.ring.members)
        missed = tuple(silent for silent in cluster.members_missed_probes if silent[0] != host.member_id)
        return replace(cluster, ring=Ring(members, cluster.ring.leader), members_missed_probes=missed)

    def _without_member(self, member: int) -> Cluster:
        cluster = self.cluster
        owners = [host for host in cluster.control_planes if host.member_id == member]
        for host in owners:
            kind = host.kind if host.is_wiped or host.kind is Kind.UNREACHABLE else Kind.HALF_JOINED
            cluster = self._change((host.name,), member=Absent(), member_health=None, kind=kind, etcd_data_lost=False)
        ring = plan.without(cluster.ring, member) if isinstance(cluster.ring, Ring) else cluster.ring
        return replace(cluster, ring=ring, orphans=tuple(orphan for orphan in cluster.orphans if orphan.member.id != member))

    def _without_node(self, node: str) -> Cluster:
        """A host on which nothing is left is then one that nobody lists: it may lack anything."""
        cluster = replace(
            self.cluster,
            lost_nodes=tuple(name for name in self.cluster.lost_nodes if name != node),
            other_nodes=tuple(other for other in self.cluster.other_nodes if other.name != node),
        )
        for host in cluster.hosts:
            if isinstance(host.node, Node) and host.node.name == node:
                found = {"kind": Kind.BARE, "findings": ()} if host.is_wiped else {}
                cluster = _changed(cluster, (host.name,), node=Absent(), **found)
        return cluster

    def _reset(self, name: str) -> Cluster:
        """The packages stay. Where they are of another version they are replaced, as on a host that has none. A member that it has yet has lost its data."""
        host, ring = self.cluster.host(name), self.cluster.ring
        if isinstance(ring, Ring) and host.member_id is not None:
            self.cluster = replace(self.cluster, ring=ring.losing({host.member_id}))
        free: dict[str, object] = {
            "member": Absent(),
            "member_health": None,
            "components": None,
            "api_server": None,
            "encryption": None,
            "holds_a_copy": False,
            "stopped": (),
            "drift": (),
            "lasting_drift": (),
        }
        kind = Kind.PACKAGES_ONLY if host.kubelet == self.cluster.version else Kind.BARE
        return self._change((name,), kind=kind, findings=(), node=Absent(), **free)

    def _member_facts(self, name: str) -> dict[str, object]:
        version = self.cluster.version
        node = Node(name, _WELL, kubelet=version)
        found: dict[str, object] = {
            "kind": Kind.MEMBER,
            "findings": (_WELL,),
            "node": node,
            "node_drift": self.cluster.host(name).new_node_drift,
        }
        return {**found, "kubelet": version, "kubeadm": version, "stopped": ()}

    def _control_plane_facts(self, name: str) -> dict[str, object]:
        ours: dict[str, object] = {"member_health": _WELL, "api_server": _WELL, "components": self.cluster.version}
        ours["encryption"] = self._as_the_others(name)
        return {**self._member_facts(name), **ours, "certificates_expire": self._renewed(name)}

    def _renewed(self, name: str) -> datetime:
        """When certificates end that are made on the host now: by its own clock."""
        return own_time(self.cluster.host(name), self.now) + VALIDITY

    def _as_the_others(self, name: str) -> Encryption | Unknown | None:
        """A host that joins gets the providers that a host of the cluster has; the first of all those that the manifest wants."""
        others = {other: each for other, each in self.cluster.api_servers.items() if other != name}
        if not others:
            wanted = self.cluster.encryption.configuration
            configuration = Configuration(((SECRETS, (NEW, IDENTITY)),)) if wanted is None else wanted
            return Encryption(configuration, flagged=configuration != PLAIN)
        donor = next(iter(others.values()))
        return Encryption(donor.configuration, flagged=True) if all(each.flagged for each in others.values()) else Encryption()

    def _change(self, hosts: tuple[str, ...], **changes: object) -> Cluster:
        return _changed(self.cluster, hosts, **changes)


def _changed(cluster: Cluster, names: tuple[str, ...], **changes: object) -> Cluster:
    changed = (replace(host, **changes) if host.name in names else host for host in cluster.hosts)  # type: ignore[arg-type]
    return replace(cluster, hosts=tuple(changed))


def _with_node(host: Host, **changes: object) -> Host:
    return replace(host, node=replace(host.node, **changes)) if isinstance(host.node, Node) else host  # type: ignore[arg-type]


def _seen_again(orphan: OrphanMember, then: datetime, now: datetime) -> OrphanMember:
    without = timedelta() if orphan.member.votes else min(orphan.without_vote_for + (now - then), PROMOTED_WITHIN)
    return replace(orphan, missed_probes=_probed(orphan.missed_probes, now), without_vote_for=without)


def _probed(missed_probes: MissedProbes | None, now: datetime) -> MissedProbes | None:
    return MissedProbes(missed_probes.count + 1, now) if missed_probes is not None and missed_probes.count < PROBES else missed_probes
