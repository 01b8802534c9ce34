"""Runs that end in the middle of a step: killed, cut off, or met by a second operator. The same command continues, and nothing is begun twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e import etcd
from tests.e2e.command import begun, broken, done, progress
from tests.e2e.machines import Machine
from tests.e2e.nodes.programs import VERSIONS
from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

LOCKED = 16
"""The exit code where somebody else works on the hosts."""
RUN_OUT = """\
uptime() { cut -d. -f1 /proc/uptime; }
renewed() { head -n 1 /run/quorate/lock.json | cut -d' ' -f2; }
until [ "$(($(uptime) - $(renewed)))" -ge 60 ]; do sleep 1; done
"""
"""Ends when nobody has renewed the host's lock for as long as it lasts."""
WHAT_RUNS = """\
stat -c '%n %Y' /etc/kubernetes/manifests/* /etc/kubernetes/pki/*.crt /var/lib/kubelet/config.yaml
ps -C etcd,kube-apiserver,kube-controller-manager,kube-scheduler,kubelet -o comm=,lstart=
"""
"""When each manifest, certificate and configuration was written, and each program of the control plane begun."""


@pytest.fixture(scope="module")
def hosts(site: Site) -> list[Machine]:
    found = site.machines.add("cp1", "cp2", "cp3")
    site.describe(found)
    return found


def test_a_second_operator_is_refused_and_an_initialization_that_was_killed_is_continued(site: Site, hosts: list[Machine]) -> None:
    running = site.start()
    running.until(begun("prepare"))
    second = site.start().ended()
    assert second.code == LOCKED, second.told()
    assert "nobody else works on these hosts" in second.errors
    running.until(progress("cp1", "running kubeadm init"))
    site.machines.run(hosts[0], "until [ -e /etc/kubernetes/manifests/etcd.yaml ]; do sleep 0.1; done")
    running.killed()
    site.machines.run(hosts[0], "pkill -KILL -x kubeadm || true")
    running = site.start()
    running.until(begun("continue to initialize the cluster on cp1"))
    running.until(done("continue to initialize the cluster on cp1"))
    running.killed()


def test_a_join_that_was_killed_is_continued(site: Site) -> None:
    running = site.start()
    running.until(progress("cp2", "kubeadm:", "[etcd]"))
    running.killed()
    running = site.start()
    running.until(begun("join cp3"))
    running.killed()


def test_a_host_that_is_cut_off_while_it_joins_is_joined_later(site: Site, hosts: list[Machine]) -> None:
    running = site.start()
    running.until(progress("cp3", "kubeadm:"))
    site.machines.cut(hosts[2])
    running.until(broken("join cp3"))
    site.machines.mend(hosts[2])
    running.ended()
    site.apply().succeeded()
    site.assert_nothing_to_do()


def test_an_upgrade_that_was_killed_between_two_hosts_and_within_one_is_continued(site: Site, hosts: list[Machine]) -> None:
    etcd.lead(site.machines, hosts[0])  # who leads is upgraded last
    site.describe(hosts, version=VERSIONS[1])
    with site.writing() as client:
        running = site.start()
        running.until(done("upgrade the control plane of"))
        first = running.killed()
        running = site.start()
        running.until(progress("cp3", "running kubeadm upgrade"))
        second = running.killed()
        third = site.apply().succeeded()
    upgraded = [step for run in (first, second, third) for step in run.steps if step.startswith("upgrade the control plane of")]
    assert len(upgraded) == len(set(upgraded)) >= len(hosts) - 1, upgraded  # kubeadm may have ended the second one by itself
    assert client.report.lost == 0, client.report.failures
    site.assert_nothing_to_do()


def test_a_run_that_was_stopped_changes_nothing_when_it_goes_on_after_the_next(site: Site, hosts: list[Machine]) -> None:
    def shorter_events(document: dict[str, Any]) -> None:
        document["controlPlaneComponents"] = {"apiServer": {"flags": {"event-ttl": "30m0s"}}}

    site.edit(shorter_events)
    first = site.start()
    first.until(done("apply the manifest's settings to"))
    first.until(begun("apply the manifest's settings to"))
    first.stop()
    refused = site.start().ended()
    assert refused.code == LOCKED, refused.told()
    for host in hosts:
        site.machines.run(host, RUN_OUT)
    site.apply().succeeded()
    before = [site.machines.run(host, WHAT_RUNS) for host in hosts]
    first.go_on()
    ended = first.ended()
    assert ended.code == LOCKED, ended.told()
    assert [site.machines.run(host, WHAT_RUNS) for host in hosts] == before
    site.assert_nothing_to_do()
