"""Orphan members of etcd: the Node that each runs on, and whether its owner asked for its removal; and the Nodes on which members are looked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from quorate.clusterapi.observe.ring import Membership
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane
from quorate.core.health import Absent, Unknown
from quorate.core.machines.rules.orphans import CONSENT
from quorate.core.machines.state import ControlPlane, Orphan
from quorate.kubernetes.client import Client
from quorate.kubernetes.objects import Node
from quorate.workload.connection import Workload
from quorate.workload.membership import RingReading
from quorate.workload.nodes import readiness
from quorate.workload.static_pods import Component

MOST_CONSENTS = 100
"""Members to whose removal somebody may consent at once, more than any ring has: an annotation holds 256 KiB, which take a while to read."""
MOST_ASKED = 20
"""Nodes that one look asks for by name, since they lack the label: a tenant's etcd names a hundred, and its Pods 2,500. A ring has seven members."""
_ID = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}")


def described(orphan: Orphan, membership: Membership, consents: Collection[int]) -> Orphan:
    """The orphan with what is known of it by now. `consents` are the members whose removal was asked for."""
    node = membership.homes.get(orphan.member.id)
    return replace(
        orphan,
        may_be_of=membership.contested.get(orphan.member.id, ()),
        node=node.metadata.name if isinstance(node, Node) else node or "",
        node_ready=isinstance(node, Node) and readiness(node) == "True",
        consented=orphan.member.id in consents,
    )


async def control_plane_nodes(workload: Workload[Client]) -> tuple[Node, ...] | Unknown:
    """The Nodes labelled as control plane and those on which etcd runs as a static Pod, by name.

    The latter have no label where kubeadm died before it marked the Node, or where somebody took it off.
    """
    labelled, running = workload.nodes(), workload.running(Component.ETCD)
    if isinstance(labelled, Unknown):
        return labelled
    if isinstance(running, Unknown):
        return running
    unlabelled = running - {node.metadata.name for node in labelled}
    if len(unlabelled) > MOST_ASKED:
        return Unknown(
            f"{len(unlabelled)} Nodes without the label of a control plane run etcd, and no more than {MOST_ASKED} are asked for"
        )
    others = await read_nodes(workload, sorted(unlabelled))
    return tuple(sorted((*labelled, *(node for node in others.values() if isinstance(node, Node))), key=lambda node: node.metadata.name))


async def look_for_nodes(workload: Workload[Client], reading: RingReading | Unknown, known: Collection[str]) -> dict[str, Node | Unknown]:
    """The Nodes that have the names of silent members, read from the API whatever their labels; those `known` and those that do not exist are left out."""
    if isinstance(reading, Unknown):
        return {}
    answered = set(reading.member_ids.values())
    names = {member.name for member in reading.ring.members if member.name and member.id not in answered}
    found = await read_nodes(workload, sorted(names - set(known)))
    return {name: node for name, node in found.items() if not isinstance(node, Absent)}


async def read_nodes(workload: Workload[Client], names: Sequence[str]) -> dict[str, Node | Absent | Unknown]:
    """The Nodes of these names, all at once; what comes after MOST_ASKED is unknown."""
    async with asyncio.TaskGroup() as tasks:
        asked = {name: tasks.create_task(workload.node(name)) for name in names[:MOST_ASKED]}
    unasked = Unknown(f"{len(names)} Nodes would have to be read by name, and at most {MOST_ASKED} are")
    return dict.fromkeys(names, unasked) | {name: task.result() for name, task in asked.items()}


def node_names(nodes: Iterable[Node | Absent | Unknown | None]) -> frozenset[str]:
    """The names of those that exist."""
    return frozenset(node.metadata.name for node in nodes if isinstance(node, Node))


def nodes_without_machine(nodes: Iterable[Node], machines: Iterable[Node | Absent | Unknown | None]) -> dict[str, Node]:
    """Those of the control-plane Nodes, by name, that are none of the Machines'."""
    theirs = node_names(machines)
    return {node.metadata.name: node for node in nodes if node.metadata.name not in theirs}


def members_of_machines(control_plane: ControlPlane) -> dict[int, str]:
    """The members that Machines have, each with its Machine's name: to the removal of these nobody can consent."""
    return {replica.member: replica.name for replica in control_plane.replicas if isinstance(replica.member, int)}


def consents(kcp: KubeadmControlPlane) -> frozenset[int]:
    """The ids of the members whose removal was asked for. What is no id asks for nothing, nor does what comes after MOST_CONSENTS."""
    ids = (text.strip() for text in kcp.metadata.annotations.get(CONSENT, "").split(",", MOST_CONSENTS)[:MOST_CONSENTS])
    return frozenset(int(text, 16) for text in ids if _ID.fullmatch(text))
