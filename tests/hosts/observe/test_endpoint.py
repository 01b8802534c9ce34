"""Another endpoint in the manifest cuts off nobody who finds the API server by the one before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from quorate.core.hosts.decide import decide
from quorate.core.hosts.steps import UpdateConfiguration
from quorate.pki.issue import issue_server
from quorate.pki.keys import KeyAlgorithm
from tests.hosts.observe.world import CONFIG_MAPS, NAMES, World, put_configurations, stand, three
from tests.hosts.probe.machine import NOW, ca, kubeconfig

OLD, NEW = "api.example.com", "new.example.com"
OWN = "10.0.0.1"


def moved(*names: str) -> dict[str, object]:
    return {"apiEndpoint": {"host": NEW, "alternativeNames": list(names)}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Its API servers' certificates have the name of the endpoint and, as from kubeadm, their own address."""
    made = stand(tmp_path)
    end = NOW + timedelta(days=365)
    pair = issue_server(
        ca(),
        common_name="kube-apiserver",
        dns_names=[OLD, "kubernetes"],
        ip_addresses=[OWN],
        algorithm=KeyAlgorithm.ECDSA_P256,
        not_before=NOW,
        not_after=end,
    )
    for name in NAMES:
        made.machines[name].folder.file("etc/kubernetes/pki/apiserver.crt", pair.certificate)
        made.machines[name].folder.program("ip", f"echo '2: eth0    inet 10.0.0.{name[-1]}/24 scope global eth0'")
    return made


async def test_a_name_that_kubelets_and_kube_proxy_use_is_not_taken_out_of_certificates(world: World) -> None:
    world.manifest = three(**moved())
    cluster = await world.cluster()
    who = "the kubelet of cp-1, the kubelet of cp-2, the kubelet of cp-3, kube-proxy"
    [problem] = cluster.problems
    assert problem.startswith(f"{who} finds the API server at {OLD}, which the manifest does not have")
    assert problem.endswith(f"Add {OLD} to apiEndpoint.alternativeNames until those kubeconfigs have the new server")
    decision = decide(cluster, NOW)
    assert (decision.step, [check.evidence for check in decision.refusals]) == (None, [problem])


async def test_with_both_names_in_the_manifest_the_new_one_is_brought(world: World) -> None:
    world.manifest = three(**moved(OLD.upper()))
    cluster = await world.cluster()
    assert (cluster.problems, decide(cluster, NOW).step) == ((), UpdateConfiguration())


async def test_once_nobody_uses_the_name_it_may_go(world: World) -> None:
    world.manifest = three(**moved())
    for name in NAMES:
        there = kubeconfig(node=name, client_file="/var/lib/kubelet/pki/kubelet-client-current.pem", server=f"https://{NEW}:6443")
        world.machines[name].folder.file("etc/kubernetes/kubelet.conf", there)
    assert [problem.partition(" ")[0] for problem in (await world.cluster()).problems] == ["kube-proxy"]
    put_configurations(world)
    assert (await world.cluster()).problems == ()


@pytest.mark.parametrize("server", [f"https://{OWN}:6443", "https://elsewhere.example.com", "https://[", ""])
async def test_addresses_of_hosts_and_names_that_no_certificate_has_are_not_at_stake(world: World, server: str) -> None:
    world.api_objects.put(f"{CONFIG_MAPS}/kube-proxy", {"data": {"kubeconfig.conf": f'clusters: [{{cluster: {{server: "{server}"}}}}]'}})
    assert (await world.cluster()).problems == ()
