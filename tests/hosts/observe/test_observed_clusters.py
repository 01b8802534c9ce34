"""Observations of whole clusters: hosts in folders that the real scripts read, a ring and an API that answer as told."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from quorate.core.checks import Outcome
from quorate.core.health import Absent, Health, Unknown
from quorate.core.hosts.decide import decide
from quorate.core.hosts.forecast import forecast
from quorate.core.hosts.rules.found import NO_TRACES, initialize
from quorate.core.hosts.rules.guard import QUORUM, RUNBOOK
from quorate.core.hosts.rules.leftovers import RUNS_NOTHING
from quorate.core.hosts.rules.members import REPLACED_FIRST
from quorate.core.hosts.rules.repair import CONTROL_PLANE_WELL
from quorate.core.hosts.state import Kind, RunOptions
from quorate.core.hosts.steps import DeleteNode, RemoveMember, RenewCertificates, Reset, TakeSnapshot
from quorate.core.ring import Ring
from quorate.core.versions import Version
from quorate.etcd.client import Alarm
from quorate.hosts.observe import Observation
from quorate.hosts.probe.facts import INITIALIZING, RENEWED, EtcdData, HostFacts
from quorate.hosts.run.resetting import Request, reset_steps
from quorate.kubernetes.errors import ServerError
from quorate.pki.issue import issue_client
from quorate.pki.keys import KeyAlgorithm
from tests.hosts.observe.world import NAMES, NODES, FolderHost, World, bare, join_worker, put_configurations, put_node, stand, three
from tests.hosts.probe.machine import NOW, ca, joined

KUBELET_CERTIFICATE = "var/lib/kubelet/pki/kubelet-client-current.pem"


async def test_a_cluster_that_is_well_has_nothing_to_be_done(tmp_path: Path) -> None:
    cluster = await stand(tmp_path).cluster()
    assert [(host.name, host.kind, host.findings and host.is_well) for host in cluster.hosts] == [
        (name, Kind.MEMBER, True) for name in NAMES
    ]
    assert [(host.drift, host.node_drift, host.lacks, host.stopped) for host in cluster.hosts] == [((), (), (), ())] * 3
    assert [host.member for host in cluster.hosts] == [1, 2, 3]
    assert {str(host.components) for host in cluster.hosts} == {str(host.kubelet) for host in cluster.hosts} == {"v1.34.4"}
    assert (cluster.configuration_drift, cluster.problems, cluster.orphans, cluster.lost_nodes) == ((), (), (), ())
    assert (cluster.running, cluster.leader, cluster.membership_problem) == (Version.parse("v1.34.4"), "cp-1", "")
    assert cluster.api.health is Health.GOOD
    assert isinstance(cluster.ring, Ring)
    assert cluster.ring.now.margin == 1


async def test_a_host_whose_upgrade_was_cut_between_two_components_still_has_the_older_version(tmp_path: Path) -> None:
    world = stand(tmp_path)
    api_server = world.machines["cp-2"].folder.root / "etc/kubernetes/manifests/kube-apiserver.yaml"
    api_server.write_text(api_server.read_text().replace("v1.34.4", "v1.35.4"))
    cluster = await world.cluster()
    assert str(cluster.host("cp-2").components) == "v1.34.4"


def let_expire(world: World, *names: str, certificate: str = "front-proxy-client") -> None:
    """The API server goes on to serve without a valid client certificate for its extensions."""
    pair = issue_client(
        ca(),
        common_name=certificate,
        algorithm=KeyAlgorithm.ECDSA_P256,
        not_before=NOW - timedelta(days=366),
        not_after=NOW - timedelta(hours=1),
    )
    for name in names:
        world.machines[name].folder.file(f"etc/kubernetes/pki/{certificate}.crt", pair.certificate)


@pytest.mark.parametrize("expired", [("cp-2",), NAMES])
async def test_certificates_that_have_expired_are_renewed_where_nothing_else_is_wrong(tmp_path: Path, expired: tuple[str, ...]) -> None:
    world = stand(tmp_path)
    let_expire(world, *expired)
    cluster = await world.cluster()
    assert "front-proxy-client expired on 2026-03-01 11:00 UTC" in str(cluster.host("cp-2").findings)
    foreseen = forecast(cluster, NOW)
    assert sorted(step.step.host for step in foreseen.steps if isinstance(step.step, RenewCertificates)) == list(expired)
    assert (len(foreseen.steps), foreseen.converged) == (len(expired), True)


async def test_certificates_that_have_expired_wait_for_what_else_is_wrong(tmp_path: Path) -> None:
    world = stand(tmp_path)
    let_expire(world, *NAMES)
    world.machines["cp-3"].folder.program("curl", r"printf 'etcd failed\n500'")
    decision = decide(await world.cluster(), NOW)
    assert decision.step is None
    (refused,) = [check for check in decision.refusals if check.name == CONTROL_PLANE_WELL]
    assert "The certificates of cp-1 are renewed once everything else is well." in refused.remedy


async def test_a_host_that_was_switched_on_a_moment_ago_is_known_as_that(tmp_path: Path) -> None:
    world = stand(tmp_path)
    assert not (await world.cluster()).is_booting
    # Its first process began 50 s after the machine that it runs on.
    world.machines["cp-2"].folder.file("proc/uptime", "169.99 1.0\n")
    cluster = await world.cluster()
    assert [host.just_booted for host in cluster.hosts] == [False, True, False]
    assert cluster.is_booting


async def test_an_api_server_that_was_asked_to_end_is_waited_for_and_not_called_broken_for_good(tmp_path: Path) -> None:
    """It stays for a minute after it has stopped to listen. Another's that runs in a Pod tells nothing of one that listens."""
    world = stand(tmp_path)
    folder = world.machines["cp-2"].folder
    folder.file("proc/4711/comm", "kube-apiserver\n")
    assert not (await world.cluster()).is_restarting
    folder.program("curl", 'case "$*" in *livez* | *readyz*) exit 7 ;; esac\nprintf "ok\\n200"')
    cluster = await world.cluster()
    assert [host.api_server_restarts for host in cluster.hosts] == [False, True, False]
    (refused,) = decide(cluster, NOW).refusals
    assert (refused.name, refused.outcome) == (CONTROL_PLANE_WELL, Outcome.UNKNOWN)
    assert "nothing listens there, though it runs: it was asked to end, or has just been started" in refused.evidence
    assert refused.remedy.startswith("Wait for the API server of cp-2; if it is not back after two minutes, see what fails there with ")
    (folder.root / "proc/4711/comm").unlink()
    cluster = await world.cluster()
    assert not cluster.is_restarting
    (refused,) = decide(cluster, NOW).refusals
    assert (refused.name, refused.outcome) == (CONTROL_PLANE_WELL, Outcome.FAIL)


