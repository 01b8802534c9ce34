"""The manifest's settings on one host of the cluster: files that its components read, their manifests and its kubelet's configuration.

kubeadm writes what a component's manifest would be to a folder beside; only one that differs takes its place, the kubelet then restarts that component, and the
next one waits until it serves. One that does not come up gets its old manifest back.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from quorate.core.health import Absent, Unknown
from quorate.core.in_place.steps import Reconfigure
from quorate.core.versions import Version
from quorate.hosts.act import containers, kubeadm
from quorate.hosts.act.certificates import serves
from quorate.hosts.act.configuration import merged_cluster_configuration
from quorate.hosts.act.encryption import contents_of, generated, is_generated
from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.placing import placing
from quorate.hosts.act.restarts import make_ready
from quorate.hosts.act.settled import control_plane_is_back, kubelet_is_back
from quorate.hosts.act.tools import Observation, Tools
from quorate.hosts.component_configurations import kubelet_configuration, kubelet_patch, kubelet_settings
from quorate.hosts.feature_files import Contents, feature_files
from quorate.hosts.host_files import HostFile, yaml_documents
from quorate.hosts.kubeadm_configuration import UPGRADE_PATH, Machine, certificate_names, init_configuration, upgrade_file
from quorate.hosts.manifest import Secret
from quorate.hosts.observe.kubelet import overruling_flags
from quorate.hosts.ssh.errors import NoSuchFile
from quorate.kubeadm.cluster_configuration import decode
from quorate.kubernetes.resource import CONFIG_MAPS
from quorate.pki.certificates import comparable, read_certificates
from quorate.pki.keys import PkiError
from quorate.workload.kubeadm_config import KEY, NAME
from quorate.workload.static_pods import NAMESPACE, Component

CONFIGURATION = "/etc/kubernetes/quorate/reconfigure.yaml"
FOLDER = "/etc/kubernetes/tmp/quorate"
"""On the file system of the manifests, so that one takes another's place in one act."""
_PHASES = {
    Component.ETCD: "etcd local",
    Component.API_SERVER: "control-plane apiserver",
    Component.CONTROLLER_MANAGER: "control-plane controller-manager",
    Component.SCHEDULER: "control-plane scheduler",
}
_MANIFESTS = "/etc/kubernetes/manifests"
_CERTIFICATE = "/etc/kubernetes/pki/apiserver.crt"
_DEADLINE = 60.0


async def reconfigure(tools: Tools, step: Reconfigure, observation: Observation) -> None:
    """Bring the host to what the manifest says. Idempotent; nothing that is right is restarted. Raises StepFailed."""
    machine = observation.machines[step.host]
    control_plane = step.host in {host.name for host in observation.cluster.control_planes}
    if control_plane:
        contents = await _contents(tools, step.host, observation)
        await make_ready(tools, step.host, observation)
        configuration = await _configuration(tools, machine, observation.cluster.host(step.host).components)
        await _renew_names(tools, machine, configuration)
        for component in _PHASES:
            files = feature_files(tools.manifest, contents) if component is Component.API_SERVER else ()
            await _replace(tools, step.host, component, configuration, files)
    await _configure_kubelet(tools, machine)
    await kubelet_is_back(tools, step.host, None, control_plane=control_plane)
    if control_plane:
        await control_plane_is_back(tools, step.host)


# Components.


async def _configuration(tools: Tools, machine: Machine, version: Version | None) -> HostFile:
    """What kubeadm generates manifests from: this host's part by the manifest, and the cluster's as kubeadm keeps it, with fields that only others know.

    `version` is the one that the host's components have, None where it is not known. The cluster's may be older: of the first host of an upgrade that was
    interrupted before kubeadm had written it, components would go back to it.
    """
    stored = await (await tools.access.api()).get(CONFIG_MAPS, NAME, NAMESPACE)
    try:
        document = decode(stored.data.get(KEY, ""))
    except ValueError as error:
        raise StepFailed(
            machine.name, f"ConfigMap {NAMESPACE}/{NAME}: {error}", "Correct it by hand, then run the same command again"
        ) from None
    own = init_configuration(tools.manifest, machine, Secret(""))
    del own["bootstrapTokens"]  # nobody joins with it
    cluster = merged_cluster_configuration(tools.manifest, document)
    if version is not None:
        cluster["kubernetesVersion"] = str(version)
    return HostFile(CONFIGURATION, yaml_documents(own, cluster))


