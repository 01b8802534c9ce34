"""Terraform's outputs, merged into the tree of a manifest before it is decoded, so that a mistake in either is found the same way and told where it is.

Follows KubeOne's pkg/terraform/v1beta2/config.go: control-plane hosts replace the manifest's, static workers are added to them, and of `kubeone_workers` only
what the manifest leaves open is taken. Two things that KubeOne passes over are mistakes here: parallel lists of different lengths, which would give a host
the address of another, and a pair such as `cpu=200m` without its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from quorate.hosts.manifest.decoding import Decoder, nearest
from quorate.hosts.manifest.findings import Findings, Mark, child, item
from quorate.hosts.manifest.names import address
from quorate.hosts.manifest.terraform import Outputs
from quorate.hosts.manifest.terraform_fields import APIOutput, ControlPlaneOutput, HostGroup, HostsOutput, KubeletOutput
from quorate.hosts.manifest.tree import Node, from_json

API, HOSTS, STATIC_WORKERS, WORKERS = "kubeone_api", "kubeone_hosts", "kubeone_static_workers", "kubeone_workers"
PROVIDERS = (
    "aws",
    "azure",
    "digitalocean",
    "gce",
    "hetzner",
    "kubevirt",
    "nutanix",
    "openstack",
    "equinixmetal",
    "vmwareCloudDirector",
    "vsphere",
    "none",
)
_RENAMED = {"packet": "equinixmetal"}
_KUBELET_PAIRS = {
    "system_reserved": ("systemReserved", "="),
    "kube_reserved": ("kubeReserved", "="),
    "eviction_hard": ("evictionHard", "<"),
}
_KUBELET_VALUES = {
    "max_pods": "maxPods",
    "image_gc_high_threshold_percent": "imageGCHighThresholdPercent",
    "image_gc_low_threshold_percent": "imageGCLowThresholdPercent",
    "image_minimum_gc_age": "imageMinimumGCAge",
    "image_maximum_gc_age": "imageMaximumGCAge",
}
_HOST_VALUES = {
    "operating_system": "operatingSystem",
    "ssh_user": "sshUsername",
    "ssh_port": "sshPort",
    "ssh_private_key_file": "sshPrivateKeyFile",
    "ssh_cert_file": "sshCertFile",
    "ssh_agent_socket": "sshAgentSocket",
    "bastion": "bastion",
    "bastion_port": "bastionPort",
    "bastion_user": "bastionUser",
    "bastion_host_key": "bastionHostPublicKey",
    "bastion_private_key_file": "bastionPrivateKeyFile",
    "labels": "labels",
    "annotations": "annotations",
}


def merge(tree: Node, outputs: Outputs, findings: Findings, *, lenient: bool) -> Node:
    """The manifest's tree with what the outputs say; `lenient` lists keys in them that are not known as ignored, instead of refusing them."""
    values = {name: _value(name, outputs, findings) for name in (API, HOSTS, STATIC_WORKERS, WORKERS)}
    if not any(name in outputs.values for name in values):
        findings.wrong(
            "", f"has none of the outputs {', '.join(values)}; run `terraform apply` or `terraform refresh` first", Mark(outputs.source)
        )
        return tree
    merger = _Merger(outputs.source, findings, lenient=lenient)
    tree = merger.api(tree, values[API])
    tree = merger.control_plane(tree, values[HOSTS])
    tree = merger.static_workers(tree, values[STATIC_WORKERS])
    return merger.workers(tree, values[WORKERS])


def _value(name: str, outputs: Outputs, findings: Findings) -> Node | None:
    """What an output holds; None where there is no such output."""
    output, mark = outputs.values.get(name), Mark(outputs.source, path=name)
    if output is None:
        return None
    if not isinstance(output, dict) or "value" not in output:
        findings.wrong(name, "has no value; give what `terraform output -json` prints, not the outputs' values alone", mark)
        return None
    return from_json(output["value"], outputs.source, f"{name}.value")


