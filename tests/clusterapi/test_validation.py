"""Every rule of admission has a case: the field it names, the kind of error, and a way that is allowed beside the one that is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.clusterapi.api.fields import FieldError
from quorate.clusterapi.api.immutability import may_change
from quorate.clusterapi.api.validation import (
    surge_of,
    validate_create,
    validate_scale,
    validate_template_create,
    validate_template_update,
    validate_update,
)
from quorate.clusterapi.types.names import FeatureGate

CONFIG = "spec.kubeadmConfigSpec"
CLUSTER = f"{CONFIG}.clusterConfiguration"
EXTERNAL = {"endpoints": ["https://10.0.0.1:2379"], "caFile": "/ca", "certFile": "/cert", "keyFile": "/key"}
IGNITION = frozenset({FeatureGate.KUBEADM_BOOTSTRAP_FORMAT_IGNITION})
TAINTS = frozenset({FeatureGate.MACHINE_TAINT_PROPAGATION})
TOPOLOGY = frozenset({FeatureGate.CLUSTER_TOPOLOGY})
SECRET = {"name": "a", "key": "b"}


def brief(errors: tuple[FieldError, ...]) -> list[tuple[str, str]]:
    return [(error.path, error.kind.value) for error in errors]


def rollout(max_surge: Any, **more: Any) -> dict[str, Any]:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": max_surge}}} | more


def machine_template(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "demo"}
    return {"metadata": metadata or {}, "spec": {"infrastructureRef": reference} | spec}


def cluster(**configuration: Any) -> dict[str, Any]:
    return {"kubeadmConfigSpec": {"clusterConfiguration": configuration}}


def test_a_good_control_plane_passes(kubeadm_control_plane: Any) -> None:
    assert validate_create(kubeadm_control_plane()) == ()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"replicas": None}, [("spec.replicas", "Required")]),
        ({"replicas": "3"}, [("spec.replicas", "Invalid")]),
        ({"replicas": True}, [("spec.replicas", "Invalid")]),
        ({"replicas": -1}, [("spec.replicas", "Forbidden")]),
        ({"replicas": 0}, [("spec.replicas", "Forbidden")] * 2),
        ({"replicas": 4}, [("spec.replicas", "Forbidden")]),
        ({"replicas": 4} | cluster(etcd={"external": EXTERNAL}), []),
        ({"replicas": 0} | cluster(etcd={"external": EXTERNAL}), [("spec.replicas", "Forbidden")]),
        ({"replicas": 99}, []),
    ],
)
def test_replicas_are_odd_and_positive(kubeadm_control_plane: Any, spec: dict[str, Any], expected: list[Any]) -> None:
    assert brief(validate_create(kubeadm_control_plane(**spec))) == expected


@pytest.mark.parametrize("field", ["apiGroup", "kind", "name"])
def test_the_infrastructure_reference_is_complete(kubeadm_control_plane: Any, field: str) -> None:
    template = machine_template()
    template["spec"]["infrastructureRef"][field] = ""
    expected = [(f"spec.machineTemplate.spec.infrastructureRef.{field}", "Invalid")]
    assert brief(validate_create(kubeadm_control_plane(machineTemplate=template))) == expected


@pytest.mark.parametrize("version", ["v1.22.0", "v1.34.4", "v1.35.0-rc.1", "v1.34.4+build.7", "v2.0.0"])
def test_versions_that_are_ones(kubeadm_control_plane: Any, version: str) -> None:
    assert validate_create(kubeadm_control_plane(version=version)) == ()


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("", "Required"),
        (None, "Required"),
        (1, "Required"),
        ("1.34.4", "Invalid"),
        ("v1.34", "Invalid"),
        ("vv1.34.4", "Invalid"),
        ("v1.034.4", "Invalid"),
        ("v1.34.4-", "Invalid"),
        ("v1.34.4-a..b", "Invalid"),
        ("v1.34.4-01", "Invalid"),
        ("v1.34.4\n", "Invalid"),
        ("v1.21.14", "Invalid"),
        ("v0.34.4", "Invalid"),
        ("v1." + "9" * 5000 + ".0", "Invalid"),
    ],
)
def test_versions_that_are_none(kubeadm_control_plane: Any, version: Any, kind: str) -> None:
    assert brief(validate_create(kubeadm_control_plane(version=version))) == [("spec.version", kind)]


@pytest.mark.parametrize(
    "key",
    [
        "node.cluster.x-k8s.io/uninitialized",
        "node.cluster.x-k8s.io/outdated-revision",
        "node.kubernetes.io/unreachable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node-role.kubernetes.io/master",
        "not a key",
        "",
    ],
)
def test_taints_that_belong_to_others_are_refused(kubeadm_control_plane: Any, key: str) -> None:
    taint = {"key": key, "effect": "NoSchedule", "propagation": "Always"}
    control_plane = kubeadm_control_plane(machineTemplate=machine_template(taints=[taint]))
    assert brief(validate_create(control_plane, TAINTS)) == [("spec.machineTemplate.spec.taints[0].key", "Invalid")]


@pytest.mark.parametrize("key", ["node-role.kubernetes.io/control-plane", "node.kubernetes.io/out-of-service", "example.com/a", "a"])
def test_other_taints_are_fine_where_the_gate_is_on(kubeadm_control_plane: Any, key: str) -> None:
    control_plane = kubeadm_control_plane(machineTemplate=machine_template(taints=[{"key": key}]))
    assert validate_create(control_plane, TAINTS) == ()
    assert brief(validate_create(control_plane)) == [("spec.machineTemplate.spec.taints", "Forbidden")]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "c"}}, "labels"),
        ({"labels": {"A.B/c": "d"}}, "labels"),
        ({"labels": {"/c": "d"}}, "labels"),
        ({"labels": {"a": "b c"}}, "labels"),
        ({"labels": {"a": "b" * 64}}, "labels"),
        ({"labels": {"a" * 64: ""}}, "labels"),
        ({"labels": {"a": 1}}, "labels"),
        ({"annotations": {"a b": "c"}}, "annotations"),
        ({"annotations": {"a": "b" * 262144}}, "annotations"),
    ],
)
def test_labels_and_annotations_of_machines_are_well_formed(kubeadm_control_plane: Any, metadata: dict[str, Any], field: str) -> None:
    errors = validate_create(kubeadm_control_plane(machineTemplate=machine_template(metadata)))
    assert brief(errors) == [(f"spec.machineTemplate.metadata.{field}", "Invalid")]


def test_labels_and_annotations_may_be_as_long_as_kubernetes_allows(kubeadm_control_plane: Any) -> None:
    metadata = {"labels": {"example.com/" + "a" * 63: "b" * 63, "c": ""}, "annotations": {"Example.com/a": "b" * 262131}}
    assert validate_create(kubeadm_control_plane(machineTemplate=machine_template(metadata))) == ()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"rollout": {"strategy": {"type": "Recreate"}}}, [("spec.rollout.strategy.type", "Required")]),
        ({"rollout": rollout(0)}, []),
        ({"rollout": rollout("1")}, []),
        ({"rollout": rollout(None)}, []),
        ({"rollout": rollout("50%")}, []),
        ({"rollout": rollout("abc")}, []),
        ({"rollout": rollout(2)}, [("spec.rollout.strategy.rollingUpdate.maxSurge", "Required")]),
        ({"rollout": rollout("-1")}, [("spec.rollout.strategy.rollingUpdate.maxSurge", "Required")]),
        ({"replicas": 1, "rollout": rollout(0)}, [("spec.rollout.strategy.rollingUpdate", "Required")]),
        ({"replicas": 1, "rollout": rollout("50%")}, [("spec.rollout.strategy.rollingUpdate", "Required")]),
        ({"replicas": 1, "rollout": rollout(1)}, []),
        (
            cluster(certificateValidityPeriodDays=100, caCertificateValidityPeriodDays=99),
            [(f"{CLUSTER}.certificateValidityPeriodDays", "Invalid")],
        ),
        (cluster(certificateValidityPeriodDays=100, caCertificateValidityPeriodDays=100), []),
        (cluster(certificateValidityPeriodDays=3651), [(f"{CLUSTER}.certificateValidityPeriodDays", "Invalid")]),
        (cluster(certificateValidityPeriodDays=3650), []),
        (
            cluster(certificateValidityPeriodDays=30) | {"rollout": rollout(1, before={"certificatesExpiryDays": 30})},
            [("spec.rollout.before.certificatesExpiryDays", "Invalid")],
        ),
        (cluster(certificateValidityPeriodDays=30) | {"rollout": rollout(1, before={"certificatesExpiryDays": 29})}, []),
        ({"rollout": rollout(1, before={"certificatesExpiryDays": 365})}, [("spec.rollout.before.certificatesExpiryDays", "Invalid")]),
        ({"rollout": rollout(1, before={"certificatesExpiryDays": 364})}, []),
        (cluster(certificateValidityPeriodDays=9999) | {"rollout": {}}, []),
    ],
)
def test_rollout_and_certificate_lifetimes(kubeadm_control_plane: Any, spec: dict[str, Any], expected: list[Any]) -> None:
    assert brief(validate_create(kubeadm_control_plane(**spec))) == expected


@pytest.mark.parametrize(
    ("max_surge", "number"), [(1, 1), ("1", 1), ("+1", 1), ("-1", -1), ("1 ", 0), ("1_0", 0), ("1%", 0), ("", 0), (None, 0), ([], 0)]
)
def test_max_surge_reads_as_kubernetes_reads_it(max_surge: Any, number: int) -> None:
    assert surge_of(max_surge) == number


@pytest.mark.parametrize(
    ("template", "valid"),
    [
        ("{{ .random }}", True),
        ("{{ .cluster.name }}-{{ .kubeadmControlPlane.name }}-{{ .random }}", True),
        ("{{.cluster.name}}-{{ .random }}", True),
        ("a" * 80 + "{{ .random }}", True),
        ("{{ .cluster.name }}", False),
        ("{{.random}}", False),  # upstream looks for the words as they are in its documentation
        ("{{ .machine.name }}-{{ .random }}", False),
        ("Demo-{{ .random }}", False),
        ("-{{ .random }}", False),
        ("{{ .random }}-", False),
        ("{{ .random }}{{", False),
    ],
)
def test_naming_templates(kubeadm_control_plane: Any, template: str, *, valid: bool) -> None:
    errors = brief(validate_create(kubeadm_control_plane(machineNaming={"template": template})))
    assert errors == ([] if valid else [("spec.machineNaming.template", "Invalid")])


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"dns": {"imageTag": "v1.12.1"}}, []),
        ({"dns": {"imageTag": "1.12"}}, []),
        ({"dns": {"imageTag": "v1.12.1_vendor.1"}}, []),
        ({"dns": {"imageTag": "v1.12.1+a"}}, [(f"{CLUSTER}.dns.imageTag", "Forbidden")]),
        ({"dns": {"imageTag": "latest"}}, [(f"{CLUSTER}.dns.imageTag", "Invalid")]),
        ({"etcd": {"local": {"imageTag": "3.6.5-0"}}}, []),
        ({"etcd": {"local": {"imageTag": "3.6.5+0"}}}, [(f"{CLUSTER}.etcd.local.imageTag", "Forbidden")]),
        ({"etcd": {"local": {"dataDir": "/a"}, "external": EXTERNAL}}, [(f"{CLUSTER}.etcd.local", "Forbidden")]),
    ],
)
def test_cluster_configuration(kubeadm_control_plane: Any, configuration: dict[str, Any], expected: list[Any]) -> None:
    assert brief(validate_create(kubeadm_control_plane(**cluster(**configuration)))) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"files": [{"path": "/a", "content": "b"}, {"path": "/c", "contentFrom": {"secret": SECRET}}]}, []),
        ({"files": [{"path": "/a", "content": "b", "contentFrom": {"secret": SECRET}}]}, [("files[0]", "Invalid")]),
        ({"files": [{"path": "/a", "contentFrom": {"secret": {"key": "b"}}}]}, [("files[0].contentFrom.secret.name", "Required")]),
        ({"files": [{"path": "/a", "contentFrom": {"secret": {"name": "b"}}}]}, [("files[0].contentFrom.secret.key", "Required")]),
        ({"files": [{"path": "/a"}, {"path": "/a"}]}, [("files[1].path", "Invalid")]),
        ({"users": [{"name": "a", "passwd": "b", "passwdFrom": {"secret": SECRET}}]}, [("users[0]", "Invalid")]),
        ({"users": [{"name": "a", "passwdFrom": {"secret": {"key": "b"}}}]}, [("users[0].passwdFrom.secret.name", "Required")]),
        ({"users": [{"name": "a", "passwdFrom": {"secret": {"name": "b"}}}]}, [("users[0].passwdFrom.secret.key", "Required")]),
        ({"diskSetup": {"partitions": [{"diskLayout": [{"percentage": 60}, {"percentage": 40}]}]}}, []),
        (
            {"diskSetup": {"partitions": [{}, {"diskLayout": [{"percentage": 60}, {"percentage": 41}]}]}},
            [("diskSetup.partitions[1].diskLayout", "Invalid")],
        ),
        (
            {
                "joinConfiguration": {
                    "discovery": {"file": {"kubeConfig": {"user": {"authProvider": {"name": "a"}, "exec": {"command": "b"}}}}}
                }
            },
            [("joinConfiguration.discovery.file.kubeConfig.user", "Invalid")],
        ),
        (
            {"initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 0}}},
            [
                ("initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds", "Invalid"),
                ("joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds", "Invalid"),
            ],
        ),
        (
            {f"{each}Configuration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 9}} for each in ("init", "join")},
            [],
        ),
        ({"format": "ignition"}, [("format", "Forbidden")]),
        ({"ignition": {"containerLinuxConfig": {"strict": True}}}, [("ignition", "Forbidden")]),
    ],
)
def test_kubeadm_config_spec(kubeadm_control_plane: Any, config: dict[str, Any], expected: list[Any]) -> None:
    errors = validate_create(kubeadm_control_plane(kubeadmConfigSpec=config))
    assert brief(errors) == [(f"{CONFIG}.{path}", kind) for path, kind in expected]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"format": "ignition", "ignition": {"containerLinuxConfig": {"strict": True}}}, []),
        ({"ignition": {"containerLinuxConfig": {"strict": True}}}, [("format", "Invalid")]),
        ({"format": "ignition", "users": [{"name": "a", "inactive": True}]}, [("users[0].inactive", "Forbidden")]),
        ({"format": "ignition", "users": [{"name": "a", "inactive": False}]}, []),
        ({"format": "ignition", "files": [{"path": "/a", "encoding": "gzip"}]}, [("files[0].encoding", "Forbidden")]),
        ({"format": "ignition", "files": [{"path": "/a", "encoding": "gzip+base64"}]}, [("files[0].encoding", "Forbidden")]),
        ({"format": "ignition", "files": [{"path": "/a", "encoding": "base64"}]}, []),
        ({"format": "ignition", "bootCommands": ["a"]}, [("bootCommands", "Forbidden")]),
        (
            {"format": "ignition", "diskSetup": {"partitions": [{"tableType": "mbr"}, {"tableType": "gpt"}]}},
            [("diskSetup.partitions[0].tableType", "Invalid")],
        ),
        (
            {"format": "ignition", "diskSetup": {"filesystems": [{"replaceFS": "ext4", "partition": "1"}]}},
            [("diskSetup.filesystems[0].replaceFS", "Forbidden"), ("diskSetup.filesystems[0].partition", "Forbidden")],
        ),
        ({"format": "cloud-config", "bootCommands": ["a"]}, []),
    ],
)
def test_ignition_where_its_gate_is_on(kubeadm_control_plane: Any, config: dict[str, Any], expected: list[Any]) -> None:
    errors = validate_create(kubeadm_control_plane(kubeadmConfigSpec=config), IGNITION)
    assert brief(errors) == [(f"{CONFIG}.{path}", kind) for path, kind in expected]


def test_messages_never_quote_what_may_be_secret(kubeadm_control_plane: Any) -> None:
    config = {
        "files": [{"path": "/a", "content": "hunter2", "contentFrom": {"secret": SECRET}}],
        "users": [{"name": "a", "passwd": "hunter2", "passwdFrom": {"secret": SECRET}}],
    }
    errors = validate_create(kubeadm_control_plane(kubeadmConfigSpec=config))
    assert len(errors) == 2
    assert "hunter2" not in "".join(str(error) for error in errors)


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("v1.34.4", "v1.34.9", True),
        ("v1.34.4", "v1.35.0", True),
        ("v1.34.4", "v1.35.9", True),
        ("v1.34.4", "v1.36.0-rc.1", False),
        ("v1.34.4", "v1.36.0", False),
        ("v1.34.4", "v2.0.0", False),
        ("v1.34.4", "v1.33.0", True),  # judged by the rules, which know what runs
        ("v1.34", "v1.40.0", True),  # from what is no version, any way is a way out
    ],
)
def test_a_version_goes_up_one_minor_at_a_time(kubeadm_control_plane: Any, old: str, new: str, *, allowed: bool) -> None:
    errors = validate_update(kubeadm_control_plane(version=old), kubeadm_control_plane(version=new))
    assert brief(errors) == ([] if allowed else [("spec.version", "Forbidden")])


def test_an_update_obeys_the_rules_of_a_creation(kubeadm_control_plane: Any) -> None:
    assert brief(validate_update(kubeadm_control_plane(), kubeadm_control_plane(replicas=2))) == [("spec.replicas", "Forbidden")]


def test_etcd_cannot_move_in_or_out(kubeadm_control_plane: Any) -> None:
    local, external = kubeadm_control_plane(**cluster(dns={"imageTag": "v1.12.1"})), None
    external = kubeadm_control_plane(**cluster(dns={"imageTag": "v1.12.1"}, etcd={"external": EXTERNAL}))
    assert (f"{CLUSTER}.etcd.external", "Forbidden") in brief(validate_update(local, external))
    assert (f"{CLUSTER}.etcd.external", "Forbidden") in brief(validate_update(external, local))
    assert validate_update(external, external) == ()


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("", "v1.12.1", []),
        ("", "v9.9.9", []),
        ("v1.11.1", "v1.12.1", []),
        ("v9.9.9", "9.9.9_vendor.1", []),
        ("v9.9", "v9.9.0-vendor.1", []),
        ("v1.12.1", "v1.11.1", ["Forbidden"]),
        ("v1.12.1", "v9.9.9", ["Forbidden"]),
        ("v9.9.8", "v9.9.9", ["Forbidden"]),
        ("latest", "v1.12.1", ["Invalid"]),
        ("v1.12.1", "v1.12-vendor", ["Invalid", "Invalid"]),
    ],
)
def test_coredns_goes_up_between_versions_that_are_known(kubeadm_control_plane: Any, old: str, new: str, kinds: list[str]) -> None:
    before, after = (kubeadm_control_plane(**cluster(dns={"imageTag": tag})) for tag in (old, new))
    assert brief(validate_update(before, after)) == [(f"{CLUSTER}.dns.imageTag", kind) for kind in kinds]


def test_whoever_carries_the_corefile_over_may_use_any_version_of_coredns(kubeadm_control_plane: Any) -> None:
    before, after = (kubeadm_control_plane(**cluster(dns={"imageTag": tag})) for tag in ("v1.12.1", "v1.8.3"))
    after["metadata"]["annotations"] = {"controlplane.cluster.x-k8s.io/skip-coredns": ""}
    assert validate_update(before, after) == ()


@pytest.mark.parametrize(
    ("old", "new", "forbidden"),
    [
        ({}, {"clusterConfiguration": {"controlPlaneEndpoint": "a:6443"}}, ["clusterConfiguration.controlPlaneEndpoint"]),
        (
            {"clusterConfiguration": {"certificatesDir": "/a", "dns": {"imageTag": "v1.11.1"}}},
            {"clusterConfiguration": {"certificatesDir": "/b", "dns": {"imageTag": "v1.11.3"}}},
            ["clusterConfiguration.certificatesDir"],
        ),
        (
            {"clusterConfiguration": {"imageRepository": "a"}},
            {"clusterConfiguration": {"imageRepository": "a", "caCertificateValidityPeriodDays": 9}},
            ["clusterConfiguration.caCertificateValidityPeriodDays"],
        ),
        ({"clusterConfiguration": {"imageRepository": "a"}, "verbosity": 1}, {"verbosity": 1}, ["clusterConfiguration"]),
        ({"initConfiguration": {"skipPhases": ["a"]}, "verbosity": 1}, {"verbosity": 1}, ["initConfiguration"]),
        ({"joinConfiguration": {"skipPhases": ["a"]}, "verbosity": 1}, {"verbosity": 1}, ["joinConfiguration"]),
        ({"joinConfiguration": {"skipPhases": ["a"]}, "verbosity": 1}, {"joinConfiguration": {}, "verbosity": 1}, ["joinConfiguration"]),
        ({"verbosity": 1}, {}, [""]),
        ({"joinConfiguration": {"controlPlane": {}, "skipPhases": ["a"]}}, {"joinConfiguration": {"controlPlane": {}}}, []),
        ({}, {"clusterConfiguration": {"apiServer": {"certSANs": ["a"]}}}, []),
        ({}, {"initConfiguration": {"nodeRegistration": {"taints": []}}}, []),
        ({"files": [{"path": "/a"}]}, {"files": [{"path": "/b"}]}, []),
        ({}, {"notInventedYet": 1}, ["notInventedYet"]),
    ],
)
def test_what_of_the_kubeadm_configuration_may_change(
    kubeadm_control_plane: Any, old: dict[str, Any], new: dict[str, Any], forbidden: list[str]
) -> None:
    errors = validate_update(kubeadm_control_plane(kubeadmConfigSpec=old), kubeadm_control_plane(kubeadmConfigSpec=new))
    assert brief(errors) == [(f"{CONFIG}.{path}" if path else CONFIG, "Forbidden") for path in forbidden]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("metadata.labels.a", True),
        ("metadata", False),
        ("spec", False),
        ("spec.replicas", True),
        ("spec.replicas.below", False),
        ("spec.remediation", True),
        ("spec.rollout.after", True),
        ("spec.machineTemplate", False),
        ("spec.machineTemplate.spec.taints", True),
        (f"{CONFIG}.diskSetup.partitions", True),
        (f"{CLUSTER}.etcd.external", True),
        (f"{CLUSTER}.etcd.local.dataDir", True),
        (f"{CLUSTER}.networking", False),
        (f"{CONFIG}.joinConfiguration.caCertPath", True),
        (f"{CONFIG}.initConfiguration.caCertPath", False),
    ],
)
def test_the_table_of_what_may_change(path: str, *, allowed: bool) -> None:
    assert may_change(tuple(path.split("."))) is allowed


def test_metadata_and_status_may_change_and_a_kind_may_not(kubeadm_control_plane: Any) -> None:
    old, new = kubeadm_control_plane(), kubeadm_control_plane({"example.com/a.b": "c"}) | {"status": {"replicas": 3}}
    assert validate_update(old, new) == ()
    assert brief(validate_update(old, new | {"kind": "Other"})) == [("kind", "Forbidden")]


@pytest.mark.parametrize(("replicas", "errors"), [(1, 0), (5, 0), (0, 2), (-1, 1), (2, 1), (None, 1), ("3", 1)])
def test_scaling_obeys_the_rule_for_replicas(kubeadm_control_plane: Any, replicas: Any, errors: int) -> None:
    assert [error.path for error in validate_scale(kubeadm_control_plane(), replicas)] == ["spec.replicas"] * errors


def test_scaling_knows_external_etcd_and_leaves_surge_to_the_next_update(kubeadm_control_plane: Any) -> None:
    assert validate_scale(kubeadm_control_plane(**cluster(etcd={"external": EXTERNAL})), 2) == ()
    assert validate_scale(kubeadm_control_plane(rollout=rollout(0)), 1) == ()


def template(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo"}, "spec": {"template": {"metadata": metadata or {}, "spec": spec}}}


def test_templates_need_their_gate() -> None:
    assert brief(validate_template_create(template())) == [("spec", "Forbidden")]
    assert validate_template_create(template(), TOPOLOGY) == ()


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (template({"labels": {"a b": "c"}}), "spec.template.metadata.labels"),
        (template(rollout={"strategy": {"type": "Recreate"}}), "spec.template.spec.rollout.strategy.type"),
        (template(machineNaming={"template": "a"}), "spec.template.spec.machineNaming.template"),
        (template(machineTemplate={"spec": {"taints": [{"key": "a"}]}}), "spec.template.spec.machineTemplate.spec.taints"),
        (template(machineTemplate={"metadata": {"labels": {"a b": "c"}}}), "spec.template.spec.machineTemplate.metadata.labels"),
        (
            template(kubeadmConfigSpec={"clusterConfiguration": {"dns": {"imageTag": "latest"}}}),
            "spec.template.spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag",
        ),
        (template(kubeadmConfigSpec={"format": "ignition"}), "spec.template.spec.kubeadmConfigSpec.format"),
    ],
)
def test_templates_obey_the_shared_rules(obj: dict[str, Any], expected: str) -> None:
    assert [error.path for error in validate_template_create(obj, TOPOLOGY)] == [expected]


def test_a_template_surges_by_none_whatever_the_replicas_will_be() -> None:
    assert validate_template_create(template(rollout=rollout(0)), TOPOLOGY) == ()


def test_a_templates_metadata_may_change_and_its_spec_may_not() -> None:
    assert validate_template_update(template(), template({"labels": {"a": "b"}})) == ()
    changed = validate_template_update(template(kubeadmConfigSpec={"verbosity": 1}), template(kubeadmConfigSpec={"verbosity": 2}))
    assert brief(changed) == [("spec.template.spec", "Invalid")]


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        (template(rollout=rollout(1)), template(), True),
        (template(rollout=rollout(1, after="2026-01-01T00:00:00Z")), template(rollout={"after": "2026-01-01T00:00:00Z"}), True),
        (template(rollout=rollout("1")), template(), False),
        (template(rollout=rollout(0)), template(), False),
        (template(), template(rollout=rollout(1)), False),
        (template(kubeadmConfigSpec={"format": "cloud-config"}), template(), True),
        (template(), template(kubeadmConfigSpec={"initConfiguration": {"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}}), True),
        (template(kubeadmConfigSpec={"format": "ignition"}), template(), False),
    ],
)
def test_a_template_may_drop_what_used_to_be_filled_in(old: dict[str, Any], new: dict[str, Any], *, allowed: bool) -> None:
    assert (validate_template_update(old, new) == ()) is allowed


TEXT = st.text("aV1.-{ /\n\ud800", max_size=6)  # few characters: building the table of all of Unicode takes a second
SCALARS = st.none() | st.booleans() | st.integers(-2, 5) | st.floats(allow_nan=False) | TEXT
FIELDS = st.sampled_from(
    [
        "spec",
        "template",
        "metadata",
        "labels",
        "annotations",
        "replicas",
        "version",
        "machineTemplate",
        "infrastructureRef",
        "apiGroup",
        "taints",
        "key",
        "kubeadmConfigSpec",
        "clusterConfiguration",
        "etcd",
        "external",
        "local",
        "imageTag",
        "dns",
        "files",
        "path",
        "content",
        "contentFrom",
        "secret",
        "users",
        "passwdFrom",
        "diskSetup",
        "partitions",
        "diskLayout",
        "percentage",
        "filesystems",
        "initConfiguration",
        "joinConfiguration",
        "timeouts",
        "controlPlaneComponentHealthCheckSeconds",
        "discovery",
        "file",
        "kubeConfig",
        "user",
        "rollout",
        "strategy",
        "rollingUpdate",
        "maxSurge",
        "type",
        "before",
        "certificatesExpiryDays",
        "certificateValidityPeriodDays",
        "machineNaming",
        "format",
        "ignition",
        "controlPlane",
        "nodeRegistration",
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | TEXT, inner, max_size=5),
    max_leaves=25,
)
SHAPED = st.fixed_dictionaries({"spec": st.dictionaries(FIELDS, JSON, max_size=8) | JSON})
GATES = st.sets(st.sampled_from(FeatureGate))


@given(JSON | SHAPED, JSON | SHAPED, GATES)
def test_validation_never_raises_whatever_it_is_given(old: Any, new: Any, gates: set[FeatureGate]) -> None:
    for errors in (
        validate_create(new, gates),
        validate_update(old, new, gates),
        validate_scale(old, new),
        validate_template_create(new, gates),
        validate_template_update(old, new),
    ):
        assert all(isinstance(error, FieldError) for error in errors)


@given(SHAPED)
def test_nothing_is_forbidden_to_stay_as_it_is(obj: dict[str, Any]) -> None:
    assert validate_update(obj, obj) == validate_create(obj)
    assert validate_template_update(obj, obj) == ()
