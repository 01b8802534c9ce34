"""Upgrades the kubelet of one host: drains its Node, installs the package, restarts the kubelet, uncordons the Node.

A kubelet of another minor version restarts the static Pods, and does not wait for those before them. So an API server would be gone within a second, and
another would listen a second later and answer nobody for two to three more. Load balancers look once in a second at most: whom they send there meanwhile waits,
and is cut off when they notice, which now and then loses a write with its retry. So the API server is ended first, while no kubelet runs that would start
another, and until it has refused everybody for as long as load balancers take to notice (`containers.QUIET_SECONDS`).

Such a kubelet asks that API server, so that it does not know for 10 to 20 s that it may end what ran before. What it starts meanwhile finds its ports taken,
and waits for its next attempt. So the other static Pods are asked to end as soon as the kubelet answers, and not before: one that does not start leaves them
alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorate.core.hosts.state import Host
from quorate.core.hosts.steps import Uncordon, UpgradeKubelet
from quorate.core.versions import Version, minor_distance
from quorate.hosts.act import containers, kubeadm
from quorate.hosts.act.drain import drain
from quorate.hosts.act.nodes import cordon, uncordon
from quorate.hosts.act.placing import placing
from quorate.hosts.act.programs import install
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.settled import KUBELET_ANSWERS, KUBELET_REMEDY, control_plane_is_back, kubelet_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.render.component_configurations import kubelet_patch
from quorate.hosts.render.kubeadm_configuration import UPGRADE_PATH, upgrade_file
from quorate.workload.static_pods import Component

RESTART_DEADLINE = 120.0
_RESTART = "systemctl daemon-reload\nsystemctl restart kubelet"
_LOOKS, _PAUSE = 100, 0.1
"""How often the new kubelet is asked whether it answers, and how many seconds are between: it does after one."""
_RESTART_WITH_STATIC_PODS = """\
others=$(
{listing}
)
answers() (
{answers}
)
trap 'systemctl restart kubelet' EXIT
trap 'exit 1' HUP INT TERM
systemctl stop kubelet
{ending}
{ending_once_quiet}
{restart}
trap - EXIT
looks=0
until answers 2>/dev/null; do
    [ "$looks" -lt {looks} ] || exit 0
    looks=$((looks + 1))
    sleep {pause}
done
for id in $others; do ctr -n k8s.io tasks kill --signal SIGTERM "$id" 2>/dev/null || :; done
"""


async def upgrade_kubelet(tools: Tools, step: UpgradeKubelet, observation: Observation) -> None:
    """Upgrade the kubelet and kubectl of the host, and wait until its Node is ready and its static Pods are back. Idempotent. Raises StepFailed.

    A kubelet of another minor version restarts the static Pods, etcd too: on a control plane the gate is asked when the Node is empty, before the package and,
    as installing that takes a while, again right before the restart. The Node is cordoned and marked in one write, so that an upgrade that was interrupted lets
    Pods return later.
    """
    control_plane = step.host in {host.name for host in observation.cluster.control_planes}
    await cordon(tools, step.host)
    tools.report(step.host, "draining the Node")
    await drain(tools, step.host)
    if control_plane:
        await make_ready(tools, step.host, observation)
        await install(tools, step.host, observation, step.version, "kubelet", "kubectl")
    else:
        await install(tools, step.host, observation, step.version, "kubeadm", "kubelet", "kubectl")
        await _upgrade_configuration(tools, step.host, observation)
    if control_plane:
        await make_ready(tools, step.host, observation)
    tools.report(step.host, "restarting the kubelet")
    before: Mapping[Component, frozenset[str]] = {}
    if control_plane and _restarts_static_pods(observation.cluster.host(step.host), step.version):
        before = await restart_with_static_pods(tools, step.host)
    else:
        await _restart(tools, step.host, _RESTART)
    await kubelet_is_back(tools, step.host, step.version)
    await run_anew(tools, step.host, before)
    if control_plane:
        await control_plane_is_back(tools, step.host)
    await uncordon(tools, Uncordon(step.host))


async def restart_with_static_pods(tools: Tools, host: str, first: str = "") -> Mapping[Component, frozenset[str]]:
    """Restart the kubelet of a control plane, and with it every static Pod; tell which containers ran before. The gate has passed. Raises StepFailed.

    `first` is sh that runs before.
    """
    before = {component: await containers.running(tools, host, component) for component in Component}
    await _restart(tools, host, f"{first}{restarting_with_static_pods(host, before[Component.API_SERVER])}")
    return before


async def run_anew(tools: Tools, host: str, before: Mapping[Component, frozenset[str]]) -> None:
    """Wait until each of these components runs in another container than before: until then the host looks as if nothing had been. Raises StepFailed."""
    for component, ids in before.items():
        await containers.replaced(tools, host, component, ids)


async def _restart(tools: Tools, host: str, script: str) -> None:
    await tools.run(host, script, doing="restarting the kubelet", deadline=RESTART_DEADLINE, remedy=KUBELET_REMEDY)


def _restarts_static_pods(host: Host, version: Version) -> bool:
    """Whether a kubelet of this version runs them in another way than the one before it did."""
    return any(minor_distance(kubelet, version) != 0 for kubelet in host.kubelets)


def restarting_with_static_pods(host: str, api_servers: frozenset[str]) -> str:
    """A script that restarts the kubelet when these containers of the API server have ended, and then ends the other static Pods.

    Cut short at any point, it leaves the kubelet running.
    """
    return _RESTART_WITH_STATIC_PODS.format(
        listing="".join(containers.listing(host, component) for component in Component if component is not Component.API_SERVER),
        answers=KUBELET_ANSWERS,
        ending=containers.ending(host, Component.API_SERVER),
        ending_once_quiet=containers.ending_once_quiet(api_servers, gone_is_enough=False),
        restart=_RESTART,
        looks=_LOOKS,
        pause=_PAUSE,
    )


async def _upgrade_configuration(tools: Tools, name: str, observation: Observation) -> None:
    """What `kubeadm upgrade node` does on a worker: it writes the kubelet's configuration as the cluster has it now, with the host's own settings."""
    machine = observation.machines[name]
    patch = kubelet_patch(machine.host)
    files = [*((patch,) if patch else ()), upgrade_file(tools.manifest, machine)]
    tools.report(name, "running kubeadm upgrade")
    await kubeadm.run(tools, name, kubeadm.Command(f"upgrade node --config {UPGRADE_PATH}", "kubeadm upgrade", before=placing(files)))
