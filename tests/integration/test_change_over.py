"""`quorate takeover` and `quorate handback` where upstream's provider runs with its own manifests and webhooks: at rest and in the middle of a rollout."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from quorate.clusterapi.takeover.kinds import KINDS as INSTALLED
from quorate.clusterapi.takeover.kinds import Object
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE as SYSTEM
from quorate.clusterapi.types.names import Hook
from quorate.core import documents
from quorate.kubernetes.errors import AlreadyExists, ApiError, ConnectionFailed, NotFound
from quorate.kubernetes.resource import CRDS, Resource
from quorate.local import manifests, ports
from quorate.local.manifests import KCP
from quorate.local.programs import PROGRAMS_FOLDER
from tests.integration.changes import annotate, nothing_orphaned, until_version
from tests.integration.conftest import KINDS, conditions_of
from tests.integration.deployments import Node, can_isolate, reachable
from tests.integration.test_takeover import made, specs
from tools.release import clusterctl
from tools.release.installation import Certificates
from tools.release.product import Product

if TYPE_CHECKING:
    from quorate.local import LocalCluster
    from tests.integration.conftest import Stage

pytestmark = [
    pytest.mark.integration,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(not can_isolate(), reason="upstream's provider elects its leader in a container alone, which takes root to imitate"),
]

LONGEST_GAP = 60.0  # seconds in which v1beta1, or an admission, is not answered
THEIRS, OURS = "capi-kubeadm-control-plane-controller-manager", "quorate-controller-manager"
_SERVICE = "capi-kubeadm-control-plane-webhook-service"
_OLD: Resource[Object] = Resource("controlplane.cluster.x-k8s.io", "v1beta1", "kubeadmcontrolplanes", "KubeadmControlPlane", dict)
_LEASE = "kubeadm-control-plane-manager-leader-election-capi"


def _entry(name: str, label: str, kind: str) -> Object:
    """An entry of clusterctl's inventory."""
    labels = {"cluster.x-k8s.io/provider": label, "clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "inventory"}
    metadata = {"name": label, "namespace": SYSTEM, "labels": labels}
    version = "clusterctl.cluster.x-k8s.io/v1alpha3"
    return {"apiVersion": version, "kind": "Provider", "metadata": metadata, "providerName": name, "type": kind, "version": "v1.14.0"}


def _defined(group: str, version: str, kind: str) -> Object:
    """A kind that nobody here answers for, of which any object is taken."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    served = [{"name": version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": served}
    metadata = {"name": f"{plural}.{group}"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


@dataclass
class Site:
    """A management cluster as `clusterctl init` leaves it, with upstream's provider at work, and quorate's components in a file."""

    stack: LocalCluster
    node: Node
    components: Path
    upstream: list[Object] = field(default_factory=list)

    async def write(self, item: Object) -> None:
        """Create an object, or give it this form."""
        kind, metadata = INSTALLED[item["kind"]], item["metadata"]
        try:
            await self.stack.client.create(kind.resource, item, metadata.get("namespace", ""))
        except AlreadyExists:
            current = await self.stack.client.get(kind.resource, metadata["name"], metadata.get("namespace", ""))
            version = {"resourceVersion": current["metadata"]["resourceVersion"]}
            body = {**current, **item, "metadata": {**current["metadata"], **metadata, **version}}
            await self.stack.client.replace(kind.resource, body, metadata.get("namespace", ""))

    async def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`quorate takeover` or `handback`, as an operator types it."""
        command = (sys.executable, "-m", "quorate", *arguments, f"--kubeconfig={self.stack.kubeconfig}", "--etcd-dialer=in-memory")
        return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=300, check=False)

    async def upgrades(self, folder: Path, *known: str) -> subprocess.CompletedProcess[str]:
        """`clusterctl upgrade plan`, where each of these providers has the release that is installed, and one more."""
        files = {"cluster-api": "core-components.yaml", "control-plane-kubeadm": "control-plane-components.yaml"}
        configured = []
        for label in known:
            file = files.get(label, "control-plane-components.yaml")
            series = "0.1" if label.endswith("quorate") else "1.14"
            for patch in ("0", "1"):
                release = folder / label / f"v{series}.{patch}"
                release.mkdir(parents=True, exist_ok=True)
                (release / file).write_text("")
                (release / "metadata.yaml").write_text(clusterctl.metadata(Product(f"{series}.{patch}", "", 0)))
            kind = "CoreProvider" if label == "cluster-api" else "ControlPlaneProvider"
            url = str(folder / label / "latest" / file)
            configured.append({"name": label.removeprefix("control-plane-"), "type": kind, "url": url})
        config = folder / "clusterctl.yaml"
        config.write_text(documents.dump({"providers": configured}))
        command = (PROGRAMS_FOLDER / "clusterctl", "upgrade", "plan", f"--kubeconfig={self.stack.kubeconfig}", f"--config={config}")
        environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "CLUSTERCTL_DISABLE_VERSIONCHECK": "true"}
        return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False, env=environment)

    @property
    def running(self) -> set[str]:
        """The Deployments that have a process."""
        return {pod.deployment for pod in self.node.pods.values()}

    async def objects(self) -> dict[str, Object]:
        """Upstream's objects as they are, as far as its manifest speaks of them."""
        found = {}
        for item in self.upstream:
            metadata = item["metadata"]
            with suppress(NotFound):
                kind = INSTALLED[item["kind"]].resource
                found[f"{item['kind']} {metadata['name']}"] = await self.stack.client.get(
                    kind, metadata["name"], metadata.get("namespace", "")
                )
        return {name: _bare(item) for name, item in found.items()}


