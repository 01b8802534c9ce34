"""The life of a cluster on existing hosts without accidents, from nothing to nothing: `quorate apply`, each time as its operator would run it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e import command, etcd
from tests.e2e.command import Running
from tests.e2e.conftest import Measured
from tests.e2e.machines import Machine
from tests.e2e.nodes.programs import VERSIONS
from tests.e2e.site import Site, planned

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

CONTROL_PLANE = ("cp1", "cp2", "cp3")
CHANGES = 2
"""The exit code of a plan that has steps."""
PLAN_IS_STALE = 17
"""The exit code where what a run came to was not in the plan that was approved."""
_RENEW_FOR_TEN_DAYS = f"""\
cat >/tmp/short.yaml <<'END'
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v{VERSIONS[1].removeprefix("v")}
certificateValidityPeriod: 240h
END
kubeadm certs renew front-proxy-client --config /tmp/short.yaml
"""
NOT_RENEWED = ("ca", "etcd/ca", "front-proxy-ca", "kubelet")
"""Certificates that stay: the CAs, and the kubelet's, which it renews itself."""
AT_ONCE = 5.0
"""Seconds for an apply that has nothing to do."""


@pytest.fixture(scope="module")
def hosts(site: Site) -> dict[str, Machine]:
    """Three bare hosts for the control plane and one for a worker."""
    return {machine.name: machine for machine in site.machines.add(*CONTROL_PLANE, "worker")}


@pytest.fixture(scope="module")
def control_plane(hosts: dict[str, Machine]) -> list[Machine]:
    return [hosts[name] for name in CONTROL_PLANE]


def test_three_bare_hosts_become_a_cluster(site: Site, control_plane: list[Machine], measured: Measured) -> None:
    site.describe(control_plane)
    done = site.apply(plan="install-3").succeeded()
    measured(f"install of 3: {done.seconds:.0f} s")
    again = site.assert_nothing_to_do()
    measured(f"an apply with nothing to do: {again.seconds:.1f} s")
    assert again.seconds < AT_ONCE


def test_a_static_worker_joins(site: Site, control_plane: list[Machine], hosts: dict[str, Machine]) -> None:
    site.describe(control_plane, [hosts["worker"]])
    site.apply(plan="add-a-worker").succeeded()
    site.assert_nothing_to_do()


def test_the_next_minor_version_while_a_client_writes(
    site: Site, control_plane: list[Machine], hosts: dict[str, Machine], measured: Measured
) -> None:
    etcd.lead(site.machines, hosts["cp1"])  # who leads is upgraded last
    site.describe(control_plane, [hosts["worker"]], version=VERSIONS[1])
    with site.writing() as client:
        done = site.apply(plan="upgrade-3-and-a-worker").succeeded()
    measured(f"upgrade of 3 and a worker: {done.seconds:.0f} s; {client.report}")
    assert client.report.lost == 0, client.report.failures
    assert client.report.vanished == 0
    site.assert_nothing_to_do()


def test_a_flag_of_the_api_server_changes_host_by_host(site: Site, hosts: dict[str, Machine], measured: Measured) -> None:
    def shorter_events(document: dict[str, Any]) -> None:
        document["controlPlaneComponents"] = {"apiServer": {"flags": {"event-ttl": "30m0s"}}}

    etcd.lead(site.machines, hosts["cp1"])
    site.edit(shorter_events)
    with site.writing() as client:
        done = site.apply(plan="a-flag-of-the-api-server").succeeded()
    measured(f"a flag of 3 API servers: {done.seconds:.0f} s; {client.report}")
    assert client.report.lost == 0, client.report.failures
    site.assert_nothing_to_do()


def test_certificates_are_renewed_host_by_host(site: Site, measured: Measured) -> None:
    before = _expiries(site)
    with site.writing() as client:
        done = site.run("certificates", "renew", "-y", "-o", "json").succeeded()
    measured(f"certificates of 3: {done.seconds:.0f} s; {client.report}")
    assert client.report.lost == 0, client.report.failures
    after = _expiries(site)
    assert before.keys() == after.keys()
    assert not [certificate for certificate in before if after[certificate] <= before[certificate]]
    site.assert_nothing_to_do()


def test_a_kept_plan_to_renew_certificates_does_nothing_else_where_a_member_appears(site: Site, control_plane: list[Machine]) -> None:
    for host in control_plane:
        site.machines.run(host, _RENEW_FOR_TEN_DAYS)
    path = site.manifest.with_name("plan.json")
    plan = site.run("plan", "--out", str(path))
    assert plan.code == CHANGES, plan.told()
    assert [step.rpartition(" ")[0] for step in planned(plan.output)] == ["renew the certificates of"] * len(CONTROL_PLANE)
    running = Running(("apply", str(path), "-y", "-o", "json"))
    running.until(command.done("renew the certificates"))
    etcd.etcdctl(site.machines, control_plane[0], "member", "add", "nobody", "--learner", "--peer-urls=https://192.0.2.1:2380")
    ended = running.ended()
    assert ended.code == PLAN_IS_STALE, ended.told()
    assert set(ended.steps) < set(planned(plan.output)), ended.told()
    assert "was not shown" in ended.events[-1]["message"], ended.told()
    assert [member for member in etcd.members(site.machines, control_plane[0]) if member.get("isLearner")]
    site.apply().succeeded()  # whose plan has the removal
    site.assert_nothing_to_do()


def test_a_static_worker_that_left_the_manifest_is_drained_while_its_machine_runs(site: Site, hosts: dict[str, Machine]) -> None:
    site.edit(lambda document: document.pop("staticWorkers"))
    site.apply(plan="a-worker-has-left").succeeded()
    site.assert_nothing_to_do()
    site.machines.remove(hosts["worker"])


def test_one_host_is_freed_and_its_member_leaves_before(site: Site, hosts: dict[str, Machine]) -> None:
    site.run("reset", "cp3", "-y", "-o", "json").succeeded()
    assert {member["name"] for member in etcd.members(site.machines, hosts["cp1"])} == {"cp1", "cp2"}
    assert [host["state"] for host in site.status()["machines"]] == ["well", "well", "packages only"]


def test_every_host_is_freed_in_the_end(site: Site) -> None:
    site.run("reset", "--all", "--confirm", "e2e", "-o", "json").succeeded()
    assert {host["state"] for host in site.status()["machines"]} == {"packages only"}


def _expiries(site: Site) -> dict[tuple[str, str], str]:
    """When each certificate that kubeadm renews ends."""
    found = site.run("certificates", "status", "-o", "json").succeeded().document
    return {(each["host"], each["certificate"]): each["expires"] for each in found if each["certificate"] not in NOT_RENEWED}
