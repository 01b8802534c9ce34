"""What no step changes on hosts that have joined, or in the cluster: it is listed with what its reader can do, and never called as the manifest says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.cli import lines
from quorate.cli.hosts.plan import plan_of
from quorate.cli.hosts.status import status_of
from quorate.hosts.run.overview import lasting, reached
from quorate.kubernetes.errors import ApiError
from quorate.pki.certificates import read_certificates
from tests.hosts.observe.world import (
    CORE_DNS,
    KUBE_PROXY,
    NAMES,
    World,
    bare,
    put_core_dns,
    put_kube_proxy,
    stand,
    three,
)
from tests.hosts.probe.machine import NOW, ca, kubeconfig

NETWORK: dict[str, Any] = {"cni": {"external": {}}}
WITHOUT_PROXY = {"clusterNetwork": {**NETWORK, "kubeProxy": {"skipInstallation": True}}}
EXTERNAL = {"cloudProvider": {"none": {}, "external": True}}
BY_DIGEST = f"@sha256:{'0' * 64}"


def other_endpoint(world: World) -> None:
    world.manifest = three(apiEndpoint={"host": "other.example.com"})


def other_provider(world: World) -> None:
    world.manifest = three(**EXTERNAL)


def provider_left_out(world: World) -> None:
    for name in NAMES:
        flags = 'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1 --cloud-provider=external"\n'
        world.machines[name].folder.file("var/lib/kubelet/kubeadm-flags.env", flags)


def other_validity(world: World) -> None:
    world.manifest = three(certificateAuthority={"caCertificateValidityPeriod": "43800h"})


def proxy_left_out(world: World) -> None:
    world.manifest = three(**WITHOUT_PROXY)


def proxy_gone(world: World) -> None:
    del world.api_objects.objects[KUBE_PROXY]


def dns_gone(world: World) -> None:
    del world.api_objects.objects[CORE_DNS]


def dns_by_digest(world: World) -> None:
    put_core_dns(world.api_objects, image=f"registry.k8s.io/coredns/coredns:v1.12.1{BY_DIGEST}")


def proxy_by_digest(world: World) -> None:
    put_kube_proxy(world.api_objects, image=f"registry.k8s.io/kube-proxy{BY_DIGEST}")


def somebodys_dns(world: World) -> None:
    deployment = copy.deepcopy(world.api_objects.objects[CORE_DNS])
    deployment["spec"]["template"]["spec"]["containers"][0]["name"] = "dns"
    world.api_objects.put(CORE_DNS, deployment)


ALL = "cp-1, cp-2, cp-3: "
LASTING: dict[Callable[[World], None], list[str]] = {
    other_endpoint: [
        "cluster: kube-proxy: its server is 'https://api.example.com:6443' instead of 'https://other.example.com:6443'",
        f"{ALL}admin.conf: its server is 'https://api.example.com:6443' instead of 'https://other.example.com:6443'",
        f"{ALL}kubelet.conf: its server is 'https://api.example.com:6443' instead of 'https://other.example.com:6443'",
    ],
    other_provider: [f"{ALL}kubelet: --cloud-provider is not set instead of 'external'"],
    provider_left_out: [f"{ALL}kubelet: --cloud-provider is 'external', and the manifest leaves it out"],
    other_validity: [f"{ALL}ca.crt: is valid for {{days}} days instead of 1825"],
    proxy_left_out: ["cluster: kube-proxy: it runs, and the manifest's skipInstallation leaves it out"],
    proxy_gone: ["cluster: kube-proxy: it is missing"],
    dns_gone: ["cluster: CoreDNS: Deployment kube-system/coredns is missing"],
    dns_by_digest: [f"cluster: Deployment kube-system/coredns: its image registry.k8s.io/coredns/coredns:v1.12.1{BY_DIGEST} has a digest"],
    proxy_by_digest: [f"cluster: DaemonSet kube-system/kube-proxy: its image registry.k8s.io/kube-proxy{BY_DIGEST} has a digest"],
    somebodys_dns: ["cluster: Deployment kube-system/coredns: has no container coredns"],
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return stand(tmp_path)


async def test_of_a_cluster_as_the_manifest_says_nothing_is_listed(world: World) -> None:
    cluster = await world.cluster()
    assert (lasting(cluster), reached(cluster)) == ((), "everything is as the manifest says")
    assert "Nothing to do: everything is as the manifest says.\n" in lines.plan(plan_of(cluster, NOW))


@pytest.mark.parametrize("change", LASTING, ids=lambda change: change.__name__)
async def test_what_no_step_changes_is_listed_in_plan_status_and_explain_and_at_the_end_of_a_run(
    world: World, change: Callable[[World], None]
) -> None:
    change(world)
    cluster = await world.cluster()
    listed = lasting(cluster)
    expected = [each.format(days=_days(ca().certificate)) for each in LASTING[change]]
    assert [line[: len(start)] for line, start in zip(listed, expected, strict=True)] == expected
    plan = lines.plan(plan_of(cluster, NOW))
    for text in (plan, lines.glance(status_of(cluster, NOW)), lines.explanation(status_of(cluster, NOW), NOW)):
        assert all(line.partition(": ")[2] in text for line in listed)
    assert "everything else is as the manifest says." in plan
    assert "everything is as the manifest says" not in reached(cluster)
    assert all(line in reached(cluster) for line in listed)


def _days(certificate: bytes) -> int:
    [read] = read_certificates(certificate)
    return (read.not_after - read.not_before).days


async def test_a_kubelet_of_a_control_plane_may_ask_the_api_server_beside_it_and_one_of_a_worker_may_not(tmp_path: Path) -> None:
    world = stand(tmp_path)
    own = kubeconfig(client_file="/var/lib/kubelet/pki/kubelet-client-current.pem", server="https://10.0.0.2:6443")
    world.machines["cp-2"].folder.file("etc/kubernetes/kubelet.conf", own)
    assert lasting(await world.cluster()) == ()
    world.machines["cp-3"].folder.file("etc/kubernetes/kubelet.conf", own)
    assert [line[:26] for line in lasting(await world.cluster())] == ["cp-3: kubelet.conf: its se"]


async def test_a_host_that_has_yet_to_join_is_given_all_of_it_then(world: World) -> None:
    world.manifest = three(**EXTERNAL)
    bare(world, "cp-3")
    cluster = await world.cluster()
    assert [bool(host.lasting_drift) for host in cluster.hosts] == [True, True, False]


async def test_where_kube_proxy_is_left_out_and_is_not_there_nothing_is_listed(tmp_path: Path) -> None:
    assert lasting(await stand(tmp_path, **WITHOUT_PROXY).cluster()) == ()


async def test_what_could_not_be_read_is_not_called_missing(world: World) -> None:
    for path in (KUBE_PROXY, CORE_DNS):
        world.api_objects.failing[path] = ApiError("no rights", code=403)
    assert (await world.cluster()).lasting_drift == ()
