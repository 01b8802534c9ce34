"""What steps read and write in `kube-system`: ConfigMaps as they were written, CoreDNS and kube-proxy, and the static Pods that kubelets report."""

from __future__ import annotations

import hashlib
from typing import Any

from quorate.hosts.render.core_dns import BUDGETS
from quorate.hosts.render.provider_files import RECORD
from quorate.kubernetes.errors import AlreadyExists, ApiError, Conflict, NotFound
from quorate.kubernetes.resource import CONFIG_MAPS, PODS
from quorate.kubernetes.transport import Request
from quorate.simulation.engine.patches import merge_patch
from quorate.simulation.hosts.site import Site
from quorate.simulation.hosts.static_pods import pod
from quorate.workload.coredns import DEPLOYMENTS
from quorate.workload.coredns import NAME as CORE_DNS
from quorate.workload.kube_proxy import DAEMON_SETS
from quorate.workload.kube_proxy import NAME as KUBE_PROXY
from quorate.workload.static_pods import NAMESPACE, Component

Json = dict[str, Any]

DONE: Json = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
_PODS = f"{PODS.path(NAMESPACE)}/"
_CONFIG_MAPS = CONFIG_MAPS.path(NAMESPACE)
_BUDGETS = BUDGETS.path(NAMESPACE)
_DEPLOYMENT = f"{DEPLOYMENTS.path(NAMESPACE)}/{CORE_DNS}"
_DAEMON_SET = f"{DAEMON_SETS.path(NAMESPACE)}/{KUBE_PROXY}"
_KEPT = {
    "kubeadm-config": ("kubeadm", "ClusterConfiguration"),
    "kubelet-config": ("kubelet", "kubelet"),
    "kube-proxy": ("kube_proxy", "config.conf"),
    RECORD: ("written", "secrets"),
}
"""Of each ConfigMap where its text is among the site's objects, and the key that it has. An empty text is of none."""


def answer(site: Site, request: Request, path: str, body: Json) -> Json | None:
    """The API's answer; None where it is asked for something else."""
    name = path.rpartition("/")[2]
    if path.startswith(_PODS):
        return _pod(site, request, name)
    if path == _CONFIG_MAPS or path.startswith(f"{_CONFIG_MAPS}/"):
        return _config_map(site, request, body["metadata"]["name"] if request.method == "POST" else name, body)
    if path in (_BUDGETS, f"{_BUDGETS}/{CORE_DNS}"):
        return _budget(site, request, body)
    if path in (_DEPLOYMENT, _DAEMON_SET) and request.method == "GET":
        exists(request, site.objects.addons)
        image = "registry.k8s.io/coredns/coredns:v1.12.1" if name == CORE_DNS else f"registry.k8s.io/kube-proxy:{site.objects.running}"
        pods = {"spec": {"containers": [{"name": name, "image": image}]}}
        return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"replicas": 2, "template": pods}}
    return None


def _pod(site: Site, request: Request, name: str) -> Json:
    """A kubelet reports each static Pod of its own Node."""
    component = next((each for each in Component if name.startswith(f"{each}-")), None)
    node = site.objects.nodes.get(name.removeprefix(f"{component}-"))
    machine = site.machines.get(node.address) if node is not None else None
    found = pod(site, machine, component) if machine is not None and component is not None else None
    if found is None:
        raise missing(request)
    return found


def _config_map(site: Site, request: Request, name: str, body: Json) -> Json:
    kept, key = _KEPT[name]
    objects = site.objects
    text: str = getattr(objects, kept)
    if request.method == "POST":
        if text:
            raise AlreadyExists(f"{request.doing}: it exists", code=409)
    else:
        exists(request, bool(text))
    found = _shown(name, key, text)
    check_version(request, found, body.get("preconditions" if request.method == "DELETE" else "metadata") or {})
    if request.method == "DELETE":
        setattr(objects, kept, "")
        return DONE
    if request.method != "GET":
        text = merge_patch(found, body)["data"][key]
        setattr(objects, kept, text)
    return _shown(name, key, text)


def _shown(name: str, key: str, text: str) -> Json:
    """Its version is its content."""
    version = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}, "data": {key: text}}


def _budget(site: Site, request: Request, body: Json) -> Json:
    objects = site.objects
    if request.method == "POST":
        objects.budget = True
        return body
    exists(request, objects.budget)
    if request.method == "DELETE":
        objects.budget = False
    return DONE


def check_version(request: Request, found: Json, asked: Json) -> None:
    """Raise Conflict where the object that is meant is not the one that is there."""
    for field in ("uid", "resourceVersion"):
        if asked.get(field, found["metadata"][field]) != found["metadata"][field]:
            raise Conflict(f"{request.doing}: the object has been modified", code=409)


def exists(request: Request, there: bool) -> None:
    """Raise NotFound where it does not."""
    if not there:
        raise missing(request)


def missing(request: Request) -> ApiError:
    """What is said of an object that is not there."""
    return NotFound(f"{request.doing}: not found", code=404)