def _bare(item: Object) -> Object:
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {name: value for name, value in item["metadata"].items() if name in kept}
    metadata["annotations"] = {key: value for key, value in metadata.get("annotations", {}).items() if "crd-migration" not in key}
    return {name: value for name, value in item.items() if name not in ("status", "metadata")} | {"metadata": metadata}


@pytest_asyncio.fixture(loop_scope="session")
async def site(stack: LocalCluster, tmp_path: Path) -> AsyncIterator[Site]:
    """Upstream's objects instead of quorate's kinds, for the length of the test; its Deployment is at work."""
    (port,) = ports.choose(1, start=31000)
    pki = stack.folder.pki
    ca = (pki / "ca.crt").read_bytes()
    components = clusterctl.with_defaults(Product("0.1.0", "", 0), "quorate", Certificates.CERT_MANAGER)
    ours = [reachable(item, port, ca) for item in components]
    file = tmp_path / "control-plane-components.yaml"
    file.write_text(documents.dump_all(ours))
    node = Node(stack.client, SYSTEM, _SERVICE, stack.kubeconfig, pki / "serving", tmp_path, port)
    theirs = [reachable(item, port, ca) for item in manifests.read(PROGRAMS_FOLDER / KCP.manifest)]
    for item in theirs:
        item["metadata"].setdefault("labels", {})["clusterctl.cluster.x-k8s.io"] = ""
        if item["kind"] == "Deployment":
            item["spec"]["template"]["spec"]["containers"][0]["image"] = (
                "registry.k8s.io/cluster-api/kubeadm-control-plane-controller:v1.14.0"
            )
    found = Site(stack, node, file, [*theirs, _entry("kubeadm", "control-plane-kubeadm", "ControlPlaneProvider")])
    core = _entry("cluster-api", "cluster-api", "CoreProvider")
    strange = [_defined("cert-manager.io", "v1", kind) for kind in ("Issuer", "Certificate")]
    strange.append(_defined("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider"))
    for item in strange:
        await found.write(item)
    await _until_served(found, strange)
    running = asyncio.get_running_loop().create_task(node.run())  # ended below; a fixture may not keep a task group open across its yield
    try:
        for item in (core, *found.upstream):
            await found.write(item)
        yield found
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await _restore(found, [core, *found.upstream, *ours])


async def _until_served(site: Site, definitions: list[Object]) -> None:
    async with asyncio.timeout(30):
        for item in definitions:
            kind = INSTALLED[item["spec"]["names"]["kind"]].resource
            while True:
                try:
                    await site.stack.client.list(kind)
                    break
                except NotFound:
                    await asyncio.sleep(0.1)


