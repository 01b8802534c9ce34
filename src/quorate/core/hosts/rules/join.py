"""Hosts join a cluster that stands: control planes one at a time after a quorum check, workers all at once. Only with the version that it runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from quorate.core.checks import Check, failed, passed, unknown
from quorate.core.hosts.gates import addition
from quorate.core.hosts.rules.clocks import clock_fits
from quorate.core.hosts.rules.configuration import after_the_configuration
from quorate.core.hosts.rules.facts import has_yet_to_join, names, somebody_serves
from quorate.core.hosts.rules.found import is_ready
from quorate.core.hosts.rules.members import blocks_the_name
from quorate.core.hosts.rules.skew import none_is_older
from quorate.core.hosts.rules.snapshot import after_a_snapshot
from quorate.core.hosts.state import Cluster, Host
from quorate.core.hosts.steps import Join, JoinWorkers, Prepare, Step
from quorate.core.proposal import NOTHING, Proposal, blocking, wanting

REPAIR_AT_RUNNING_VERSION = "repair and upgrade are not mixed"
NAME_FREE = "no other machine has the host's name"
MEMBERS_ANSWER = "every member of the ring answers"
KUBELET_NOT_ABOVE = "no API server is older than the kubelets that join"


def repair_at_the_running_version(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Hosts join with the version that the cluster runs. While some have yet to join, quorate refuses another version in the manifest; afterwards that is an
    upgrade."""
    waiting = [host for host in cluster.hosts if has_yet_to_join(host)]
    if not cluster.stands or not waiting or cluster.running == cluster.version:
        return NOTHING
    blocks: frozenset[type[Step]] = frozenset({Prepare, Join, JoinWorkers})
    if cluster.running is None:
        return blocking(
            blocks,
            unknown(
                REPAIR_AT_RUNNING_VERSION,
                "ConfigMap kubeadm-config does not tell which version runs",
                "Restore it: `kubeadm init phase upload-config`.",
            ),
        )
    evidence = f"the cluster runs {cluster.running}, the manifest says {cluster.version}, and {names(waiting)} has yet to join"
    remedy = f"Set versions.kubernetes to {cluster.running}, repair, then upgrade."
    return blocking(blocks, failed(REPAIR_AT_RUNNING_VERSION, evidence, remedy))


def join_control_planes(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Joins the first control plane host, in the manifest's order, that is ready and may join; the next one once that votes and is healthy."""
    if not cluster.stands:
        return NOTHING
    refused: tuple[Check, ...] = ()
    for host in filter(is_ready, cluster.control_planes):
        asked = (
            _name_free(cluster, host),
            somebody_serves(cluster),
            addition(cluster.ring),
            _members_answer(cluster),
            clock_fits(cluster, host),
        )
        proposal = wanting(Join(host.name), *asked)
        if proposal.step is not None:
            return after_a_snapshot(cluster, after_the_configuration(proposal, cluster.configuration_drift))
        refused += proposal.checks
    return Proposal(checks=tuple(dict.fromkeys(refused)))


def join_workers(cluster: Cluster, _now: datetime) -> Proposal[Step]:
    """Joins workers that are ready, several at once up to the limit: nothing else depends on them."""
    ready = [host for host in cluster.workers if is_ready(host)]
    if not cluster.stands or not ready:
        return NOTHING
    asked = {host.name: (_name_free(cluster, host), clock_fits(cluster, host)) for host in ready}
    apart = tuple(check for checks in asked.values() for check in checks if not check.passed)
    joining = tuple(name for name, checks in asked.items() if all(check.passed for check in checks))
    if not joining:
        return Proposal(checks=apart)
    proposal = wanting(
        JoinWorkers(joining[: max(cluster.options.parallel_workers, 1)]),
        somebody_serves(cluster),
        none_is_older(cluster, KUBELET_NOT_ABOVE),
    )
    return after_the_configuration(replace(proposal, checks=(*proposal.checks, *apart)), cluster.configuration_drift)


def _name_free(cluster: Cluster, host: Host) -> Check:
    if blocks_the_name(cluster, host):
        return failed(NAME_FREE, f"another machine is still called {host.name}: its member or its Node has not gone yet")
    return passed(NAME_FREE, host.name)


def _members_answer(cluster: Cluster) -> Check:
    """kubeadm asks every member that ever started for its status, before it adds one and after, and ends half-way where one is silent.

    Source: kubeadm 1.34, CheckClusterHealth and WaitForClusterAvailable in cmd/kubeadm/app/util/etcd/etcd.go.
    """
    orphans = [orphan.member.label for orphan in cluster.orphans if orphan.missed_probes is not None and orphan.member.started]
    silent = {member for member, _ in cluster.members_missed_probes}
    absent = [host.name for host in cluster.control_planes if host.member_id in silent]
    if absent:
        remedy = f"Bring {', '.join(absent)} back; where it is gone for good, remove its host from the manifest."
        return failed(MEMBERS_ANSWER, f"{', '.join((*absent, *orphans))} is silent, and kubeadm could not finish the join", remedy)
    if orphans:
        return failed(MEMBERS_ANSWER, f"{', '.join(orphans)} is silent, and kubeadm could not finish the join before it has left")
    return passed(MEMBERS_ANSWER, "all of them")
