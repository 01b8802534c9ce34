"""Webhooks as the API server asks them: what users see of defaults and refusals, and v1beta1 beside v1beta2."""

from __future__ import annotations

import copy
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from quorate.kubernetes.errors import ApiError, Forbidden, Invalid
from quorate.kubernetes.resource import Resource
from quorate.local import manifests
from tests.differential import servers
from tests.integration.conftest import KINDS, Object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.conftest import Manager, Stage

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

DEFINITIONS: Resource[Object] = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict, False)
CONFIGURATIONS: dict[str, Resource[Object]] = {
    kind: Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, dict, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
OLD: Resource[Object] = Resource("controlplane.cluster.x-k8s.io", "v1beta1", "kubeadmcontrolplanes", "KubeadmControlPlane", dict)
TEMPLATES: Resource[Object] = Resource(
    "controlplane.cluster.x-k8s.io", "v1beta2", "kubeadmcontrolplanetemplates", "KubeadmControlPlaneTemplate", dict
)


@asynccontextmanager
async def asked(stage: Stage, manager: Manager) -> AsyncIterator[None]:
    """The API server asks this manager about objects of the test's namespace, and has it convert. Afterwards all is as it was."""
    ca = (stage.stack.folder.pki / "ca.crt").read_bytes()
    made = manifests.own(webhook_port=manager.webhook_port, ca=ca)
    before = {each["metadata"]["name"]: await stage.client.get(DEFINITIONS, each["metadata"]["name"]) for each in made.kinds}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    try:
        for definition in made.kinds:
            await stage.client.merge_patch(DEFINITIONS, definition["metadata"]["name"], {"spec": definition["spec"]})
        for configuration in made.webhooks:
            scoped = [hook | {"namespaceSelector": selector} for hook in configuration["webhooks"]]
            await stage.client.create(CONFIGURATIONS[configuration["kind"]], configuration | {"webhooks": scoped})
        yield
    finally:
        for configuration in made.webhooks:
            await stage.client.delete(CONFIGURATIONS[configuration["kind"]], configuration["metadata"]["name"])
        for name, definition in before.items():
            spec = {"versions": definition["spec"]["versions"], "conversion": {"strategy": "None", "webhook": None}}
            await stage.client.merge_patch(DEFINITIONS, name, {"spec": spec})


def template(stage: Stage, naming: str) -> Object:
    spec = {"kubeadmConfigSpec": {"verbosity": 1}, "machineNaming": {"template": naming}}
    metadata = {"name": "template", "namespace": stage.namespace}
    return {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.kind, "metadata": metadata, "spec": {"template": {"spec": spec}}}


async def test_users_see_defaults_refusals_and_both_versions(stage: Stage) -> None:
    manager = stage.start_webhooks(servers.GATES)
    ca = stage.stack.folder.pki / "ca.crt"
    async with servers.at(stage.client, 0, manager.webhook_port, ca) as found:
        await servers.until_served(found.quorate)
    async with asked(stage, manager):
        *others, kcp = stage.cluster(3).objects()

        async def defaulted() -> bool:
            tried = await stage.client.create(KINDS["KubeadmControlPlane"], kcp, stage.namespace, dry_run=True)
            return "rollout" in tried["spec"]

        await stage.until("the API server asks for defaults", defaulted)
        await stage.create(*others, kcp)
        made = await stage.control_plane()
        assert made["spec"]["rollout"] == {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
        await refusals(stage, kcp)
        await templates(stage)
        await versions(stage)


async def refusals(stage: Stage, kcp: Object) -> None:
    """What cannot be is refused with the field; what is beside the specification can change."""
    two = copy.deepcopy(kcp)
    two["metadata"]["name"], two["spec"]["replicas"] = "two", 2
    with pytest.raises(Invalid, match=r"spec\.replicas: 2 is even"):
        await stage.create(two)
    with pytest.raises(Forbidden, match="2 is even"):
        await stage.scale(2)
    await stage.scale(1)
    with pytest.raises(Invalid, match=r"spec\.version: cannot go from v1\.34\.4 to v1\.36\.0"):
        await stage.patch("KubeadmControlPlane", {"spec": {"version": "v1.36.0"}})
    changed = await stage.patch("KubeadmControlPlane", {"metadata": {"annotations": {"a": "b"}}})
    assert changed["metadata"]["annotations"]["a"] == "b"


async def templates(stage: Stage) -> None:
    """They are judged when they are made, and never change."""
    with pytest.raises(Invalid, match=r"spec\.template\.spec\.machineNaming\.template"):
        await stage.client.create(TEMPLATES, template(stage, "without"), stage.namespace)
    await stage.client.create(TEMPLATES, template(stage, "a-{{ .random }}"), stage.namespace)
    patch: dict[str, Any] = {"spec": {"template": {"spec": {"kubeadmConfigSpec": {"verbosity": 2}}}}}
    with pytest.raises(Invalid, match=r"spec\.template\.spec: cannot be changed"):
        await stage.client.merge_patch(TEMPLATES, "template", patch, stage.namespace)


async def versions(stage: Stage) -> None:
    """What is written in one version is read in the other, and what the older one cannot say is kept."""

    async def served() -> Object | None:
        try:
            return await stage.client.get(OLD, stage.namespace, stage.namespace)
        except ApiError:  # not known yet
            return None

    old = await stage.until("v1beta1 is served", served)
    reference = old["spec"]["machineTemplate"]["infrastructureRef"]
    assert reference["apiVersion"] == "infrastructure.cluster.x-k8s.io/v1beta2"
    assert old["spec"]["rolloutStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    before = await stage.control_plane()
    await stage.client.merge_patch(OLD, stage.namespace, {"spec": {"machineTemplate": {"nodeDrainTimeout": "90s"}}}, stage.namespace)
    after = await stage.control_plane()
    assert after["spec"]["machineTemplate"]["spec"].pop("deletion") == {"nodeDrainTimeoutSeconds": 90}
    assert after["spec"] == before["spec"]
    with pytest.raises(Invalid, match=r"spec\.replicas: 2 is even"):
        await stage.client.merge_patch(OLD, stage.namespace, {"spec": {"replicas": 2}}, stage.namespace)
