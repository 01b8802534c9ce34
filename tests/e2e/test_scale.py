"""A control plane that grows from one host to three, and shrinks to one again."""

from __future__ import annotations

import pytest

from tests.e2e import etcd
from tests.e2e.machines import Machine
from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def hosts(site: Site) -> list[Machine]:
    return site.machines.add("cp1", "cp2", "cp3")


def test_from_one_to_three(site: Site, hosts: list[Machine]) -> None:
    site.describe(hosts[:1])
    site.apply(plan="install-1").succeeded()
    site.assert_nothing_to_do()
    site.describe(hosts)
    with site.writing() as client:
        site.apply(plan="from-1-to-3").succeeded()
    assert client.report.lost == 0, client.report.failures
    site.assert_nothing_to_do()


def test_from_three_to_one_although_another_leads(site: Site, hosts: list[Machine]) -> None:
    etcd.lead(site.machines, hosts[2])
    site.describe(hosts[:1])
    with site.writing() as client:
        site.apply("--remove-hosts", "2", plan="from-3-to-1").succeeded()
    assert client.report.lost == 0, client.report.failures
    site.assert_nothing_to_do()
    assert [member["name"] for member in etcd.members(site.machines, hosts[0])] == ["cp1"]
