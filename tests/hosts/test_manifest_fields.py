"""Every field of a manifest has an effect that can be seen, or is refused by name: the schema is walked, so that no field is added without its row here.

A compared field is shown by the real observation of a cluster that is as another manifest says: it must name a difference, or a problem where the field cannot
be changed in a cluster that runs. Of any other, either another value changes what its author is told or what is rendered, or it is read outside of
hosts/manifest.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args, get_origin

import pytest

from quorate.core.hosts.encryption import IDENTITY, SECRETS, Configuration, next_change
from quorate.core.hosts.state import Cluster
from quorate.hosts.connect.ssh.scripts import Outcome
from quorate.hosts.manifest import Manifest, ManifestError
from quorate.hosts.manifest.decoding import keys_of
from quorate.hosts.manifest.unsupported import UNSUPPORTED
from quorate.hosts.manifest.values import Opaque, Secret
from quorate.hosts.probe.probe import script as probe_script
from quorate.hosts.render.feature_contents import read as read_contents
from quorate.hosts.render.feature_files import feature_files
from quorate.hosts.render.kubeadm_configuration import cluster_configuration
from quorate.hosts.render.provider_files import generated, written
from quorate.hosts.run.overview import lasting
from tests.hosts.manifests import SMALLEST, load, notices, put
from tests.hosts.observe.world import FolderHost, World, stand, three
from tests.hosts.probe.machine import ca

SOURCE = Path(__file__).parents[2] / "src" / "quorate"


class Use(Enum):
    """How a field has its effect."""

    COMPARED = "with what is on the hosts and in the cluster, at every observation"
    REACHES = "how a host is reached over SSH, at every run"
    IDENTIFIES = "who a host is: compared with what its member, its Node and its kubelet say"
    ORDERS = "in which order hosts are worked on"
    INSTALLS = "where packages come from, whenever some are installed"
    MADE_ONCE = "in an object that is its owner's once it exists"
    CHOOSES = "which of several ways is taken, and nothing by itself"
    TOLD = "what its author is told"
    FORM = "whether this is a manifest at all"
    NONE = "none, as in KubeOne"


@dataclass(frozen=True)
class Row:
    """One field: its use and another value of it with what has to be set beside it, by their paths; of one without a value it is enough that it is read."""

    use: Use
    value: Any = None
    beside: tuple[tuple[str, Any], ...] = ()


def compared(value: Any, **beside: Any) -> Row:
    return Row(Use.COMPARED, value, tuple((path.replace("__", "."), other) for path, other in beside.items()))


def shown(use: Use, value: Any, **beside: Any) -> Row:
    return replace(compared(value, **beside), use=use)


BESIDE_THE_MANIFEST = {
    "policy.yaml": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
    "events.yaml": "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [{type: Server, qps: 5, burst: 9}]\n",
    "selector.yaml": "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}\n",
    "ca": ca().certificate.decode(),
}
AUDIT = {"features__staticAuditLog__enable": True, "features__staticAuditLog__config__policyFilePath": "policy.yaml"}
OIDC = {"features__openidConnect__enable": True, "features__openidConnect__config__issuerUrl": "https://issuer.example.com"}
REGISTRY = "containerRuntime.containerd.registries{}"
RATES = {"features__eventRateLimit__enable": True, "features__eventRateLimit__config__configFilePath": "events.yaml"}
SELECTORS = {"features__podNodeSelector__enable": True, "features__podNodeSelector__config__configFilePath": "selector.yaml"}
CLOUD = {"hetzner": {}, "external": True}
IPVS: dict[str, Any] = {"clusterNetwork__kubeProxy": {"ipvs": {}}}

KUBELET = {
    "systemReserved{}": compared({"cpu": "111m"}),
    "kubeReserved{}": compared({"cpu": "111m"}),
    "evictionHard{}": compared({"memory.available": "111Mi"}),
    "maxPods": compared(42),
    "imageGCHighThresholdPercent": compared(91),
    "imageGCLowThresholdPercent": compared(33),
    "imageMinimumGCAge": compared("11m"),
    "imageMaximumGCAge": compared("99h"),
}
HOST = {
    **dict.fromkeys(
        (
            "publicAddress",
            "sshUsername",
            "sshPort",
            "sshPrivateKeyFile",
            "sshCertFile",
            "sshAgentSocket",
            "sshHostPublicKey",
            "bastion",
            "bastionPort",
            "bastionUser",
            "bastionHostPublicKey",
            "bastionPrivateKeyFile",
        ),
        Row(Use.REACHES),
    ),
    **dict.fromkeys(("privateAddress", "ipv6Addresses[]", "hostname"), Row(Use.IDENTIFIES)),
    "operatingSystem": Row(Use.CHOOSES),  # where a host does not tell its own
    "isLeader": Row(Use.ORDERS),
    "labels{}": compared({"tier": "gold"}),
    "annotations{}": compared({"owner": "me"}),
    "taints[].key": compared([{"key": "a", "effect": "NoSchedule"}]),
    "taints[].value": compared([{"key": "a", "value": "b", "effect": "NoSchedule"}]),
    "taints[].effect": compared([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoExecute"}]),
    **{f"kubelet.{name}": row for name, row in KUBELET.items()},
}

FIELDS: dict[str, Row] = {
    "apiVersion": shown(Use.FORM, "other/v1"),
    "kind": shown(Use.FORM, "Other"),
    "metadata": Row(Use.NONE),
    "name": compared("other"),
    **{f"{role}.hosts[].{name}": row for role in ("controlPlane", "staticWorkers") for name, row in HOST.items()},
    **{f"kubeletConfig.{name}": row for name, row in KUBELET.items()},
    "apiEndpoint.host": compared("other.example.com"),
    "apiEndpoint.port": compared(7443),
    "apiEndpoint.alternativeNames[]": compared(["other.example.com"]),
    "cloudProvider.external": compared(True),
    "cloudProvider.disableBundledCSIDrivers": shown(Use.TOLD, value=True, cloudProvider=CLOUD),
    **{
        f"cloudProvider.{name}": shown(Use.CHOOSES, {}, cloudProvider=CLOUD)
        for name in ("aws", "azure", "digitalocean", "gce", "nutanix", "equinixmetal", "vsphere", "none")
    },
    "versions.kubernetes": compared("1.34.5"),
    f"{REGISTRY}.mirrors[]": compared({"a.example.com": {"mirrors": ["https://b.example.com"]}}),
    f"{REGISTRY}.overridePath": compared({"a.example.com": {"mirrors": ["https://b.example.com/v2"], "overridePath": True}}),
    f"{REGISTRY}.tlsConfig.insecureSkipVerify": compared({"a.example.com": {"tlsConfig": {"insecureSkipVerify": True}}}),
    f"{REGISTRY}.auth.username": compared({"a.example.com": {"auth": {"username": "u", "password": "p"}}}),
    f"{REGISTRY}.auth.password": compared({"a.example.com": {"auth": {"username": "u", "password": "p"}}}),
    f"{REGISTRY}.auth.auth": compared({"a.example.com": {"auth": {"auth": "dTpw"}}}),
    f"{REGISTRY}.auth.identityToken": compared({"a.example.com": {"auth": {"identityToken": "t"}}}),
    "containerRuntime.containerd.deviceOwnershipFromSecurityContext": compared(True),
    "containerRuntime.containerd.sandboxImage": compared("a.example.com/pause:3"),
    "clusterNetwork.podSubnet": compared("10.55.0.0/16"),
    "clusterNetwork.podSubnetIPv6": shown(Use.CHOOSES, "fd55::/48", clusterNetwork__ipFamily="IPv6"),
    "clusterNetwork.serviceSubnet": compared("10.66.0.0/16"),
    "clusterNetwork.serviceSubnetIPv6": shown(Use.CHOOSES, "fd66::/112", clusterNetwork__ipFamily="IPv6"),
    "clusterNetwork.serviceDomainName": compared("other.local"),
    "clusterNetwork.nodePortRange": compared("30000-31000"),
    "clusterNetwork.cni.external": Row(Use.CHOOSES),
    "clusterNetwork.kubeProxy.skipInstallation": compared(True),
    "clusterNetwork.kubeProxy.iptables": Row(Use.CHOOSES),
    "clusterNetwork.kubeProxy.ipvs.scheduler": compared("lc", **IPVS),
    "clusterNetwork.kubeProxy.ipvs.excludeCIDRs[]": compared(["10.1.0.0/16"], **IPVS),
    "clusterNetwork.kubeProxy.ipvs.strictARP": compared(True, **IPVS),
    "clusterNetwork.kubeProxy.ipvs.tcpTimeout": compared("11s", **IPVS),
    "clusterNetwork.kubeProxy.ipvs.tcpFinTimeout": compared("11s", **IPVS),
    "clusterNetwork.kubeProxy.ipvs.udpTimeout": compared("11s", **IPVS),
    "clusterNetwork.ipFamily": Row(Use.CHOOSES),
    "clusterNetwork.nodeCIDRMaskSizeIPv4": compared(25),
    "clusterNetwork.nodeCIDRMaskSizeIPv6": Row(Use.CHOOSES),
    "proxy.http": compared("http://proxy.example.com:3128"),
    "proxy.https": compared("http://proxy.example.com:3128"),
    "proxy.noProxy": compared("10.9.9.9", proxy__http="http://proxy.example.com:3128"),
    **{
        f"dynamicWorkers[].{name}": Row(Use.MADE_ONCE)
        for name in (
            "name",
            "replicas",
            "providerSpec.cloudProviderSpec",
            "providerSpec.annotations{}",
            "providerSpec.machineAnnotations{}",
            "providerSpec.nodeAnnotations{}",
            "providerSpec.machineObjectAnnotations{}",
            "providerSpec.labels{}",
            "providerSpec.taints[].key",
            "providerSpec.taints[].value",
            "providerSpec.taints[].effect",
            "providerSpec.sshPublicKeys[]",
            "providerSpec.operatingSystem",
            "providerSpec.operatingSystemSpec",
            "providerSpec.network.cidr",
            "providerSpec.network.gateway",
            "providerSpec.network.dns.servers[]",
            "providerSpec.network.ipFamily",
            "providerSpec.overwriteCloudConfig",
        )
    },
    "caBundle": compared(ca().certificate.decode()),
    "certificateAuthority.bundle": compared(ca().certificate.decode()),
    "certificateAuthority.file": compared("ca"),
    "certificateAuthority.certificateValidityPeriod": compared("4380h"),
    "certificateAuthority.caCertificateValidityPeriod": compared("43800h"),
    "features.coreDNS.replicas": compared(3),
    "features.coreDNS.deployPodDisruptionBudget": compared(False),
    "features.coreDNS.imageRepository": compared("a.example.com/coredns"),
    "features.alwaysPullImages.enable": compared(True),
    "features.eventRateLimit.enable": compared(True, **RATES),
    "features.eventRateLimit.config.configFilePath": compared("policy.yaml", **RATES),
    "features.podNodeSelector.enable": compared(True, **SELECTORS),
    "features.podNodeSelector.config.configFilePath": compared("policy.yaml", **SELECTORS),
    "features.staticAuditLog.enable": compared(True, **AUDIT),
    "features.staticAuditLog.config.policyFilePath": compared("events.yaml", **AUDIT),
    "features.staticAuditLog.config.logPath": compared("/var/log/kubernetes/other/audit.log", **AUDIT),
    "features.staticAuditLog.config.logMaxAge": compared(9, **AUDIT),
    "features.staticAuditLog.config.logMaxBackup": compared(9, **AUDIT),
    "features.staticAuditLog.config.logMaxSize": compared(9, **AUDIT),
    "features.openidConnect.enable": compared(True, **OIDC),
    "features.openidConnect.config.issuerUrl": compared("https://other.example.com", **OIDC),
    **{
        f"features.openidConnect.config.{name}": compared("other", **OIDC)
        for name in ("clientId", "usernameClaim", "usernamePrefix", "groupsClaim", "groupsPrefix")
    },
    "features.openidConnect.config.requiredClaim": compared("a=b", **OIDC),
    "features.openidConnect.config.signingAlgs": compared("ES256", **OIDC),
    "features.openidConnect.config.caFile": compared("/etc/ssl/certs/issuer.pem", **OIDC),
    "features.encryptionProviders.enable": compared(True),
    "features.encryptionProviders.customEncryptionConfiguration": compared(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{identity: {}}]}]\n",
        features__encryptionProviders__enable=True,
    ),
    "systemPackages.configureRepositories": Row(Use.INSTALLS),
    "registryConfiguration.overwriteRegistry": compared("a.example.com"),
    "registryConfiguration.insecureRegistry": compared(True, registryConfiguration__overwriteRegistry="a.example.com"),
    "loggingConfig.containerLogMaxSize": compared("11Mi"),
    "loggingConfig.containerLogMaxFiles": compared(9),
    **{f"tlsCipherSuites.{name}[]": compared(["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]) for name in ("apiServer", "etcd", "kubelet")},
    **{f"controlPlaneComponents.{name}.flags{{}}": compared({"v": "4"}) for name in ("controllerManager", "scheduler", "apiServer")},
    **{
        f"controlPlaneComponents.{name}.featureGates{{}}": compared({"AllAlpha": False})
        for name in ("controllerManager", "scheduler", "apiServer")
    },
    "controlPlaneComponents.etcd.quotaBackendBytes": compared(4294967296),
    "controlPlaneComponents.etcd.autoCompactionRetention": compared("9"),
    "controlPlaneComponents.etcd.autoCompactionMode": compared("revision", controlPlaneComponents__etcd__autoCompactionRetention="1000"),
}


def walk(kind: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every field without fields of its own, by its path, and the attribute that it sets; items of lists are `[]`, those of mappings `{}`."""
    for name, (attribute, hint) in keys_of(kind).items():
        below, suffix = hint, ""
        while arguments := [argument for argument in get_args(below) if argument not in (NoneType, Ellipsis)]:
            suffix += "[]" if get_origin(below) is tuple else "{}" if len(arguments) == 2 else ""
            below = arguments[-1]
        where = f"{path}.{name}".lstrip(".") + suffix
        if is_dataclass(below) and below not in (Secret, Opaque) and keys_of(cast("Any", below)):
            yield from walk(below, where)
        else:
            yield where, attribute.name


