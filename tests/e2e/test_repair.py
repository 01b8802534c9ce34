"""Hosts that are lost, emptied or half joined: repaired while the quorum lasts, and left alone, with words for it, when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e import etcd
from tests.e2e.command import done, progress
from tests.e2e.machines import Machine
from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

CHANGES = 2
"""The exit code of a plan that has something to do, or that something stands in the way of."""
STALLED = 13
"""The exit code where something stands in the way that does not go by itself."""
STEP_FAILED = 15
"""The exit code where a step on a host failed."""


@pytest.fixture(scope="module")
def hosts(site: Site) -> dict[str, Machine]:
    """Three hosts to begin with, and one that takes the place of another."""
    return {machine.name: machine for machine in site.machines.add("cp1", "cp2", "cp3", "cp4")}


def test_a_cluster_is_founded_beside_a_host_that_cannot_be_reached_only_if_its_operator_vouches_for_it(
    site: Site, hosts: dict[str, Machine]
) -> None:
    site.describe([hosts["cp1"], hosts["cp2"], hosts["cp3"]])
    site.machines.cut(hosts["cp3"])
    refused = site.apply()
    assert refused.code == STALLED, refused.told()
    assert "cp3 cannot be asked" in refused.errors
    assert "--without cp3" in refused.errors
    vouched = site.apply("--without", "cp3")
    assert vouched.code == STALLED, vouched.told()
    assert vouched.steps[-1] == "join cp2 as a control plane", vouched.told()


def test_a_join_that_finds_its_port_taken_ends_with_kubeadms_own_words(site: Site, hosts: dict[str, Machine]) -> None:
    site.machines.mend(hosts["cp3"])
    running = site.start()
    running.until(done("prepare cp3"))
    site.machines.run(hosts["cp3"], "systemd-run --quiet --unit=taken socat TCP-LISTEN:2380,fork OPEN:/dev/null")
    refused = running.ended()
    assert refused.code == STEP_FAILED, refused.told()
    assert "Port 2380 is in use" in refused.events[-1]["message"], refused.told()
    site.machines.run(hosts["cp3"], "systemctl stop taken")


def test_a_join_that_fails_half_way_is_repaired(site: Site, hosts: dict[str, Machine]) -> None:
    running = site.start()
    running.until(progress("cp3", "kubeadm:", "[etcd]"))
    site.machines.run(hosts["cp3"], "pkill -KILL -x kubeadm; systemctl stop kubelet; pkill -KILL -x etcd || true")
    running.ended()
    site.apply().succeeded()
    site.assert_nothing_to_do()
    assert len(etcd.members(site.machines, hosts["cp1"])) == len(("cp1", "cp2", "cp3"))


def test_a_learner_of_nobody_leaves(site: Site, hosts: dict[str, Machine]) -> None:
    etcd.etcdctl(site.machines, hosts["cp1"], "member", "add", "nobody", "--learner", "--peer-urls=https://192.0.2.1:2380")
    site.apply(plan="a-learner-of-nobody").succeeded()
    assert not [member for member in etcd.members(site.machines, hosts["cp1"]) if member.get("isLearner")]
    site.assert_nothing_to_do()


def test_wrong_private_addresses_of_healthy_voters_stop_everything_and_are_named(site: Site, hosts: dict[str, Machine]) -> None:
    wrong = {"cp2": "192.0.2.22", "cp3": "192.0.2.33"}

    def say(addresses: dict[str, str]) -> None:
        def change(document: dict[str, Any]) -> None:
            for host in document["controlPlane"]["hosts"]:
                host["privateAddress"] = addresses.get(host["hostname"], host["publicAddress"])

        site.edit(change)

    ring, state = etcd.members(site.machines, hosts["cp1"]), {name: identity(site, hosts[name]) for name in ("cp1", "cp2", "cp3")}
    say(wrong)
    planned = site.run("plan")
    refused = site.apply()
    assert planned.code == CHANGES, planned.told()
    assert refused.code == STALLED, refused.told()
    assert not refused.events, refused.told()
    for text in (planned.output, refused.errors):
        assert "Nothing can be done now" in text, text
        for name, address in wrong.items():
            assert f"the ring has at {hosts[name].address}, but the manifest says that {name} is at {address}" in text, text
    assert etcd.members(site.machines, hosts["cp1"]) == ring
    assert {name: identity(site, hosts[name]) for name in state} == state
    say({})
    site.assert_nothing_to_do()


def identity(site: Site, host: Machine) -> str:
    """What a reset would take from the host: its keys, its Node's uid as the API has it, and the process of its etcd."""
    script = "sha256sum /etc/kubernetes/pki/ca.key /etc/kubernetes/kubelet.conf; pgrep -x etcd"
    return site.machines.run(
        host, f"{script}; kubectl --kubeconfig /etc/kubernetes/admin.conf get node {host.name} -o 'jsonpath={{.metadata.uid}}'"
    )


def test_a_host_whose_etcd_data_is_gone_joins_anew(site: Site, hosts: dict[str, Machine]) -> None:
    site.machines.wipe_etcd(hosts["cp2"])
    site.machines.run(
        hosts["cp2"], "until [ -e /var/lib/etcd/member/snap/db ] && ! pgrep -x etcd; do sleep 0.2; done"
    )  # as the kubelet starts it
    with site.writing() as client:
        site.apply(plan="etcd-data-gone").succeeded()
    assert client.report.lost == 0, client.report.failures
    site.assert_nothing_to_do()


def test_a_host_that_is_gone_is_replaced_by_one_with_another_address(site: Site, hosts: dict[str, Machine]) -> None:
    site.machines.remove(hosts["cp3"])
    site.describe([hosts["cp1"], hosts["cp2"], hosts["cp4"]])
    with site.writing() as client:
        site.apply(plan="host-replaced").succeeded()
    assert client.report.lost == 0, client.report.failures
    site.assert_nothing_to_do()
    assert {member["name"] for member in etcd.members(site.machines, hosts["cp1"])} == {"cp1", "cp2", "cp4"}


def test_with_two_of_three_lost_nothing_is_touched(site: Site, hosts: dict[str, Machine]) -> None:
    for name in ("cp2", "cp4"):
        site.machines.power_off(hosts[name])
    refused = site.apply()
    assert refused.code == STALLED, refused.told()
    assert not refused.events, refused.told()
    assert "1 of 3 hosts are left with their data, quorum 2" in refused.errors, refused.told()
    assert "Bring back 1 of cp2, cp4 with its data, or restore etcd from a snapshot (docs/restore.md)." in refused.errors, refused.told()
    for name in ("cp2", "cp4"):
        site.machines.power_on(hosts[name])
    site.apply().succeeded()
    site.assert_nothing_to_do()
