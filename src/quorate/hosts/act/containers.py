"""The containers of a host's static Pods: which run, and one of them restarted. By containerd's own `ctr`, which is wherever containerd is, and crictl is not.

A container that is ended is started again by the kubelet at once, in the same Pod. Unlike a manifest that is moved away and back, that needs no second act: a
host that is cut off in between is whole again without us.
"""

from __future__ import annotations

from functools import partial

from quorate.hosts.act.tools import Tools
from quorate.workload.static_pods import NAMESPACE, Component

DEADLINE = 30.0
STARTED_DEADLINE = 300.0
"""Seconds until another container of the component runs: its predecessor may take 60 to end its requests, and the kubelet 15 to look again."""


async def running(tools: Tools, host: str, component: Component) -> frozenset[str]:
    """The ids of the component's containers that run; more than one while one takes over from another. Raises StepFailed and SshErrors."""
    outcome = await tools.run(host, listing(host, component), doing=f"listing the containers of {component}", deadline=DEADLINE)
    return frozenset(outcome.stdout.decode(errors="replace").split())


async def replaced(tools: Tools, host: str, component: Component, before: frozenset[str]) -> None:
    """Wait until a container of the component runs that did not before, and none that did. Raises StepFailed."""
    await tools.waits.until(
        host, f"another container of {component}", partial(_not_replaced, tools, host, component, before), deadline=STARTED_DEADLINE
    )


async def restart(tools: Tools, host: str, component: Component) -> None:
    """End the component's containers, and wait until the kubelet has started another. Whether it serves is the caller's question. Raises StepFailed."""
    before = await running(tools, host, component)
    tools.report(host, f"restarting {component}")
    await tools.run(host, ending(host, component), doing=f"restarting {component}", deadline=DEADLINE)
    await replaced(tools, host, component, before)


def listing(host: str, component: Component) -> str:
    """A script that prints the ids of the containers that run."""
    return _each(host, component, 'echo "$id"')


def ending(host: str, component: Component) -> str:
    """A script that asks them to end. One that has ended meanwhile is no failure."""
    return _each(host, component, 'ctr -n k8s.io tasks kill --signal SIGTERM "$id" 2>/dev/null || :')


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
