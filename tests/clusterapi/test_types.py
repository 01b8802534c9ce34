"""The types decode what upstream's programs write, keep what must not be lost, and hide what must not be seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from quorate.clusterapi.types import names
from quorate.clusterapi.types.cluster import ApiEndpoint, Cluster
from quorate.clusterapi.types.kubeadm_config import KubeadmConfig, KubeadmConfigSpec
from quorate.clusterapi.types.kubeadm_control_plane import KubeadmControlPlane, KubeadmControlPlaneStatus, KubeadmControlPlaneTemplate
from quorate.clusterapi.types.machine import Machine
from quorate.clusterapi.types.resources import (
    CLUSTERS,
    KUBEADM_CONFIGS,
    KUBEADM_CONTROL_PLANE_TEMPLATES,
    KUBEADM_CONTROL_PLANES,
    MACHINE_POOLS,
    MACHINES,
)


def decoded(value: dict[str, Any], type_: type) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value), type=type_)


def test_a_machine_is_read_with_upstreams_json_names() -> None:
    machine = decoded(
        {
            "metadata": {"name": "demo-a", "uid": "1"},
            "spec": {
                "clusterName": "demo",
                "version": "v1.34.4",
                "providerID": "dev:///demo-a",
                "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "demo-a"}},
                "deletion": {"nodeDrainTimeoutSeconds": 0},
                "readinessGates": [{"conditionType": "APIServerPodHealthy"}],
                "taints": [{"key": "a", "effect": "NoSchedule", "propagation": "Always"}],
            },
            "status": {
                "nodeRef": {"name": "demo-a"},
                "nodeInfo": {"kubeletVersion": "v1.34.4"},
                "certificatesExpiryDate": "2027-01-01T00:00:00Z",
                "initialization": {"infrastructureProvisioned": True},
                "deletion": {"nodeDrainStartTime": "2026-01-01T00:00:00Z"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "deprecated": {
                    "v1beta1": {
                        "conditions": [
                            {"type": "Ready", "status": "False", "severity": "Info", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                        ]
                    }
                },
            },
        },
        Machine,
    )
    assert machine.spec.provider_id == "dev:///demo-a"
    assert machine.spec.bootstrap.config_ref.group_kind == "KubeadmConfig.bootstrap.cluster.x-k8s.io"
    assert machine.spec.deletion.node_drain_timeout_seconds == 0
    assert machine.spec.deletion.node_deletion_timeout_seconds is None
    assert machine.status.node_ref.name == "demo-a"
    assert machine.status.certificates_expiry_date == datetime(2027, 1, 1, tzinfo=UTC)
    assert machine.status.deprecated.v1beta1.conditions[0].severity == "Info"
    assert machine.status.initialization.bootstrap_data_secret_created is None


@pytest.mark.parametrize("type_", [Machine, Cluster, KubeadmConfig])
def test_what_was_just_created_is_readable_without_spec_and_status(type_: type) -> None:
    assert decoded({"metadata": {"name": "a"}}, type_).metadata.name == "a"


def test_a_cluster_tells_endpoint_and_failure_domains() -> None:
    cluster = decoded(
        {
            "metadata": {"name": "demo"},
            "spec": {"paused": True, "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}, "topology": {"version": "v1.34.4"}},
            "status": {"failureDomains": [{"name": "a", "controlPlane": True}, {"name": "b"}]},
        },
        Cluster,
    )
    assert cluster.spec.control_plane_endpoint.valid
    assert str(cluster.spec.control_plane_endpoint) == "10.0.0.1:6443"
    assert [(domain.name, domain.control_plane) for domain in cluster.status.failure_domains] == [("a", True), ("b", None)]


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [(ApiEndpoint(host="::1", port=6443), "[::1]:6443"), (ApiEndpoint(host="a", port=0), ""), (ApiEndpoint(host="", port=6443), "")],
)
def test_an_endpoint_is_valid_only_with_both_halves(endpoint: ApiEndpoint, text: str) -> None:
    assert str(endpoint) == text
    assert endpoint.valid == bool(text)


def test_a_field_newer_than_this_program_survives_in_the_kubeadm_config_spec(kubeadm_control_plane: Any) -> None:
    spec = {"clusterConfiguration": {"notInventedYet": {"a": [1]}}, "joinConfiguration": {"controlPlane": {}}}
    control_plane = decoded(kubeadm_control_plane(kubeadmConfigSpec=spec), KubeadmControlPlane)
    assert control_plane.spec.kubeadm_config_spec == spec
    assert decoded({"metadata": {"name": "a"}, "spec": spec}, KubeadmConfig).spec == spec
    template = {"metadata": {"name": "a"}, "spec": {"template": {"spec": {"kubeadmConfigSpec": spec}}}}
    assert decoded(template, KubeadmControlPlaneTemplate).spec.template.spec.kubeadm_config_spec == spec


def test_an_object_stored_beyond_a_limit_is_still_readable(kubeadm_control_plane: Any) -> None:
    control_plane = decoded(kubeadm_control_plane(version="v" * 300, rollout={"strategy": {"type": "SomethingNewer"}}), KubeadmControlPlane)
    assert control_plane.spec.rollout.strategy.type == "SomethingNewer"


def test_secrets_in_a_specification_stay_out_of_reprs(kubeadm_control_plane: Any) -> None:
    secret = {"users": [{"name": "a", "passwd": "hunter2"}]}
    template = {"metadata": {"name": "a"}, "spec": {"template": {"spec": {"kubeadmConfigSpec": secret}}}}
    for value in (
        decoded(kubeadm_control_plane(kubeadmConfigSpec=secret), KubeadmControlPlane),
        decoded({"metadata": {"name": "a"}, "spec": secret}, KubeadmConfig),
        decoded(template, KubeadmControlPlaneTemplate),
    ):
        assert "hunter2" not in repr(value)


def test_a_typed_kubeadm_config_spec_shows_no_token_and_no_password() -> None:
    spec = decoded(
        {
            "users": [{"name": "a", "passwd": "hunter2"}],
            "files": [{"path": "/a", "content": "hunter2"}],
            "initConfiguration": {"bootstrapTokens": [{"token": "hunter2"}]},
            "joinConfiguration": {"discovery": {"bootstrapToken": {"token": "hunter2"}, "tlsBootstrapToken": "hunter2"}},
        },
        KubeadmConfigSpec,
    )
    for value in (spec, *spec.users, *spec.files, spec.init_configuration, spec.join_configuration):
        assert "hunter2" not in repr(value)


def test_a_status_keeps_zeros_and_leaves_out_what_is_not_known() -> None:
    status = msgspec.to_builtins(KubeadmControlPlaneStatus(replicas=0, ready_replicas=0))
    assert status == {"replicas": 0, "readyReplicas": 0}


def test_lists_left_out_of_a_part_that_is_there_are_each_objects_own() -> None:
    first, second = (decoded({"metadata": {"name": "a"}, "status": {}}, Machine) for _ in range(2))
    assert first.status.conditions == second.status.conditions == []
    assert first.status.conditions is not second.status.conditions


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (CLUSTERS, "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/a"),
        (MACHINES, "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/a"),
        (MACHINE_POOLS, "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinepools/a"),
        (KUBEADM_CONFIGS, "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmconfigs/a"),
        (KUBEADM_CONTROL_PLANES, "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmcontrolplanes/a"),
        (KUBEADM_CONTROL_PLANE_TEMPLATES, "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmcontrolplanetemplates/a"),
    ],
)
def test_each_kind_lives_at_its_path(resource: Any, path: str) -> None:
    assert resource.path("ns", "a") == path


def test_names_shared_with_upstream() -> None:
    assert names.Finalizer.KUBEADM_CONTROL_PLANE == "kubeadm.controlplane.cluster.x-k8s.io"
    assert names.FieldManager.KUBEADM_CONTROL_PLANE == "capi-kubeadmcontrolplane"
    assert names.FieldManager.METADATA == "capi-kubeadmcontrolplane-metadata"
    assert names.Hook.PRE_TERMINATE.startswith(f"{names.Hook.PRE_TERMINATE_PREFIX}/")
    assert [*names.MANDATORY_READINESS_GATES, *names.ETCD_READINESS_GATES] == [
        "NodeKubeadmLabelsAndTaintsSet",
        "APIServerPodHealthy",
        "ControllerManagerPodHealthy",
        "SchedulerPodHealthy",
        "EtcdPodHealthy",
        "EtcdMemberHealthy",
    ]
    assert frozenset({"MachinePool"}) == names.DEFAULT_FEATURE_GATES
