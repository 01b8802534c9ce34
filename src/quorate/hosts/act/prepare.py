"""Prepares hosts for kubeadm, all at once: kernel settings, containerd, Kubernetes' packages, images, and kubeadm's own preflight where it can run already.

Nothing here touches a cluster. Each script asks the host first whether it belongs to one by now, since it may restart containerd.
Source: KubeOne's prerequisites for the order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from quorate.core.health import Absent
from quorate.core.hosts.steps import Prepare
from quorate.core.versions import Version
from quorate.hosts.act import kubeadm
from quorate.hosts.act.concurrently import on_all
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.placing import placing
from quorate.hosts.act.systems import known_facts, known_system
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.manifest import Manifest, Secret
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.probe.facts import HostFacts
from quorate.hosts.render.containerd_configuration import CONFIGURATION, containerd_files, removing_stale_registries
from quorate.hosts.render.flatcar import Downloads, install_programs, install_tools, unit_files
from quorate.hosts.render.host_files import yaml_documents
from quorate.hosts.render.kubeadm_configuration import Machine, cluster_configuration, init_configuration
from quorate.hosts.render.packages import (
    Repository,
    docker_repository,
    fetch_key,
    install,
    kubernetes_repository,
    manager,
    programs,
    repository_file,
)
from quorate.hosts.render.prerequisites import prepare as prerequisites
from quorate.hosts.render.prerequisites import prerequisite_files, with_proxies
from quorate.hosts.render.shell import quoted

INSTALL_DEADLINE = 1200.0
"""Seconds for packages and programs of one host, over a slow network."""
SETTINGS_DEADLINE = 180.0
PROGRAMS = ("kubeadm", "kubectl", "kubelet")

_BELONGS = 76
_UNTOUCHED = f"""\
for file in /etc/kubernetes/kubelet.conf /etc/kubernetes/admin.conf /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/manifests/etcd.yaml; do
    if [ -e "$file" ]; then
        echo "the host belongs to a cluster by now: there is $file" >&2
        exit {_BELONGS}
    fi
