"""Forms of objects, one by one: what an installation says, what stays that others said, and what counts as the same."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from quorate.clusterapi.takeover import forms, installation, journal
from quorate.clusterapi.takeover.installation import flags_of, gates_of, version_in
from quorate.clusterapi.takeover.journal import Record
from quorate.clusterapi.takeover.owners import owners
from quorate.clusterapi.takeover.pods import running
from quorate.core import documents
from quorate.core.takeover.state import Journal, Key, Side
from quorate.kubernetes.config import ConfigError
from quorate.simulation.engine.world import EPOCH
from tests.clusterapi.takeover.manifests import INJECTED, LEASE, OUR_DEPLOYMENT, SYSTEM, definition, deployment, given, quorate, upstream

Object = dict[str, Any]


def live(item: Object, **metadata: Any) -> Object:
    """The object as the server has it."""
    found = copy.deepcopy(item)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 2, "managedFields": [], **metadata}
    return found | {"status": {"x": 1}}


def hooked(bundle: str = "", **annotations: str) -> Object:
    config = {"service": {"name": "s", "path": "/p"}} | ({"caBundle": bundle} if bundle else {})
    return {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "v", "annotations": annotations},
        "webhooks": [{"name": "a", "clientConfig": config}],
    }


def test_what_the_server_says_is_no_part_of_a_form() -> None:
    said = definition("kubeadmcontrolplanes", "KubeadmControlPlane", "x")
    assert forms.same(said, live(said))
    assert not forms.same(said, live(said | {"spec": {**said["spec"], "group": "y"}}))


def test_how_many_pods_run_is_no_part_of_a_form_and_what_they_run_is() -> None:
    one = deployment("a", "x", image="i", replicas=1, arguments=())
    assert forms.same(one, deployment("a", "x", image="i", replicas=0, arguments=()))
    assert not forms.same(one, deployment("a", "x", image="j", replicas=1, arguments=()))


def test_authorities_that_somebody_injected_stay() -> None:
    injected, key = hooked("T0xE", **INJECTED), next(iter(INJECTED))
    assert forms.same(injected, hooked("TkVX", **INJECTED))
    kept = forms.wanted(hooked("c2F2ZWQ=", **INJECTED), live(hooked("bm93")))
    assert kept["webhooks"][0]["clientConfig"]["caBundle"] == "bm93"
    nothing_said = forms.wanted(hooked(), live(hooked("bm93", **INJECTED)))
    assert nothing_said["webhooks"][0]["clientConfig"]["caBundle"] == "bm93"
    assert key not in nothing_said["metadata"].get("annotations", {}), "or cert-manager would go on"


def test_authorities_that_an_installation_brings_itself_are_its_own() -> None:
    assert forms.wanted(hooked("b3du"), live(hooked("b2xk", **INJECTED)))["webhooks"][0]["clientConfig"]["caBundle"] == "b3du"


def test_labels_of_others_stay_and_those_of_the_other_installation_go() -> None:
    said = {"kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "said"}}}
    current = live({"kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "old", "b": "brought", "c": "a person's"}}})
    brought = {"kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "old", "b": "brought"}}}
    assert forms.wanted(said, current)["metadata"]["labels"] == {"a": "said", "b": "brought", "c": "a person's"}
    assert forms.wanted(said, current, brought)["metadata"]["labels"] == {"a": "said", "c": "a person's"}


def test_a_write_is_guarded_by_what_was_read() -> None:
    metadata = forms.wanted(hooked(), live(hooked()))["metadata"]
    assert (metadata["resourceVersion"], metadata["uid"]) == ("7", "u")


def test_a_service_keeps_its_address() -> None:
    said = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}}
    current = live(said | {"spec": {"selector": {"x": "y"}, "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}})
    assert forms.wanted(said, current)["spec"] == {"selector": {"a": "b"}, "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}


def test_rights_of_both_are_those_of_either() -> None:
    def role(*verbs: str) -> Object:
        return {"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [{"verbs": [verb]} for verb in verbs]}

    both = forms.with_rights_of_both(role("get", "list"), role("list", "watch"))
    assert both["rules"] == role("get", "list", "watch")["rules"]
    assert forms.grants_both(both, role("get", "list"), role("list", "watch"))
    assert not forms.grants_both(role("get"), role("get"), role("watch"))
    assert not forms.grants_both(role("get", "watch", "delete"), role("get"), role("watch")), "somebody added to it"


def test_what_the_providers_programs_note_on_a_definition_is_no_part_of_its_form() -> None:
    note = "crd-migration.cluster.x-k8s.io/observed-generation"
    said = definition("kubeadmcontrolplanes", "KubeadmControlPlane", "x")
    saved = said | {"metadata": {**said["metadata"], "annotations": {note: "1"}}}
    current = live(said, annotations={note: "3"})
    assert forms.same(saved, current)
    assert forms.wanted(saved, current)["metadata"]["annotations"] == {note: "3"}


def test_an_account_keeps_what_a_person_gave_it_to_pull_images_with() -> None:
    said = {"kind": "ServiceAccount", "metadata": {"name": "s"}}
    assert forms.wanted(said, live(said | {"imagePullSecrets": [{"name": "mine"}]}))["imagePullSecrets"] == [{"name": "mine"}]


def test_the_rules_of_an_aggregated_role_are_the_controllers() -> None:
    said = {"kind": "ClusterRole", "metadata": {"name": "r"}, "aggregationRule": {"a": 1}}
    current = live(said | {"rules": [{"verbs": ["*"]}]})
    assert forms.same(said, current)
    assert forms.grants_both(current, said, said)
    assert forms.wanted(said, current)["rules"] == forms.with_rights_of_both(current, said)["rules"] == [{"verbs": ["*"]}]


def test_changes_are_told_field_by_field_and_not_at_any_length() -> None:
    one = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"a": 1, "b": ["x", "y"], "long": "z" * 200}}
    other = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"a": 2, "b": ["x", "z"], "c": True}}
    assert forms.changes(one, one) == ()
    told = forms.changes(one, other)
    assert told[:3] == ("spec.a: 1 -> 2", "spec.b[1]: 'y' -> 'z'", "spec.c: nothing -> True")
    assert len(told[3]) < 100
    many = {"kind": "Service", "metadata": {"name": "s"}, "spec": {str(number): number for number in range(100)}}
    assert forms.changes(one | {"spec": {}}, many)[-1] == "and 60 more fields"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--leader-elect", "--v=2"], {"leader-elect": "true", "v": "2"}),
        (["--watch-filter", "a", "--namespace=b"], {"watch-filter": "a", "namespace": "b"}),
        (["--leader_elect=false", "--leader-elect=true"], {"leader-elect": "true"}),
        ([], {}),
    ],
)
def test_flags_are_read_as_gos_programs_read_them(arguments: list[str], found: dict[str, str]) -> None:
    assert flags_of({"args": arguments}) == found


def test_gates_are_those_that_are_on() -> None:
    assert gates_of("") == {"MachinePool"}
    assert gates_of("MachinePool=false,ClusterTopology=true") == {"ClusterTopology"}


def test_a_version_is_an_images_tag() -> None:
    assert version_in("registry.k8s.io:443/cluster-api/x:v1.14.0@sha256:abc") == "v1.14.0"
    assert version_in("gcr.io/x:main") == version_in("localhost:5000/x") == version_in("") == ""


def test_an_installation_describes_its_provider() -> None:
    found = given("--watch-filter=a", "--feature-gates=ClusterTopology=true").describe()
    assert (found.label, found.version, found.filters) == ("control-plane-quorate", "v0.1.0", "a")
    assert found.lease == f"{SYSTEM}/{LEASE}"
    assert found.gates == {"MachinePool", "ClusterTopology"}
    assert not found.only_the_leader_serves
    assert given("--webhook-certificates=self-managed").describe().only_the_leader_serves
    assert not given("--leader-elect=false").describe().lease


def test_components_are_read_as_clusterctl_makes_them(tmp_path: Path) -> None:
    file = tmp_path / "components.yaml"
    file.write_text(documents.dump_all(quorate()))
    found = installation.read(file, Side.QUORATE, "")
    assert all("clusterctl.cluster.x-k8s.io" in item["metadata"]["labels"] for item in found.objects.values())
    entry = found.objects[Key("Provider", SYSTEM, "control-plane-quorate")]
    assert (entry["providerName"], entry["type"], entry["version"]) == ("quorate", "ControlPlaneProvider", "v0.1.0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not YAML"),
        ("kind: Service\n", "no metadata.name"),
        ("kind: Job\nmetadata: {name: x}\n", "Job x is of a kind"),
        (documents.dump_all([item for item in quorate() if item["kind"] != "Deployment"]), "has to have one Deployment"),
        (documents.dump_all([*quorate(), deployment("b", "x", image="i:v1.0.0", replicas=1, arguments=())]), "one Deployment, not 2"),
        (documents.dump_all(quorate("--v=${VERBOSITY:=2}")), "has variables in it"),
        (documents.dump_all(quorate()).replace("quorate:v0.1.0", "quorate:latest"), "--components-version"),
        (documents.dump_all(quorate()).replace("name: manager\n", "name: other\n"), "no container manager"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "components.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        installation.read(file, Side.QUORATE, "")


def test_what_is_written_down_is_read_again() -> None:
    record = Record(Journal(Side.QUORATE, EPOCH, "a reason"), installation.of(Side.UPSTREAM, upstream()), given())
    again = journal.read({"data": journal.data(record)})
    assert again.journal == record.journal
    assert again.upstream.objects == record.upstream.objects
    assert again.quorate.objects == record.quorate.objects


@pytest.mark.parametrize("damage", [{"state": "e30="}, {"upstream": "AAAA"}, {"quorate": None}])
def test_what_was_damaged_is_refused(damage: dict[str, Any]) -> None:
    record = Record(Journal(Side.QUORATE, EPOCH), installation.of(Side.UPSTREAM, upstream()), given())
    with pytest.raises(ConfigError, match="quorate-takeover cannot be read"):
        journal.read({"data": {**journal.data(record), **damage}})


@pytest.mark.parametrize(
    ("metadata", "who"),
    [
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "capi"}}, "Flux (Kustomization capi)"),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "capi"}}, "Flux (HelmRelease capi)"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "capi:apps/Deployment:x/y"}}, "Argo CD (capi)"),
        ({"labels": {"argocd.argoproj.io/instance": "capi"}}, "Argo CD (Application capi)"),
        ({"annotations": {"meta.helm.sh/release-name": "capi"}}, "Helm (release capi)"),
        (
            {"ownerReferences": [{"apiVersion": "operator.cluster.x-k8s.io/v1alpha2", "kind": "ControlPlaneProvider", "name": "kubeadm"}]},
            "Cluster API Operator (ControlPlaneProvider kubeadm)",
        ),
    ],
)
def test_who_applies_an_object_is_told_by_what_it_leaves_there(metadata: Object, who: str) -> None:
    item = {"kind": "Deployment", "metadata": {"name": "d", "namespace": "n", **metadata}}
    assert list(owners([item, copy.deepcopy(item)])) == [("Deployment n/d", who)]
    assert list(owners([{"kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "b"}}}])) == []


def pod(name: str, *, deleting: bool = False, **status: Any) -> Object:
    labels = {"cluster.x-k8s.io/provider": "control-plane-quorate", "control-plane": "controller-manager"}
    metadata = {"name": name, "labels": labels} | ({"deletionTimestamp": "now"} if deleting else {})
    return {"metadata": metadata, "status": status}


UP: dict[str, Any] = {"containerStatuses": [{"name": "manager", "state": {"running": {}}}]}


def seen(deployment_status: Object, *pods: Object) -> Any:
    item = next(item for item in quorate() if item["kind"] == "Deployment")
    return running(given().describe(), item | {"status": deployment_status}, pods)


def test_a_provider_is_ready_when_all_its_pods_of_this_form_are_available() -> None:
    assert seen({"updatedReplicas": 2, "availableReplicas": 2}, pod("a", **UP), pod("b", **UP)).ready
    assert not seen({"updatedReplicas": 1, "availableReplicas": 2}, pod("a", **UP), pod("b", **UP)).ready
    assert not seen({"updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": -1}).ready, "the controller has yet to look"


def test_pods_that_end_have_not_ended() -> None:
    found = seen({}, pod("a", deleting=True, **UP))
    assert (found.pods, found.running) == (("a",), 0)
    other = {"metadata": {"name": "z", "labels": {"control-plane": "controller-manager"}}}
    assert seen({}, other).pods == ()


def test_pods_of_a_deployment_that_is_gone_are_still_its_pods() -> None:
    owned = pod("a", **UP)
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": f"{OUR_DEPLOYMENT}-7d9f"}]
    found = running(given().describe(), None, [owned, pod("b", **UP)])
    assert found.pods == ("a",)
    assert not found.stopped


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}, "a: ErrImagePull not found"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "message": "no nodes"}]}, "a: no nodes"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        (UP, ""),
    ],
)
def test_why_a_pod_does_not_come_up_is_told(status: Object, said: str) -> None:
    assert seen({}, pod("a", **status)).problem == said


def test_why_no_pod_is_made_is_told() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "violates PodSecurity"}
    assert seen({"conditions": [failure]}).problem == "violates PodSecurity"
