"""Kubernetes' programs in another version on a host that is in a cluster, and the images of that version. Nothing that runs is touched by either."""

from __future__ import annotations

from quorate.core.versions import Version
from quorate.hosts.act import kubeadm
from quorate.hosts.act.prepare import INSTALL_DEADLINE, packages, preflight_documents
from quorate.hosts.act.systems import known_facts, known_system
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.flatcar import Downloads, install_programs
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.prerequisites import with_proxies

_PULL = "init phase preflight --ignore-preflight-errors=all --config /dev/stdin"
"""kubeadm's only command that pulls those images that are missing. The checks of an init, which a host of a cluster cannot pass, decide about nothing here."""


async def install(tools: Tools, name: str, observation: Observation, version: Version, *programs: str) -> None:
    """Install these of `kubeadm`, `kubelet` and `kubectl` in exactly this version, and hold them. Idempotent. Raises StepFailed and SshErrors."""
    system = known_system(observation.machines[name], known_facts(name, observation.facts[name]))
    versions = dict.fromkeys(programs, version)
    if system is OperatingSystem.FLATCAR:
        script = install_programs(versions, Downloads())
    else:
        script = packages(tools.manifest, system, versions, codename="", lacks_containerd=False)
    tools.report(name, f"installing {', '.join(programs)} {version}")
    doing = f"installing {', '.join(programs)} {version}"
    await tools.run(name, with_proxies(tools.manifest.proxy, script), doing=doing, deadline=INSTALL_DEADLINE)


async def pull_images(tools: Tools, name: str, observation: Observation) -> None:
    """Pull the images of the manifest's version that the host lacks, with a kubeadm that knows them. An image that cannot be had is told of by the upgrade."""
    tools.report(name, "pulling images")
    documents = preflight_documents(tools.manifest, observation.machines[name])
    await kubeadm.run(tools, name, kubeadm.Command(_PULL, "pulling images", stdin=documents))
