"""quorate as its users install it, on a real API server without nodes: by clusterctl under both names, and with the rights that are shipped."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from quorate.clusterapi.api import rbac
from quorate.clusterapi.api.webhooks import SERVICE
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE
from quorate.clusterapi.webhook_certificates import secret, trust
from quorate.kubernetes.errors import Forbidden
from quorate.kubernetes.resource import SECRETS
from quorate.local import processes
from quorate.local.programs import PROGRAMS_FOLDER
from tests.integration.installed import Server, as_list, repositories, resource, server, stand_in_for_cert_manager
from tools.release import clusterctl
from tools.release.installation import Certificates
from tools.release.product import Product

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

PRODUCT = Product("0.1.0", "c0ffee", 1_700_000_000, "registry.example.com/quorate")
PODS = resource("", "pods", "Pod")
DEPLOYMENTS = resource("apps", "deployments", "Deployment")
PROVIDERS = resource("clusterctl.cluster.x-k8s.io", "providers", "Provider", "v1alpha3")
CLUSTER_ROLES = resource("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", namespaced=False)
LEASES = resource("coordination.k8s.io", "leases", "Lease")
_NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "clusterctl")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def installed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """An API server on which clusterctl has installed Cluster API's core and bootstrap providers, and quorate under its own name."""
    missing = [name for name in _NEEDED if not (PROGRAMS_FOLDER / name).exists()]
    if missing:
        pytest.skip(f"not built: {', '.join(missing)}; `make programs` builds them into {PROGRAMS_FOLDER.name}/")
    folder = tmp_path_factory.mktemp("installed")
    async with server(folder / "server") as started:
        await started.run("kubectl", "create", "-f", "-", given=as_list(stand_in_for_cert_manager()))
        config = repositories(folder / "repository", PRODUCT)
        chosen = ("--core=cluster-api", "--bootstrap=kubeadm", "--control-plane=quorate", "--infrastructure=-")
        await started.run("clusterctl", "init", f"--config={config}", *chosen, home=folder)
        yield started


@pytest.mark.parametrize("provider", clusterctl.PROVIDERS)
async def test_clusterctl_prints_the_components_with_everything_that_they_have(installed: Server, provider: str, tmp_path: Path) -> None:
    config = repositories(tmp_path / "repository", PRODUCT)
    printed = await installed.run(
        "clusterctl", "generate", "provider", f"--control-plane={provider}:v0.1.0", f"--config={config}", home=tmp_path
    )
    ours = clusterctl.with_defaults(PRODUCT, provider, Certificates.CERT_MANAGER)
    assert {_key(item): _bare(item) for item in clusterctl.objects(printed)} == {_key(item): _bare(item) for item in ours}


async def test_clusterctl_names_the_image_and_takes_another_registry(installed: Server, tmp_path: Path) -> None:
    config = repositories(tmp_path / "repository", PRODUCT)
    images = {"images": {"control-plane-quorate": {"repository": "mirror.example.com/platform"}}}
    config.write_text(config.read_text() + yaml.safe_dump(images))
    arguments = (
        "init",
        "list-images",
        f"--config={config}",
        "--control-plane=quorate",
        "--bootstrap=-",
        "--infrastructure=-",
        "--core=cluster-api",
    )
    listed = await installed.run("clusterctl", *arguments, home=tmp_path)
    assert "mirror.example.com/platform/quorate:v0.1.0" in listed


async def test_clusterctl_installs_it_and_knows_what_it_has_installed(installed: Server) -> None:
    found = await installed.client.get(PROVIDERS, "control-plane-quorate", DEFAULT_NAMESPACE)
    assert (found["providerName"], found["type"], found["version"]) == ("quorate", "ControlPlaneProvider", "v0.1.0")
    deployment = await installed.client.get(DEPLOYMENTS, "quorate-controller-manager", DEFAULT_NAMESPACE)
    assert deployment["spec"]["replicas"] == 2


async def test_its_pods_are_let_in_where_only_restricted_ones_are(installed: Server) -> None:
    deployment = await installed.client.get(DEPLOYMENTS, "quorate-controller-manager", DEFAULT_NAMESPACE)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": deployment["spec"]["template"]["spec"]}
    await installed.client.create(PODS, pod, DEFAULT_NAMESPACE, dry_run=True)
    privileged = {**pod, "spec": {**pod["spec"], "securityContext": {}}}
    with pytest.raises(Forbidden, match="restricted"):
        await installed.client.create(PODS, privileged, DEFAULT_NAMESPACE, dry_run=True)