async def _replace(tools: Tools, host: str, component: Component, configuration: HostFile, files: tuple[HostFile, ...]) -> None:
    """Give the host the component's files and manifest, and wait until it serves with them where either was another."""
    command = kubeadm.Command(
        f"init phase {_PHASES[component]} --dry-run --config {CONFIGURATION}",
        f"writing the manifest of {component}",
        before=f"{_NEW_FOLDER}\n{placing([configuration, *files])}",
        then=_take_place(host, component, files),
    )
    tools.report(host, f"comparing {component} with the manifest")
    await kubeadm.run(tools, host, command)
    before = await _containers_before(tools, host, component)
    if before is None:
        return
    try:
        await containers.replaced(tools, host, component, before)
        await serves(tools, host, component)
    except StepFailed as failure:
        await _put_back(tools, host, component)
        remedy = (
            f"Correct what the manifest says of {component}; its log says what it did not like (crictl ps -a and crictl logs on the host)"
        )
        raise StepFailed(host, f"{failure.cause}. The manifest that it had before was put back", remedy) from failure
    await tools.run(host, f"rm -f -- {_previous(component)}", doing="removing the old manifest", deadline=_DEADLINE)


async def _containers_before(tools: Tools, host: str, component: Component) -> frozenset[str] | None:
    """Those that ran when the manifest was changed, as long as the change has yet to prove itself: in an attempt that was cut short, too. None: no change."""
    script = f"if [ -e {_previous(component)} ]; then cat -- {_containers(component)}; echo changed; fi"
    outcome = await tools.run(host, script, doing="looking for the old manifest", deadline=_DEADLINE)
    words = outcome.stdout.decode(errors="replace").split()
    return frozenset(words[:-1]) if words else None


async def _put_back(tools: Tools, host: str, component: Component) -> None:
    tools.report(host, f"{component} does not serve: putting its old manifest back")
    script = f"mv -f -T -- {_previous(component)} {_MANIFESTS}/{component}.yaml"
    await tools.run(host, script, doing=f"putting the old manifest of {component} back", deadline=_DEADLINE)


def _previous(component: Component) -> str:
    return f"{FOLDER}/{component}.before"


def _containers(component: Component) -> str:
    return f"{FOLDER}/{component}.containers"


def _take_place(host: str, component: Component, files: tuple[HostFile, ...]) -> str:
    """After kubeadm has written the new manifest: let it take the old one's place if it differs, or restart the API server where only its files do.

    etcd keeps the members that it was started with in its manifest: they count for nothing while it has its data, and without it tell a member that joined from
    one that founded the ring.
    """
    names = {
        "component": component,
        "folder": FOLDER,
        "manifests": _MANIFESTS,
        "previous": _previous(component),
        "containers": _containers(component),
        "listing": containers.listing(host, component),
        "ending": containers.ending(host, component),
        "files": " ".join(shlex.quote(file.path) for file in files if "encryption" not in file.path),  # those it reads again by itself
    }
    names["same"] = (_SAME_BUT_FOR_ORDER if component is Component.ETCD else _SAME).format(**names)
    parts = (
        *((_KEEP_MEMBERS,) if component is Component.ETCD else ()),
        _TAKE_PLACE,
        *((_RESTART_FOR_FILES,) if files else ()),
    )
    return "".join(part.format(**names) for part in parts)


# What the API server's files need.


async def _contents(tools: Tools, host: str, observation: Observation) -> Contents:
    """The contents of the feature files. A provider file that is generated is the one that the cluster has; a new one only where nobody can have used any."""
    if not is_generated(tools.manifest):
        return tools.contents
    users = [each.name for each in observation.cluster.control_planes if _encrypts(observation, each.name)]
    if users:
        return await contents_of(tools, users[0])
    if len(observation.cluster.control_planes) > 1:
        cause = "features.encryptionProviders was turned on for a cluster of several control planes: until all have the key, some cannot read what others write"
        remedy = (
            "Give customEncryptionConfiguration with identity first and the new key second, apply, then exchange the two and apply again"
        )
        raise StepFailed(host, cause, remedy)
    return replace(tools.contents, encryption_providers=generated(tools.random_bytes))


