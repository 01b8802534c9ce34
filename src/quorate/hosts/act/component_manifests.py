"""The static Pods of a control-plane host's components, written by kubeadm as the manifest says.

kubeadm writes what a component's manifest would be to a folder beside; only one that differs takes its place, the kubelet then restarts that component, and the
next one waits until it serves. One that does not come up gets its old manifest back.
"""

from __future__ import annotations

from quorate.core.versions import Version
from quorate.hosts.act import containers, kubeadm
from quorate.hosts.act.certificates import serves
from quorate.hosts.act.configuration import merged_cluster_configuration
from quorate.hosts.act.failures import EXPECTED, StepFailed
from quorate.hosts.act.gates import api_server_is_ready
from quorate.hosts.act.nodes import written
from quorate.hosts.act.placing import placing
from quorate.hosts.act.tools import Tools
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.manifest import Secret
from quorate.hosts.observe.flags import arguments
from quorate.hosts.observe.inspection import OLDEST_API_SERVER
from quorate.hosts.observe.known_flags import PLACES
from quorate.hosts.probe.facts import HostFacts, StaticPod
from quorate.hosts.render.host_files import HostFile, yaml_documents
from quorate.hosts.render.kubeadm_configuration import Machine, cluster_configuration, init_configuration
from quorate.hosts.render.shell import quoted
from quorate.kubeadm.cluster_configuration import Document, decode
from quorate.kubernetes.client import Client
from quorate.kubernetes.objects import ConfigMap
from quorate.kubernetes.resource import CONFIG_MAPS
from quorate.workload.kubeadm_config import KEY, NAME
from quorate.workload.static_pods import NAMESPACE, Component

CONFIGURATION = "/etc/kubernetes/quorate/reconfigure.yaml"
FOLDER = "/etc/kubernetes/tmp/quorate"
"""On the file system of the manifests, so that one takes another's place in one act."""
PHASES = {
    Component.ETCD: "etcd local",
    Component.API_SERVER: "control-plane apiserver",
    Component.CONTROLLER_MANAGER: "control-plane controller-manager",
    Component.SCHEDULER: "control-plane scheduler",
}
"""Of `kubeadm init`, by the component whose manifest each writes, in the order in which they are changed: what the others stand on first."""
_MANIFESTS = "/etc/kubernetes/manifests"
_DEADLINE = 60.0


async def kubeadm_documents(tools: Tools, machine: Machine, version: Version | None, *, alone: bool = False) -> tuple[Document, Document]:
    """What kubeadm generates files from: this host's part by the manifest, and the cluster's as kubeadm keeps it, with fields that only others know.

    `version` is the one that the host's components have, None where it is not known. The cluster's may be older: of the first host of an upgrade that was
    interrupted before kubeadm had written it, components would go back to it. `alone`: no other host has an API server. Where that one does not come to answer,
    there is only the manifest to go by. Raises StepFailed.
    """
    try:
        document = await _stored(tools, machine.name)
    except StepFailed:
        if not alone or await _api_server_serves(tools, machine.name):
            raise
        tools.report(machine.name, "no API server tells kubeadm's configuration: going by the manifest")
        document = cluster_configuration(tools.manifest)
    own = init_configuration(tools.manifest, machine, Secret(""))
    del own["bootstrapTokens"]  # nobody joins with it
    cluster = merged_cluster_configuration(tools.manifest, document)
    if version is not None:
        cluster["kubernetesVersion"] = str(version)
    return own, cluster


async def _stored(tools: Tools, host: str) -> Document:
    """The ClusterConfiguration that kubeadm keeps. Raises StepFailed."""
    found: list[ConfigMap] = []

    async def read(api: Client) -> None:
        found.append(await api.get(CONFIG_MAPS, NAME, NAMESPACE))

    await written(tools, host, f"ConfigMap {NAMESPACE}/{NAME} to be read", read)
    try:
        return decode(found[-1].data.get(KEY, ""))
    except ValueError as error:
        raise StepFailed(host, f"ConfigMap {NAMESPACE}/{NAME}: {error}", "Correct it by hand, then run the same command again") from None


