"""Installs another version of Kubernetes' programs, and pulls its images, on a host of a cluster. Neither touches what runs."""

from __future__ import annotations

from quorate.core.versions import Version
from quorate.hosts.act import kubeadm
from quorate.hosts.act.prepare import INSTALL_DEADLINE, packages
from quorate.hosts.act.systems import known_facts, known_system
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.containerd_configuration import sandbox_image
from quorate.hosts.render.flatcar import Downloads, install_programs
from quorate.hosts.render.prerequisites import with_proxies
from quorate.hosts.render.shell import quoted

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


async def pull_images(tools: Tools, name: str, documents: bytes) -> None:
    """Pull what a control plane lacks of the images that kubeadm takes for these documents. Raises StepFailed where one cannot be had, and SshErrors.

    Whatever ends containers comes after this: without its image, or that of its Pod's sandbox, none would start again.
    """
    tools.report(name, "pulling images")
    then = _REFUSING.format(log=kubeadm.LOG, image=quoted(sandbox_image(tools.manifest)))
    await kubeadm.run(tools, name, kubeadm.Command(_PULL, "pulling images", then=then, stdin=documents))


# kubeadm was told to refuse nothing. The sandbox's image may be another than the one of which it knows.
_REFUSING = """\
sed -n 's/.*\\[WARNING ImagePull\\]/[ERROR ImagePull]/p' {log} >&2
if grep -q -F '[WARNING ImagePull]' {log}; then exit 1; fi
if command -v crictl >/dev/null && ! crictl inspecti -q {image} >/dev/null 2>&1 && ! told=$(crictl pull {image} 2>&1); then
    printf '[ERROR ImagePull]: %s\\n' "$(printf %s "$told" | tail -n 1)" >&2
    exit 1
fi
"""