def _encrypts(observation: Observation, name: str) -> bool:
    facts = observation.facts[name]
    pod = getattr(facts, "manifest", lambda _: Absent())("kube-apiserver")
    return not isinstance(pod, Absent | Unknown) and pod.flag("encryption-provider-config") is not None


# The API server's certificate.


async def _renew_names(tools: Tools, machine: Machine, configuration: HostFile) -> None:
    """Make the API server's certificate anew where it lacks a name of the manifest; the API server reads it again while it runs."""
    try:
        found = read_certificates(await tools.access.ssh(machine.name).read_file(_CERTIFICATE))[0].names
    except (NoSuchFile, PkiError):  # an attempt was cut short here, or what is there is no certificate
        found = frozenset()
    missing = sorted(set(map(comparable, certificate_names(tools.manifest))) - found)
    if missing:
        tools.report(machine.name, f"making the API server's certificate with {', '.join(missing)}")
        arguments = f"init phase certs apiserver --config {CONFIGURATION}"
        before = f"{placing([configuration])}\n{_WITHOUT_CERTIFICATE}"
        await kubeadm.run(tools, machine.name, kubeadm.Command(arguments, "making the API server's certificate", before=before))


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


_NEW_FOLDER = f"""\
mkdir -p {FOLDER}/new
rm -f -- {FOLDER}/new/*
export KUBEADM_INIT_DRYRUN_DIR={FOLDER}/new
"""
# Each is put right behind the flag that precedes both, the first of the two last.
_KEEP_MEMBERS = """\
if grep -q -e '^ *- --initial-cluster=' {manifests}/etcd.yaml; then
    for flag in initial-cluster-state initial-cluster; do
        sed -i "/^ *- --$flag=/d" {folder}/new/etcd.yaml
        line=$(grep -m 1 -e "^ *- --$flag=" {manifests}/etcd.yaml || :)
        [ -z "$line" ] || sed -i "/^ *- --initial-advertise-peer-urls=/a\\\\$line" {folder}/new/etcd.yaml
    done
fi
"""
# etcd's flags may be in another order, after an upgrade that patched one in: that is no difference.
_SAME_BUT_FOR_ORDER = '[ "$(sort {folder}/new/{component}.yaml)" = "$(sort {manifests}/{component}.yaml)" ]'
_SAME = "cmp -s -- {folder}/new/{component}.yaml {manifests}/{component}.yaml"
# A copy of the old manifest, and what ran with it, are there before the new one takes its place: they say that a change has yet to prove itself.
_TAKE_PLACE = """\
if ! {same}; then
    chmod 0600 {folder}/new/{component}.yaml
    ( {listing} ) >{containers}
    cp -p -- {manifests}/{component}.yaml {previous}.new
    mv -f -T -- {previous}.new {previous}
    mv -f -T -- {folder}/new/{component}.yaml {manifests}/{component}.yaml
fi
"""
_RESTART_FOR_FILES = """\
started=$(ps -C kube-apiserver -o etimes= | sort -n | tail -n 1)
if [ ! -e {previous} ] && [ -n "$started" ]; then
    for file in {files}; do
        if [ "$(stat -c %Y -- "$file")" -ge "$(($(date +%s) - started))" ]; then
            ( {listing} ) >{containers}
            cp -p -- {manifests}/{component}.yaml {previous}
            {ending}
            break
        fi
    done
fi
"""
_WITHOUT_CERTIFICATE = """\
cd /etc/kubernetes/pki
mkdir -p -m 0700 /etc/kubernetes/tmp/quorate
for file in apiserver.crt apiserver.key; do [ ! -e $file ] || mv -f -- $file /etc/kubernetes/tmp/quorate/; done
"""
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
