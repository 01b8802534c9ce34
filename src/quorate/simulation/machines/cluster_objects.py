"""What a user puts into the management cluster to get a control plane: definitions, a template, a Cluster and a KubeadmControlPlane."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass

from quorate.pki import KeyAlgorithm, Purpose, generate_ca
from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.objects import CLUSTERS, CONTROL_PLANES, DEFINITIONS, INFRASTRUCTURE, SECRETS, TEMPLATES, Json
from quorate.simulation.engine.world import EPOCH, NAMESPACE

USER = "user"
NAME = "demo"
ENDPOINT = "demo.test"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The control plane that the user asks for first."""

    replicas: int = 3
    version: str = "v1.34.2"
    max_surge: int = 1
    failure_domains: tuple[str, ...] = ()
    external_etcd: bool = False
    by_hand: int = 0  # Machines that are there before the control plane, which adopts them
    updates: frozenset[str] | None = None  # what an extension updates in place; None: the feature gate is off


def set_up(server: ApiServer, wanted: Wanted) -> None:
    """Put everything there; the control plane itself only where no Machines are made by hand before it."""
    for kind in (INFRASTRUCTURE, TEMPLATES):
        metadata = {"name": f"{kind.plural}.{kind.group}", "labels": {"cluster.x-k8s.io/v1beta2": kind.version}}
        spec = {"group": kind.group, "names": {"kind": kind.kind, "plural": kind.plural}, "versions": [{"name": kind.version}]}
        server.create(DEFINITIONS, {"metadata": metadata, "spec": spec}, who=USER)
    server.create(TEMPLATES, template("small"), who=USER)
    spec = {"controlPlaneEndpoint": {"host": ENDPOINT, "port": 6443}}
    server.create(CLUSTERS, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec}, who=USER)
    if wanted.failure_domains:
        domains = [{"name": name, "controlPlane": True} for name in wanted.failure_domains]
        server.merge_patch(CLUSTERS, NAMESPACE, NAME, {"status": {"failureDomains": domains}}, who=USER, subresource="status")
    if wanted.external_etcd:
        for purpose in (Purpose.ETCD_CA, Purpose.API_SERVER_ETCD_CLIENT):
            server.create(SECRETS, _supplied(purpose), who=USER)
    if not wanted.by_hand:
        create_control_plane(server, wanted)


def create_control_plane(server: ApiServer, wanted: Wanted) -> None:
    """Create the KubeadmControlPlane, and name it in the Cluster."""
    server.create(CONTROL_PLANES, control_plane(wanted), who=USER)
    reference = {"apiGroup": CONTROL_PLANES.group, "kind": CONTROL_PLANES.kind, "name": NAME}
    server.merge_patch(CLUSTERS, NAMESPACE, NAME, {"spec": {"controlPlaneRef": reference}}, who=USER)


def _etcd(wanted: Wanted) -> Json:
    return {"etcd": {"external": {"endpoints": ["https://10.9.9.9:2379"]}}} if wanted.external_etcd else {}


def _supplied(purpose: Purpose) -> Json:
    """A pair that the owner of an external etcd gives; what is in it nobody here looks at."""
    pair = generate_ca(KeyAlgorithm.parse("ECDSA-P256"), now=EPOCH)
    metadata = {"name": purpose.secret_name(NAME), "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": NAME}}
    return {"metadata": metadata, "data": {field: b64encode(text).decode() for field, text in pair.secret_data().items()}}


def template(name: str) -> Json:
    """An infrastructure template."""
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"template": {"spec": {"size": name}}}}


def control_plane(wanted: Wanted) -> Json:
    """The KubeadmControlPlane. Its keys are of elliptic curves: those of RSA take most of a simulated create to make."""
    reference = {"apiGroup": TEMPLATES.group, "kind": TEMPLATES.kind, "name": "small"}
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "replicas": wanted.replicas,
            "version": wanted.version,
            "machineTemplate": {"spec": {"infrastructureRef": reference}},
            "kubeadmConfigSpec": {"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"} | _etcd(wanted)},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": wanted.max_surge}}},
        },
    }
