"""What must be true again after a host's programs were restarted, before the next host may be touched: waited for by asking, never by sleeping."""

from __future__ import annotations

from functools import partial

import msgspec

from quorate.core.health import Health
from quorate.core.text import printable
from quorate.core.versions import Version
from quorate.hosts.act.gates import api_server_is_ready, member_votes
from quorate.hosts.act.tools import Tools
from quorate.kubernetes import resource
from quorate.kubernetes.errors import NotFound
from quorate.kubernetes.transport import UNREADABLE
from quorate.workload.nodes import is_unreachable, readiness
from quorate.workload.static_pods import NAMESPACE, Component, component_health

DEADLINE = 300.0
"""Seconds; a host under load takes one to two minutes for everything."""
_ASK_DEADLINE = 10.0
_REMEDY = "Look at the containers of the control plane on the host (crictl ps -a, crictl logs) and at journalctl -u kubelet"
KUBELET_REMEDY = "Look at journalctl -u kubelet on the host"


class _ServerVersion(msgspec.Struct, rename="camel"):
    git_version: str


async def control_plane_is_back(tools: Tools, host: str, version: Version | None = None) -> None:
    """Wait until its member takes part, its API server is ready, of this version where one is given, and its kubelet reports all components ready."""
    await member_is_back(tools, host)
    await tools.waits.until(host, "its API server", partial(_api_server, tools, host, version), deadline=DEADLINE, remedy=_REMEDY)
    await tools.waits.until(host, "its components", partial(components, tools, host), deadline=DEADLINE, remedy=_REMEDY)


async def member_is_back(tools: Tools, host: str) -> None:
    """Wait until its member takes part."""
    tools.access.forget(host)
    await tools.waits.until(host, "its etcd member", partial(member_votes, tools, host), deadline=DEADLINE, remedy=_REMEDY)


async def kubelet_is_back(tools: Tools, host: str, version: Version | None = None) -> None:
    """Wait until the host's kubelet, just restarted, answers, and its Node is ready, with this version where one is given."""
    await tools.waits.until(host, "its kubelet", partial(_kubelet_answers, tools, host), deadline=DEADLINE, remedy=KUBELET_REMEDY)
    await tools.waits.until(host, "its Node", partial(node_is_ready, tools, host, version), deadline=DEADLINE, remedy=KUBELET_REMEDY)


async def components(tools: Tools, host: str) -> str:
    """The static Pods of the host's control plane, as its kubelet reports them."""
    api = await tools.access.api()
    node = await api.get(resource.NODES, host)
    for component in Component:
        try:
            pod = await api.get(resource.PODS, component.pod_name(host), NAMESPACE)
        except NotFound:
            return f"{component} has no Pod"
        health = component_health(component, node, pod)
        if health.health is not Health.GOOD:
            return f"{component}: {health.message or health.reason}"
    return ""


async def node_is_ready(tools: Tools, host: str, version: Version | None) -> str:
    """The Node: ready, and with a kubelet of this version."""
    node = await (await tools.access.api()).get(resource.NODES, host)
    reported = node.status.node_info.kubelet_version
    if version is not None and reported != str(version):
        return f"its kubelet reports {reported}"
    status = readiness(node)
    return "" if status == "True" and not is_unreachable(node) else f"Ready is {status or 'not set'}"


async def _api_server(tools: Tools, host: str, version: Version | None) -> str:
    if reason := await api_server_is_ready(tools, host):
        return reason
    if version is None:
        return ""
    answer = await (await tools.access.api_of(host)).get_raw("/version")
    try:
        found = printable(msgspec.json.decode(answer, type=_ServerVersion).git_version)
    except UNREADABLE as error:
        return f"its version cannot be read: {error}"
    return "" if found == str(version) else f"it is of {found}"


async def _kubelet_answers(tools: Tools, host: str) -> str:
    outcome = await tools.access.ssh(host).look(KUBELET_ANSWERS, deadline=_ASK_DEADLINE)
    return outcome.last_words if outcome.exit_status else ""


# As the probe asks. Without curl there is no answer, which is no reason to go on.
KUBELET_ANSWERS = """\
config=/var/lib/kubelet/config.yaml
port=$(sed -n 's/^healthzPort: *//p' "$config")
address=$(sed -n 's/^healthzBindAddress: *//p' "$config" | tr -d "\\"'")
case $address in '' | 0.0.0.0 | ::) address=127.0.0.1 ;; *:*) address="[$address]" ;; esac
curl -fsS --noproxy '*' --max-time 5 -o /dev/null -- "http://$address:${port:-10248}/healthz"
"""