done
"""
_CONTAINERD_VERSION = re.compile(rb"containerd .*?v?([0-9]{1,4})\.[0-9]+\.[0-9]+")


async def prepare(tools: Tools, step: Prepare, observation: Observation) -> None:
    """Prepare every host of the step at the same time. Idempotent; a host that has everything is not changed. Raises StepFailed naming those that failed."""
    controls = {host.name for host in observation.cluster.control_planes}

    async def one(name: str) -> None:
        machine, facts = observation.machines[name], known_facts(name, observation.facts[name])
        system = known_system(machine, facts)
        tools.report(name, "installing packages")
        await _install(tools, name, system, facts)
        tools.report(name, "applying settings")
        await _set_up(tools, name, system, keep_firewall=observation.cluster.options.keep_firewall)
        if name in controls:
            await _check(tools, machine)

    await on_all(step.hosts, one, tools.report)


# Packages.


async def _install(tools: Tools, name: str, system: OperatingSystem, facts: HostFacts) -> None:
    versions = dict.fromkeys(PROGRAMS, tools.manifest.version)
    if system is OperatingSystem.FLATCAR:
        script = _flatcar(versions, tools.manifest)
    else:
        lacks_containerd = isinstance(facts.programs["containerd"], Absent)
        codename = (
            await _codename(tools, name) if lacks_containerd and _adds_repositories(tools.manifest) and manager(system) == "apt" else ""
        )
        script = packages(tools.manifest, system, versions, codename=codename, lacks_containerd=lacks_containerd)
    await _run(tools, name, _UNTOUCHED + with_proxies(tools.manifest.proxy, script), "installing packages", INSTALL_DEADLINE)


def packages(manifest: Manifest, system: OperatingSystem, versions: Mapping[str, Version], *, codename: str, lacks_containerd: bool) -> str:
    """The script that installs what a host with apt or dnf lacks, and Kubernetes' packages in exactly these versions.

    A repository is named to the package manager only when its key is there, which apt would complain of; curl, which fetches keys, comes before them from the
    distribution. Where the user sets up repositories, containerd is taken from the distribution by apt, and as Docker calls it by dnf, whose distributions
    have none.
    """
    docker = lacks_containerd and _adds_repositories(manifest)
    repositories = _repositories(manifest, system, codename, docker=docker)
    containerd = ("containerd.io" if docker or manager(system) == "dnf" else "containerd") if lacks_containerd else ""
    needed = programs(system, containerd=containerd)
    parts = [install({}, system, {"curl": needed["curl"]})] if repositories else []
    for repository in repositories:
        parts += [fetch_key(repository, system), placing([repository_file(repository, system)])]
    return "\n".join((*parts, install(versions, system, needed)))


def _repositories(manifest: Manifest, system: OperatingSystem, codename: str, *, docker: bool) -> tuple[Repository, ...]:
    if not _adds_repositories(manifest):
        return ()
    return (kubernetes_repository(manifest.version, system), *((docker_repository(system, codename),) if docker else ()))


def _adds_repositories(manifest: Manifest) -> bool:
    return manifest.system_packages.configure_repositories


async def _codename(tools: Tools, name: str) -> str:
    """What Debian and Ubuntu call their release in the names of repositories."""
    script = '. /etc/os-release\nprintf %s "$VERSION_CODENAME"'
    outcome = await tools.look(name, script, doing="reading /etc/os-release", deadline=SETTINGS_DEADLINE)
    return "".join(outcome.lines)


def _flatcar(versions: Mapping[str, Version], manifest: Manifest) -> str:
    downloads = Downloads()
    return "\n".join(
        (
            placing(unit_files()),
            "systemctl daemon-reload",
            _subshell(install_tools(manifest.version, downloads)),
            _subshell(install_programs(versions, downloads)),
        )
    )


def _subshell(script: str) -> str:
    """A script with an EXIT trap of its own."""
    return f"(\nset -eu\n{script}\n)"


# Settings.


async def _set_up(tools: Tools, name: str, system: OperatingSystem, *, keep_firewall: bool) -> None:
    manifest = tools.manifest
    outcome = await tools.look(name, "containerd --version", doing="asking containerd its version", deadline=SETTINGS_DEADLINE)
    found = _CONTAINERD_VERSION.search(outcome.stdout)
    if found is None:
        raise StepFailed(name, f"containerd tells no version: {' '.join(outcome.lines)[:100]!r}", "Install containerd 1.7 or 2 there")
    files = containerd_files(manifest, min(max(int(found[1]), 1), 2))
    script = "\n".join(
        (
            _UNTOUCHED,
            placing(prerequisite_files(manifest, system)),
            with_proxies(manifest.proxy, prerequisites(manifest, system, keep_firewall=keep_firewall)),
            _RESTART.format(
                configuration=quoted(CONFIGURATION),
                placing=placing(files),
                stale=removing_stale_registries(files),
            ),
        )
    )
    await _run(tools, name, script, "applying settings", SETTINGS_DEADLINE)


# containerd is started anew where its configuration or its environment is another than the one it runs with, which its start time tells: an attempt that was
# cut between writing and restarting leaves it to the next one. Containers run on meanwhile.
_RESTART = """\
{placing}
{stale}
systemctl daemon-reload
systemctl is-enabled --quiet containerd 2>/dev/null || systemctl enable --quiet containerd
started=$(systemctl show --property=ActiveEnterTimestamp --value containerd)
if ! systemctl is-active --quiet containerd; then
    systemctl start containerd
    echo 'changed unit containerd: started'
else
    for file in {configuration} /etc/quorate/proxy.env /etc/systemd/system/containerd.service.d/*.conf; do
        [ -e "$file" ] || continue
        if [ "$(stat -c %Y -- "$file")" -ge "$(date -d "$started" +%s)" ]; then
            systemctl restart containerd
            echo 'changed unit containerd: restarted'
            break
        fi
    done
fi"""


# Preflight.


async def _check(tools: Tools, machine: Machine) -> None:
    """Let kubeadm pull the images, several at a time, and say now what it would say when the cluster is half made. Changes nothing else."""
    tools.report(machine.name, "pulling images")
    configuration = preflight_documents(tools.manifest, machine)
    command = kubeadm.Command("init phase preflight --config /dev/stdin", "the preflight", before=_UNTOUCHED, stdin=configuration)
    await kubeadm.run(tools, machine.name, command)


def preflight_documents(manifest: Manifest, machine: Machine) -> bytes:
    """What kubeadm needs to know for its preflight: everything that an init has but the token."""
    document = init_configuration(manifest, machine, Secret(""))
    del document["bootstrapTokens"]
    return yaml_documents(document, cluster_configuration(manifest))


async def _run(tools: Tools, name: str, script: str, doing: str, deadline: float) -> None:
    """Run the script, and tell what it changed and what the host does not allow."""
    outcome = await tools.run(name, script, doing=doing, deadline=deadline)
    for line in outcome.lines:
        if line.startswith(("changed ", "removed ", "not possible")):
            tools.report(name, line)