async def _restore(site: Site, items: list[Object]) -> None:
    """quorate's kinds without webhooks, as the other tests have them, and nothing of a provider."""
    for item in items:
        if item["kind"] not in ("CustomResourceDefinition", "Namespace"):
            with suppress(NotFound):
                await site.stack.client.delete(
                    INSTALLED[item["kind"]].resource, item["metadata"]["name"], item["metadata"].get("namespace", "")
                )
    for item in manifests.own(webhook_port=0, ca=b"").kinds:
        current = await site.stack.client.get(INSTALLED["CustomResourceDefinition"].resource, item["metadata"]["name"])
        body = {**item, "metadata": {**item["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}}
        await site.stack.client.replace(CRDS, body)


@dataclass
class Watchers:
    """Clients of the management cluster that must not notice: one reads v1beta1, one writes through the webhooks, one looks at conditions, and one whether
    somebody leads. The longest time in seconds that each went without an answer is in `gaps`, and what it was told instead in `told`.
    """

    stages: tuple[Stage, ...]
    gaps: dict[str, float] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    renewed: tuple[str, str] = ("", "")

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(self._ask(name, question)) for name, question in self._questions().items()]
            yield
            for task in working:
                task.cancel()

    def _questions(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        return {
            "a reader of v1beta1": self._read_old,
            "a writer": self._write,
            "a reader of conditions": self._read_conditions,
            "leadership": self._read_lease,
        }

    async def _ask(self, name: str, question: Callable[[], Awaitable[Any]]) -> None:
        loop = asyncio.get_running_loop()
        answered = loop.time()
        self.gaps[name] = 0.0
        while True:
            try:
                await question()
            except (ApiError, ConnectionFailed, AssertionError) as error:
                self.told[name] = str(error)
                self.gaps[name] = max(self.gaps[name], loop.time() - answered)
            else:
                self.gaps[name] = max(self.gaps[name], loop.time() - answered)
                answered = loop.time()
            await asyncio.sleep(0.2)

    async def _read_old(self) -> None:
        for stage in self.stages:
            found = await stage.client.get(_OLD, stage.namespace, stage.namespace)
            assert found["status"]["ready"] is not None

    async def _write(self) -> None:
        for stage in self.stages:
            patch = {"metadata": {"annotations": {"test/seen": str(asyncio.get_running_loop().time())}}}
            await stage.client.merge_patch(KINDS["KubeadmControlPlane"], stage.namespace, patch, stage.namespace)

    async def _read_lease(self) -> None:
        spec = (await self.stages[0].client.get(KINDS["Lease"], _LEASE, SYSTEM))["spec"]
        before, self.renewed = self.renewed, (spec["holderIdentity"], spec["renewTime"])
        assert spec["holderIdentity"]
        assert self.renewed != before, "the Lease is not renewed"

    async def _read_conditions(self) -> None:
        for stage in self.stages:
            conditions = conditions_of(await stage.control_plane())
            assert {"Available", "RollingOut", "MachinesUpToDate", "EtcdClusterHealthy"} <= conditions.keys(), sorted(conditions)


async def test_taken_over_in_the_middle_of_a_rollout_and_handed_back_at_rest(
    three: Stage, another_three: Stage, site: Site, tmp_path: Path
) -> None:
    rolling, resting = three, another_three
    await rolling.pause_others(resting)
    await rolling.until("upstream's provider leads", _leads(site, THEIRS), timeout=60)
    await resting.patch(
        "KubeadmControlPlane", {"metadata": {"annotations": {"test/seen": ""}}}
    )  # with which upstream's webhook fills in its defaults
    before = await specs(resting)
    installed = await site.objects()
    machines = await rolling.names("Machine")
    await _hold(rolling, machines, "until the takeover is over")
    await rolling.patch("KubeadmControlPlane", {"spec": {"version": "v1.35.4"}})
    seen = machines | await made(rolling, 1, "v1.35.4")
    watchers = Watchers((rolling, resting))

    dry = await site.command("takeover", f"--components={site.components}", "--dry-run")
    assert dry.returncode == 2, dry.stdout + dry.stderr
    assert f"{rolling.namespace}/{rolling.namespace} goes on as it is: in motion" in dry.stdout
    assert await site.objects() == installed, "nothing was changed"

    async with watchers.at_work():
        taken = await site.command("takeover", f"--components={site.components}", "--yes")
        assert taken.returncode == 0, taken.stdout + taken.stderr
        assert site.running == {OURS}
        await _hold(rolling, machines, None)
        await until_version(rolling, "v1.35.4", 3)
        seen |= await rolling.names("Machine")
        assert len(seen) == 6, f"three were replaced by three: {sorted(seen)}"
        assert await specs(resting) == before
        rolled = await specs(rolling)
        await nothing_orphaned(rolling)

        await _not_revived_unseen(site, tmp_path / "clusterctl")
        back = await site.command("handback", "--yes")
        assert back.returncode == 0, back.stdout + back.stderr
        assert site.running == {THEIRS}
        await rolling.stays("nobody changes a Machine", lambda: _unchanged(rolling, rolled, resting, before), seconds=5.0)
    assert max(watchers.gaps.values()) < LONGEST_GAP, (watchers.gaps, watchers.told)
    assert await site.objects() == installed


async def _hold(stage: Stage, names: set[str], why: str | None) -> None:
    """Have the deletion of these Machines wait, or no longer, so that a rollout stays in the middle however long a command takes."""
    for name in names:
        with suppress(NotFound):
            await annotate(stage, "Machine", name, **{f"{Hook.PRE_DRAIN_PREFIX}/test": why})


async def _not_revived_unseen(site: Site, folder: Path) -> None:
    """clusterctl does not upgrade what it does not know, says so, and once it knows quorate upgrades quorate: upstream's provider is none of its any more."""
    unknown = await site.upgrades(folder, "cluster-api", "control-plane-kubeadm")
    assert unknown.returncode != 0, unknown.stdout
    assert "quorate" in unknown.stderr
    known = await site.upgrades(folder, "cluster-api", "control-plane-kubeadm", "control-plane-quorate")
    assert known.returncode == 0, known.stderr
    assert "control-plane-quorate" in known.stdout
    assert "control-plane-kubeadm" not in known.stdout


def _leads(site: Site, deployment: str) -> Callable[[], Awaitable[bool]]:
    async def answer() -> bool:
        if not any(pod.ready and pod.deployment == deployment for pod in site.node.pods.values()):
            return False
        lease = await site.stack.client.get(KINDS["Lease"], _LEASE, SYSTEM)
        return str(lease["spec"]["holderIdentity"]).startswith(deployment)

    return answer


async def _unchanged(rolling: Stage, rolled: dict[str, Object], resting: Stage, before: dict[str, Object]) -> bool:
    return await specs(rolling) == rolled and await specs(resting) == before
