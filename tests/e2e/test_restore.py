"""The way back after etcd has lost its quorum for good: the commands of docs/restore.md, read from the page and run on real hosts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from quorate.local.programs import PROJECT
from tests.e2e import etcd
from tests.e2e.conftest import Measured
from tests.e2e.machines import Machine
from tests.e2e.runbook import Shell, assigned, blocks
from tests.e2e.site import Site, assert_as_committed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

STALLED = 13
"""The exit code where something stands in the way that does not go by itself."""
NAMED, STOPPED, RESTORED, STARTED, JOINED, CLEANED = (blocks(PROJECT / "docs" / "restore.md")[number] for number in range(1, 7))
BY_HAND = "quorate apply -m kubeone.yaml"
UNASKED = "quorate apply -y --plain -m kubeone.yaml"
QUICKLY, SLOWLY = 300.0, 900.0
"""Seconds that a step may take: most, and the one in which hosts join."""


@pytest.fixture(scope="module")
def hosts(site: Site) -> dict[str, Machine]:
    """Three hosts to begin with, and one that takes the place of another."""
    return {machine.name: machine for machine in site.machines.add("cp1", "cp2", "cp3", "cp4")}


@pytest.fixture(scope="module")
def shell(site: Site, hosts: dict[str, Machine]) -> Shell:
    """That of the operator."""
    return Shell(site.manifest.parent, hosts.values())


def test_from_a_snapshot_that_quorate_took(site: Site, hosts: dict[str, Machine], shell: Shell, measured: Measured) -> None:
    first = hosts["cp1"]
    site.describe([first, hosts["cp2"], hosts["cp3"]])
    site.apply().succeeded()
    _write(site, first, "before")
    snapshot = Path(site.run("etcd", "snapshot").succeeded().output.strip())
    _write(site, first, "after")
    site.machines.remove(hosts["cp2"])
    site.machines.run(hosts["cp3"], "rm /etc/kubernetes/manifests/etcd.yaml")
    site.machines.wipe_etcd(hosts["cp3"])
    _assert_refused_with_the_way_back(site)

    variables = {"first": "cp1", "others": "cp3", "snapshot": str(snapshot.relative_to(site.manifest.parent)), "options": ""}
    assert assigned(NAMED[0]) == variables.keys()
    for block in (STOPPED[0], *RESTORED, *STARTED):
        shell.run(block, variables, timeout=QUICKLY)
    assert [member["name"] for member in etcd.members(site.machines, first)] == ["cp1"]
    site.describe([first, hosts["cp3"], hosts["cp4"]])
    plan = shell.run(JOINED[0], variables, timeout=QUICKLY)
    assert_as_committed("after-a-restore", plan)
    began = time.monotonic()
    _let_the_others_join(shell, variables)
    measured(f"after a restore, two hosts joined in {time.monotonic() - began:.0f} s")

    assert {member["name"] for member in etcd.members(site.machines, first)} == {"cp1", "cp3", "cp4"}
    assert _written(site, first) == {"before"}
    site.assert_nothing_to_do()
    shell.run(CLEANED[0], variables, timeout=QUICKLY)


def test_from_the_data_of_the_only_host_that_is_left(site: Site, hosts: dict[str, Machine], shell: Shell) -> None:
    first = hosts["cp1"]
    _write(site, first, "since")
    for name in ("cp3", "cp4"):
        site.machines.remove(hosts[name])
    _assert_refused_with_the_way_back(site)

    variables = {"first": "cp1", "others": "", "snapshot": "cp1.db", "options": "--skip-hash-check"}
    assert assigned(STOPPED[1]) == {"snapshot", "options"}
    for block in (*STOPPED, *RESTORED, *STARTED):
        shell.run(block, variables, timeout=QUICKLY)
    site.describe([first])
    _let_the_others_join(shell, variables, leaving=2)

    assert _written(site, first) == {"before", "since"}
    site.assert_nothing_to_do()
    shell.run(CLEANED[0], variables, timeout=QUICKLY)


def _let_the_others_join(shell: Shell, variables: dict[str, str], leaving: int = 1) -> None:
    """`apply`, which asks nobody here."""
    assert JOINED[1].strip() == BY_HAND
    shell.run(JOINED[1].replace(BY_HAND, f"{UNASKED} --remove-hosts {leaving}"), variables, timeout=SLOWLY)


def _assert_refused_with_the_way_back(site: Site) -> None:
    refused = site.apply()
    assert refused.code == STALLED, refused.told()
    assert not refused.events, refused.told()
    assert "docs/restore.md" in refused.errors, refused.told()


def _write(site: Site, host: Machine, name: str) -> None:
    site.machines.run(host, f"kubectl --kubeconfig /etc/kubernetes/admin.conf create configmap {name} --from-literal=test=restore")
    site.machines.run(host, f"kubectl --kubeconfig /etc/kubernetes/admin.conf label configmap {name} test=restore")


def _written(site: Site, host: Machine) -> set[str]:
    found = site.machines.run(host, "kubectl --kubeconfig /etc/kubernetes/admin.conf get configmaps -l test=restore -o name")
    return {line.removeprefix("configmap/") for line in found.split()}
