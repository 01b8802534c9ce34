"""Control-plane Machines that a user makes by hand, before there is a control plane to own them; and what core and the bootstrap provider do for them then.

Source: cluster-api, docs/proposals/20191017-kubeadm-based-control-plane.md (adoption); the Secrets are those of CABPK, owned by the KubeadmConfig that they
were made for, and the kubeconfig is core's, owned by the Cluster.
"""

from __future__ import annotations

from base64 import b64encode

from quorate.pki import KeyAlgorithm, Purpose, admin_kubeconfig, generate, purposes
from quorate.simulation.engine.apiserver import ApiServer
from quorate.simulation.engine.objects import CLUSTERS, CONFIGS, INFRASTRUCTURE, MACHINES, SECRETS, Json, Stored
from quorate.simulation.engine.world import EPOCH, NAMESPACE
from quorate.simulation.machines.cluster_objects import ENDPOINT, NAME, USER, Wanted

_LABELS = {"cluster.x-k8s.io/cluster-name": NAME, "cluster.x-k8s.io/control-plane": ""}
_ALGORITHM = KeyAlgorithm.parse("ECDSA-P256")


def make_by_hand(server: ApiServer, wanted: Wanted) -> None:
    """Make the Machines, the first of which founds the cluster, and the Secrets of the cluster."""
    cluster = server.get(CLUSTERS, NAMESPACE, NAME)
    configs = [_machine(server, cluster, wanted, f"{NAME}-by-hand-{number}", init=number == 1) for number in range(1, wanted.by_hand + 1)]
    pairs = {purpose: generate(purpose, _ALGORITHM, now=EPOCH) for purpose in purposes(external_etcd=False)}
    for purpose, pair in pairs.items():
        data = {field: b64encode(text).decode() for field, text in pair.secret_data().items()}
        server.create(SECRETS, _secret(purpose.secret_name(NAME), data, configs[0]), who="bootstrap")
    value = admin_kubeconfig(NAME, f"https://{ENDPOINT}:6443", pairs[Purpose.CLUSTER_CA], _ALGORITHM, now=EPOCH)
    server.create(SECRETS, _secret(f"{NAME}-kubeconfig", {"value": b64encode(value).decode()}, cluster), who="core")


def _machine(server: ApiServer, cluster: Stored, wanted: Wanted, name: str, *, init: bool) -> Stored:
    config = server.create(CONFIGS, {"metadata": _metadata(name), "spec": _configuration(wanted, init=init)}, who=USER)
    server.create(INFRASTRUCTURE, {"metadata": _metadata(name), "spec": {"size": "small"}}, who=USER)
    spec = {
        "clusterName": NAME,
        "version": wanted.version,
        "bootstrap": {"configRef": {"apiGroup": CONFIGS.group, "kind": CONFIGS.kind, "name": name}},
        "infrastructureRef": {"apiGroup": INFRASTRUCTURE.group, "kind": INFRASTRUCTURE.kind, "name": name},
    }
    server.create(
        MACHINES, {"metadata": _metadata(name) | {"ownerReferences": [_owner(cluster, controller=False)]}, "spec": spec}, who=USER
    )
    return config


def _configuration(wanted: Wanted, *, init: bool) -> Json:
    """What the control plane would give it, so that it need not be replaced: from v1.31 with the feature gate that joining kubelets of that version need."""
    gates = {} if wanted.version.startswith("v1.30.") else {"featureGates": {"ControlPlaneKubeletLocalMode": True}}
    joining: Json = {} if init else {"joinConfiguration": {"controlPlane": {}}}
    return {"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"} | gates} | joining


def _metadata(name: str) -> Json:
    return {"name": name, "namespace": NAMESPACE, "labels": _LABELS}


def _secret(name: str, data: dict[str, str], owner: Stored) -> Json:
    labels = {"cluster.x-k8s.io/cluster-name": NAME}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [_owner(owner, controller=True)]}
    return {"metadata": metadata, "type": "cluster.x-k8s.io/secret", "data": data}


def _owner(stored: Stored, *, controller: bool) -> Json:
    return {
        "apiVersion": stored.kind.api_version,
        "kind": stored.kind.kind,
        "name": stored.name,
        "uid": stored.uid,
        "controller": controller,
    }