async def keep_places(tools: Tools, machine: Machine, facts: HostFacts | Unreachable) -> None:
    """Let kubeadm write no manifest, from what it keeps in the cluster, whose flags say that data are elsewhere than the host's say. Raises StepFailed."""
    pods = {name: pod for name in PLACES if isinstance(facts, HostFacts) and isinstance(pod := facts.manifest(name), StaticPod)}
    if not pods:
        return
    _, cluster = await kubeadm_documents(tools, machine, None)
    local = cluster["etcd"]["local"]
    kept = {"kube-apiserver": arguments(cluster["apiServer"]), "etcd": {"data-dir": local["dataDir"], **arguments(local)}}
    for component, pod in pods.items():
        for name in sorted(PLACES[component]):
            if pod.flag(name) != kept[component].get(name) and (name, pod.flag(name)) != ("data-dir", None):
                found, wanted = (each or "not there" for each in (pod.flag(name), kept[component].get(name)))
                cause = f"the --{name} of {component} is {found}, and {wanted} in kubeadm's configuration: with its next manifest its data would not be found"
                raise StepFailed(machine.name, cause, f"Correct it in ConfigMap {NAMESPACE}/{NAME}, then run the same command again")


async def replace_component(
    tools: Tools, host: str, component: Component, documents: tuple[Document, Document], files: tuple[HostFile, ...] = (), first: str = ""
) -> None:
    """Give the host the component's files and manifest, and wait until it serves with them where either was another. Idempotent. Raises StepFailed.

    `first` is sh that runs before anything is placed, under the same lock.
    """
    configuration = HostFile(CONFIGURATION, yaml_documents(*documents))
    command = kubeadm.Command(
        f"init phase {PHASES[component]} --dry-run --config {CONFIGURATION}",
        f"writing the manifest of {component}",
        before=f"{first}{_NEW_FOLDER}\n{placing([configuration, *files])}",
        then=_take_place(host, component, files),
    )
    tools.report(host, f"comparing {component} with the manifest")
    awaited = await _awaited(tools, host, component)
    await kubeadm.run(tools, host, command)
    before = await _containers_before(tools, host, component)
    if before is None:
        return
    try:
        for each in awaited:
            await containers.replaced(tools, host, each, before)
        for each in awaited:
            await serves(tools, host, each)
    except StepFailed as failure:
        await _put_back(tools, host, component)
        remedy = f"Correct what the manifest says of {component}; its log says what is wrong (crictl ps -a and crictl logs on the host)"
        raise StepFailed(host, f"{failure.cause}. The manifest that it had before was put back", remedy) from failure
    await tools.run(host, f"rm -f -- {_previous(component)}", doing="removing the old manifest", deadline=_DEADLINE)


def _restarted_with(component: Component) -> tuple[Component, ...]:
    """What a new manifest of the component restarts: with etcd the API server, which listens to nobody while it has none."""
    return (component, Component.API_SERVER) if component is Component.ETCD else (component,)


async def _awaited(tools: Tools, host: str, component: Component) -> tuple[Component, ...]:
    """Those that have to serve with a new manifest of the component. Not the API server with etcd's where it served nobody before: its own manifest, which
    comes next, may be what is wrong. Where an attempt was cut short, that one may have taken it down.
    """
    if (
        component is Component.ETCD
        and await _containers_before(tools, host, component) is None
        and not await _api_server_serves(tools, host)
    ):
        return (component,)
    return _restarted_with(component)


async def _api_server_serves(tools: Tools, host: str) -> bool:
    try:
        return not await api_server_is_ready(tools, host)
    except EXPECTED:
        return False


