"""What a host is: the table in quorate.hosts.probe.condition, row by row, on hosts whose facts come from the script itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts.state import Kind
from quorate.hosts.probe.condition import Condition, EtcdRole, Listing, condition, fingerprint
from quorate.hosts.probe.facts import INITIALIZING, Answer, Fact, HostFacts
from quorate.hosts.probe.parse import parse
from quorate.pki.certificates import read_certificates
from tests.hosts.probe.machine import NOW, Folder, ca, installed, joined, kubeconfig, manifest

OURS = fingerprint(read_certificates(ca().certificate)[0])
NOT_LISTED = Listing(ca=OURS, cluster_id=77, etcd=Absent(), node=Absent())
LISTED = Listing(ca=OURS, cluster_id=77, etcd=EtcdRole.VOTER, node="cp-1")
LEARNER = Listing(ca=OURS, cluster_id=77, etcd=EtcdRole.LEARNER, node="cp-1")
UNSURE = Listing(ca=OURS, cluster_id=77, etcd=Unknown("no member answers"), node=Unknown("no API server answers"))

Change = Callable[[Folder], object]


def bare(_: Folder) -> None:
    """Nothing but the system."""


def packages(folder: Folder) -> None:
    installed(folder)


def without(*paths: str, founder: bool = False) -> Change:
    """A host that has joined, without these files."""

    def change(folder: Folder) -> None:
        joined(folder, founder=founder)
        for path in paths:
            (folder.root / path).unlink()

    return change


def ca_handed_over(folder: Folder) -> None:
    installed(folder)
    folder.file("etc/kubernetes/pki/ca.crt", ca().certificate)


def joining(folder: Folder) -> None:
    installed(folder)
    folder.file("etc/kubernetes/bootstrap-kubelet.conf", kubeconfig())


def initializing(folder: Folder) -> None:
    ca_handed_over(folder)
    folder.file("etc/kubernetes/super-admin.conf", kubeconfig())


def just_begun(folder: Folder) -> None:
    ca_handed_over(folder)
    folder.file(INITIALIZING.removeprefix("/"), "")


def as_init_leaves_it_at_first(folder: Folder) -> None:
    joined(folder, founder=True)
    folder.file("etc/kubernetes/kubelet.conf", kubeconfig())


def cut_short(*, mark: bool) -> Change:
    def change(folder: Folder) -> None:
        as_init_leaves_it_at_first(folder)
        (folder.root / "etc/kubernetes/manifests/kube-scheduler.yaml").unlink()
        if mark:
            folder.file(INITIALIZING.removeprefix("/"), "")

    return change


def initialized_by_hand(*, started: bool) -> Change:
    """`kubeadm init` was cut short before the kubelet was started with what it had written, or somebody has made a super-admin.conf on a host that serves."""

    def change(folder: Folder) -> None:
        as_init_leaves_it_at_first(folder)
        folder.file("etc/kubernetes/super-admin.conf", kubeconfig())
        shutil.rmtree(folder.root / "var/lib/etcd")
        if not started:
            (folder.root / "var/lib/kubelet/pki/kubelet-client-current.pem").unlink()

    return change


def marked(folder: Folder) -> None:
    joined(folder, founder=True)
    folder.file(INITIALIZING.removeprefix("/"), "")


def founder_without_data(*, mark: bool) -> Change:
    """Its kubelet has its certificate in a file, so that its API server and etcd have served."""

    def change(folder: Folder) -> None:
        without("var/lib/etcd/member/snap/db", "var/lib/etcd/member/wal/0.wal", founder=True)(folder)
        if mark:
            folder.file(INITIALIZING.removeprefix("/"), "")

    return change


def of_another_cluster(folder: Folder) -> None:
    joined(folder, "another")


def of_two_clusters(folder: Folder) -> None:
    joined(folder)
    folder.file("etc/kubernetes/kubelet.conf", kubeconfig("another"))


def ca_being_replaced(folder: Folder) -> None:
    joined(folder)
    folder.file("etc/kubernetes/pki/ca.crt", ca("next").certificate + ca().certificate)


def own_static_pod(folder: Folder) -> None:
    installed(folder)
    folder.file("etc/kubernetes/manifests/haproxy.yaml", manifest("haproxy:3"))


def with_external_etcd(folder: Folder) -> None:
    without("etc/kubernetes/manifests/etcd.yaml", "var/lib/etcd/member/snap/db", "var/lib/etcd/member/wal/0.wal")(folder)
    folder.file("etc/kubernetes/manifests/kube-apiserver.yaml", manifest("kube-apiserver:v1.34.4", "--etcd-servers=https://10.0.0.9:2379"))


def unreadable_ca(folder: Folder) -> None:
    joined(folder)
    folder.file("etc/kubernetes/pki/ca.crt", "not a certificate")


GOOD = Answer(200, "ok")


@cache
def told(change: Change) -> HostFacts:
    """What the script tells of a host so changed."""
    with TemporaryDirectory() as path:
        folder = Folder(Path(path))
        change(folder)
        return parse(folder.probe())


def facts_of(change: Change, answer: Fact[Answer] = GOOD) -> HostFacts:
    """The facts of a host so changed, each of whose endpoints gives that answer."""
    return replace(told(change), kubelet_healthz=answer, api_server_livez=answer, api_server_readyz=answer, etcd_health=answer)


def judged(facts: HostFacts, listing: Listing = LISTED, *, control_plane: bool = True) -> Condition:
    return condition(facts, listing, control_plane=control_plane, now=NOW)


@pytest.mark.parametrize(
    ("change", "listing", "kind"),
    [
        (bare, NOT_LISTED, Kind.BARE),
        (bare, replace(NOT_LISTED, ca=Absent()), Kind.BARE),
        (packages, NOT_LISTED, Kind.PACKAGES_ONLY),
        (own_static_pod, NOT_LISTED, Kind.PACKAGES_ONLY),
        (bare, LISTED, Kind.BROKEN),  # wiped or built anew, and its member is still in the ring
        (packages, LEARNER, Kind.BROKEN),
        (ca_handed_over, NOT_LISTED, Kind.HALF_JOINED),
        (joining, NOT_LISTED, Kind.HALF_JOINED),
        (joining, LEARNER, Kind.HALF_JOINED),
        (initializing, NOT_LISTED, Kind.HALF_INITIALIZED),
        (just_begun, NOT_LISTED, Kind.HALF_INITIALIZED),
        (cut_short(mark=True), UNSURE, Kind.HALF_INITIALIZED),
        (cut_short(mark=False), UNSURE, Kind.BROKEN),  # nobody knows when it was begun
        (initialized_by_hand(started=False), UNSURE, Kind.HALF_INITIALIZED),
        (initialized_by_hand(started=True), UNSURE, Kind.BROKEN),
        (without("etc/kubernetes/manifests/kube-scheduler.yaml", founder=True), UNSURE, Kind.BROKEN),  # it has served
        (founder_without_data(mark=False), UNSURE, Kind.BROKEN),
        (founder_without_data(mark=True), UNSURE, Kind.BROKEN),
        (without("etc/kubernetes/manifests/kube-scheduler.yaml"), UNSURE, Kind.HALF_JOINED),
        (without("etc/kubernetes/manifests/kube-scheduler.yaml"), LISTED, Kind.BROKEN),
        (without("var/lib/etcd/member/snap/db"), LISTED, Kind.BROKEN),
        (without("var/lib/etcd/member/snap/db"), LEARNER, Kind.HALF_JOINED),
        (marked, LISTED, Kind.HALF_INITIALIZED),  # everything runs, but for instance the administrator has no rights yet
        (marked, UNSURE, Kind.HALF_INITIALIZED),
        (joined, LEARNER, Kind.HALF_JOINED),
        (joined, LISTED, Kind.MEMBER),
        (joined, UNSURE, Kind.MEMBER),
        (joined, replace(LISTED, etcd=Absent()), Kind.BROKEN),
        (joined, replace(LISTED, node=Absent()), Kind.BROKEN),
        (joined, replace(LISTED, ca=Absent()), Kind.UNKNOWN),
        (joined, replace(LISTED, ca=Unknown("hosts disagree")), Kind.UNKNOWN),
        (of_another_cluster, NOT_LISTED, Kind.FOREIGN),
        (of_another_cluster, UNSURE, Kind.FOREIGN),
        (of_another_cluster, LISTED, Kind.BROKEN),
        (of_another_cluster, replace(LISTED, etcd=Absent()), Kind.FOREIGN),  # its member has left, and its Node was not deleted
        (of_two_clusters, LISTED, Kind.BROKEN),
        (ca_being_replaced, LISTED, Kind.MEMBER),
        (unreadable_ca, LISTED, Kind.UNKNOWN),
        (with_external_etcd, replace(LISTED, etcd=Absent()), Kind.MEMBER),
    ],
)
def test_the_table(change: Change, listing: Listing, kind: Kind) -> None:
    found = judged(facts_of(change), listing)
    assert found.kind is kind, found.findings


@pytest.mark.parametrize(("node", "kind"), [("worker-1", Kind.MEMBER), (Absent(), Kind.BROKEN), (Unknown("no answer"), Kind.MEMBER)])
def test_a_worker_has_joined_when_it_has_a_node(node: Fact[str], kind: Kind) -> None:
    facts = replace(facts_of(joined), manifests={}, etcd_data=Absent(), api_server_livez=Absent(), etcd_health=Absent())
    assert judged(facts, Listing(ca=OURS, cluster_id=77, etcd=Absent(), node=node), control_plane=False).kind is kind


def test_init_that_was_interrupted_while_it_waited_is_half_and_a_broken_founder_is_not() -> None:
    facts = facts_of(as_init_leaves_it_at_first, Absent())
    assert judged(replace(facts, initialization=None), UNSURE).kind is Kind.HALF_INITIALIZED
    assert judged(facts, UNSURE).kind is Kind.BROKEN, "quorate has not begun it"
    assert judged(facts, LISTED).kind is Kind.BROKEN


@pytest.mark.parametrize("endpoint", ["kubelet_healthz", "api_server_livez", "api_server_readyz", "etcd_health"])
@pytest.mark.parametrize(
    ("answer", "kind", "health"),
    [
        (Answer(500, "[-]etcd failed"), Kind.BROKEN, Health.BAD),
        (Absent(), Kind.BROKEN, Health.BAD),
        (Answer(401, "Unauthorized"), Kind.MEMBER, Health.UNKNOWN),
        (Unknown("there is no curl on the host"), Kind.MEMBER, Health.UNKNOWN),
    ],
)
def test_an_endpoint_that_fails_breaks_a_host_and_one_that_is_not_heard_is_not_good(
    endpoint: str, answer: Fact[Answer], kind: Kind, health: Health
) -> None:
    changes: dict[str, Any] = {endpoint: answer}
    found = judged(replace(facts_of(joined), **changes))
    assert found.kind is kind
    assert [finding.health for finding in found.findings if finding.health is not Health.GOOD] == [health]


@pytest.mark.parametrize("unit", ["containerd", "kubelet"])
def test_a_unit_that_does_not_run_breaks_a_host(unit: str) -> None:
    facts = facts_of(joined)
    assert judged(replace(facts, units={**facts.units, unit: Absent()})).kind is Kind.BROKEN
    assert judged(replace(facts, units={**facts.units, unit: Unknown("no systemd")})).kind is Kind.MEMBER


def test_a_certificate_that_has_expired_breaks_a_host_by_name_and_date() -> None:
    found = condition(facts_of(joined), LISTED, control_plane=True, now=NOW + timedelta(days=366))
    assert found.kind is Kind.BROKEN
    assert [finding.message for finding in found.findings if finding.health is Health.BAD] == ["kubelet expired on 2027-03-01 12:00 UTC"]


def test_a_kubeadm_that_runs_is_not_over() -> None:
    found = judged(replace(facts_of(joined), processes=frozenset({"kubeadm"})))
    assert [finding.reason for finding in found.findings if finding.health is Health.UNKNOWN] == ["KubeadmRuns"]


def test_of_a_host_that_told_nothing_nothing_is_concluded() -> None:
    found = judged(parse(b"", Unknown("the connection ended")), NOT_LISTED)
    assert found.kind is Kind.UNKNOWN
    assert {finding.health for finding in found.findings} == {Health.UNKNOWN, Health.BAD}


def test_what_is_not_known_for_one_reason_is_said_once() -> None:
    found = judged(parse(b"", Unknown("the connection ended")), NOT_LISTED)
    (only,) = [finding for finding in found.findings if finding.reason == "NotKnown"]
    assert only.message.startswith("kubelet.conf, ")
    assert only.message.endswith(": the connection ended")