ATTRIBUTES = dict(walk(Manifest))


def refused(field: str) -> bool:
    """Whether this field, or one that it is in, is one that quorate refuses by name."""
    return any(f"{field}.".startswith((f"{entry.path}.", f"{entry.path}[]")) for entry in UNSUPPORTED)


def test_every_field_is_used_compared_or_refused_by_name() -> None:
    """A field that is new in the schema fails here until it has its row, and a row without a field is none."""
    wanted = {field for field in ATTRIBUTES if not refused(field)}
    assert wanted - FIELDS.keys() == set()
    assert FIELDS.keys() - wanted == set()


@cache
def read_outside_of_the_manifest() -> frozenset[str]:
    """Every attribute that anything but `hosts/manifest` reads."""
    files = (path for path in SOURCE.rglob("*.py") if SOURCE / "hosts" / "manifest" not in path.parents)
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


def outcome(made: dict[str, Any]) -> object:
    """What comes of a manifest: why it is refused, or what its author is told, and kubeadm's configuration."""
    try:
        manifest = load(made)
    except ManifestError as error:
        return str(error)
    return notices(manifest), cluster_configuration(manifest)


@pytest.mark.parametrize("field", [name for name, row in FIELDS.items() if row.use not in (Use.COMPARED, Use.NONE)])
def test_a_field_that_is_not_compared_has_an_effect_all_the_same(field: str) -> None:
    row, made = FIELDS[field], copy.deepcopy(SMALLEST)
    if row.value is None:
        assert ATTRIBUTES[field] in read_outside_of_the_manifest()
        return
    for path, value in row.beside:
        put(made, path, copy.deepcopy(value))
    before = outcome(made)
    put(made, field, row.value)
    assert outcome(made) != before


