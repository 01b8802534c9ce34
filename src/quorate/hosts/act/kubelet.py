"""The kubelet of one host, upgraded: its Node drained, the package exchanged, the kubelet restarted, and Pods let in again."""

from __future__ import annotations

from quorate.core.in_place.steps import Uncordon, UpgradeKubelet
from quorate.hosts.act import kubeadm
from quorate.hosts.act.drain import drain
from quorate.hosts.act.nodes import cordon, uncordon
from quorate.hosts.act.placing import placing
from quorate.hosts.act.programs import install
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.settled import control_plane_is_back, kubelet_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.component_configurations import kubelet_patch
from quorate.hosts.kubeadm_configuration import UPGRADE_PATH, upgrade_file

RESTART_DEADLINE = 120.0
_RESTART = "systemctl daemon-reload\nsystemctl restart kubelet"


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
    await _restart(tools, step.host)
    await kubelet_is_back(tools, step.host, step.version, control_plane=control_plane)
    if control_plane:
        await control_plane_is_back(tools, step.host)
    await uncordon(tools, Uncordon(step.host))


async def _restart(tools: Tools, name: str) -> None:
    await tools.run(
        name, _RESTART, doing="restarting the kubelet", deadline=RESTART_DEADLINE, remedy="Look at journalctl -u kubelet on the host"
    )


async def _upgrade_configuration(tools: Tools, name: str, observation: Observation) -> None:
    """What `kubeadm upgrade node` does on a worker: it writes the kubelet's configuration as the cluster has it now, with the host's own settings."""
    machine = observation.machines[name]
    patch = kubelet_patch(machine.host)
    files = [*((patch,) if patch else ()), upgrade_file(tools.manifest, machine)]
    tools.report(name, "running kubeadm upgrade")
    await kubeadm.run(tools, name, kubeadm.Command(f"upgrade node --config {UPGRADE_PATH}", "kubeadm upgrade", before=placing(files)))
