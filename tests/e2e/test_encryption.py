"""Secrets encrypted, and not, and again, and their key exchanged: on three hosts, while a client reads them from every API server all the time."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.e2e import etcd
from tests.e2e.command import done as finished
from tests.e2e.conftest import Measured
from tests.e2e.machines import Machine
from tests.e2e.secrets_client import SecretsClient
from tests.e2e.site import Site, planned

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

FILE = "/etc/kubernetes/encryption-providers/encryption-providers.yaml"
ENCRYPTED = "k8s:enc:secretbox:v1:"


@pytest.fixture(scope="module")
def hosts(site: Site) -> list[Machine]:
    """Three hosts that are a cluster without encryption."""
    machines = site.machines.add("cp1", "cp2", "cp3")
    site.describe(machines)
    site.apply().succeeded()
    return machines


def test_switched_on_every_secret_is_encrypted_in_etcd(site: Site, hosts: list[Machine], measured: Measured) -> None:
    with client(site, hosts, "on") as reading:
        applied(site, hosts, on=True)
    measured(f"encryption on: {reading.report}")
    (key,) = keys(site, hosts)
    assert stored(site, hosts) == {f"{ENCRYPTED}{key}:"}


def test_an_apply_that_is_killed_in_the_middle_goes_on_with_the_same_keys(site: Site, hosts: list[Machine]) -> None:
    before = keys(site, hosts)
    with client(site, hosts, "killed"):
        running = site.start("--rotate-encryption-key")
        running.until(finished("have the API server"))
        running.killed()
        site.start().ended().succeeded()
    (key,) = keys(site, hosts)
    assert key not in before
    assert stored(site, hosts) == {f"{ENCRYPTED}{key}:"}
    site.assert_nothing_to_do()


def test_switched_off_nothing_is_encrypted_and_the_key_has_gone(site: Site, hosts: list[Machine], measured: Measured) -> None:
    with client(site, hosts, "off") as reading:
        applied(site, hosts, on=False)
    measured(f"encryption off: {reading.report}")
    assert not [prefix for prefix in stored(site, hosts) if prefix.startswith("k8s:enc:")]
    for host in hosts:
        assert site.machines.run(host, f"ls {FILE} 2>/dev/null || echo none").strip() == "none"
        assert "encryption-provider-config" not in site.machines.run(
            host, "grep -e --encryption /etc/kubernetes/manifests/kube-apiserver.yaml || :"
        )


def test_switched_off_and_on_again_before_that_is_over_the_key_is_kept(site: Site, hosts: list[Machine]) -> None:
    with client(site, hosts, "again"):
        applied(site, hosts, on=True)
        before = keys(site, hosts)
        site.edit(lambda document: switch(document, on=False))
        running = site.start()
        running.until(finished("have the API server"))
        running.killed()
        site.edit(lambda document: switch(document, on=True))
        site.start().ended().succeeded()
    assert keys(site, hosts) == before
    assert stored(site, hosts) == {f"{ENCRYPTED}{next(iter(before))}:"}


def test_a_key_is_exchanged_and_the_one_before_is_gone(site: Site, hosts: list[Machine], measured: Measured) -> None:
    before = keys(site, hosts)
    with client(site, hosts, "rotated") as reading:
        done = site.start("--rotate-encryption-key").ended().succeeded()
        assert done.steps == planned(done.errors), done.told()
    measured(f"encryption key rotated in {done.seconds:.0f} s: {reading.report}")
    (key,) = keys(site, hosts)
    assert key not in before
    assert stored(site, hosts) == {f"{ENCRYPTED}{key}:"}
    site.assert_nothing_to_do()


def test_a_host_that_joins_anew_has_the_key_of_the_others(site: Site, hosts: list[Machine]) -> None:
    before = keys(site, hosts)
    with client(site, hosts[:2], "joined"):
        site.run("reset", "cp3", "-y", "-o", "json").succeeded()
        site.apply().succeeded()
    assert keys(site, hosts) == before
    site.assert_nothing_to_do()


def test_a_key_file_that_is_lost_is_named_and_nothing_is_changed(site: Site, hosts: list[Machine]) -> None:
    content = site.machines.run(hosts[1], f"cat {FILE} && rm {FILE}")
    refused = site.start("--rotate-encryption-key").ended()
    assert refused.code != 0
    assert f"cp2: its API server reads {FILE}, which is not there" in refused.errors
    assert refused.steps == []
    site.machines.run(hosts[1], f"umask 077; cat >{FILE}", given=content.encode())
    site.apply().succeeded()  # the API server is younger than the file no more
    site.assert_nothing_to_do()


def switch(document: dict[str, Any], *, on: bool) -> None:
    document["features"]["encryptionProviders"] = {"enable": on}


def applied(site: Site, hosts: list[Machine], *, on: bool) -> None:
    """Switch it, carry that out as the plan says it, and find nothing more to do."""
    etcd.lead(site.machines, hosts[0])
    site.edit(lambda document: switch(document, on=on))
    done = site.start().ended().succeeded()
    assert done.steps == planned(done.errors), done.told()
    site.assert_nothing_to_do()


@contextmanager
def client(site: Site, hosts: list[Machine], prefix: str) -> Iterator[SecretsClient]:
    """For which no read and no write fails."""
    with SecretsClient(site.kubeconfig(), [host.address for host in hosts], prefix) as reading:
        yield reading
    assert reading.failures == []
    assert reading.reads > 0


def keys(site: Site, hosts: list[Machine]) -> set[str]:
    """The names of the keys on the hosts, all of which have the same file."""
    files = {site.machines.run(host, f"cat {FILE}") for host in hosts}
    assert len(files) == 1
    (resource,) = yaml.safe_load(files.pop())["resources"]
    assert resource["resources"] == ["secrets"]
    return {key["name"] for provider in resource["providers"] for key in provider.get("secretbox", {"keys": []})["keys"]}


def stored(site: Site, hosts: list[Machine]) -> set[str]:
    """How what etcd has of each Secret begins: up to the name of the key where it is encrypted, and no more than eight characters where it is not."""
    found = json.loads(etcd.etcdctl(site.machines, hosts[0], "get", "/registry/secrets/", "--prefix", "-w", "json"))["kvs"]
    return {_beginning(base64.b64decode(each["value"])) for each in found}


def _beginning(value: bytes) -> str:
    if not value.startswith(b"k8s:enc:"):
        return value[:8].decode(errors="replace")
    return b":".join((*value.split(b":", 5)[:5], b"")).decode()
