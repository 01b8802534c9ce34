"""The steps ahead for hosts: `decide` played forward on a model in which every step succeeds.

The model knows no faults and no edits. What is ill stays ill, what is silent stays silent, and what cannot be reached stays so: a plan never counts on a
recovery that nobody has promised. A host that joins is well afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from quorate.core import plan
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.hosts.decide import decide, is_converged
from quorate.core.hosts.encryption import IDENTITY, NEW, PLAIN, SECRETS, Configuration, Encryption
from quorate.core.hosts.rules.clocks import own_time
from quorate.core.hosts.rules.members import PROBES, PROMOTED_WITHIN
from quorate.core.hosts.rules.services import restarts_member
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
        if (host := self._restarted(step)) is not None:
            self._hand_over(host.member_id)
        self.cluster = EFFECTS[type(step)](self, step)
        return ""

    def _restarted(self, step: Step) -> Host | None:
        """The host whose member is restarted; None where none is."""
        match step:
            case UpgradeControlPlane(name) | UpgradeKubelet(name) | Reconfigure(name) | ChangeEncryption(name) | RenewCertificates(name):
                return self.cluster.host(name)
            case StartServices(name) if restarts_member(self.cluster.host(name)):
                return self.cluster.host(name)
        return None

    def _hand_over(self, member: int | None) -> None:
        """A member that leads hands leadership over before it is restarted."""
        ring = self.cluster.ring
        if isinstance(ring, Ring) and member is not None and ring.leader == member and (to := ring.successor) is not None:
            self.cluster = replace(self.cluster, ring=Ring(ring.members, to.id))

    def start_services(self, step: StartServices) -> Cluster:
        """With the host's kubelet running, which is the one that is installed."""
        host = self.cluster.host(step.host)
        return self.mended(step.host, stopped=(), node=_with_node(host, kubelet=host.kubelet).node)

    def join_workers(self, step: JoinWorkers) -> Cluster:
        """With all of them as workers."""
        cluster = self.cluster
        for host in step.hosts:
            cluster = _changed(cluster, (host,), **self._member_facts(host))
        return cluster

    def upgrade_control_plane(self, step: UpgradeControlPlane) -> Cluster:
        """With the host's control plane, and kubeadm's configuration, at the version."""
        version = self.cluster.version
        cluster = self.mended(step.host, components=version, kubeadm=version, drift=())
        return replace(cluster, running=version, regenerated=(*cluster.regenerated, step.host))

    def upgrade_kubelet(self, step: UpgradeKubelet) -> Cluster:
        """With the host's kubelet at the version, and Pods let in."""
        version = self.cluster.version
        node = _with_node(self.cluster.host(step.host), kubelet=version, unschedulable=False, cordoned_by_us=False).node
        return self.change((step.host,), kubelet=version, node=node)

    def uncordon(self, step: Uncordon) -> Cluster:
        """With Pods let in."""
        node = _with_node(self.cluster.host(step.host), unschedulable=False, cordoned_by_us=False).node
        return self.change((step.host,), node=node)

    def renew_certificates(self, step: RenewCertificates) -> Cluster:
        """With certificates made now."""
        findings = tuple(finding for finding in self.cluster.host(step.host).findings if finding.reason != EXPIRED)
        cluster = self.change((step.host,), findings=findings, certificates_expire=self._renewed(step.host))
        return replace(cluster, renewed=(*cluster.renewed, step.host))

    def change_encryption(self, step: ChangeEncryption) -> Cluster:
        """With the host's providers: kubeadm's configuration follows as soon as all API servers have providers, or one has none any more."""
        before = self.cluster
        encryption = Encryption(step.configuration, flagged=step.configuration != PLAIN)
        cluster = replace(
            self.change((step.host,), encryption=encryption), rotated=before.rotated or before.exchanges_keys or step.exchanges_keys
        )
        told = ("encryption",) if cluster.encrypts != before.encrypts else ()
        return replace(cluster, configuration_drift=(*cluster.configuration_drift, *told))

    def initialize(self, step: Initialize) -> Cluster:
        """With a ring of one; that of an initialization that goes on keeps its member."""
        name = step.host
        had = self.cluster.host(name).member_id
        member = Member(1 if had is None else had, name, Health.GOOD)
        cluster = self.change((name,), member=member.id, **self._control_plane_facts(name))
        stored = next(iter(cluster.api_servers.values()), Encryption()).configuration
        desired = replace(cluster.encryption, written=stored.secrets[0] if stored != PLAIN else "")
        ring = Ring((member,), member.id)
        return replace(cluster, ring=ring, api=_WELL, running=cluster.version, lasting_drift=(), encryption=desired)

    def join(self, step: Join) -> Cluster:
        """With the host as one more member."""
        name = step.host
        ring = self.cluster.ring if isinstance(self.cluster.ring, Ring) else Ring((), None)
        member = Member(max((other.id for other in ring.members), default=0) + 1, name, Health.GOOD)
        cluster = self.change((name,), member=member.id, **self._control_plane_facts(name))
        return replace(cluster, ring=Ring((*ring.members, member), ring.leader))

    def mended(self, name: str, **changes: object) -> Cluster:
        """The host after a step that succeeds only when it is well: if it was broken, it and its member are well now."""
        host = self.cluster.host(name)
        if host.kind is not Kind.BROKEN:
            return self.change((name,), **changes)
        asked: dict[str, object] = {"member_health": _WELL, "api_server": _WELL} if host.control_plane else {}
        cluster = self.change((name,), kind=Kind.MEMBER, findings=(_WELL,), **{**asked, **changes})
        if not isinstance(cluster.ring, Ring) or host.member_id is None:
            return cluster
        members = tuple(replace(m, health=Health.GOOD, only_alarmed=False) if m.id == host.member_id else m for m in cluster.ring.members)
        missed = tuple(silent for silent in cluster.members_missed_probes if silent[0] != host.member_id)
        return replace(cluster, ring=Ring(members, cluster.ring.leader), members_missed_probes=missed)

    def remove_member(self, step: RemoveMember) -> Cluster:
        """Without the member; a host of it that is there has joined by half."""
        cluster, member = self.cluster, step.member
        owners = [host for host in cluster.control_planes if host.member_id == member]
        for host in owners:
            kind = host.kind if host.is_wiped or host.kind is Kind.UNREACHABLE else Kind.HALF_JOINED
            cluster = self.change((host.name,), member=Absent(), member_health=None, kind=kind, etcd_data_lost=False)
        ring = plan.without(cluster.ring, member) if isinstance(cluster.ring, Ring) else cluster.ring
        return replace(cluster, ring=ring, orphans=tuple(orphan for orphan in cluster.orphans if orphan.member.id != member))

    def delete_node(self, step: DeleteNode) -> Cluster:
        """Without the Node. A host on which nothing is left is then one that nobody lists: it may lack anything."""
        node = step.node
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

    def reset(self, step: Reset) -> Cluster:
        """With nothing of the cluster on the host but the packages. Where they are of another version they are replaced, as on a host that has none.

        A member that it has yet has lost its data.
        """
        host, ring = self.cluster.host(step.host), self.cluster.ring
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
        return self.change((step.host,), kind=kind, findings=(), node=Absent(), **free)

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

    def change(self, hosts: tuple[str, ...], **changes: object) -> Cluster:
        """With these hosts changed."""
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


