"""The manifest's settings on one host of the cluster: files that its components read, their manifests and its kubelet's configuration."""

from __future__ import annotations

from quorate.core.hosts.steps import Reconfigure
from quorate.hosts.act import kubeadm
from quorate.hosts.act.component_manifests import PHASES, kubeadm_documents, replace_component, revive_api_server
from quorate.hosts.act.encryption import as_it_has_it
from quorate.hosts.act.host_settings import bring_settings, well_again
from quorate.hosts.act.placing import placing
from quorate.hosts.act.programs import pull_images
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.serving_certificate import ensure_names
from quorate.hosts.act.settled import control_plane_is_back, kubelet_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.observe.kubelet import overruling_flags
from quorate.hosts.render.component_configurations import kubelet_configuration, kubelet_patch, kubelet_settings
from quorate.hosts.render.feature_files import feature_files
from quorate.hosts.render.host_files import yaml_documents
from quorate.hosts.render.kubeadm_configuration import UPGRADE_PATH, Machine, upgrade_file
from quorate.workload.static_pods import Component


async def reconfigure(tools: Tools, step: Reconfigure, observation: Observation) -> None:
    """Bring the host to what the manifest says. Idempotent; nothing that is right is restarted. Raises StepFailed."""
    machine = observation.machines[step.host]
    control_plane = step.host in {host.name for host in observation.cluster.control_planes}
    if control_plane:
        tools = await as_it_has_it(tools, observation, step.host)
        await make_ready(tools, step.host, observation)
        await revive_api_server(tools, step.host)
    restarted = await bring_settings(tools, step.host, observation, control_plane=control_plane)
    if control_plane:
        alone = len(observation.cluster.control_planes) == 1
        documents = await kubeadm_documents(tools, machine, observation.cluster.host(step.host).components, alone=alone)
        await pull_images(tools, step.host, yaml_documents(*documents))
        await ensure_names(tools, machine, *documents)
        for component in PHASES:
            files = feature_files(tools.manifest, tools.contents) if component is Component.API_SERVER else ()
            if component is Component.ETCD:  # minutes after the first time: settings, images and other components came before
                await make_ready(tools, step.host, observation)
            await replace_component(tools, step.host, component, documents, files)
    await _configure_kubelet(tools, machine)
    await kubelet_is_back(tools, step.host)
    if control_plane:
        await control_plane_is_back(tools, step.host)
    if restarted:
        await well_again(tools, step.host)


# The kubelet.


async def _configure_kubelet(tools: Tools, machine: Machine) -> None:
    """Write the kubelet's configuration as the cluster has it, with the host's own settings, and restart it if it is another, all in one go on the host.

    Flags that would overrule it go, as KubeOne sets them for single hosts when they join; those of which the manifest says nothing stay.
    """
    patch = kubelet_patch(machine.host)
    files = [*((patch,) if patch else ()), upgrade_file(tools.manifest, machine)]
    command = kubeadm.Command(
        f"upgrade node phase kubelet-config --config {UPGRADE_PATH}",
        "writing the kubelet's configuration",
        before=f"{placing(files)}\n{_KEEP_KUBELET_CONFIGURATION}",
        then=_restart_kubelet(overruling_flags({**kubelet_configuration(tools.manifest), **kubelet_settings(machine.host.kubelet)})),
    )
    tools.report(machine.name, "comparing the kubelet's configuration with the manifest")
    await kubeadm.run(tools, machine.name, command)


def _restart_kubelet(flags: tuple[str, ...]) -> str:
    """After kubeadm has written the configuration: take these flags out of the kubelet's, and restart it where either is another than before."""
    return f"{_DROP_FLAGS.format(flags='|'.join(flags)) if flags else ''}{_RESTART_KUBELET}"


_KEEP_KUBELET_CONFIGURATION = "cp -p -- /var/lib/kubelet/config.yaml /run/quorate-kubelet-config.yaml"
_DROP_FLAGS = """\
flag='(["[:space:]])--({flags})=[^"[:space:]]*'
if grep -s -q -E -e "$flag" /var/lib/kubelet/kubeadm-flags.env; then
    sed -i -E -e "s/$flag/\\1/g" /var/lib/kubelet/kubeadm-flags.env
    rm -f -- /run/quorate-kubelet-config.yaml
fi
"""
_RESTART_KUBELET = """\
if ! cmp -s -- /var/lib/kubelet/config.yaml /run/quorate-kubelet-config.yaml; then systemctl restart kubelet; fi
rm -f -- /run/quorate-kubelet-config.yaml
"""
