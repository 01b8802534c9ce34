"""What must be true before a host counts as done: of its API server, its etcd member, its Node. Each is a question for `Waits.until`."""

from __future__ import annotations

from functools import partial

from quorate.hosts.act.tools import Tools
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.resource import NODES

DEADLINE = 180.0
"""Seconds for what kubeadm has waited for already; it is there at once, unless the host is slow to settle."""


async def control_plane_serves(tools: Tools, host: str) -> None:
    """Wait until the host is a control plane: its API server is ready, its member votes and follows a leader, and its Node exists."""
    tools.access.forget(host)  # kubeadm has just made its credentials
    remedy = "Look at the containers of the control plane on the host (crictl ps -a, crictl logs) and at journalctl -u kubelet"
    for what, question in (("its API server", api_server_is_ready), ("its etcd member", member_votes), ("its Node", node_exists)):
        await tools.waits.until(host, what, partial(question, tools, host), deadline=DEADLINE, remedy=remedy)


async def api_server_is_ready(tools: Tools, host: str) -> str:
    """This host's own API server."""
    await (await tools.access.api_of(host)).get_raw("/readyz")
    return ""


async def member_votes(tools: Tools, host: str) -> str:
    """This host's own member: it votes, follows a leader, has no alarm, and a majority confirms that it is in the ring."""
    client = await tools.access.etcd(through=host)
    status, listed = await client.status(), await client.members()
    if status.learner:
        return "it is still a learner"
    if not status.leader:
        return "it follows no leader"
    if status.errors:
        return "; ".join(status.errors)
    return "" if any(member.id == status.member_id for member in listed.members) else "it is not in the list of members"


async def node_exists(tools: Tools, host: str) -> str:
    """The Node of the host, through any API server."""
    try:
        await (await tools.access.api()).get(NODES, host)
    except NotFound:
        return "the API has no Node of this name yet"
    return ""