COMPARED = [name for name, row in FIELDS.items() if row.use is Use.COMPARED and not name.startswith("staticWorkers.")]


@pytest.mark.parametrize("field", COMPARED)
async def test_a_cluster_that_is_otherwise_than_a_field_says_is_found_to_differ(field: str, clusters: Clusters) -> None:
    row = FIELDS[field]
    path = re.sub(r"(\[\]|\{\}).*", "", field.replace(".hosts[].", ".hosts.1."))
    cluster = clusters.made_from(tuple((where, value) for where, value in row.beside if (where, value) != (path, row.value)))
    assert await cluster.differences(path, row.value) - await cluster.differences()


class Clusters:
    """One cluster for each manifest that some rows begin with. An observation changes nothing, so that the rows can share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Made] = {}
        for name, content in BESIDE_THE_MANIFEST.items():
            (folder / name).write_text(content)

    def made_from(self, beside: tuple[tuple[str, Any], ...]) -> Made:
        return self._made.setdefault(repr(beside), Made(self._folder, self._folder / f"cluster-{len(self._made)}", beside))


def _generated() -> Secret:
    key, entry = generated(bytes)
    return written(Configuration.made({SECRETS: (key, IDENTITY)}), {key: entry})


class Made:
    """A cluster as a manifest says."""

    def __init__(self, folder: Path, hosts: Path, beside: tuple[tuple[str, Any], ...]) -> None:
        self._folder, self._hosts, self._beside = folder, hosts, beside

    @cached_property
    def _world(self) -> World:
        world = stand(self._hosts, **self._document())
        world.contents = read_contents(world.manifest)
        for machine in world.machines.values():
            contents = replace(world.contents, encryption_providers=world.contents.encryption_providers or _generated())
            for file in feature_files(world.manifest, contents):
                machine.folder.file(file.path.lstrip("/"), file.content)
            machine.run = once_probed(machine)  # type: ignore[method-assign, assignment]
        return world

    async def differences(self, path: str = "", value: Any = None) -> set[str]:
        """What an observation says under the manifest that it was made from, or one with this field changed."""
        document = self._document()
        if path:
            put(document, path, self._in_folder(value))
        self._world.manifest = three(**document)
        self._world.contents = read_contents(self._world.manifest)
        return differences(await self._world.cluster())

    def _document(self) -> dict[str, Any]:
        made = copy.deepcopy(SMALLEST)
        for number, host in enumerate(made["controlPlane"]["hosts"], 1):
            host["hostname"] = f"cp-{number}"
        for path, value in self._beside:
            put(made, path, self._in_folder(copy.deepcopy(value)))
        return made

    def _in_folder(self, value: Any) -> Any:
        """The path of a file beside the manifest as a whole; anything else as it is."""
        return str(self._folder / value) if isinstance(value, str) and value in BESIDE_THE_MANIFEST else value


def once_probed(machine: FolderHost) -> Callable[..., Awaitable[Outcome]]:
    """Its `run`, which probes once: what it is does not depend on the manifest, and a probe takes half a second."""
    run, probed = machine.run, list[Outcome]()

    async def remembering(text: str, **options: Any) -> Outcome:
        if text != probe_script():
            return await run(text, **options)
        if not probed:
            probed.append(await run(text, **options))
        return probed[0]

    return remembering


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Clusters:
    return Clusters(tmp_path_factory.mktemp("clusters"))


def differences(cluster: Cluster) -> set[str]:
    """Everything that an observation says is otherwise than in the manifest."""
    found = {*cluster.configuration_drift, *cluster.addon_drift, *cluster.problems, *lasting(cluster)}
    for host in cluster.hosts:
        found |= {*host.drift, *host.node_drift}
    if (change := next_change(cluster.api_servers, cluster.encryption)) is not None:
        found.add(str(change))
    return found if cluster.running == cluster.version else {*found, "version"}
