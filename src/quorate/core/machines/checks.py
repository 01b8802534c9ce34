"""The questions that several rules ask about a control plane of Machines, with the gates of etcd's quorum among them."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.state import ControlPlane, Replica
from quorate.core.quorum import QUORUM_SURVIVES_REMOVAL, QUORUM_SURVIVES_RESTART, removal_keeps_quorum, restart_keeps_quorum
from quorate.core.ring import Ring

COMPONENTS_HEALTHY = "control plane components are healthy"
MEMBERS_HEALTHY = "etcd members are healthy"
COMPONENTS_SURVIVE = "another control plane serves"
CERTIFICATES = "certificates are available"
NOBODY_LEAVES = "no replica is leaving"
TOPOLOGY = "the topology's version has arrived"
ROOM = "there is room for one more replica"
HOOK_HELD = "the Machine will stop at our hook"
TEMPLATE = "the infrastructure template exists"
INITIALIZED = "the cluster is initialized"
VERSION_NEAR = "the version is at most one minor away from every one that runs"
VERSION_NOT_BELOW = "the version is not below every one that runs"

EXTERNAL = "etcd is external: quorate does not manage its members"
RESTART_KUBELET = (
    "Restart the kubelet on the host of {} (`systemctl restart kubelet`), which creates its Node again; "
    "then mark the Node as a control plane with `kubeadm init phase mark-control-plane --node-name NODE`."
)


def quorum_survives_removal(control_plane: ControlPlane, replica: Replica) -> Check:
    """May this replica's member leave the ring for good? etcd must be able to commit the change, and keep quorum after it (S1)."""
    if not control_plane.desired.etcd_managed:
        return passed(QUORUM_SURVIVES_REMOVAL, EXTERNAL)
    match dependable_ring(control_plane), replica.member:
        case Unknown(reason, remedy), _:  # first: nothing is proven absent from a ring that nobody read
            return unknown(QUORUM_SURVIVES_REMOVAL, f"the ring could not be read: {reason}", remedy)
        case Ring(), Absent():
            return passed(QUORUM_SURVIVES_REMOVAL, f"{replica.name} has no member in the ring")
        case Ring(), Unknown(reason, remedy):
            return unknown(QUORUM_SURVIVES_REMOVAL, f"cannot tell which member is {replica.name}'s: {reason}", remedy)
        case Ring() as ring, int(member):
            return _beside_updates(control_plane, replica, ring, member)
    raise AssertionError(f"no such ring: {control_plane.ring!r}")


def _beside_updates(control_plane: ControlPlane, replica: Replica, ring: Ring, member: int) -> Check:
    """The gate of a removal. While another replica is updated in place its member may restart at any moment: a voter that is well leaves only where the others
    have quorum without both. One that is not well takes nothing away that is not lost already.
    """
    leaving = ring.member(member)
    check, leaving = removal_keeps_quorum(ring, member), ring.member(member)
    others = {other.member: other.name for other in control_plane.updating if other.name != replica.name and isinstance(other.member, int)}
    if not check.passed or not others or leaving is None or not leaving.votes_well:
        return check
    beside = removal_keeps_quorum(ring.losing(others.keys()), member)
    if beside.passed:
        return beside
    evidence = f"while {', '.join(sorted(others.values()))}, updated in place, may restart: {beside.evidence}"
    return unknown(QUORUM_SURVIVES_REMOVAL, evidence)  # time alone changes it, so that nobody may count on its being held


def quorum_survives_restart(control_plane: ControlPlane, replica: Replica) -> Check:
    """May this replica's member be down for as long as the replica is updated in place? The others must have quorum meanwhile (S1)."""
    if not control_plane.desired.etcd_managed:
        return passed(QUORUM_SURVIVES_RESTART, EXTERNAL)
    match dependable_ring(control_plane), replica.member:
        case Unknown(reason, remedy), _:
            return unknown(QUORUM_SURVIVES_RESTART, f"the ring could not be read: {reason}", remedy)
        case Ring(), Absent():
            return failed(QUORUM_SURVIVES_RESTART, f"{replica.name} has no member in the ring yet")
        case Ring(), Unknown(reason, remedy):
            return unknown(QUORUM_SURVIVES_RESTART, f"cannot tell which member is {replica.name}'s: {reason}", remedy)
        case Ring() as ring, int(member):
            return restart_keeps_quorum(ring, member)
    raise AssertionError(f"no such ring: {control_plane.ring!r}")


def dependable_ring(control_plane: ControlPlane) -> Ring | Unknown:
    """The ring with the members of vanishing replicas counted as lost: healthy as they may look, nobody may lean on them any more.

    Unknown where it was not read, where it came back empty (a running etcd always has a member), or where the member of a vanishing replica is not known.
    """
    ring = control_plane.ring
    if isinstance(ring, Unknown):
        return ring
    if not ring.members:
        return Unknown("etcd listed no members")
    for replica in control_plane.vanishing:
        if isinstance(replica.member, Unknown):
            return Unknown(
                f"{replica.name} is going, and which member is its own is not known: {replica.member.reason}", replica.member.remedy
            )
    return ring.losing({replica.member for replica in control_plane.vanishing if isinstance(replica.member, int)})


