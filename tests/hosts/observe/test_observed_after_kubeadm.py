"""What the real kubeadm makes of our configuration, on hosts and in the cluster, is no difference from the manifest: nothing is done twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.hosts.manifest import Secret
from quorate.hosts.render.feature_files import Contents, feature_files
from quorate.hosts.render.kubeadm_configuration import Machine, init_file
from quorate.hosts.run.overview import lasting
from tests.hosts.observe.world import CONFIG_MAPS, CORE_DNS, KUBE_PROXY, NAMES, World, stand

KUBEADM = Path(__file__).parents[3] / ".bin" / "kubeadm"
ATTACHED = re.compile(r"^\[dryrun\] Attached object:\n(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
TOKEN = Secret("abcdef.0123456789abcdef")
RICH: dict[str, Any] = {
    "apiEndpoint": {"host": "API.example.com", "port": 443, "alternativeNames": ["10.0.0.100"]},
    "registryConfiguration": {"overwriteRegistry": "mirror.example.com:5000"},
    "controlPlaneComponents": {
        "apiServer": {"flags": {"v": "4", "request-timeout": "2m30s"}, "featureGates": {"AnonymousAuthConfigurableEndpoints": True}},
        "scheduler": {"flags": {"kube-api-qps": "80"}},
        "controllerManager": {"flags": {"controllers": "*"}},
        "etcd": {"quotaBackendBytes": 4294967296, "autoCompactionMode": "periodic", "autoCompactionRetention": "8h"},
    },
    "kubeletConfig": {
        "maxPods": 200,
        "imageMinimumGCAge": "5m",
        "systemReserved": {"cpu": "100m"},
        "evictionHard": {"memory.available": "5%"},
    },
    "loggingConfig": {"containerLogMaxSize": "20Mi", "containerLogMaxFiles": 9},
    "clusterNetwork": {"cni": {"external": {}}, "kubeProxy": {"ipvs": {"scheduler": "lc", "strictARP": True, "tcpTimeout": "15m"}}},
}
AUDITED = {"enable": True, "config": {"policyFilePath": "policy.yaml"}}
OPENID = {"enable": True, "config": {"issuerUrl": "https://issuer", "clientId": "demo", "groupsPrefix": "group: "}}
FEATURES = {
    "alwaysPullImages": {"enable": True},
    "openidConnect": OPENID,
    "encryptionProviders": {"enable": True},
    "staticAuditLog": AUDITED,
}


@pytest.mark.parametrize("changes", [{}, RICH], ids=["smallest", "rich"])
async def test_a_cluster_that_kubeadm_has_just_made_has_nothing_to_be_done(tmp_path: Path, changes: dict[str, Any]) -> None:
    if not KUBEADM.exists():
        pytest.skip(f"{KUBEADM} is missing: make programs")
    world = stand(tmp_path / "hosts", **_with_features(changes, tmp_path))
    world.contents = Contents(audit_policy=b"kind: Policy\n", encryption_providers=Secret("kind: EncryptionConfiguration\n"))
    for name in NAMES:
        _let_kubeadm_write(world, name, tmp_path / f"dry-run-{name}")
    cluster = await world.cluster()
    assert [host.drift for host in cluster.hosts] == [()] * 3
    assert (cluster.configuration_drift, cluster.problems, cluster.running) == ((), (), world.manifest.version)
    assert lasting(cluster) == ()


def _with_features(changes: dict[str, Any], folder: Path) -> dict[str, Any]:
    if not changes:
        return {}
    (folder / "policy.yaml").touch()
    audit = {"enable": True, "config": {"policyFilePath": str(folder / "policy.yaml")}}
    return {
        **changes,
        "features": {"metricsServer": {"enable": False}, "nodeLocalDNS": {"deploy": False}, **FEATURES, "staticAuditLog": audit},
    }


def _let_kubeadm_write(world: World, name: str, folder: Path) -> None:
    """Static pods, the kubelet's files and the ConfigMaps, from dry runs that write below `folder` alone."""
    folder.mkdir()
    machine = world.machines[name].folder
    configuration = folder / "init.yaml"
    configuration.write_bytes(init_file(world.manifest, Machine(world.hosts[name], name), TOKEN).content)
    (folder / "admin.conf").write_text(ADMIN)
    _kubeadm(folder, "init phase control-plane all --dry-run")
    _kubeadm(folder, "init phase etcd local --dry-run")
    _kubeadm(folder, "init phase kubelet-start --dry-run")
    for component in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        shutil.copy(folder / f"{component}.yaml", machine.root / "etc/kubernetes/manifests")
    for file in ("config.yaml", "kubeadm-flags.env"):
        shutil.copy(folder / file, machine.root / "var/lib/kubelet")
    for feature in feature_files(world.manifest, world.contents):
        machine.file(feature.path.lstrip("/"), feature.content)
    uploaded = ATTACHED.findall(_kubeadm(folder, "init phase upload-config all --dry-run"))
    printed = _kubeadm(folder, "init phase addon kube-proxy --print-manifest")
    documents = [*map(yaml.safe_load, uploaded), *yaml.safe_load_all(printed)]
    objects = [each for each in documents if each and each["kind"] == "ConfigMap"]
    assert {each["metadata"]["name"] for each in objects} == {"kubeadm-config", "kubelet-config", "kube-proxy"}
    for each in objects:
        world.api_objects.put(f"{CONFIG_MAPS}/{each['metadata']['name']}", {"data": each["data"]})
    world.api_objects.put(KUBE_PROXY, next(each for each in documents if each and each["kind"] == "DaemonSet"))
    core_dns = yaml.safe_load_all(_kubeadm(folder, "init phase addon coredns --print-manifest"))
    world.api_objects.put(CORE_DNS, next(each for each in core_dns if each and each["kind"] == "Deployment"))


def _kubeadm(folder: Path, arguments: str) -> str:
    done = subprocess.run(
        [str(KUBEADM), *arguments.split(), "--config", str(folder / "init.yaml")],
        env={"KUBEADM_INIT_DRYRUN_DIR": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ADMIN = """\
apiVersion: v1
kind: Config
clusters: [{name: demo, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: admin, user: {token: none}}]
contexts: [{name: demo, context: {cluster: demo, user: admin}}]
current-context: demo
"""
