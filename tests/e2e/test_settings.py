"""What the manifest says about hosts that have joined, changed on three of them: proxy, registries and the bundle of CAs that they trust."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.e2e.conftest import Measured
from tests.e2e.machines import Machine
from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

MIRROR = "https://mirror.example.com"
PROXY = "http://proxy.example.com:3128"
BEGAN = "systemctl show --property ActiveEnterTimestampMonotonic --value containerd kubelet"


@pytest.fixture(scope="module")
def hosts(site: Site) -> list[Machine]:
    """Three hosts that are a cluster."""
    machines = site.machines.add("cp1", "cp2", "cp3")
    site.describe(machines)
    site.apply().succeeded()
    return machines


@pytest.fixture(scope="module")
def bundle() -> str:
    return ca()


def test_a_mirror_is_used_without_a_restart(site: Site, hosts: list[Machine]) -> None:
    before = each(site, hosts, BEGAN)
    site.edit(lambda document: document.update(containerRuntime={"containerd": {"registries": {"docker.io": {"mirrors": [MIRROR]}}}}))
    changed(site, plan="a-mirror")
    assert all(MIRROR in found for found in each(site, hosts, "cat /etc/containerd/certs.d/docker.io/hosts.toml"))
    assert each(site, hosts, BEGAN) == before


def test_proxy_and_cas_take_effect_one_host_at_a_time(site: Site, hosts: list[Machine], bundle: str, measured: Measured) -> None:
    before = each(site, hosts, BEGAN)

    def both(document: dict[str, Any]) -> None:
        document["proxy"] = {"http": PROXY, "https": PROXY, "noProxy": "172.18.0.0/16,10.0.0.0/8,.svc,.local,localhost,127.0.0.1"}
        document["caBundle"] = bundle

    site.edit(both)
    measured(f"a proxy and a bundle on three hosts: {changed(site, plan='proxy-and-cas'):.0f} s")
    for host, ago in zip(each(site, hosts, BEGAN), before, strict=True):
        assert all(int(now) > int(then) for now, then in zip(host.split(), ago.split(), strict=True))
    for service in ("containerd", "kubelet"):
        assert all(PROXY in found for found in each(site, hosts, f"tr '\\0' '\\n' </proc/$(pidof {service})/environ"))
    line = bundle.splitlines()[1]
    assert all(line in found for found in each(site, hosts, "cat /etc/ssl/certs/ca-certificates.crt"))
    assert all(line in found for found in each(site, hosts, "cat /proc/$(pidof kube-apiserver)/root/etc/ssl/certs/ca-certificates.crt"))


def test_what_the_manifest_leaves_out_goes(site: Site, hosts: list[Machine], bundle: str) -> None:
    def neither(document: dict[str, Any]) -> None:
        for field in ("proxy", "caBundle", "containerRuntime"):
            del document[field]

    site.edit(neither)
    changed(site, plan="settings-left-out")
    for service in ("containerd", "kubelet"):
        assert not any(PROXY in found for found in each(site, hosts, f"tr '\\0' '\\n' </proc/$(pidof {service})/environ"))
    assert not any(bundle.splitlines()[1] in found for found in each(site, hosts, "cat /etc/ssl/certs/ca-certificates.crt"))
    assert set(each(site, hosts, "ls /etc/containerd/certs.d/docker.io/hosts.toml 2>/dev/null || echo none")) == {"none\n"}


def changed(site: Site, plan: str) -> float:
    """Apply it in so many seconds while a client writes, who loses nothing; and find nothing more to do."""
    with site.writing() as client:
        done = site.apply(plan=plan).succeeded()
    assert client.report.lost == 0, client.report.failures
    site.assert_nothing_to_do()
    return done.seconds


def each(site: Site, hosts: list[Machine], script: str) -> list[str]:
    """What a script prints on each of them."""
    return [site.machines.run(host, script) for host in hosts]


def ca() -> str:
    """The certificate of a CA that no host trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
    begins = datetime.now(UTC) - timedelta(hours=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode()