class _Merger:
    """Merges one output after the other."""

    def __init__(self, source: str, findings: Findings, *, lenient: bool) -> None:
        self._source = source
        self._findings = findings
        self._decoder = Decoder(findings, lenient=lenient)

    def api(self, tree: Node, output: Node | None) -> Node:
        """`kubeone_api`: the endpoint, and the alternative names where there are any."""
        if output is None:
            return tree
        path = f"{API}.value"
        api = self._decoder.decode(output, APIOutput, path)
        if api.endpoint:
            tree = _with(tree, ("apiEndpoint", "host"), self._node(api.endpoint, child(path, "endpoint")))
        if api.apiserver_alternative_names:
            where = child(path, "apiserver_alternative_names")
            tree = _with(tree, ("apiEndpoint", "alternativeNames"), self._node(list(api.apiserver_alternative_names), where))
        return tree

    def control_plane(self, tree: Node, output: Node | None) -> Node:
        """`kubeone_hosts`: the hosts, which replace the manifest's, the cluster's name, and the cloud with its settings."""
        if output is None:
            return tree
        path = f"{HOSTS}.value.control_plane"
        before = len(self._findings.problems)
        group = self._decoder.decode(output, HostsOutput, f"{HOSTS}.value").control_plane
        tree = self._cloud(tree, group, path)
        if group.cluster_name:
            tree = _with(tree, ("name",), self._node(group.cluster_name, child(path, "cluster_name")))
        hosts = self._hosts(group, path)
        if group.leader_ip and hosts and not any(_has_address(host, group.leader_ip) for host in hosts):
            self._findings.tell(
                "controlPlane.hosts", f"Terraform's leader_ip, {group.leader_ip}, is not an address of these hosts; the first of them leads"
            )
        if len(self._findings.problems) > before:
            self._findings.mute("controlPlane.hosts")
        hosts = [self._led(host, group, path) for host in hosts]
        if hosts:
            tree = _with(tree, ("controlPlane", "hosts"), Node(list(hosts), self._mark(path)))
        return tree

    def _led(self, host: Node, group: ControlPlaneOutput, path: str) -> Node:
        if group.leader_ip:
            host = _with(host, ("isLeader",), self._node(_has_address(host, group.leader_ip), child(path, "leader_ip")))
        return _with(host, ("taints",), self._node([], child(path, "untaint"))) if group.untaint else host

    def _cloud(self, tree: Node, group: ControlPlaneOutput, path: str) -> Node:
        where = child(path, "cloud_provider")
        name = _RENAMED.get(group.cloud_provider, group.cloud_provider)
        if name and name not in PROVIDERS:
            near = nearest(name, PROVIDERS)
            self._findings.wrong(
                where, f"{name} is not a known provider; {f'did you mean {near}?' if near else 'it is one of ' + ', '.join(PROVIDERS)}"
            )
            return tree
        providers = _at(tree, ("cloudProvider",))
        if name and (name not in providers or providers[name].value is None):
            tree = _with(tree, ("cloudProvider", name), self._node({}, where))
        return tree

    def static_workers(self, tree: Node, output: Node | None) -> Node:
        """`kubeone_static_workers`: the hosts of each group, in the order of the groups' names, after the manifest's own."""
        if output is None:
            return tree
        path, added = f"{STATIC_WORKERS}.value", list[Node]()
        for name, node in sorted(self._groups(output, path).items()):
            where = child(path, name)
            added += self._hosts(self._decoder.decode(node, HostGroup, where), where)
        present = _at(tree, ("staticWorkers",)).get("hosts")
        if not added or (present is not None and not isinstance(present.value, list | None)):
            return tree
        hosts = [*(present.items if present else ()), *added]
        return _with(tree, ("staticWorkers", "hosts"), Node(hosts, present.mark if present else self._mark(path)))

    def workers(self, tree: Node, output: Node | None) -> Node:
        """`kubeone_workers`: those the manifest does not have, and of those it has the provider's settings that it leaves open."""
        if output is None:
            return tree
        path = f"{WORKERS}.value"
        groups = self._groups(output, path)
        present = tree.mapping.get("dynamicWorkers")
        if not groups or (present is not None and not isinstance(present.value, list | None)):
            return tree
        workers = list(present.items) if present else []
        places = {_text(worker, "name"): index for index, worker in enumerate(workers)}
        for name, node in sorted(groups.items()):
            if name in places:
                workers[places[name]] = _filled(workers[places[name]], node)
            else:
                workers.append(_with(node, ("name",), self._node(name, child(path, name))))
        return _with(tree, ("dynamicWorkers",), Node(workers, present.mark if present else self._mark(path)))

    def _groups(self, output: Node, path: str) -> Mapping[str, Node]:
        if output.value is not None and not isinstance(output.value, dict):
            self._findings.wrong(path, "must be an object of groups by their names", self._mark(path))
        return output.mapping

    def _hosts(self, group: HostGroup, path: str) -> list[Node]:
        """One host for each public address, or, where there is none, for each private one."""
        leading = "public_address" if group.public_address else "private_address"
        count = len(getattr(group, leading))
        for key in ("private_address", "ipv6_addresses", "hostnames", "ssh_hosts_keys"):
            length = len(getattr(group, key))
            if length not in (0, count):
                self._findings.wrong(child(path, key), f"has {length} items, and {leading} has {count}; give one for each host, or none")
                return []
        shared = dict(self._shared(group, path))
        return [
            Node({**shared, **dict(self._own(group, index, path))}, self._mark(item(child(path, leading), index))) for index in range(count)
        ]

    def _own(self, group: HostGroup, index: int, path: str) -> Iterator[tuple[str, Node]]:
        lists: dict[str, tuple[str, tuple[Any, ...]]] = {
            "public_address": ("publicAddress", group.public_address),
            "private_address": ("privateAddress", group.private_address),
            "ipv6_addresses": ("ipv6Addresses", tuple(list(each) for each in group.ipv6_addresses)),
            "hostnames": ("hostname", group.hostnames),
            "ssh_hosts_keys": ("sshHostPublicKey", group.ssh_hosts_keys),
        }
        for output, (key, values) in lists.items():
            if values:
                yield key, self._node(values[index], item(child(path, output), index))

    def _shared(self, group: HostGroup, path: str) -> Iterator[tuple[str, Node]]:
        for output, key in _HOST_VALUES.items():
            value = getattr(group, output)
            if value:
                yield key, self._node(dict(value) if isinstance(value, Mapping) else value, child(path, output))
        kubelet = dict(self._kubelet(group.kubelet, child(path, "kubelet")))
        if kubelet:
            yield "kubelet", Node(kubelet, self._mark(child(path, "kubelet")))

    def _kubelet(self, kubelet: KubeletOutput, path: str) -> Iterator[tuple[str, Node]]:
        for output, (key, separator) in _KUBELET_PAIRS.items():
            text, where = getattr(kubelet, output), child(path, output)
            pairs = [pair.partition(separator) for pair in text.split(",")] if text else []
            if not all(name and found for name, found, _ in pairs):
                self._findings.wrong(where, f"is not a list such as cpu{separator}200m,memory{separator}200Mi", self._mark(where))
            elif pairs:
                yield key, self._node({name.strip(): value.strip() for name, _, value in pairs}, where)
        for output, key in _KUBELET_VALUES.items():
            value = getattr(kubelet, output)
            if value not in (None, ""):
                yield key, self._node(value, child(path, output))

    def _mark(self, path: str) -> Mark:
        return Mark(self._source, path=path)

    def _node(self, value: Any, path: str) -> Node:
        """The value as a tree, everything in it marked with the one output that it is from."""
        node = from_json(value, self._source, path)
        return _marked(node, self._mark(path))