async def revive_api_server(tools: Tools, host: str) -> None:
    """Where no API server answers, give the host's own the manifest back that it had before a change which was cut short, and wait until it serves: nobody else
    tells kubeadm's configuration. Raises StepFailed.
    """
    try:
        await tools.access.api()
    except EXPECTED:
        if await _containers_before(tools, host, Component.API_SERVER) is not None:
            await _put_back(tools, host, Component.API_SERVER)
            await serves(tools, host, Component.API_SERVER)


async def _containers_before(tools: Tools, host: str, component: Component) -> frozenset[str] | None:
    """Those that ran when the manifest was changed, as long as the change has yet to prove itself: in an attempt that was cut short, too. None: no change."""
    script = f"if [ -e {_previous(component)} ]; then cat -- {_containers(component)}; echo changed; fi"
    outcome = await tools.look(host, script, doing="looking for the old manifest", deadline=_DEADLINE)
    words = " ".join(outcome.lines).split()
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
    """After kubeadm has written the new manifest: let it take the old one's place if it differs, or restart the API server where it is older than its files.

    etcd keeps the members that it was started with in its manifest: they count for nothing while it has its data, and without it tell a member that joined from
    one that founded the ring.
    """
    names = {
        "component": component,
        "folder": FOLDER,
        "manifests": _MANIFESTS,
        "previous": _previous(component),
        "containers": _containers(component),
        "listing": "".join(containers.listing(host, each) for each in _restarted_with(component)),
        "ending": containers.ending(host, component),
        "files": " ".join(quoted(file.path) for file in files),
        "oldest": OLDEST_API_SERVER,
        "making_way": containers.ending_to_listen(host) if component is Component.ETCD else "",
        "places": " ".join(sorted(PLACES.get(component, ()))),
    }
    names["same"] = (_SAME_BUT_FOR_ORDER if component is Component.ETCD else _SAME).format(**names)
    parts = (
        *((_KEEP_DATA,) if names["places"] else ()),
        *((_KEEP_MEMBERS,) if component is Component.ETCD else ()),
        _TAKE_PLACE,
        *((_RESTART_FOR_FILES,) if files else ()),
    )
    return "".join(part.format(**names) for part in parts)


_NEW_FOLDER = f"""\
mkdir -p {FOLDER}/new
rm -f -- {FOLDER}/new/*
export KUBEADM_INIT_DRYRUN_DIR={FOLDER}/new
"""
# In another folder a member would begin anew: one that founded the ring as a ring of its own. An API server that looks elsewhere finds nothing.
_KEEP_DATA = """\
if [ -e {manifests}/{component}.yaml ]; then
    for flag in {places}; do
        name=$(printf %s "$flag" | sed 's/-/[-_]/g') # which Kubernetes takes for each other
        found=$(tr -d '\\042\\047' <{manifests}/{component}.yaml | sed -n "s/^ *- --$name=//p") # without quotes
        wanted=$(tr -d '\\042\\047' <{folder}/new/{component}.yaml | sed -n "s/^ *- --$name=//p")
        if [ "$found" = "$wanted" ] || [ "$flag$found" = data-dir ]; then continue; fi
        echo "the --$flag of {component} is ${{found:-not there}}, and ${{wanted:-not there}} in its new manifest, so that its data would not be found:" \
            "correct it in ConfigMap kubeadm-config (of etcd's --data-dir: etcd.local.dataDir)" >&2
        exit 1
    done
fi
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
    {making_way}
    mv -f -T -- {folder}/new/{component}.yaml {manifests}/{component}.yaml
fi
"""
_RESTART_FOR_FILES = """\
{oldest}if [ ! -e {previous} ] && [ -n "$started" ]; then
    for file in {manifests}/{component}.yaml {files}; do
        if [ "$(stat -c %Y -- "$file")" -ge "$(($(date +%s) - started))" ]; then
            ( {listing} ) >{containers}
            cp -p -- {manifests}/{component}.yaml {previous}.new
            mv -f -T -- {previous}.new {previous}
            {ending}
            break
        fi
    done
fi
"""
