"""Upgrades the control plane of one host by kubeadm.

What takes time without anything being down comes before the gate: the package and the images, of all hosts at once when the first is upgraded. Then kubeadm
restarts etcd, the API server, the controller manager and the scheduler, and waits for each to be reported by the kubelet with the hash of its new manifest; on
a failure it puts the old manifests back. Source: kubeadm 1.34 and 1.35, cmd/kubeadm/app/phases/upgrade/staticpods.go and util/apiclient/wait.go: it polls
twice a second, and what it waits for most are containers that do not end (`old_containers`), and the kubelet, which looks 5 to 15 s later again at a static Pod
whose predecessor has not ended yet.

It also renews the certificates of what it restarts, and those embedded in admin.conf and super-admin.conf whatever it restarts. On a host that has the version
already it restarts nothing whose manifest is the same, so that it renews nothing there: that admin.conf has its old end is what tells of a renewal that was cut
short before everything was restarted (`certificates`).
"""

from __future__ import annotations

import asyncio

from quorate.core.hosts.steps import UpgradeControlPlane
from quorate.hosts.act import kubeadm
from quorate.hosts.act.component_manifests import keep_places
from quorate.hosts.act.encryption import as_they_have_it
from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.host_settings import bring_settings, well_again
from quorate.hosts.act.old_containers import END_WATCHING, ending_old_containers
from quorate.hosts.act.placing import placing
from quorate.hosts.act.prepare import preflight_documents
from quorate.hosts.act.programs import install, pull_images
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.settled import control_plane_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.render.component_configurations import PATCHES, kubelet_patch
from quorate.hosts.render.feature_files import feature_files
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.kubeadm_configuration import UPGRADE_PATH, upgrade_file

_APPLY = f"upgrade apply --yes --config {UPGRADE_PATH}"
_NODE = f"upgrade node --config {UPGRADE_PATH}"
_CLEAN_DEADLINE = 60.0
_EXISTING = HostFile(
    f"{PATCHES}/etcd0+json.json", b'[{"op": "add", "path": "/spec/containers/0/command/-", "value": "--initial-cluster-state=existing"}]\n'
)
"""kubeadm's upgrade writes etcd's manifest as that of a member which founds a ring of its own. With its data it does not; were its data lost, it would, and its
API server would serve an empty cluster. With this flag, which every member that joined had before, it waits to be repaired instead.
"""


async def upgrade_control_plane(tools: Tools, step: UpgradeControlPlane, observation: Observation) -> None:
    """Upgrade the host, and wait until everything on it is back in the new version. Idempotent: what is at its version already kubeadm leaves alone.

    Raises StepFailed; before the gate nothing has been down, after it kubeadm has put back what did not come up.
    """
    await keep_places(tools, observation.machines[step.host], observation.facts[step.host])
    await _get_ready(tools, step, observation)
    tools = await as_they_have_it(tools, observation, step.host)
    files = _files(tools, step, observation)
    await make_ready(tools, step.host, observation)
    restarted = await bring_settings(tools, step.host, observation, control_plane=True)
    if restarted:  # which takes minutes
        await make_ready(tools, step.host, observation)
    tools.report(step.host, "running kubeadm upgrade")
    command = kubeadm.Command(
        _APPLY if step.first else _NODE,
        "kubeadm upgrade",
        before=f"{placing(files)}\n{ending_old_containers(step.host)}",
        after=END_WATCHING,
    )
    await kubeadm.run(tools, step.host, command)
    await control_plane_is_back(tools, step.host, step.version)
    if restarted:
        await well_again(tools, step.host)
    await tools.run(step.host, _CLEAN, doing="removing what kubeadm left behind", deadline=_CLEAN_DEADLINE)


async def _get_ready(tools: Tools, step: UpgradeControlPlane, observation: Observation) -> None:
    """The package and the images; with the first host those of the others too, for which a failure is told of and tried again in their own step."""

    async def one(name: str) -> None:
        await install(tools, name, observation, step.version, "kubeadm")
        await pull_images(tools, name, preflight_documents(tools.manifest, observation.machines[name]))

    async def other(name: str) -> None:
        try:
            await one(name)
        except (StepFailed, *EXPECTED) as error:
            tools.report(name, f"not prepared yet: {error}")

    others = [host.name for host in observation.cluster.control_planes if host.name != step.host] if step.first else []
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        for name in others:
            if not isinstance(tools.access.states[name], Unreachable):
                group.create_task(other(name))
        try:
            await one(step.host)
        except (StepFailed, *EXPECTED) as error:  # raised outside of the TaskGroup, which would wrap it
            failure = error
    if failure is not None:
        raise failure


def _files(tools: Tools, step: UpgradeControlPlane, observation: Observation) -> list[HostFile]:
    """Everything that kubeadm and the new API server read: the files that its flags name have to be there before it starts."""
    machine, host = observation.machines[step.host], observation.cluster.host(step.host)
    patch = kubelet_patch(machine.host)
    features = feature_files(tools.manifest, tools.contents)
    return [
        *features,
        _EXISTING,
        *((patch,) if patch else ()),
        upgrade_file(tools.manifest, machine, patched=True, renews=host.components != step.version),
    ]


# An upgrade that was interrupted leaves the manifests it had prepared. kubeadm also keeps a copy of etcd's data for each upgrade, the last of which is enough:
# the snapshot that comes before an upgrade is with the operator.
_CLEAN = """\
cd /etc/kubernetes/tmp 2>/dev/null || exit 0
rm -rf -- kubeadm-upgraded-manifests*
for kind in kubeadm-backup-etcd kubeadm-backup-manifests; do
    ls -d -- "$kind"-* 2>/dev/null | sort | head -n -1 | while read -r folder; do rm -rf -- "$folder"; done
done
"""
