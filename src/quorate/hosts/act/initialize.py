"""Initializes the first control plane of a cluster by `kubeadm init`, or continues an interrupted attempt.

A second attempt is the whole of `kubeadm init` again without its preflight, which would refuse a host that has files already. All its phases may be repeated:
certificates, keys and kubeconfigs that are there are kept if they fit, manifests are written as they were, etcd starts on the data that it has (its
`initial-cluster` flag counts only without data), and what goes into the cluster is created or updated. Their order is kubeadm's, and with it the wait for the
control plane between those that need no API and those that do. `upload-certs` does nothing unless it is asked for.
Source: kubeadm 1.34, cmd/kubeadm/app/cmd/init.go and phases/init.
"""

from __future__ import annotations

from functools import partial

from quorate.core.hosts.steps import Initialize
from quorate.hosts.act import kubeadm
from quorate.hosts.act.core_dns import update_core_dns
from quorate.hosts.act.encryption import as_first, record_of_first
from quorate.hosts.act.gates import control_plane_serves
from quorate.hosts.act.nodes import written
from quorate.hosts.act.placing import placing
from quorate.hosts.act.tokens import new_token, remove
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.probe.facts import INITIALIZING
from quorate.hosts.render.component_configurations import kubelet_patch
from quorate.hosts.render.feature_files import feature_files
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.kubeadm_configuration import INIT_PATH, init_file

SUPER_ADMIN = "/etc/kubernetes/super-admin.conf"
"""A credential past all RBAC, which kubeadm needs until it has given admin.conf its rights. It does not stay, as with KubeOne: on a control-plane host
`kubeadm init phase kubeconfig super-admin` makes another where somebody needs it.
"""
_INIT = f"init --config {INIT_PATH} --skip-token-print"
_RESUME = f"{_INIT} --skip-phases=preflight"


async def initialize(tools: Tools, step: Initialize, observation: Observation) -> None:
    """Initialize the cluster on this host, whose files, keys and data of an earlier attempt are kept, and wait until it serves. Raises StepFailed.

    kubeadm knows nothing of what a manifest says of CoreDNS but its images.
    """
    machine = observation.machines[step.host]
    token = new_token(tools.random_bytes)  # kubeadm makes one in any case; nobody joins with this one
    tools = await as_first(tools, observation, step.host)
    features = feature_files(tools.manifest, tools.contents)
    patch = kubelet_patch(machine.host)
    mark = HostFile(INITIALIZING, b"kubeadm init has begun, and has not ended well yet\n")
    files: list[HostFile] = [mark, *features, *((patch,) if patch else ()), init_file(tools.manifest, machine, token)]
    tools.report(step.host, "continuing kubeadm init" if step.resume else "running kubeadm init")
    command = kubeadm.Command(
        _RESUME if step.resume else _INIT,
        "kubeadm init",
        before=placing(files),
        then=f"rm -f -- {INITIALIZING} {SUPER_ADMIN}",
        after=f"rm -f -- {INIT_PATH}",
    )
    await kubeadm.run(tools, step.host, command)
    await control_plane_serves(tools, step.host)
    if not step.resume:  # an earlier attempt may have stored Secrets otherwise: without a record every one is written anew
        await record_of_first(tools)
    await remove(tools, token)
    await written(tools, step.host, "CoreDNS to be written", partial(update_core_dns, tools.manifest))
