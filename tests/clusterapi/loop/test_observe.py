"""The eyes: every fact of the view, where it comes from, and what is made of facts that cannot be had."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from quorate.clusterapi.act.maintenance import maintain
from quorate.clusterapi.connect.workloads import ClusterSecrets
from quorate.clusterapi.desired import objects as desired
from quorate.clusterapi.observe import credentials
from quorate.clusterapi.observe.ring import Membership, finding, match
from quorate.clusterapi.types.names import Annotation, Label
from quorate.core.health import Absent, Finding, Health, Unknown
from quorate.core.machines.decide import decide
from quorate.core.machines.rules.orphans import CONSENT
from quorate.core.machines.state import ControlPlane, Creation, Orphan, Remediation, RemediationPolicy
from quorate.core.machines.steps import CreateReplica, RemoveOrphan
from quorate.core.ring import Member, Ring
from quorate.core.versions import Version
from quorate.etcd.client import Alarm
from quorate.kubernetes.controller import Request
from quorate.kubernetes.errors import ConnectionFailed, Forbidden, ServerError
from quorate.kubernetes.objects import Node, NodeStatus
from quorate.pki import rotates_at
from quorate.workload.access import AccessUnavailable
from quorate.workload.connection import Connectivity, Phase
from quorate.workload.membership import RingReading

if TYPE_CHECKING:
    from tests.clusterapi.loop.conftest import World

KCPS = "kubeadmcontrolplanes"
DEMO = Request("default", "demo")


async def seen(world: World) -> ControlPlane:
    view = (await world.look()).view
    assert view is not None
    return view


async def test_a_healthy_control_plane_is_seen_whole(three: World) -> None:
    observation = await three.look()
    view = await seen(three)
    assert (view.name, view.initialized, view.has_finalizer, view.infrastructure_ready) == ("demo", True, True, True)
    assert view.desired.replicas == 3
    assert view.desired.version == Version.parse("v1.34.4")
    assert (view.desired.max_surge, view.desired.etcd_managed) == (1, True)
    assert view.endpoint == "10.0.0.1:6443"
    assert view.workload.health is Health.GOOD
    assert (view.invalid, view.unsupported, view.foreign, view.paused, view.template_problem) == ((), (), (), "", "")
    assert (view.creation, view.deletion, view.topology_pending) == (None, None, "")
    assert view.certificates.missing == ()
    assert view.kubeconfig.exists
    assert view.kubeconfig.ours
    assert view.kubeconfig.rotates_at is not None
    assert [(replica.name, replica.member, replica.node) for replica in view.replicas] == [(f"cp-{n}", n, f"cp-{n}") for n in (1, 2, 3)]
    for replica in view.replicas:
        assert replica.holds_hook
        assert not replica.waits_at_hook
        assert replica.outdated == ()
        assert {finding.health for _, finding in replica.component_findings + replica.member_findings} == {Health.GOOD}
    assert (observation.orphans, observation.unmatched) == ((), ())
    assert three.workload.expected == {"cp-1", "cp-2", "cp-3"}


async def test_the_view_of_a_control_plane_without_a_cluster_is_none(empty: World) -> None:
    empty.api.change(KCPS, "demo", {"metadata": {"ownerReferences": None}})
    observation = await empty.look()
    assert (observation.view, observation.cluster) == (None, None)


async def test_machines_of_others_are_foreign_and_workers_matter_for_deletion_alone(three: World) -> None:
    labels = {Label.CLUSTER_NAME: "demo", Label.CONTROL_PLANE: ""}
    theirs = {"apiVersion": "x/v1", "kind": "Other", "name": "other", "uid": "other-uid", "controller": True}
    three.api.put("machines", {"metadata": {"name": "theirs", "labels": labels, "ownerReferences": [theirs]}, "spec": {}})
    three.api.put("machines", {"metadata": {"name": "worker", "labels": {Label.CLUSTER_NAME: "demo"}}, "spec": {}})
    three.api.put("machinepools", {"metadata": {"name": "pool", "labels": {Label.CLUSTER_NAME: "demo"}}, "spec": {}})
    view = await seen(three)
    assert (view.foreign, view.adoptable) == (("theirs",), ())
    assert len(view.replicas) == 3
    three.api.change(KCPS, "demo", {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})
    deletion = (await seen(three)).deletion
    assert deletion is not None
    assert deletion.workers == ("MachinePool pool", "Machine worker")


async def test_the_marks_on_a_machine_are_read(three: World) -> None:
    other = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/theirs"
    three.api.change("machines", "cp-2", {"metadata": {"annotations": {other: "", Annotation.DELETE_MACHINE: "yes"}}})
    three.delete_machine("cp-2")
    replica = (await seen(three)).replica("cp-2")
    assert replica.waits_at_hook
    assert replica.other_hooks == (other,)
    assert replica.delete_first
    assert replica.deleting_since is not None


async def test_before_initialization_the_ring_is_not_asked(empty: World) -> None:
    await empty.actor.perform(CreateReplica("", initialize=True), await empty.look())
    view = await seen(empty)
    assert view.ring == Unknown("the control plane is not initialized yet")
    assert isinstance(view.replicas[0].member, Unknown)


async def test_a_host_that_is_torn_down_is_not_asked_for_the_ring(three: World) -> None:
    async def asked() -> list[str]:
        await seen(three)
        return list(three.workload.asked)

    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}
    three.api.change("machines", "cp-1", leaving)
    assert await asked() == ["cp-1", "cp-2", "cp-3"], "it is drained, and a member as before"
    three.api.change("devmachines", "cp-1", leaving)
    assert await asked() == ["cp-2", "cp-3"]


async def test_certificates_are_missing_or_not_ours_to_make_or_unusable(empty: World) -> None:
    certificates = (await seen(empty)).certificates
    assert (certificates.missing, certificates.generatable) == (("ca", "sa", "proxy", "etcd"), True)
    empty.api.put("secrets", {"metadata": {"name": "demo-sa"}, "data": {"tls.key": "eA=="}})
    certificates = (await seen(empty)).certificates
    assert (certificates.missing, certificates.problem) == (("ca", "proxy", "etcd"), "Secret default/demo-sa has no tls.crt")


EXTERNAL = {"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"]}}}}


async def test_with_external_etcd_its_ca_and_a_client_pair_are_for_the_user_to_supply(empty: World) -> None:
    empty.api.change(KCPS, "demo", {"spec": {"kubeadmConfigSpec": EXTERNAL}})
    view = await seen(empty)
    assert view.certificates.missing == ("ca", "sa", "proxy", "etcd", "apiserver-etcd-client")
    assert not view.certificates.generatable
    for suffix in ("etcd", "apiserver-etcd-client"):
        empty.api.put("secrets", {"metadata": {"name": f"demo-{suffix}"}, "data": {"tls.crt": "eA=="}})
    view = await seen(empty)
    assert (view.certificates.missing, view.certificates.generatable) == (("ca", "sa", "proxy"), True)
    assert (view.unsupported, view.desired.etcd_managed, view.external_etcd) == ((), False, None)


async def test_an_external_etcd_is_as_well_as_the_api_servers_say_and_has_no_ring(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"kubeadmConfigSpec": EXTERNAL}})
    view = await seen(three)
    assert view.external_etcd == Finding(Health.GOOD, "Healthy")
    assert view.ring == Unknown("etcd is external")
    for replica in view.replicas:
        assert (replica.member, replica.member_findings) == (Absent(), ())
        assert "EtcdPodHealthy" not in dict(replica.component_findings)
    three.workload.api.etcd_trouble = ServerError("get /readyz/etcd: etcd failed: reason withheld", code=500)
    finding = (await seen(three)).external_etcd
    assert finding is not None
    assert finding.health is Health.BAD
    three.workload.connectivity = Connectivity(Phase.LOST, three.now, "refused")
    assert (await seen(three)).external_etcd == Finding(Health.UNKNOWN, "InspectionFailed", "not connected")


async def test_an_external_etcd_is_asked_for_once_in_a_moment(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"kubeadmConfigSpec": EXTERNAL}})
    await three.look()
    three.workload.api.etcd_trouble = ServerError("etcd failed", code=500)
    observation = await three.observer.observe(DEMO)
    assert observation is not None
    assert observation.view is not None
    assert observation.view.external_etcd == Finding(Health.GOOD, "Healthy")


async def test_what_a_health_check_a_node_and_the_owner_say_of_a_machine_is_read(three: World) -> None:
    replica = (await seen(three)).replica("cp-1")
    assert (replica.unhealthy, replica.remediate_first, replica.update, replica.expiry_known) == (False, False, None, True)
    assert replica.node_findings == (("NodeKubeadmLabelsAndTaintsSet", Finding(Health.GOOD, "Set")),)
    assert replica.kubelet_version == ""
    three.fail("cp-1")
    three.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.REMEDIATE_MACHINE: ""}}})
    three.api.change("machines", "cp-1", {"status": {"nodeInfo": {"kubeletVersion": "v1.33.9"}}})
    three.api.change("kubeadmconfigs", "cp-1", {"metadata": {"annotations": {Annotation.CERTIFICATES_EXPIRY: None}}})
    nodes = three.workload.node_list
    nodes[0] = msgspec.structs.replace(nodes[0], status=msgspec.convert({"nodeInfo": {"kubeletVersion": "v1.34.4"}}, NodeStatus))
    replica = (await seen(three)).replica("cp-1")
    assert (replica.unhealthy, replica.remediate_first, replica.kubelet_version, replica.expiry_known) == (True, True, "v1.34.4", False)
    nodes.clear()
    assert (await seen(three)).replica("cp-1").kubelet_version == "v1.33.9"


async def test_a_replica_had_a_node_if_there_is_one_or_its_machine_still_names_it(three: World) -> None:
    three.api.change("machines", "cp-1", {"status": {"nodeRef": {"name": "cp-1"}}})
    three.add_machine("cp-4", node=False)
    three.workload.node_list = [node for node in three.workload.node_list if node.metadata.name != "cp-1"]
    replicas = {replica.name: (replica.node, replica.had_node) for replica in (await seen(three)).replicas}
    assert replicas == {"cp-1": (None, True), "cp-2": ("cp-2", True), "cp-3": ("cp-3", True), "cp-4": (None, False)}


async def test_a_machine_with_bootstrap_data_and_no_node_may_be_joining_for_ten_minutes(three: World) -> None:
    for name in ("cp-4", "cp-5"):
        three.add_machine(name, node=False)
    for name in ("cp-1", "cp-5"):
        three.api.change("machines", name, {"spec": {"bootstrap": {"dataSecretName": "any"}}})
    view = await seen(three)
    seen_first = three.now
    joining = {replica.name: replica.joins_until for replica in view.replicas if replica.joins_until}
    assert joining == {"cp-5": seen_first + timedelta(minutes=10)}


async def test_a_machine_beside_which_a_learner_was_removed_joins_no_more(three: World) -> None:
    """The learner was its own: nobody joins beside another one. A Machine that was made after that may be joining."""
    three.add_machine("cp-4", node=False)
    three.api.change("machines", "cp-4", {"spec": {"bootstrap": {"dataSecretName": "any"}}})
    three.workload.members[4] = Member(4, "", Health.BAD, learner=True, peer_urls=("https://10.0.0.4:2380",), evidence="never started")
    await maintain(three.clients, await three.look())  # since when it is nobody's
    three.now += timedelta(minutes=21)
    observation = await three.look()
    await three.actor.perform(RemoveOrphan(4), observation)
    assert (await seen(three)).replica("cp-4").joins_until is None
    three.add_machine("cp-5", node=False, metadata={"creationTimestamp": (three.now + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")})
    three.api.change("machines", "cp-5", {"spec": {"bootstrap": {"dataSecretName": "any"}}})
    assert (await seen(three)).replica("cp-5").joins_until is not None


ELSEWHERE = {"metadata": {"annotations": {CONSENT: "9"}}}
ADDRESSES = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.4"}]}}


@pytest.mark.parametrize(
    ("plural", "name", "told"),
    [
        ("kubeadmcontrolplanes", "demo", ELSEWHERE),
        ("machines", "cp-4", ADDRESSES),
        ("machines", "cp-3", {}),
    ],
    ids=["its owner calls it another host's", "it has another address", "there are two that it may be of"],
)
async def test_a_machine_may_be_joining_though_the_learner_of_another_host_was_removed(
    three: World, plural: str, name: str, told: dict[str, Any]
) -> None:
    """kubeadm adds its own member once the other one has made way, and the ring could not lose that."""
    three.add_machine("cp-4", node=False, spec={"bootstrap": {"dataSecretName": "any"}})
    if name == "cp-3":
        three.workload.node_list.pop()
        del three.workload.members[3]
    three.api.change(plural, name, told)
    three.workload.members[9] = Member(9, "", Health.BAD, learner=True, peer_urls=("https://10.0.0.9:2380",), evidence="never started")
    await three.look()
    three.now += timedelta(minutes=21)
    await three.actor.perform(RemoveOrphan(9), await three.look())
    assert 9 not in three.workload.members
    assert (await seen(three)).replica("cp-4").joins_until is not None


@pytest.mark.parametrize(
    ("asked", "policy"),
    [
        ({}, RemediationPolicy()),
        (
            {"maxRetry": 0, "retryPeriodSeconds": 60, "minHealthyPeriodSeconds": 0},
            RemediationPolicy(0, timedelta(minutes=1), timedelta(0)),
        ),
    ],
    ids=["default", "given"],
)
async def test_the_policy_of_remediation_is_read(three: World, asked: dict[str, int], policy: RemediationPolicy) -> None:
    three.api.change(KCPS, "demo", {"spec": {"remediation": asked}})
    assert (await seen(three)).desired.remediation == policy


RECORD = '{"machine":"cp-0","timestamp":"2026-01-01T11:00:00Z","retryCount":2}'


async def test_the_records_of_a_remediation_are_read_wherever_they_are(three: World) -> None:
    known = Remediation("cp-0", datetime(2026, 1, 1, 11, tzinfo=UTC), 2)
    for key in ("quorate.dev/remediating", Annotation.REMEDIATION_IN_PROGRESS):
        three.api.change(KCPS, "demo", {"metadata": {"annotations": {key: RECORD}}})
    three.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.REMEDIATION_FOR: RECORD}}})
    view = await seen(three)
    assert (view.remediation_intended, view.remediating, view.remediation_problem) == (known, known, "")
    assert (view.replica("cp-1").replaces, view.replica("cp-2").replaces) == (known, None)


async def test_a_record_that_cannot_be_read_is_a_problem_and_no_failure(three: World) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {Annotation.REMEDIATION_IN_PROGRESS: "{"}}})
    three.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.REMEDIATION_FOR: "3"}}})
    view = await seen(three)
    assert (view.remediation_intended, view.remediating) == (None, None)
    assert view.remediation_problem.startswith(f"annotation {Annotation.REMEDIATION_IN_PROGRESS} is not a record of a remediation")
    assert view.replica("cp-1").record_problem.startswith(f"Machine cp-1: annotation {Annotation.REMEDIATION_FOR} is not a record")


async def test_a_member_of_nobody_is_an_orphan_since_it_was_first_seen_as_that(three: World) -> None:
    noon = three.now
    three.workload.members[9] = gone = Member(9, "gone", Health.BAD)
    assert (await seen(three)).orphans == (Orphan(gone, noon),)
    three.now += timedelta(minutes=1)
    three.workload.members[8] = newer = Member(8, "newer", Health.BAD)
    assert (await seen(three)).orphans == (Orphan(gone, noon), Orphan(newer, three.now))
    three.workload.ring_problem = "no leader"
    assert (await seen(three)).orphans == ()
    three.workload.ring_problem = ""
    assert (await seen(three)).orphans[0] == Orphan(gone, noon)  # nobody has seen it as somebody's
    owner = three.add_machine("gone", node=False)
    assert [orphan.member.id for orphan in (await seen(three)).orphans] == [8]
    del three.api.objects["machines", "default", owner["metadata"]["name"]]
    assert Orphan(gone, three.now) in (await seen(three)).orphans


async def test_what_the_members_disagree_about_is_seen(three: World) -> None:
    three.workload.disagreement = "the member on cp-3 lists 3 in cluster 2"
    assert (await seen(three)).membership_problem == three.workload.disagreement


async def test_a_kubeconfig_is_parsed_once_for_every_version_of_it(three: World, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def parse(value: bytes) -> datetime:
        parsed.append(value)
        return rotates_at(value)

    monkeypatch.setattr(credentials, "rotates_at", parse)
    three.api.change("secrets", "demo-kubeconfig", {"metadata": {"labels": {"x": "y"}}})
    first = (await seen(three)).kubeconfig
    assert (await seen(three)).kubeconfig == first
    assert len(parsed) == 1


async def test_each_secret_that_no_cache_has_is_read_once_in_a_pass(empty: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = empty.api.get

    async def get(resource: Any, name: str, namespace: str = "") -> Any:
        asked.append(name)
        return await real(resource, name, namespace)

    monkeypatch.setattr(empty.api, "get", get)
    await seen(empty)
    assert sorted(name for name in asked if name.startswith("demo")) == ["demo-ca", "demo-etcd", "demo-kubeconfig", "demo-proxy", "demo-sa"]


async def test_nodes_that_have_to_be_asked_for_are_asked_for_at_once(three: World, monkeypatch: pytest.MonkeyPatch) -> None:
    all_asked = asyncio.Barrier(3)
    node = three.workload.node

    async def slow(name: str) -> Any:
        await all_asked.wait()
        return await node(name)

    monkeypatch.setattr(three.workload, "node", slow)
    for name in ("cp-1", "cp-2", "cp-3"):
        three.api.change("machines", name, {"status": {"nodeRef": {"name": name}}})
    async with asyncio.timeout(30):
        observation = await three.look()
    assert [machine.node and machine.node.metadata.name for machine in observation.machines] == ["cp-1", "cp-2", "cp-3"]


async def test_only_for_machines_that_come_up_is_a_cluster_dialled_without_pause_and_never_without_a_kubeconfig(three: World) -> None:
    three.api.change("machines", "cp-1", {"status": {"nodeRef": {"name": "cp-1"}}})
    three.api.change("devmachines", "cp-2", {"spec": {"providerID": ""}})
    await three.look()
    assert three.workload.expected == {"cp-3"}
    del three.api.objects["secrets", "default", "demo-kubeconfig"]
    await three.look()
    assert three.workload.expected == set()


async def test_a_kubeconfig_of_the_users_is_theirs_and_a_broken_one_of_ours_is_a_problem(three: World) -> None:
    three.api.change("secrets", "demo-kubeconfig", {"data": {"value": "eA=="}})
    assert "Secret default/demo-kubeconfig: kubeconfig: not a mapping" in (await seen(three)).kubeconfig.problem
    three.api.change("secrets", "demo-kubeconfig", {"data": None})
    assert (await seen(three)).kubeconfig.problem
    three.api.change("secrets", "demo-kubeconfig", {"type": "Opaque"})
    kubeconfig = (await seen(three)).kubeconfig
    assert (kubeconfig.exists, kubeconfig.ours) == (True, False)
    del three.api.objects["secrets", "default", "demo-kubeconfig"]
    assert not (await seen(three)).kubeconfig.exists


async def test_secrets_that_may_not_be_read_are_a_problem_to_report(empty: World) -> None:
    empty.api.trouble["get", "secrets"] = Forbidden("get secrets: not allowed")
    view = await seen(empty)
    assert (view.certificates.problem, view.certificates.missing) == ("get secrets: not allowed", ())
    assert view.kubeconfig.problem


async def test_a_template_that_is_missing_or_of_no_kind_is_named(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": {"name": "large"}}}}})
    assert (await seen(three)).template_problem == "DevMachineTemplate default/large does not exist"
    three.api.change(KCPS, "demo", {"spec": {"machineTemplate": {"spec": {"infrastructureRef": {"kind": "NoMachineTemplate"}}}}})
    assert "no CustomResourceDefinition nomachinetemplates" in (await seen(three)).template_problem
    three.api.trouble["get", "customresourcedefinitions"] = Forbidden("get customresourcedefinitions: not allowed")
    assert (await seen(three)).template_problem == "get customresourcedefinitions: not allowed"


async def test_infrastructure_that_cannot_be_read_ends_nothing(three: World) -> None:
    reference = {"spec": {"infrastructureRef": {"kind": "OtherMachine"}}}
    three.api.change("machines", "cp-2", reference)
    three.api.trouble["get", "customresourcedefinitions"] = ServerError("etcd is full")
    observation = await three.look()
    assert observation.machines[1].infrastructure is None


async def test_a_version_on_its_way_through_the_topology_is_pending_unless_the_step_says_otherwise(three: World) -> None:
    three.api.change("clusters", "demo", {"spec": {"topology": {"version": "v1.35.0"}}})
    assert (await seen(three)).topology_pending == "v1.35.0"
    three.api.change("clusters", "demo", {"metadata": {"annotations": {Annotation.UPGRADE_STEP: "v1.34.4"}}})
    assert (await seen(three)).topology_pending == ""
    three.api.change("clusters", "demo", {"metadata": {"annotations": {Annotation.UPGRADE_STEP: "v1.34.9"}}})
    assert (await seen(three)).topology_pending == "v1.34.9"
    three.api.change("clusters", "demo", {"spec": {"topology": {"version": "v1.34.4"}}})
    assert (await seen(three)).topology_pending == ""


async def test_an_intent_is_a_creation_with_or_without_its_machine(three: World) -> None:
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {"quorate.dev/creating": '{"name": "cp-9"}'}}})
    assert (await seen(three)).creation == Creation("cp-9", machine_exists=False)
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {"quorate.dev/creating": '{"name": "cp-1"}'}}})
    assert (await seen(three)).creation == Creation("cp-1", machine_exists=True)
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {"quorate.dev/creating": "not json"}}})
    assert (await seen(three)).creation is None


async def test_both_pauses_are_named(three: World) -> None:
    three.api.change("clusters", "demo", {"spec": {"paused": True}})
    three.api.change(KCPS, "demo", {"metadata": {"annotations": {Annotation.PAUSED: ""}}})
    assert (await seen(three)).paused == "Cluster demo spec.paused and annotation cluster.x-k8s.io/paused"


@pytest.mark.parametrize(("surge", "read"), [("1", 1), (0, 0), ("25%", 0)])
async def test_a_surge_is_read_as_admission_reads_it(three: World, surge: int | str, read: int) -> None:
    three.api.change(KCPS, "demo", {"spec": {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": surge}}}}})
    assert (await seen(three)).desired.max_surge == read


async def test_an_invalid_specification_is_said_in_sentences(three: World) -> None:
    three.api.change(KCPS, "demo", {"spec": {"replicas": 2, "version": "latest"}})
    assert len((await seen(three)).invalid) == 2


async def test_without_the_gate_machines_updated_in_place_are_left_alone(three: World) -> None:
    three.api.change("machines", "cp-1", {"metadata": {"annotations": {Annotation.UPDATE_IN_PROGRESS: ""}}})
    assert (await seen(three)).unsupported == ("Machine cp-1 is being updated in place, and the feature gate InPlaceUpdates is off",)


async def test_a_node_is_found_by_provider_id_before_the_machine_names_it(three: World) -> None:
    three.add_machine("cp-4", node=False)
    three.add_node("some-host", provider_id="test:///cp-4")
    assert (await seen(three)).replica("cp-4").node == "some-host"


async def test_a_node_without_a_provider_id_is_found_by_the_address_that_the_machine_has(three: World) -> None:
    addresses = [{"type": "InternalIP", "address": "10.0.0.4"}, {"type": "Hostname", "address": "cp-4"}]
    three.add_machine("cp-4", node=False, status={"addresses": addresses})
    three.add_node("somebody-elses", provider_id="test:///another", addresses=["10.0.0.4"])
    assert (await seen(three)).replica("cp-4").node is None
    three.add_node("some-host", provider_id="", addresses=["10.0.0.4"])
    assert (await seen(three)).replica("cp-4").node == "some-host"


async def test_failure_domains_for_control_planes_are_told_by_name(three: World) -> None:
    domains = [{"name": "b", "controlPlane": True}, {"name": "a", "controlPlane": True}, {"name": "c", "controlPlane": False}]
    three.api.change("clusters", "demo", {"status": {"failureDomains": domains}})
    assert (await seen(three)).desired.failure_domains == ("a", "b")


async def test_members_and_nodes_of_nobody_are_orphans_once_every_machine_has_its_node(three: World) -> None:
    three.workload.members[9] = Member(9, "old", Health.BAD)
    three.add_node("old", provider_id="test:///old")
    observation = await three.look()
    assert ([member.name for member in observation.orphans], observation.lost_nodes) == (["old"], ("old",))
    three.add_machine("cp-4", node=False)
    observation = await three.look()
    assert (observation.orphans, observation.lost_nodes) == ((), ())


async def test_a_machine_without_a_member_counts_as_unmatched_after_two_minutes(three: World) -> None:
    del three.workload.members[2]
    assert (await three.look()).unmatched == ("cp-2",)
    three.now -= timedelta(minutes=29)  # its Node is a minute old
    assert (await three.look()).unmatched == ()


async def test_a_connection_is_unknown_before_it_ever_was_and_bad_once_it_is_lost(three: World) -> None:
    three.workload.connectivity = Connectivity(Phase.NEVER_CONNECTED, three.now, "refused")
    assert (await three.look()).connection.health is Health.UNKNOWN
    three.workload.connectivity = Connectivity(Phase.NEVER_CONNECTED, three.now, "refused", consecutive_failures=5)
    assert (await three.look()).connection.health is Health.BAD
    three.workload.connectivity = Connectivity(Phase.LOST, three.now, "refused")
    observation = await three.look()
    assert observation.connection.health is Health.BAD
    assert observation.machines[0].findings == {}


@pytest.mark.parametrize("before", [Phase.NEVER_CONNECTED, Phase.LOST])
async def test_a_connection_that_comes_in_the_middle_of_a_pass_leaves_nobody_without_a_node(
    three: World, monkeypatch: pytest.MonkeyPatch, before: Phase
) -> None:
    """Machines would seem to have lost their Nodes in a cluster that answers, and somebody would be asked to delete them."""
    connected = three.workload.connectivity
    three.workload.connectivity = Connectivity(before, three.now, "no attempt to connect has ended yet")
    listing = three.workload.nodes

    def listed_just_before() -> tuple[Node, ...] | Unknown:
        found = listing()
        three.workload.connectivity = connected
        return found

    monkeypatch.setattr(three.workload, "nodes", listed_just_before)
    three.api.change(KCPS, "demo", {"spec": {"version": "v1.34.5"}})
    observation = await three.look()
    assert observation.view is not None
    assert (observation.connection.health, observation.view.knows_nodes) == (Health.UNKNOWN, False)
    decision = decide(observation.view, three.now)
    assert decision.step is None
    assert not [check.remedy for check in decision.refusals if "delete the Machine" in check.remedy]


def node(name: str, *addresses: str) -> Node:
    raw = {"metadata": {"name": name}, "status": {"addresses": [{"type": "InternalIP", "address": address} for address in addresses]}}
    return msgspec.convert(raw, Node)


def reading(*members: Member, answers: dict[str, int] | None = None) -> RingReading:
    return RingReading(Ring(members, 1), 1, (), answers or {}, "n", None)  # type: ignore[arg-type]


def member(number: int, name: str = "", *addresses: str) -> Member:
    return Member(number, name, Health.GOOD, peer_urls=tuple(f"https://{address}:2380" for address in addresses))


MACHINES: dict[str, Node | None] = {"a": node("node-a", "10.0.0.1"), "b": node("node-b", "fd00::2")}


@pytest.mark.parametrize(
    "found",
    [
        reading(member(5, "x"), answers={"node-a": 5}),
        reading(member(5, "x", "10.0.0.1")),
        reading(member(5, "node-a")),
    ],
    ids=["by its answer", "by its peer URL", "by its name"],
)
def test_a_member_is_matched(found: RingReading) -> None:
    matched = match(found, MACHINES)
    assert matched.of == {"a": 5, "b": Absent()}
    assert matched.orphans == ()


def test_an_ipv6_peer_url_is_matched() -> None:
    assert match(reading(member(5, "x", "[fd00::2]")), MACHINES).of["b"] == 5


@pytest.mark.parametrize("url", ["http://[fd00::2", "http://[x]:2380", "//[", "", "\u2100"])
def test_a_peer_url_that_is_none_matches_nothing_and_ends_nothing(url: str) -> None:
    found = reading(Member(5, "x", Health.GOOD, peer_urls=(url,)), member(6, "node-b"))
    assert match(found, MACHINES) == Membership({"a": Absent(), "b": 6}, (found.ring.members[0],))


def test_an_address_used_again_belongs_to_the_member_that_answers() -> None:
    found = match(reading(member(5, "old", "10.0.0.1"), member(6, "node-a", "10.0.0.1"), answers={"node-a": 6}), MACHINES)
    assert found.of["a"] == 6
    assert [orphan.id for orphan in found.orphans] == [5]
    assert found.contested == {}


def test_two_members_that_fit_one_machine_leave_it_unknown() -> None:
    found = match(reading(member(5, "old", "10.0.0.1"), member(6, "node-a", "10.0.0.1")), MACHINES)
    missing = found.of["a"]
    assert isinstance(missing, Unknown)
    assert missing.reason == "members 5 and 6 both have its address or name"
    assert "on the host of a: the ID that it prints is the live one" in missing.remedy
    assert finding(missing, Unknown("")).message == f"{missing.reason}. {missing.remedy}"
    assert [orphan.id for orphan in found.orphans] == [5, 6]
    assert found.contested == {5: ("a",), 6: ("a",)}


def test_members_that_all_bear_the_name_of_a_machine_without_a_node_are_judged_as_nobodys() -> None:
    waiting: dict[str, Node | None] = {**MACHINES, "c": None, "d": None}
    found = match(reading(member(5, "c", "10.0.0.8"), member(6, "c", "10.0.0.9"), member(7, "d")), waiting)
    assert found.of["c"] == Unknown(
        "members 5 and 6 both have its name", "If no Node comes up for c, delete the Machine: its members leave with it."
    )
    assert found.of["d"] == 7
    assert found.of["a"] == Absent()
    assert [orphan.id for orphan in found.orphans] == [5, 6]
    assert found.contested == {5: ("c",), 6: ("c",)}


async def test_an_alarm_of_a_member_that_is_gone_changes_nothing_that_is_judged(three: World) -> None:
    before = await seen(three)
    three.workload.alarms = (Alarm(9, "NOSPACE"),)
    observation = await three.look()
    assert "of member 9, which is gone" in observation.alarms[0]
    assert observation.view == before


def test_nothing_is_proven_absent_while_a_member_may_be_its_own() -> None:
    assert isinstance(match(reading(member(5, "", "10.0.0.9")), MACHINES).of["a"], Unknown)
    assert match(reading(member(5, "gone")), MACHINES).of["a"] == Absent()
    waiting: dict[str, Node | None] = {**MACHINES, "c": None}
    assert isinstance(match(reading(member(5, "gone")), waiting).of["c"], Unknown)
    assert match(reading(member(5, "c")), waiting).of["c"] == 5
    assert match(Unknown("no leader"), MACHINES).of == {"a": Unknown("no leader"), "b": Unknown("no leader")}


@pytest.mark.parametrize("error", [Forbidden("not allowed"), ConnectionFailed("refused"), ServerError("etcd is full")])
async def test_a_workload_connection_survives_an_api_that_does_not_give_its_secrets(empty: World, error: Exception) -> None:
    empty.api.trouble["get", "secrets"] = error
    api: Any = empty.api
    secrets = ClusterSecrets(empty.caches, api, "default", "demo")
    with pytest.raises(AccessUnavailable, match="Secret default/demo-kubeconfig could not be read"):
        await secrets.kubeconfig()
    with pytest.raises(AccessUnavailable, match="Secret default/demo-etcd could not be read"):
        await secrets.etcd()


async def test_a_missing_secret_or_key_is_named(empty: World) -> None:
    api: Any = empty.api
    secrets = ClusterSecrets(empty.caches, api, "default", "demo")
    with pytest.raises(AccessUnavailable, match="there is no Secret default/demo-kubeconfig"):
        await secrets.kubeconfig()
    empty.api.put("secrets", {"metadata": {"name": "demo-kubeconfig"}, "data": {}})
    with pytest.raises(AccessUnavailable, match="has no key `value`"):
        await secrets.kubeconfig()


@pytest.mark.parametrize(
    ("template", "odd"),
    [
        ("x", "spec.template"),
        ([1], "spec.template"),
        ({"metadata": "x"}, "spec.template.metadata"),
        ({"metadata": {"labels": [1], "annotations": "x"}}, "spec.template.metadata.labels, spec.template.metadata.annotations"),
    ],
)
async def test_a_template_from_which_nothing_can_be_made_is_named(three: World, template: Any, odd: str) -> None:
    three.api.put("devmachinetemplates", three.api.raw("devmachinetemplates", "small") | {"spec": {"template": template}})
    assert (await seen(three)).template_problem == f"DevMachineTemplate default/small: {odd} must be an object"


@pytest.mark.parametrize("template", [None, {}, {"metadata": None}, {"metadata": {"labels": None, "annotations": None}}])
async def test_a_template_may_leave_out_what_it_does_not_say(three: World, template: Any) -> None:
    three.api.put("devmachinetemplates", three.api.raw("devmachinetemplates", "small") | {"spec": {"template": template}})
    view = await seen(three)
    assert view.template_problem == ""
    stored = three.caches.foreign._watched["infrastructure.cluster.x-k8s.io", "DevMachineTemplate"].reflector.store.get("default", "small")
    assert stored is not None
    made = desired.infrastructure(three.kcp, stored, "cp-9")
    assert (made["kind"], made["metadata"]["name"]) == ("DevMachine", "cp-9")
