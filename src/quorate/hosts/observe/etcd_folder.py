"""Where etcd's data are on a host without etcd's manifest, which alone says so: where this cluster has them, by kubeadm's configuration and other hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from quorate.core.health import Absent, Unknown
from quorate.hosts.connect.access import Access
from quorate.hosts.connect.ssh.hosts import Unreachable
from quorate.hosts.observe.api import ApiReading
from quorate.hosts.observe.configuration import etcd_data_folder
from quorate.hosts.probe.condition import has_local_etcd
from quorate.hosts.probe.facts import EtcdData, HostFacts, StaticPod
from quorate.hosts.probe.probe import DATA_FOLDER, probe

Facts = Mapping[str, HostFacts | Unreachable]
_PLAIN = re.compile(r"(/[\w.-]+)+")
"""A folder that may stand in a script."""


async def with_etcd_data(access: Access, facts: Facts, api: ApiReading | Unknown | Absent) -> Facts:
    """The facts, of hosts without etcd's manifest with what is where this cluster has etcd's data; unknown where that cannot be learned.

    A static Pod is stopped by moving its manifest away, and `kubeadm reset` begins with it: the data may be there, or be gone.
    """
    known = {name: each for name in access.control_planes if isinstance(each := facts[name], HostFacts)}
    pods = {name: pod for name, each in known.items() if isinstance(pod := each.manifest("etcd"), StaticPod)}
    told = (etcd_data_folder(api), *(known[name].etcd_folder for name in pods))
    folders = tuple(dict.fromkeys(folder for folder in told if isinstance(folder, str)))
    without = [name for name, each in known.items() if isinstance(each.manifest("etcd"), Absent)]
    found = dict(facts)
    if without and set(folders) - {DATA_FOLDER}:
        found |= await _looked_again(access, {name: known[name] for name in without}, folders)
    if not folders:
        found |= {name: _untold(known[name]) for name in without if _had_data(known[name])}
    if any(pod.flag("wal-dir") for pod in pods.values()):
        found |= {name: _without_its_log(each) for name in without if isinstance(each := found[name], HostFacts)}
    return found


async def _looked_again(access: Access, facts: Mapping[str, HostFacts], folders: Iterable[str]) -> Mapping[str, HostFacts]:
    odd = [folder for folder in folders if not _PLAIN.fullmatch(folder) or ".." in folder]
    if odd:
        why = Unknown(f"the cluster has them in {odd[0]!r}, which is not a folder to look into", "Correct it in ConfigMap kubeadm-config")
        return {name: replace(each, etcd_folder=why, etcd_data=why, etcd_identity=why) for name, each in facts.items()}
    seen = await probe({name: access.ssh(name) for name in facts}, folders=tuple(dict.fromkeys((*folders, DATA_FOLDER))))
    return {name: _with_data_of(each, seen[name]) for name, each in facts.items()}


def _with_data_of(facts: HostFacts, seen: HostFacts | Unreachable) -> HostFacts:
    if isinstance(seen, Unreachable):
        why = Unknown(seen.reason, seen.remedy)
        return replace(facts, etcd_folder=why, etcd_data=why, etcd_identity=why)
    return replace(facts, etcd_folder=seen.etcd_folder, etcd_data=seen.etcd_data, etcd_identity=seen.etcd_identity)


def _had_data(facts: HostFacts) -> bool:
    """Whether its etcd has run, by all appearance: its kubelet got a certificate from an API server. Data that are where kubeadm puts them are found there."""
    kubelet = facts.kubeconfigs["kubelet"]
    joined = not isinstance(kubelet, Absent | Unknown) and not kubelet.inline
    return joined and has_local_etcd(facts) and (isinstance(facts.etcd_data, Absent) or facts.etcd_data is EtcdData.EMPTY)


def _untold(facts: HostFacts) -> HostFacts:
    why = Unknown(
        f"none are in {DATA_FOLDER}, and nobody tells whether this cluster has them elsewhere: its manifest of etcd is missing, and so is every other's",
        "Bring etcd.yaml back; it names the folder",
    )
    return replace(facts, etcd_folder=why, etcd_data=why, etcd_identity=why)


def _without_its_log(facts: HostFacts) -> HostFacts:
    """Its log may be in a folder of its own, as other hosts have theirs, and only its manifest said in which."""
    if facts.etcd_data is not EtcdData.WITHOUT_LOG:
        return facts
    why = Unknown("other hosts have etcd's log in a folder of its own, and this one's manifest of etcd is missing", "Bring etcd.yaml back")
    return replace(facts, etcd_data=why, etcd_identity=why)