async def test_bare_hosts_are_no_cluster_and_tell_what_they_lack(tmp_path: Path) -> None:
    world = World(three(), tmp_path)
    observation = await world.observe()
    cluster = observation.cluster
    assert [host.kind for host in cluster.hosts] == [Kind.BARE] * 3
    assert (cluster.ring, observation.api, observation.ca) == (Absent(), Absent(), Absent())
    assert not cluster.is_provisioned
    assert cluster.hosts[0].lacks == ("an operating system that quorate knows",)


async def test_a_host_with_packages_lacks_the_files_that_come_before_kubeadm(tmp_path: Path) -> None:
    world = World(three(), tmp_path)
    host = (await _with_packages(world)).cluster.host("cp-1")
    assert host.kind is Kind.PACKAGES_ONLY
    assert "kubectl" in host.lacks
    assert "/etc/sysctl.d/99-quorate.conf" in host.lacks
    assert "/etc/containerd/config.toml" in host.lacks
    assert not [thing for thing in host.lacks if thing.startswith(("kubelet", "kubeadm"))]


async def test_a_package_of_another_version_is_lacking_before_the_host_joins(tmp_path: Path) -> None:
    world = World(three(versions={"kubernetes": "1.35.4"}), tmp_path)
    host = (await _with_packages(world)).cluster.host("cp-1")
    assert "kubelet v1.35.4 instead of v1.34.4" in host.lacks


