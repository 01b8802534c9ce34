"""The containers of a host's static Pods: which run, and one of them restarted. By containerd's own `ctr`, which is wherever containerd is, and crictl is not.

A container that is ended is started again by the kubelet at once, in the same Pod. Unlike a manifest that is moved away and back, that needs no second act: a
host that is cut off in between is whole again without us.

An API server that is told to end takes no new connections, but whoever watches keeps it for 30 to 60 s more, until it is ended by force. Requests that are no
watches are answered long before, so that it is ended when it has been silent for QUIET_SECONDS.

etcd: the API server of a host has no other etcd than that of its host. One that is told to end takes up to 8 s while somebody watches, and for as long requests
to the API server beside it hang. So that one stops to listen before, and clients are refused at once. It starts anew when etcd has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from quorate.hosts.act.tools import Tools
from quorate.hosts.connect.access import API_SERVER_PORT
from quorate.hosts.render.shell import quoted
from quorate.workload.static_pods import NAMESPACE, Component

DEADLINE = 30.0
STARTED_DEADLINE = 300.0
"""Seconds until another container of the component runs: the old one may take 60 to end its requests, and the kubelet 15 to look again."""
QUIET_SECONDS = 5
"""Seconds for requests that an API server answers when it stops to listen; none but a watch takes so long, or the client has given it up."""
LOOKS_A_SECOND = 2
REFUSES = """\
refuses() {
    curl -s -k --noproxy '*' --max-time 1 https://127.0.0.1:"$1"/livez >/dev/null 2>&1
    [ $? = 7 ]
}
"""
"""A shell function: whether nobody listens at a port of the host."""


async def running(tools: Tools, host: str, component: Component) -> frozenset[str]:
    """The ids of the component's containers that run; more than one while one takes over from another. Raises StepFailed and SshErrors."""
    outcome = await tools.look(host, listing(host, component), doing=f"listing the containers of {component}", deadline=DEADLINE)
    return frozenset(" ".join(outcome.lines).split())


async def replaced(tools: Tools, host: str, component: Component, before: frozenset[str]) -> None:
    """Wait until a container of the component runs that did not before, and none that did. Raises StepFailed."""
    if component is Component.API_SERVER and before:
        await tools.run(host, ending_once_quiet(before), doing=f"waiting for the old {component} to end", deadline=STARTED_DEADLINE)
    await tools.waits.until(
        host, f"another container of {component}", partial(_not_replaced, tools, host, component, before), deadline=STARTED_DEADLINE
    )


async def restart(tools: Tools, host: str, component: Component) -> None:
    """End the component's containers, and wait until the kubelet has started another. Whether it serves is the caller's question. Raises StepFailed."""
    before = await running(tools, host, component)
    tools.report(host, f"restarting {component}")
    await tools.run(host, ending(host, component), doing=f"restarting {component}", deadline=DEADLINE)
    await replaced(tools, host, component, before)


async def restart_etcd(tools: Tools, host: str) -> None:
    """Restart etcd, and the API server with it, which listens to nobody meanwhile. Whether they serve is the caller's question. Raises StepFailed.

    Cut short, it leaves an API server that ends within 70 s, and that the kubelet starts again.
    """
    before = await running(tools, host, Component.API_SERVER)
    tools.report(host, f"letting {Component.API_SERVER} take no more requests")
    await tools.run(host, ending_to_listen(host), doing=f"ending {Component.API_SERVER}", deadline=STARTED_DEADLINE)
    await restart(tools, host, Component.ETCD)
    await replaced(tools, host, Component.API_SERVER, before)


def listing(host: str, component: Component) -> str:
    """A script that prints the ids of the containers that run."""
    return _each(host, component, 'echo "$id"')


def ending(host: str, component: Component) -> str:
    """A script that asks them to end. One that has ended meanwhile is no failure."""
    return _each(host, component, 'ctr -n k8s.io tasks kill --signal SIGTERM "$id" 2>/dev/null || :')


def ending_to_listen(host: str) -> str:
    """A script that asks the API server to end and waits until it does not listen any more, or for 70 s or so."""
    return _END_TO_LISTEN.format(
        refuses=REFUSES, ending=ending(host, Component.API_SERVER), port=API_SERVER_PORT, looks=70 * LOOKS_A_SECOND
    )


def ending_once_quiet(ids: Iterable[str], *, gone_is_enough: bool = True) -> str:
    """A script that ends these containers of the API server once it has been quiet for QUIET_SECONDS, or after 70 s or so in any case.

    It ends with them if that is enough, and otherwise when nobody has listened for QUIET_SECONDS.
    """
    return _END_ONCE_QUIET.format(
        going_on="any_runs" if gone_is_enough else ":",
        refuses=REFUSES,
        ids=" ".join(map(quoted, sorted(ids))),
        port=API_SERVER_PORT,
        looks=70 * LOOKS_A_SECOND,
        refusals=QUIET_SECONDS * LOOKS_A_SECOND,
    )


def _each(host: str, component: Component, command: str) -> str:
    labels = {"container.name": str(component), "pod.name": component.pod_name(host), "pod.namespace": NAMESPACE}
    chosen = ",".join(f'labels."io.kubernetes.{label}"=={value}' for label, value in labels.items())
    return _EACH.format(filter=chosen, command=command)


async def _not_replaced(tools: Tools, host: str, component: Component, before: frozenset[str]) -> str:
    now = await running(tools, host, component)
    if now & before:
        return "the one before has not ended"
    return "" if now else "none runs"


_EACH = """\
running=$(ctr -n k8s.io tasks ls | awk '$3 == "RUNNING" {{ printf " %s ", $1 }}')
for id in $(ctr -n k8s.io containers ls -q '{filter}'); do
    case "$running" in *" $id "*) {command} ;; esac
done
"""
_END_TO_LISTEN = """\
{refuses}
{ending}
looks=0
until refuses {port} || [ "$looks" -ge {looks} ]; do
    looks=$((looks + 1))
    sleep 0.5
done
"""
_END_ONCE_QUIET = """\
{refuses}
any_runs() {{
    running=$(ctr -n k8s.io tasks ls | awk '$3 == "RUNNING" {{ printf " %s ", $1 }}')
    for id in {ids}; do
        case "$running" in *" $id "*) return 0 ;; esac
    done
    return 1
}}
refused=0
looks=0
while [ "$looks" -lt {looks} ] && {going_on}; do
    if refuses {port}; then refused=$((refused + 1)); else refused=0; fi
    if [ "$refused" -ge {refusals} ]; then
        for id in {ids}; do ctr -n k8s.io tasks kill --signal SIGKILL "$id" 2>/dev/null || :; done
        break
    fi
    looks=$((looks + 1))
    sleep 0.5
done
"""