def components_healthy(control_plane: ControlPlane, replicas: tuple[Replica, ...]) -> tuple[Check, Check]:
    """Is every one of these replicas fully well: components first, etcd members second? (Preflight of every change that is not a repair.)

    Of an etcd that is not ours the API servers are asked: its members belong to no replica.
    """
    if not control_plane.knows_nodes:
        why = "no Node is known while the workload cluster does not answer"
        return unknown(COMPONENTS_HEALTHY, why), unknown(MEMBERS_HEALTHY, why)
    ill = [text for replica in replicas for text in _ills(replica, replica.component_findings)]
    components = _all_well(COMPONENTS_HEALTHY, ill, replicas, ways_to_nodes(control_plane, replicas))
    if not control_plane.desired.etcd_managed:
        return components, _external_etcd_answers(control_plane.external_etcd)
    ill_members = [text for replica in replicas for text in _ills(replica, replica.member_findings)]
    return components, _all_well(MEMBERS_HEALTHY, ill_members, replicas)


def _external_etcd_answers(finding: Finding | None) -> Check:
    if finding is None:
        return passed(MEMBERS_HEALTHY, EXTERNAL)
    answer = {Health.GOOD: passed, Health.BAD: failed, Health.UNKNOWN: unknown}[finding.health]
    return answer(MEMBERS_HEALTHY, f"external etcd: {finding.message or finding.reason}")


def _ills(replica: Replica, findings: tuple[tuple[str, Finding], ...]) -> list[str]:
    if replica.node is None:
        return [f"{replica.name} has no Node {'any more' if replica.had_node else 'yet'}"]
    if not findings:
        return [f"{replica.name} has not been looked at yet"]
    return [
        f"{replica.name}: {name} {finding.message or finding.reason}" for name, finding in findings if finding.health is not Health.GOOD
    ]


def ways_to_nodes(control_plane: ControlPlane, replicas: Iterable[Replica]) -> str:
    """What somebody has to do for each of these to have a Node; empty where all have one, time may bring it, or it is not known: whoever has lost the quorum
    is not told to delete the Machines that have the data.
    """
    return " ".join(filter(None, map(_way_to_a_node, replicas))) if control_plane.knows_nodes else ""


def _way_to_a_node(replica: Replica) -> str:
    if replica.node is not None or replica.deleting_since:
        return ""
    if replica.had_node:  # an older backup of the management cluster brings back Machines whose hosts went long ago
        gone = f"If that host is gone for good, delete the Machine {replica.name}: quorate creates another."
        return f"{RESTART_KUBELET.format(replica.name)} {gone}"
    if replica.overdue:
        return (
            f"See in kubeadm's output on the host of {replica.name} (usually in cloud-init's log) why it has not come up. "
            f"If kubeadm has given up, delete the Machine {replica.name}: quorate creates another. "
            "If kubeadm had finished, somebody has deleted the Node since: restart the kubelet (`systemctl restart kubelet`), which creates it again."
        )
    return ""


def _all_well(name: str, ill: list[str], replicas: tuple[Replica, ...], remedy: str = "") -> Check:
    return failed(name, "; ".join(ill), remedy) if ill else passed(name, f"of all {len(replicas)} replicas")


def another_serves(control_plane: ControlPlane, leaving: Replica) -> Check:
    """Is there another replica with every component well? kubeadm wires each API server to its local etcd, so half a replica serves nobody.

    One that is leaving too serves until we let it go; one that is vanishing counts for nothing.
    """
    if (serving := _one_that_serves(control_plane, apart_from=leaving.name)) is not None:
        return passed(COMPONENTS_SURVIVE, f"{serving.name} serves with every component healthy")
    return failed(
        COMPONENTS_SURVIVE,
        f"without {leaving.name} no control plane with every component healthy is left",
        "Bring another control plane node back to health; deleting the KubeadmControlPlane itself needs no such check.",
    )


def somebody_serves(control_plane: ControlPlane) -> Check:
    """Is there a replica with every component well, for another one to join? What stands in for `components_healthy` while a replacement is missing."""
    if (serving := _one_that_serves(control_plane)) is not None:
        return passed(COMPONENTS_SURVIVE, f"{serving.name} serves with every component healthy")
    remedy = "Bring a control plane node back to health."
    return failed(COMPONENTS_SURVIVE, "no control plane with every component healthy is left to join", remedy)


def _one_that_serves(control_plane: ControlPlane, apart_from: str = "") -> Replica | None:
    others = [replica for replica in (*control_plane.staying, *control_plane.leaving) if replica.name != apart_from]
    return next((replica for replica in others if not _ills(replica, replica.component_findings)), None)
