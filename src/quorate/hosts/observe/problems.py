"""What is wrong with the hosts together: one that is another's Node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quorate.core.health import Absent
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.cluster_ca import trusted
from quorate.hosts.probe.facts import Fact, HostFacts, Kubeconfig
from quorate.hosts.render.host_names import node_of


def problems(facts: Mapping[str, HostFacts | Unreachable], ca: Fact[str]) -> tuple[str, ...]:
    """Each problem with the names of its hosts, in words. `ca` is the cluster's: names of hosts of another cluster are not shown."""
    known = {name: each for name, each in facts.items() if isinstance(each, HostFacts)}
    ours = {name: each for name, each in known.items() if isinstance(ca, str) and ca in trusted(each)}
    return tuple(_other_nodes(ours))


def _other_nodes(facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Hosts that have joined by another name than they go by: the manifest's names or addresses are those of others."""
    for name, each in facts.items():
        kubelet = each.kubeconfigs["kubelet"]
        client = kubelet.client if isinstance(kubelet, Kubeconfig) else Absent()
        node = node_of(client[0]) if isinstance(client, tuple) else Absent()
        if isinstance(node, str) and node != name.lower():
            yield f"{name} is Node {node} by its kubelet's certificate: correct its hostname in the manifest, or its address"