EFFECTS: Mapping[type[Step], Callable[[_Model, Any], Cluster]] = {
    Prepare: lambda model, step: model.change(
        step.hosts, kind=Kind.PACKAGES_ONLY, lacks=(), kubelet=model.cluster.version, kubeadm=model.cluster.version
    ),
    Initialize: _Model.initialize,
    Join: _Model.join,
    JoinWorkers: _Model.join_workers,
    Reset: _Model.reset,
    StartServices: _Model.start_services,
    TakeSnapshot: lambda model, _: replace(model.cluster, snapshot_taken=True),
    RemoveMember: _Model.remove_member,
    DeleteNode: _Model.delete_node,
    UpdateConfiguration: lambda model, _: replace(model.cluster, configuration_drift=(), addon_drift=()),
    UpgradeControlPlane: _Model.upgrade_control_plane,
    UpgradeKubelet: _Model.upgrade_kubelet,
    Reconfigure: lambda model, step: model.mended(step.host, drift=()),
    ChangeEncryption: _Model.change_encryption,
    RewriteSecrets: lambda model, step: replace(model.cluster, encryption=replace(model.cluster.encryption, written=step.provider)),
    RenewCertificates: _Model.renew_certificates,
    Uncordon: _Model.uncordon,
    UpdateNodes: lambda model, step: model.change(step.hosts, node_drift=()),
    EnsureMachineDeployments: lambda model, _: replace(model.cluster, machine_deployments=Maintenance()),
}
"""What each step leaves behind where it succeeds; every one there is has its entry (`tests/core/hosts/test_hosts_forecast.py`)."""