async def test_an_unreachable_host_is_a_state_and_its_member_is_asked_through_another(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.unreachable = {"cp-2"}
    cluster = await world.cluster()
    lost = cluster.host("cp-2")
    assert (lost.kind, lost.member) == (Kind.UNREACHABLE, 2)
    assert lost.findings[0].message == "no answer within 15 s. Check that the host is up"
    assert world.asked_elsewhere[0] == ("10.0.0.2", "cp-1")
    assert lost.member_health is not None
    assert lost.member_health.health is Health.GOOD
    assert not cluster.members_missed_probes


async def test_silence_counts_only_probes_that_are_five_seconds_apart(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.unreachable = {"cp-2"}
    world.etcd_ring.members[1].answers = False
    counts = []
    for seconds in (0, 1, 5, 9, 10):
        cluster = await world.cluster(NOW + timedelta(seconds=seconds))
        host = cluster.host("cp-2")
        assert host.missed_probes is not None
        counts.append(
            (host.missed_probes.count, [(member, missed_probes.count) for member, missed_probes in cluster.members_missed_probes])
        )
    assert counts == [(1, [(2, 1)]), (1, [(2, 1)]), (2, [(2, 2)]), (2, [(2, 2)]), (3, [(2, 3)])]
    world.unreachable = set()
    world.etcd_ring.members[1].answers = True
    cluster = await world.cluster(NOW + timedelta(seconds=20))
    assert (cluster.host("cp-2").missed_probes, cluster.members_missed_probes) == (None, ())


async def test_a_member_of_no_host_is_an_orphan_which_is_asked_itself(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.etcd_ring.add(9, "cp-9", "10.0.0.9", answers=False)
    world.etcd_ring.add(8, "cp-8", "10.0.0.8")
    cluster = await world.cluster()
    assert [(orphan.member.name, orphan.missed_probes and orphan.missed_probes.count) for orphan in cluster.orphans] == [
        ("cp-9", 1),
        ("cp-8", None),
    ]
    assert not cluster.members_missed_probes


async def test_a_learner_of_no_host_that_answers_is_let_be_until_it_votes_or_was_given_up(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.etcd_ring.add(9, "cp-9", "10.0.0.9", learner=True)
    assert decide(await world.cluster(), NOW).step is None
    later = NOW + timedelta(seconds=179)
    assert decide(await world.cluster(later), later).step is None
    later = NOW + timedelta(seconds=180)
    assert decide(replace(await world.cluster(later), snapshot_taken=True), later).step == RemoveMember(9, "cp-9")
    joined = world.etcd_ring.members[-1]
    joined.member = replace(joined.member, learner=False)
    later += timedelta(seconds=1)
    orphans = (await world.cluster(later)).orphans
    assert [(orphan.member.votes, orphan.without_vote_for) for orphan in orphans] == [(True, timedelta())]


async def test_a_replaced_host_leaves_an_orphan_member_and_a_lost_node_of_its_name(tmp_path: Path) -> None:
    world = stand(tmp_path)
    bare(world, "cp-3")
    world.etcd_ring.members[2:] = []
    world.etcd_ring.add(3, "cp-3", "10.0.9.9", answers=False)
    put_node(world, "cp-3", "10.0.9.9")
    cluster = await world.cluster()
    host = cluster.host("cp-3")
    assert (host.kind, host.member, host.node) == (Kind.PACKAGES_ONLY, Absent(), Absent())
    assert host.lacks
    assert host.drift == (), "what it lacks comes before it joins, and is no setting to apply afterwards"
    assert [orphan.member.id for orphan in cluster.orphans] == [3]
    assert cluster.lost_nodes == ("cp-3",)


async def test_a_node_with_another_address_stays_that_of_a_host_that_has_joined(tmp_path: Path) -> None:
    world = stand(tmp_path)
    put_node(world, "cp-3", "172.16.0.3")
    cluster = await world.cluster()
    assert cluster.host("cp-3").kind is Kind.MEMBER
    assert cluster.lost_nodes == ()


async def test_a_wiped_data_folder_is_proven_data_loss_unless_kubeadm_runs(tmp_path: Path) -> None:
    world = stand(tmp_path)
    machine = world.machines["cp-3"]
    for file in ("var/lib/etcd/member/snap/db", "var/lib/etcd/member/wal/0.wal"):
        (machine.folder.root / file).unlink()
    for folder in ("snap", "wal", ""):
        (machine.folder.root / "var/lib/etcd/member" / folder).rmdir()
    world.etcd_ring.members[2].answers = False
    host = (await world.cluster()).host("cp-3")
    assert (host.kind, host.etcd_data_lost) == (Kind.BROKEN, True)
    machine.folder.file("proc/77/comm", "kubeadm\n")
    assert not (await world.cluster()).host("cp-3").etcd_data_lost


async def test_a_member_stays_whose_host_was_switched_on_a_moment_ago_as_the_disk_with_its_data_may_not_be_mounted(tmp_path: Path) -> None:
    world = stand(tmp_path)
    machine = world.machines["cp-3"]
    shutil.rmtree(machine.folder.root / "var/lib/etcd/member")
    machine.member = None
    world.etcd_ring.members[2].answers = False
    steps = {}
    for seconds in (10, 20, 30, 40, 119, 121):
        machine.folder.file("proc/uptime", f"{50 + seconds}.0 1.0\n")  # PID 1 began at 50 s
        now = NOW + timedelta(seconds=seconds)
        decision = decide(await world.cluster(now), now)
        steps[seconds] = decision.step
        assert decision.step is not None or (decision.wake_at is not None and decision.wake_at <= now + timedelta(seconds=5))
    assert steps == {10: None, 20: None, 30: None, 40: None, 119: None, 121: TakeSnapshot()}


@pytest.mark.parametrize("ready", ["True", "False"])
async def test_a_worker_that_the_manifest_has_as_a_control_plane_is_not_freed_unasked(tmp_path: Path, ready: str) -> None:
    hosts = [
        {"publicAddress": f"192.0.2.{n}", "privateAddress": f"10.0.0.{n}", "hostname": name} for n, name in enumerate((*NAMES, "w-4"), 1)
    ]
    world = stand(tmp_path, controlPlane={"hosts": hosts})
    join_worker(world, "w-4", "10.0.0.4")
    world.api_objects.objects[f"{NODES}/w-4"]["status"]["conditions"][0]["status"] = ready
    cluster = replace(await world.cluster(), snapshot_taken=True)
    assert cluster.host("w-4").works
    plan = forecast(cluster, NOW)
    assert not any(isinstance(each.step, DeleteNode | Reset) for each in plan.steps)
    [said] = [check for check in plan.refusals if check.name == RUNS_NOTHING]
    assert "w-4 has joined as a worker and may run Pods" in said.evidence
    assert "quorate reset -m MANIFEST w-4" in said.remedy
    assert DeleteNode("w-4", drain=ready == "True") in [each.step for each in reset_steps(cluster, Request(("w-4",)))]


def in_a_pod(machine: FolderHost, number: int, name: str, *, namespace: str = "pid:[2]") -> None:
    """A process that runs in a container there, with a namespace of processes of its own."""
    machine.folder.file(f"proc/{number}/comm", f"{name}\n")
    for process, its in ((1, "pid:[1]"), (number, namespace)):
        link = machine.folder.root / f"proc/{process}/ns/pid"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(its)


async def test_a_program_called_kubeadm_in_a_pod_keeps_nobody_waiting_and_hides_no_loss(tmp_path: Path) -> None:
    world = stand(tmp_path)
    machine = world.machines["cp-3"]
    in_a_pod(machine, 4711, "kubeadm")
    cluster = await world.cluster()
    assert (cluster.host("cp-3").kind, cluster.host("cp-3").kubeadm_runs) == (Kind.MEMBER, False)
    shutil.rmtree(machine.folder.root / "var/lib/etcd/member")
    world.etcd_ring.members[2].answers = False
    assert (await world.cluster()).host("cp-3").etcd_data_lost
    in_a_pod(machine, 4712, "kubeadm", namespace="pid:[1]")
    host = (await world.cluster()).host("cp-3")
    assert (host.kubeadm_runs, host.etcd_data_lost) == (True, False), "this one runs on the host"


async def test_a_cluster_in_containers_on_a_bare_host_is_not_the_hosts(tmp_path: Path) -> None:
    world = stand(tmp_path)
    in_a_pod(bare(world, "cp-3"), 4711, "k3s-server")
    world.etcd_ring.members.pop()
    del world.api_objects.objects[f"{NODES}/cp-3"]
    assert (await world.cluster()).host("cp-3").kind is Kind.PACKAGES_ONLY


async def test_a_data_folder_without_its_log_is_proven_data_loss_and_one_without_its_database_is_none(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.etcd_ring.members[2].answers = False
    files = {name: world.machines["cp-3"].folder.root / "var/lib/etcd/member" / name for name in ("snap/db", "wal/0.wal")}
    database = files["snap/db"].read_bytes()
    files["snap/db"].unlink()
    host = (await world.cluster()).host("cp-3")
    assert (host.kind, host.etcd_data_lost) == (Kind.BROKEN, False)
    files["snap/db"].write_bytes(database)
    files["wal/0.wal"].unlink()
    host = (await world.cluster()).host("cp-3")
    assert (host.kind, host.etcd_data_lost) == (Kind.BROKEN, True)


LOG_LOST = '{"level":"panic","msg":"tocommit(34) is out of range [lastIndex(0)]. Was the raft log corrupted, truncated, or lost?"}\n'


async def test_a_member_that_answers_has_not_lost_its_data_whatever_is_in_its_log(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.machines["cp-3"].folder.file("var/log/pods/kube-system_etcd-cp-3_2f1a/etcd/4.log", LOG_LOST)
    cluster = await world.cluster()
    host = cluster.host("cp-3")
    assert (host.kind, host.etcd_data_lost) == (Kind.MEMBER, False)
    assert decide(cluster, NOW).step is None


async def test_a_data_folder_that_etcd_began_anew_is_proven_data_loss(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.machines["cp-3"].folder.file("var/log/pods/kube-system_etcd-cp-3_2f1a/etcd/4.log", LOG_LOST)
    world.etcd_ring.members[2].answers = False
    host = (await world.cluster()).host("cp-3")
    assert (host.kind, host.etcd_data_lost) == (Kind.BROKEN, True)
    assert "EtcdDataBegunAnew" in {finding.reason for finding in host.findings if finding.health is Health.BAD}


async def test_a_host_of_another_cluster_is_foreign_and_nobody_asks_it_for_the_ring(tmp_path: Path) -> None:
    world = stand(tmp_path)
    machine = bare(world, "cp-3")
    joined(machine.folder, "elsewhere", member=9, cluster=78)
    del world.etcd_ring.members[2]
    del world.api_objects.objects["/api/v1/nodes/cp-3"]
    cluster = await world.cluster()
    assert cluster.host("cp-3").kind is Kind.FOREIGN
    assert world.avoided == {"cp-3"}
    assert cluster.membership_problem == ""


async def test_one_host_each_of_two_clusters_is_known_to_be_neither(tmp_path: Path) -> None:
    world = stand(tmp_path)
    bare(world, "cp-3")
    joined(world.machines["cp-2"].folder, "elsewhere")
    observation = await world.observe()
    assert isinstance(observation.ca, Unknown)
    assert "it is not known which one you mean" in observation.ca.reason
    assert isinstance(observation.cluster.ring, Unknown)
    assert [host.kind for host in observation.cluster.hosts] == [Kind.UNKNOWN, Kind.UNKNOWN, Kind.PACKAGES_ONLY]


async def test_lost_quorum_is_an_unknown_ring_with_the_way_out(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.unreachable = {"cp-2", "cp-3"}
    for member in world.etcd_ring.members[1:]:
        member.answers = False
    world.etcd_ring.members[0].leader = 0
    world.api_objects.down = True
    cluster = await world.cluster()
    assert isinstance(cluster.ring, Unknown)
    assert "knows no leader" in cluster.ring.reason
    assert isinstance(cluster.host("cp-1").member, Unknown)
    assert (cluster.api.health, cluster.api.reason) == (Health.BAD, "APINotAnswering")
    assert cluster.is_provisioned


async def test_a_member_that_waits_for_others_whose_data_are_gone_is_said_to_be_restored(tmp_path: Path) -> None:
    """What was installed anew does not tell that it was one of them, and the ring that would cannot be read."""
    world = stand(tmp_path)
    for name, member in zip(NAMES[1:], world.etcd_ring.members[1:], strict=True):
        bare(world, name)
        member.answers = False
    world.etcd_ring.members[0].leader = 0
    world.api_objects.down = True
    decision = decide(await world.cluster(), NOW)
    [said] = [check for check in decision.refusals if check.name == QUORUM]
    assert (decision.step, said.remedy.endswith(f"If it waits for members whose data are gone for good, {RUNBOOK}.")) == (None, True)


async def test_a_join_that_was_cut_short_in_a_cluster_that_is_gone_is_freed_as_reset_permits_it(tmp_path: Path) -> None:
    """`reset` resets no single host of a ring that cannot be read, and asks for all of them."""
    world = stand(tmp_path)
    for name in NAMES[:2]:
        bare(world, name)
    world.machines["cp-3"].member = None
    (world.machines["cp-3"].folder.root / "etc/kubernetes/kubelet.conf").unlink()
    world.api_objects.down = True
    [said] = [check for check in initialize(await world.cluster(), NOW).checks if check.name == NO_TRACES]
    assert "`quorate reset -m MANIFEST --all`" in said.remedy


async def test_no_member_to_ask_proves_no_ring_only_without_data_and_unreachable_hosts(tmp_path: Path) -> None:
    world = stand(tmp_path)
    for name in NAMES:
        (world.machines[name].folder.root / "etc/kubernetes/manifests/etcd.yaml").unlink()
    ring = (await world.cluster()).ring
    assert isinstance(ring, Unknown)
    assert "may have etcd's data" in ring.reason


async def test_members_that_disagree_are_said_to(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.etcd_ring.members[2].cluster_id = 99
    assert "in cluster 63" in (await world.cluster()).membership_problem


async def test_an_alarm_that_outlives_its_member_is_told(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.etcd_ring.alarms = (Alarm(0xBAD, "NOSPACE"),)
    [alarm] = (await world.cluster()).alarms
    assert "NOSPACE of member bad, which is gone" in alarm


async def test_a_member_far_behind_is_not_known_to_be_well(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.etcd_ring.members[0].raft_index = 9000
    world.etcd_ring.members[0].applied = 9000
    health = (await world.cluster()).host("cp-2").member_health
    assert health is not None
    assert (health.health, health.message) == (Health.UNKNOWN, "answers and follows leader 1, but is 8000 entries behind")


async def test_a_unit_that_does_not_run_can_be_started_unless_it_keeps_failing(tmp_path: Path) -> None:
    world = stand(tmp_path)
    folders = [world.machines[name].folder for name in NAMES]
    for folder, state in zip(
        folders, ("ActiveState=inactive\nSubState=dead", "ActiveState=activating\nSubState=auto-restart"), strict=False
    ):
        text = (folder.programs / "systemctl").read_text().replace("ActiveState=active\nSubState=running", state)
        (folder.programs / "systemctl").write_text(text)
    cluster = await world.cluster()
    assert cluster.host("cp-1").stopped == ("containerd.service", "kubelet.service")
    assert cluster.host("cp-2").stopped == ()


async def test_clocks_that_are_apart_are_no_problem_of_all_and_keep_certificates_as_they_are(tmp_path: Path) -> None:
    world = stand(tmp_path)
    set_clock(world, "cp-3", timedelta(seconds=61))
    cluster = await world.cluster()
    assert cluster.problems == ()
    assert [host.clock_ahead for host in cluster.hosts] == [timedelta(), timedelta(), timedelta(seconds=61)]
    decision = decide(replace(cluster, options=RunOptions(renew_certificates=True)), NOW)
    assert decision.step is None
    assert "the clock of cp-3 is 61 s ahead of cp-1's" in {check.evidence for check in decision.refusals}


@pytest.mark.parametrize("ours", [timedelta(days=-400), timedelta(days=400)])
async def test_the_operators_clock_decides_about_no_certificate(tmp_path: Path, ours: timedelta) -> None:
    world = stand(tmp_path)
    assert (await world.cluster(NOW + ours)).host("cp-1").is_well
    assert decide(await world.cluster(NOW + ours), NOW + ours).step is None


async def test_a_host_judges_its_certificates_by_its_own_clock(tmp_path: Path) -> None:
    world = stand(tmp_path)
    set_clock(world, "cp-2", timedelta(days=400))
    found = [host.is_well for host in (await world.cluster()).hosts]
    assert found == [True, False, True]


def set_clock(world: World, name: str, ahead: timedelta) -> None:
    """The host's clock is so far ahead of NOW."""
    world.machines[name].folder.program("date", f"echo {int((NOW + ahead).timestamp())}")


async def test_certificates_expire_when_the_first_that_kubeadm_renews_does(tmp_path: Path) -> None:
    assert (await stand(tmp_path).cluster()).host("cp-1").certificates_expire == NOW + timedelta(days=365)


@pytest.mark.parametrize("part", ["nodes", "kubeadm-config"])
async def test_a_part_of_the_api_that_fails_is_unknown_by_itself(tmp_path: Path, part: str) -> None:
    world = stand(tmp_path)
    path = "/api/v1/nodes" if part == "nodes" else "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
    world.api_objects.failing[path] = ServerError("broken")
    cluster = await world.cluster()
    if part == "nodes":
        assert isinstance(cluster.host("cp-1").node, Unknown)
        assert (cluster.api.health, cluster.running) == (Health.BAD, Version.parse("v1.34.4"))
    else:
        assert cluster.running is None
        assert cluster.configuration_drift == ()
        assert cluster.api.health is Health.GOOD


async def _with_packages(world: World) -> Observation:
    for name in NAMES:
        bare(world, name)
    return await world.observe()


async def test_data_that_is_lost_is_told_even_where_the_ring_cannot_be_read(tmp_path: Path) -> None:
    world = stand(tmp_path)
    for name in ("cp-2", "cp-3"):
        shutil.rmtree(world.machines[name].folder.root / "var/lib/etcd")
    for member in world.etcd_ring.members:
        member.leader = 0
    cluster = await world.cluster()
    assert isinstance(cluster.ring, Unknown)
    assert [host.etcd_data_lost for host in cluster.hosts] == [False, True, True]


@pytest.mark.parametrize("lost", ["var/lib/etcd", "var/lib/etcd/member/wal"])
async def test_a_founder_that_lost_its_data_after_it_had_served_does_not_found_another_cluster(tmp_path: Path, lost: str) -> None:
    world = stand(tmp_path)
    world.api_objects.down = True
    world.etcd_ring.members.clear()
    for name in ("cp-2", "cp-3"):
        bare(world, name)
    shutil.rmtree(world.machines["cp-1"].folder.root / lost)
    cluster = await world.cluster()
    decision = decide(cluster, NOW)
    assert (cluster.host("cp-1").kind, decision.step) == (Kind.BROKEN, None)
    assert "cp-1: its etcd data is lost" in decision.refusals[0].evidence
    assert "docs/restore.md" in decision.refusals[0].remedy


async def test_a_voter_stays_whose_node_somebody_deleted_and_one_whose_kubelet_never_joined_leaves(tmp_path: Path) -> None:
    world = stand(tmp_path)
    files = world.machines["cp-3"].folder.root / "etc/kubernetes"
    (files / "manifests/kube-scheduler.yaml").unlink()
    del world.api_objects.objects[f"{NODES}/cp-3"]
    cluster = replace(await world.cluster(), snapshot_taken=True)
    assert (cluster.host("cp-3").kind, decide(cluster, NOW).step) == (Kind.BROKEN, None)
    (files / "kubelet.conf").unlink()
    assert decide(replace(await world.cluster(), snapshot_taken=True), NOW).step is None  # its kubelet has had a certificate
    (world.machines["cp-3"].folder.root / KUBELET_CERTIFICATE).unlink()
    cluster = replace(await world.cluster(), snapshot_taken=True)
    assert decide(cluster, NOW).step == RemoveMember(3, "cp-3")


@pytest.mark.parametrize("marked", [True, False])
async def test_pods_leave_a_host_whose_member_is_gone_unless_kubeadm_had_marked_its_node(tmp_path: Path, marked: bool) -> None:
    """Before it has, the Node is one for everybody's Pods."""
    world = stand(tmp_path)
    world.etcd_ring.members.pop()
    world.machines["cp-3"].member = None
    if not marked:
        put_node(world, "cp-3", "10.0.0.3", labels={})
    assert decide(await world.cluster(), NOW).step == DeleteNode("cp-3", drain=not marked)


@pytest.mark.parametrize("certified", [True, False])
async def test_the_last_that_is_well_stays_until_the_only_host_of_the_manifest_has_joined_to_the_end(
    tmp_path: Path, certified: bool
) -> None:
    """Whether its kubelet has had a certificate, or never came so far: without kubelet.conf it starts no more."""
    world = stand(tmp_path)
    if not certified:
        (world.machines["cp-3"].folder.root / KUBELET_CERTIFICATE).unlink()
    world.etcd_ring.members.pop(1)
    for name in ("cp-2", "cp-3"):
        del world.api_objects.objects[f"{NODES}/{name}"]
    (world.machines["cp-3"].folder.root / "etc/kubernetes/kubelet.conf").unlink()
    world.manifest = three(controlPlane={"hosts": [{"publicAddress": "10.0.0.3", "privateAddress": "10.0.0.3", "hostname": "cp-3"}]})
    del world.machines["cp-1"], world.machines["cp-2"]
    decision = decide(replace(await world.cluster(), snapshot_taken=True), NOW)
    said = {check.name: check.remedy for check in decision.refusals}
    assert (decision.step, REPLACED_FIRST in said) == (None, True)
    assert certified or "`kubeadm init phase kubeconfig kubelet --node-name cp-3 " in said[CONTROL_PLANE_WELL]


async def test_a_host_that_lacks_nothing_but_its_node_is_waited_for_with_what_makes_that_anew(tmp_path: Path) -> None:
    world = stand(tmp_path)
    del world.api_objects.objects[f"{NODES}/cp-3"]
    decision = decide(await world.cluster(), NOW)
    said = next(check for check in decision.refusals if check.name == CONTROL_PLANE_WELL)
    assert (decision.step, "the API has no Node for it" in said.evidence) == (None, True)
    assert "`systemctl restart kubelet`" in said.remedy
    (world.machines["cp-3"].folder.root / "etc/kubernetes/manifests/kube-scheduler.yaml").unlink()
    said = next(check for check in decide(await world.cluster(), NOW).refusals if check.name == CONTROL_PLANE_WELL)
    assert "restart" not in said.remedy


async def test_kubeadm_that_runs_on_an_unfinished_host_is_said(tmp_path: Path) -> None:
    world = stand(tmp_path)
    machine = world.machines["cp-3"]
    shutil.rmtree(machine.folder.root / "etc/kubernetes/manifests")
    machine.folder.file("proc/77/comm", "kubeadm\n")
    world.etcd_ring.members[2:] = []
    host = (await world.cluster()).host("cp-3")
    assert (host.kind, host.kubeadm_runs) == (Kind.HALF_JOINED, True)


async def test_a_founder_with_the_mark_of_its_initialization_beside_others_that_joined_is_told_how_to_go_on(tmp_path: Path) -> None:
    world = stand(tmp_path)
    world.machines["cp-1"].folder.file(INITIALIZING.lstrip("/"), "")
    cluster = await world.cluster()
    assert cluster.host("cp-1").kind is Kind.HALF_INITIALIZED
    [refused] = [check for check in decide(cluster, NOW).refusals if check.name == CONTROL_PLANE_WELL]
    assert INITIALIZING in refused.evidence
    assert "remove the file that says otherwise" in refused.remedy


@pytest.mark.parametrize("told_by", ["kubeadm-config", "the others' manifests"])
async def test_data_elsewhere_are_not_lost_when_etcds_manifest_was_moved_away(tmp_path: Path, told_by: str) -> None:
    world = elsewhere(stand(tmp_path))
    if told_by == "kubeadm-config":
        put_configurations(world, lambda document: document["etcd"]["local"].update(dataDir="/data/etcd"))
    (world.machines["cp-3"].folder.root / "etc/kubernetes/manifests/etcd.yaml").unlink()
    world.machines["cp-3"].member, world.etcd_ring.members[2].answers = None, False
    for seconds in (0, 6, 12, 18):
        observation = await world.observe(NOW + timedelta(seconds=seconds))
        facts = observation.facts["cp-3"]
        assert isinstance(facts, HostFacts)
        assert (facts.etcd_folder, facts.etcd_data) == ("/data/etcd", EtcdData.MEMBER)
        assert not observation.cluster.host("cp-3").etcd_data_lost
        assert decide(replace(observation.cluster, snapshot_taken=True), NOW + timedelta(seconds=seconds)).step is None


async def test_data_that_are_gone_from_where_the_cluster_has_them_are_lost_without_etcds_manifest(tmp_path: Path) -> None:
    world = elsewhere(stand(tmp_path))
    root = world.machines["cp-3"].folder.root
    (root / "etc/kubernetes/manifests/etcd.yaml").unlink()
    shutil.rmtree(root / "data/etcd/member")
    world.machines["cp-3"].member, world.etcd_ring.members[2].answers = None, False
    for seconds in (0, 6, 12):
        cluster = await world.cluster(NOW + timedelta(seconds=seconds))
    assert cluster.host("cp-3").etcd_data_lost
    assert decide(replace(cluster, snapshot_taken=True), NOW + timedelta(seconds=18)).step == RemoveMember(3, "cp-3")


@pytest.mark.parametrize("told", [True, False])
async def test_data_elsewhere_count_when_every_manifest_of_etcd_was_moved_away(tmp_path: Path, *, told: bool) -> None:
    """They are found where kubeadm's configuration says, if an API server still tells of it; else nobody knows that there are none."""
    world = elsewhere(stand(tmp_path))
    if told:
        put_configurations(world, lambda document: document["etcd"]["local"].update(dataDir="/data/etcd"))
    world.api_objects.down = not told
    for machine in world.machines.values():
        (machine.folder.root / "etc/kubernetes/manifests/etcd.yaml").unlink()
        machine.member = None
    observation = await world.observe()
    facts, cluster = observation.facts["cp-1"], observation.cluster
    assert isinstance(facts, HostFacts)
    assert (facts.etcd_data is EtcdData.MEMBER) if told else isinstance(facts.etcd_data, Unknown)
    assert isinstance(cluster.ring, Unknown)
    assert decide(cluster, NOW).step is None
    freed = reset_steps(cluster, Request(("cp-1",)))
    assert [each.step for each in freed if each.step is not None] == []
    assert "may have etcd's data" in "; ".join(check.evidence for each in freed for check in each.checks)


async def test_while_an_api_server_answers_there_is_an_etcd_whatever_the_hosts_say(tmp_path: Path) -> None:
    """Data that somebody has moved, and only etcd's manifest said where; then that was moved away, too."""
    world = elsewhere(stand(tmp_path))
    for machine in world.machines.values():
        (machine.folder.root / "etc/kubernetes/manifests/etcd.yaml").unlink()
        machine.member = None
    cluster = await world.cluster()
    assert isinstance(cluster.ring, Unknown)
    assert "an API server answers" in cluster.ring.reason
    assert [each.step for each in reset_steps(cluster, Request(("cp-1",))) if each.step is not None] == []


async def test_a_folder_that_no_script_may_name_leaves_it_open_what_is_there(tmp_path: Path) -> None:
    world = stand(tmp_path)
    put_configurations(world, lambda document: document["etcd"]["local"].update(dataDir="/data/$(reboot)"))
    (world.machines["cp-3"].folder.root / "etc/kubernetes/manifests/etcd.yaml").unlink()
    facts = (await world.observe()).facts["cp-3"]
    assert isinstance(facts, HostFacts)
    assert isinstance(facts.etcd_data, Unknown)


def elsewhere(world: World) -> World:
    """The same with etcd's data in /data/etcd on every host."""
    for machine in world.machines.values():
        root = machine.folder.root
        pod = root / "etc/kubernetes/manifests/etcd.yaml"
        pod.write_text(pod.read_text().replace("/var/lib/etcd", "/data/etcd"))
        (root / "data").mkdir()
        (root / "var/lib/etcd").rename(root / "data/etcd")
    return world


@pytest.mark.parametrize(
    ("processes", "ports", "kind"),
    [
        (("rke2", "kubelet", "etcd", "kube-apiserver"), (6443, 2379, 10250), Kind.FOREIGN),
        (("kubelet", "kube-apiserver"), (6443, 10250), Kind.FOREIGN),
        (("k3s-server",), (6443, 10250), Kind.FOREIGN),
        (("kubelet",), (10250,), Kind.PACKAGES_ONLY),  # the package's own, whose host was wiped under it
        (("k3s-agent",), (10250,), Kind.FOREIGN),
        (("kubelet", "containerd"), (), Kind.PACKAGES_ONLY),  # has no configuration yet, and ends again and again
        (("haproxy",), (6443,), Kind.PACKAGES_ONLY),  # which kubeadm refuses by itself
        (("kubelet", "kube-apiserver", "etcd"), (), Kind.PACKAGES_ONLY),  # of a cluster in containers, on networks of their own
    ],
)
async def test_a_server_of_another_distribution_is_not_bare(
    tmp_path: Path, processes: tuple[str, ...], ports: tuple[int, ...], kind: Kind
) -> None:
    world = World(three(), tmp_path)
    for name in NAMES:
        bare(world, name)
    folder = world.machines["cp-2"].folder
    for number, name in enumerate(processes, 900):
        folder.file(f"proc/{number}/comm", f"{name}\n")
    folder.listen(*ports)
    cluster = await world.cluster()
    assert cluster.host("cp-2").kind is kind
    assert (forecast(cluster, NOW).steps == ()) is (kind is Kind.FOREIGN)


async def test_where_every_certificate_has_expired_their_renewal_is_the_way_out_and_no_restore(tmp_path: Path) -> None:
    """Members refuse expired certificates, quorate's questions among them, and API servers lose their etcd. All data are there on all hosts."""
    world = stand(tmp_path)
    for certificate in RENEWED:
        let_expire(world, *NAMES, certificate=certificate)
    for member in world.etcd_ring.members:
        member.answers = False
    world.api_objects.down = True
    for name in NAMES:
        world.machines[name].folder.program("curl", r"printf 'no\n500'")
    decision = decide(await world.cluster(), NOW)
    (refused,) = [check for check in decision.refusals if check.name == QUORUM]
    assert "expired" in refused.evidence
    assert "kubeadm certs renew" in refused.remedy, refused.remedy
