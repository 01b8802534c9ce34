"""Control planes on Cluster API's docker backend: what to ask a management cluster for, so that machines are containers of the suite's images.

The backend fixes the network's name, so there is one such run at a time on a machine; what it starts carries its own labels, and goes with the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quorate.clusterapi.api.defaults import default_kubeadm_control_plane
from quorate.local import DemoCluster
from tests.e2e.machines import Machines
from tests.e2e.nodes.engine import Engine
from tests.e2e.nodes.machine_images import REPOSITORY, balancer_tag, machine_image

Object = dict[str, Any]

NETWORK = "kind"
"""The network that the backend puts every container in. Source: cluster-api v1.14, test/infrastructure/docker/internal/docker/manager.go."""


@contextmanager
def network(engine: Engine) -> Iterator[Machines]:
    """The backend's network with the services in it, for the length of the block; every container in it goes at the end. Raises MissingTool, StartFailed."""
    machines = Machines(engine, NETWORK)
    with engine.exclusively():
        engine.start()
    try:
        yield machines.start()
    finally:
        clear(engine)
        machines.end()


def clear(engine: Engine) -> None:
    """Remove every container that the backend has started. Idempotent."""
    if left := engine.docker("ps", "-aq", "--filter", f"network={NETWORK}", "--filter", "label=io.x-k8s.kind.cluster").split():
        engine.docker("rm", "--force", "--volumes", *left, timeout=120)


def objects(cluster: DemoCluster, **configuration: Any) -> list[Object]:
    """The cluster's objects, on the docker backend instead of the in-memory one, with more fields of its clusterConfiguration.

    With the defaults that upstream's webhooks would set, without which upstream's provider replaces no machine.
    """
    demo = {item["kind"]: item for item in cluster.objects()}
    demo["DevCluster"]["spec"] = {"backend": {"docker": {"loadBalancer": {"imageRepository": REPOSITORY, "imageTag": balancer_tag()}}}}
    template = machine_template(cluster, cluster.version)
    demo["DevMachineTemplate"] = template
    demo["KubeadmControlPlane"]["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"] = template["metadata"]["name"]
    demo["KubeadmControlPlane"]["spec"]["kubeadmConfigSpec"]["clusterConfiguration"] |= configuration
    return [default_kubeadm_control_plane(item) if kind == "KubeadmControlPlane" else item for kind, item in demo.items()]


def machine_template(cluster: DemoCluster, version: str) -> Object:
    """The template of machines with the packages of this Kubernetes version: an upgrade names another one, as with any infrastructure's images."""
    (template,) = (item for item in cluster.objects() if item["kind"] == "DevMachineTemplate")
    template["metadata"]["name"] = f"{cluster.name}-{version.replace('.', '-')}"
    template["spec"]["template"]["spec"]["backend"] = {"docker": {"customImage": machine_image(version)}}
    return template