async def test_two_replicas_work_with_the_rights_that_are_shipped_and_make_their_certificates(installed: Server, tmp_path: Path) -> None:
    components = clusterctl.with_defaults(PRODUCT, "quorate", Certificates.SELF_MANAGED)
    await installed.run("kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-", given=as_list(components))
    await _until_aggregated(installed)
    replicas = [Replica(installed, tmp_path / f"replica-{number}.log", components) for number in range(2)]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_with_token(installed, await _token(installed)))
    try:
        for replica in replicas:
            replica.start(kubeconfig)
        for replica in replicas:
            await replica.until_ready()
        leaf = await _stored(installed)
        for replica in replicas:
            assert await replica.presented(await _told(installed)) == ssl.PEM_cert_to_DER_cert(leaf.decode())
        lease = await installed.client.get(LEASES, "kubeadm-control-plane-manager-leader-election-capi", DEFAULT_NAMESPACE)
        assert lease["spec"]["holderIdentity"]
    finally:
        codes = [replica.stop() for replica in replicas]
    assert codes == [0, 0]
    assert _refused(installed) == []


async def _until_aggregated(where: Server) -> None:
    """A controller makes the role that is bound from those that are installed."""
    wanted = [grant.manifest() for grant in (*rbac.MANAGER, *rbac.SELF_MANAGED_CERTIFICATES)]
    for _ in range(120):
        if (await where.client.get(CLUSTER_ROLES, "capi-kubeadm-control-plane-aggregated-manager-role")).get("rules") == wanted:
            return
        await asyncio.sleep(0.25)
    pytest.fail("the rights of the manager were not aggregated within 30 s")


class Replica:
    """The shipped container's command line, as a process here: only its ports are others."""

    def __init__(self, where: Server, log: Path, components: list[dict[str, Any]]) -> None:
        (deployment,) = (item for item in components if item["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        self._webhook, self._health, diagnostics = (where.free.pop() for _ in range(3))
        served = (
            f"--webhook-port={self._webhook}",
            f"--health-addr=127.0.0.1:{self._health}",
            f"--diagnostics-address=127.0.0.1:{diagnostics}",
        )
        self._arguments, self._log = (*container["args"], *served), log

    def start(self, kubeconfig: Path) -> None:
        environment = {**os.environ, "POD_NAMESPACE": DEFAULT_NAMESPACE}
        command = (sys.executable, "-m", "quorate", "manager", f"--kubeconfig={kubeconfig}", *self._arguments)
        self._child = processes.spawn(command, log=self._log, environment=environment, bound_to_parent=True)

    async def until_ready(self) -> None:
        for _ in range(240):
            assert self._child.poll() is None, self._log.read_text()[-3000:]
            if await self._answer() == 200:
                return
            await asyncio.sleep(0.25)
        pytest.fail(f"not ready: {self._log.read_text()[-3000:]}")

    async def _answer(self) -> int:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._health)
        except OSError:
            return 0
        writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
        line = await reader.readline()
        writer.close()
        return int(line.split()[1]) if line else 0

    async def presented(self, trusted: bytes) -> bytes:
        """The leaf, verified by the name that the API server calls it by."""
        context = ssl.create_default_context(cadata=trusted.decode())
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self._webhook, ssl=context, server_hostname=f"{SERVICE}.{DEFAULT_NAMESPACE}.svc"
        )
        leaf = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return leaf  # type: ignore[no-any-return]

    def stop(self) -> int:
        self._child.terminate()
        return self._child.wait(20)


async def _stored(where: Server) -> bytes:
    return (await where.client.get(SECRETS, secret.NAME, DEFAULT_NAMESPACE)).data["tls.crt"]


async def _told(where: Server) -> bytes:
    """What every object tells the API server to trust, which is the same."""
    bundles = set()
    for place in trust.PLACES:
        item = await where.client.get(place.resource, place.name)
        found = list(trust.told(item))
        assert found
        bundles |= set(found)
    (bundle,) = bundles
    return b"".join(bundle)


async def _token(where: Server) -> str:
    return (await where.run("kubectl", "create", "token", "capi-kubeadm-control-plane-manager", f"--namespace={DEFAULT_NAMESPACE}")).strip()


def _with_token(where: Server, token: str) -> str:
    """The kubeconfig of whoever has the token."""
    document = yaml.safe_load(where.folder.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    return str(yaml.safe_dump(document))


def _refused(where: Server) -> list[dict[str, Any]]:
    """What the API server has refused to the ServiceAccount, by its audit log."""
    user = f"system:serviceaccount:{DEFAULT_NAMESPACE}:capi-kubeadm-control-plane-manager"
    events = [json.loads(line) for line in where.folder.audit_log.read_text().splitlines()]
    assert any(event["user"]["username"] == user for event in events)
    return [
        event["requestURI"] for event in events if event["user"]["username"] == user and event.get("responseStatus", {}).get("code") == 403
    ]


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    """clusterctl adds labels of its own, and an empty status."""
    found = {key: value for key, value in item.items() if key != "status"}
    return found | {"metadata": {key: value for key, value in item["metadata"].items() if key != "labels"}}