def _marked(node: Node, mark: Mark) -> Node:
    match node.value:
        case dict() as fields:
            return Node({key: _marked(below, mark) for key, below in fields.items()}, mark)
        case list() as items:
            return Node([_marked(below, mark) for below in items], mark)
        case _:
            return replace(node, mark=mark)


def _at(tree: Node, keys: tuple[str, ...]) -> dict[str, Node]:
    for key in keys:
        tree = tree.mapping.get(key, Node(None, tree.mark))
    return tree.mapping


def _text(node: Node, key: str) -> str:
    found = node.mapping.get(key)
    return found.value if found is not None and isinstance(found.value, str) else ""


def _with(tree: Node, keys: tuple[str, ...], value: Node) -> Node:
    """The tree with this value at this path. What is no mapping on the way stays as it is, for decoding to refuse it."""
    first, *rest = keys
    if tree.value is not None and not isinstance(tree.value, dict):
        return tree
    below = _with(tree.mapping.get(first, Node(None, value.mark)), tuple(rest), value) if rest else value
    return Node({**tree.mapping, first: below}, tree.mark)


def _filled(worker: Node, output: Node) -> Node:
    """The manifest's worker with the settings of its cloud that Terraform knows and it does not have; what is empty in Terraform counts as not known."""
    path = ("providerSpec", "cloudProviderSpec")
    present = _at(worker, path)
    for key, value in _at(output, path).items():
        if key not in present and value.value not in (None, "", 0, [], {}):
            worker = _with(worker, (*path, key), value)
    return worker


def _has_address(host: Node, text: str) -> bool:
    wanted = address(text) or text
    return any(wanted == (address(found) or found) for key in ("publicAddress", "privateAddress") if (found := _text(host, key)))
