"""What replaces a machine and what does not: upstream's cases by name, then the properties they are examples of."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.versions import Version
from quorate.kubeadm import Difference, differences, machine_config

V1_30 = Version.parse("v1.30.0")
Spec = dict[str, Any]


def cluster(**fields: object) -> Spec:
    return {"clusterConfiguration": fields}


def init(**fields: object) -> Spec:
    return {"initConfiguration": fields}


def join(**fields: object) -> Spec:
    return {"joinConfiguration": fields}


def joined(**fields: object) -> Spec:
    return join(controlPlane={}, **fields)


def named(name: str) -> Spec:
    return {"nodeRegistration": {"name": name}}


def difference(desired: Spec, current: Spec) -> tuple[Difference, ...]:
    return differences(desired, current, V1_30)


EQUAL: dict[str, tuple[Spec, Spec]] = {
    "cluster configuration equal": (cluster(certificatesDir="foo"), cluster(certificatesDir="foo")),
    "cluster configuration equal on a joined machine": (cluster(certificatesDir="foo"), cluster(certificatesDir="foo") | joined()),
    "both empty": (cluster(), cluster()),
    "nothing at all": ({}, {}),
    "endpoint and dns": (cluster(dns={"imageTag": "v1.10.1"}), cluster(controlPlaneEndpoint="1.2.3.4:6443", dns={"imageTag": "v1.9.3"})),
    "dns where there was nothing": (cluster(dns={"imageTag": "v1.10.1"}), joined()),
    "init configuration equal once it is rewritten as join": (
        join(
            timeouts={"controlPlaneComponentHealthCheckSeconds": 5, "kubernetesAPICallSeconds": 7},
            patches={"directory": "/test/patches"},
            skipPhases=["skip-phase"],
            nodeRegistration={"name": "name", "kubeletExtraArgs": [{"name": "v", "value": "8"}]},
            controlPlane={"localAPIEndpoint": {"advertiseAddress": "1.2.3.4", "bindPort": 6443}},
            caCertPath="/tmp/cacert",
        ),
        init(
            timeouts={"controlPlaneComponentHealthCheckSeconds": 1, "kubernetesAPICallSeconds": 7},
            patches={"directory": "/test/patches"},
            skipPhases=["skip-phase"],
            nodeRegistration={"name": "name", "kubeletExtraArgs": [{"name": "v", "value": "8"}]},
            localAPIEndpoint={"advertiseAddress": "1.2.3.4", "bindPort": 6443},
        ),
    ),
    "join differs but init is equal": (init(**named("name")) | join(**named("different")), init(**named("name"))),
    "init differs but join is equal": (init(**named("different")) | join(**named("name")), init(**named("name"))),
    "bootstrap tokens are for init only": (
        join(**named("name")),
        init(**named("name"), bootstrapTokens=[{"token": "abcdef.0123456789abcdef"}]),
    ),
    "timeouts that conversion left on an init machine": (
        init(**named("a")),
        init(**named("a")) | join(timeouts={"controlPlaneComponentHealthCheckSeconds": 7}),
    ),
    "join configuration equal": (join(**named("name")), joined(**named("name"))),
    "init configuration is nothing to a joined machine": (init(**named("first")) | join(**named("name")), joined(**named("name"))),
    "discovery and timeout": (
        join(**named("name"), timeouts={"controlPlaneComponentHealthCheckSeconds": 9}),
        joined(**named("name"), discovery={"bootstrapToken": {"token": "aaa", "caCertHashes": ["sha256:b"]}}),
    ),
    "an empty control plane": (join(**named("name"), controlPlane={}), joined(**named("name"))),
    "former defaults on the machine": (
        join(**named("name")),
        joined(nodeRegistration={"name": "name", "imagePullPolicy": "IfNotPresent"}) | {"format": "cloud-config"},
    ),
    "former defaults on the control plane": (
        join(nodeRegistration={"imagePullPolicy": "IfNotPresent"}) | {"format": "cloud-config"},
        joined(),
    ),
    "a former default of init": (init(**named("a")), init(nodeRegistration={"name": "a", "imagePullPolicy": "IfNotPresent"})),
    "an expiry written in another zone": (
        init(**named("a"), bootstrapTokens=[{"expires": "2026-01-01T02:00:00.5+02:00"}]) | join(**named("b")),
        init(**named("a"), bootstrapTokens=[{"expires": "2026-01-01T00:00:00Z"}]),
    ),
    "a zero that cannot be told from absent": (join(controlPlane={"localAPIEndpoint": {"bindPort": 0}}), joined()),
}

OMITTABLE: list[Spec] = [
    cluster(featureGates={}),
    cluster(etcd={"local": {"extraArgs": [], "extraEnvs": [], "serverCertSANs": [], "peerCertSANs": []}}),
    cluster(etcd={"local": {"dataDir": "", "imageTag": ""}, "external": {}}),
    cluster(apiServer={"extraArgs": [], "extraVolumes": [], "extraEnvs": [], "certSANs": []}),
    cluster(controllerManager={"extraArgs": [], "extraVolumes": [], "extraEnvs": []}),
    cluster(scheduler={"extraArgs": [], "extraVolumes": [], "extraEnvs": []}),
    join(nodeRegistration={"kubeletExtraArgs": [], "ignorePreflightErrors": []}, skipPhases=[], patches={}, timeouts={}),
    {"files": [], "mounts": [], "bootCommands": [], "preKubeadmCommands": [], "postKubeadmCommands": [], "users": []},
    {"diskSetup": {"filesystems": [], "partitions": []}, "ntp": {"servers": []}, "ignition": {"containerLinuxConfig": {}}},
    {"files": None, "clusterConfiguration": None, "verbosity": None},
]

# What a control plane asks for, what the machine has, and which field says so.
DIFFERENT: dict[str, tuple[Spec, Spec, str]] = {
    "cluster configuration": (cluster(certificatesDir="foo"), cluster(certificatesDir="bar"), "clusterConfiguration.certificatesDir"),
    "init and join both": (
        init(**named("new")) | join(**named("new")),
        init(**named("old")),
        "initConfiguration.nodeRegistration.name",
    ),
    "join gone from the control plane, init never there": (
        join(**named("name")),
        init(**named("other")),
        "initConfiguration.nodeRegistration.name",
    ),
    "the machine's own endpoint": (
        join(**named("name")),
        join(**named("name"), controlPlane={"localAPIEndpoint": {"advertiseAddress": "1.2.3.4"}}),
        "joinConfiguration.controlPlane.localAPIEndpoint.advertiseAddress",
    ),
    "join configuration": (join(**named("new")), joined(**named("old")), "joinConfiguration.nodeRegistration.name"),
    "join configuration not set any more": ({}, joined(**named("old")), "joinConfiguration.nodeRegistration.name"),
    "caCertPath of a joined machine": (join(caCertPath="/a"), joined(), "joinConfiguration.caCertPath"),
    "another timeout": (join(timeouts={"discoverySeconds": 0}), joined(), "joinConfiguration.timeouts.discoverySeconds"),
    "no taints are not the default taint": (join(nodeRegistration={"taints": []}), joined(), "joinConfiguration.nodeRegistration.taints"),
    "the default taint is not no taints": ({}, joined(nodeRegistration={"taints": []}), "joinConfiguration.nodeRegistration.taints"),
    "the default taint is not no taints at init": (
        init(**named("a")),
        init(nodeRegistration={"name": "a", "taints": []}),
        "initConfiguration.nodeRegistration.taints",
    ),
    "an argument without a value": (
        cluster(apiServer={"extraArgs": [{"name": "a", "value": ""}]}),
        joined() | cluster(apiServer={"extraArgs": [{"name": "a"}]}),
        "clusterConfiguration.apiServer.extraArgs[0].value",
    ),
    "the order of arguments": (
        join(nodeRegistration={"kubeletExtraArgs": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}),
        joined(nodeRegistration={"kubeletExtraArgs": [{"name": "a", "value": "1"}, {"name": "a", "value": "3"}]}),
        "joinConfiguration.nodeRegistration.kubeletExtraArgs[1].value",
    ),
    "one more element": ({"files": [{"path": "/a"}, {"path": "/b"}]}, {"files": [{"path": "/a"}]} | joined(), "files"),
    "an element of a list": ({"files": [{"path": "/a", "append": False}]}, {"files": [{"path": "/a"}]} | joined(), "files[0].append"),
    "a feature gate switched": (
        cluster(featureGates={"A": False}),
        joined() | cluster(featureGates={"A": True}),
        "clusterConfiguration.featureGates.A",
    ),
    "a feature gate switched off where there was none": (
        cluster(featureGates={"A": False}),
        joined(),
        "clusterConfiguration.featureGates.A",
    ),
    "a taint added at another time": (
        join(nodeRegistration={"taints": [{"key": "k", "timeAdded": "2026-01-01T00:00:01Z"}]}),
        joined(nodeRegistration={"taints": [{"key": "k", "timeAdded": "2026-01-01T00:00:00Z"}]}),
        "joinConfiguration.nodeRegistration.taints[0].timeAdded",
    ),
    "another format": ({"format": "ignition"}, joined(), "format"),
    "another pull policy": (
        join(nodeRegistration={"imagePullPolicy": "Always"}),
        joined(nodeRegistration={}),
        "joinConfiguration.nodeRegistration.imagePullPolicy",
    ),
    "verbosity zero is not absent": ({"verbosity": 0}, joined(), "verbosity"),
    "an init configuration on a joined machine": ({}, joined() | init(**named("a")), "initConfiguration.nodeRegistration.name"),
    "a join configuration on an init machine": (
        init(**named("a")),
        init(**named("a")) | join(timeouts={"discoverySeconds": 7}),
        "joinConfiguration.timeouts.discoverySeconds",
    ),
    "disk setup": ({"diskSetup": {"partitions": [{"layout": False}]}}, joined(), "diskSetup.partitions"),
}


@pytest.mark.parametrize("case", EQUAL)
def test_the_machine_is_kept(case: str) -> None:
    assert difference(*EQUAL[case]) == ()


@pytest.mark.parametrize("omitted", OMITTABLE, ids=".".join)
def test_empty_is_absent_on_either_side(omitted: Spec) -> None:
    assert difference(omitted, {}) == ()
    assert difference({}, omitted) == ()
    assert difference(omitted, joined()) == ()
    assert difference({}, machine_config(omitted, version=V1_30, init=False)) == ()


def test_empty_lists_within_elements_are_absent_too() -> None:
    full = {
        "initConfiguration": {"bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "usages": [], "groups": []}], "skipPhases": []},
        "users": [{"name": "jane", "sshAuthorizedKeys": [], "gecos": ""}],
        "diskSetup": {"filesystems": [{"device": "/dev/vda", "extraOpts": []}]},
        "joinConfiguration": {"skipPhases": ["a"]},
    }
    bare = {
        "initConfiguration": {"bootstrapTokens": [{"token": "abcdef.0123456789abcdef"}]},
        "users": [{"name": "jane"}],
        "diskSetup": {"filesystems": [{"device": "/dev/vda"}]},
    }
    assert difference(full, bare) == ()


@pytest.mark.parametrize("case", DIFFERENT)
def test_the_machine_is_out_of_date_and_the_field_is_named(case: str) -> None:
    desired, current, path = DIFFERENT[case]
    assert [found.path for found in difference(desired, current)] == [path]


def test_the_feature_gate_we_add_is_no_difference_and_its_lack_is() -> None:
    gate = cluster(featureGates={"ControlPlaneKubeletLocalMode": True})
    assert differences(cluster(), gate, Version.parse("v1.31.0")) == ()
    missing = differences(cluster(), joined(), Version.parse("v1.31.0"))
    assert [str(found) for found in missing] == ["clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode: nothing instead of True"]
    surplus = differences(cluster(), joined() | gate, Version.parse("v1.36.0"))
    assert [str(found) for found in surplus] == ["clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode: True instead of nothing"]


def test_differences_come_in_the_order_of_their_names() -> None:
    desired = {"verbosity": 3, "files": [{"path": "/a"}], "clusterConfiguration": {"imageRepository": "r", "certificatesDir": "c"}}
    paths = [found.path for found in difference(desired, joined())]
    assert paths == ["clusterConfiguration.certificatesDir", "clusterConfiguration.imageRepository", "files", "verbosity"]


@pytest.mark.parametrize(
    ("desired", "current", "text"),
    [
        (cluster(certificatesDir="foo"), cluster(certificatesDir="bar"), "clusterConfiguration.certificatesDir: 'bar' instead of 'foo'"),
        ({"files": [{"path": "/a", "content": "hunter2"}]}, {"files": [{"path": "/a", "content": "x"}]}, "files[0].content: differs"),
        ({"users": [{"name": "a", "passwd": "hunter2"}]}, {"users": [{"name": "a"}]}, "users[0].passwd: is not set"),
        ({}, {"preKubeadmCommands": ["echo hunter2"]}, "preKubeadmCommands: is set but not wanted"),
    ],
)
def test_a_difference_tells_plain_values_and_hides_what_may_be_secret(desired: Spec, current: Spec, text: str) -> None:
    (found,) = difference(desired, current)
    assert str(found) == text
    assert "hunter2" not in repr(found)


scalars = st.sampled_from(["", "a", "b"])
argument_lists = st.lists(st.fixed_dictionaries({"name": scalars, "value": scalars}), max_size=2)
registrations = st.fixed_dictionaries(
    {},
    optional={
        "name": scalars,
        "kubeletExtraArgs": argument_lists,
        "taints": st.lists(st.just({"key": "k"}), max_size=1),
        "imagePullPolicy": scalars,
    },
)
timeouts = st.fixed_dictionaries(
    {}, optional={"discoverySeconds": st.integers(0, 1), "controlPlaneComponentHealthCheckSeconds": st.integers(0, 9)}
)
configurations = {"nodeRegistration": registrations, "timeouts": timeouts, "skipPhases": st.lists(scalars, max_size=2)}
specs = st.fixed_dictionaries(
    {},
    optional={
        "clusterConfiguration": st.fixed_dictionaries(
            {},
            optional={
                "certificatesDir": scalars,
                "controlPlaneEndpoint": scalars,
                "dns": st.fixed_dictionaries({}, optional={"imageTag": scalars}),
                "featureGates": st.dictionaries(scalars, st.booleans(), max_size=2),
                "apiServer": st.fixed_dictionaries({}, optional={"extraArgs": argument_lists}),
            },
        ),
        "initConfiguration": st.fixed_dictionaries({}, optional=configurations),
        "joinConfiguration": st.fixed_dictionaries(
            {}, optional={**configurations, "caCertPath": scalars, "discovery": st.just({"tlsBootstrapToken": "t"})}
        ),
        "files": st.lists(st.fixed_dictionaries({"path": scalars}), max_size=2),
        "format": st.sampled_from(["", "cloud-config", "ignition"]),
        "verbosity": st.integers(0, 1),
    },
)
versions = st.sampled_from(["v1.30.4", "v1.31.0-rc.0", "v1.34.2", "v1.36.0"]).map(Version.parse)


@given(specs, versions, st.booleans())
def test_a_machine_just_made_is_up_to_date(spec: Spec, version: Version, first: bool) -> None:
    assert differences(spec, machine_config(spec, version=version, init=first), version) == ()


@given(specs, specs, versions, st.booleans())
def test_neither_spec_is_touched_and_the_answer_is_always_the_same(spec: Spec, other: Spec, version: Version, first: bool) -> None:
    current = machine_config(other, version=version, init=first)
    before = copy.deepcopy((spec, current))
    assert differences(spec, current, version) == differences(spec, current, version)
    assert (spec, current) == before


@given(specs, specs, versions)
def test_for_joined_machines_difference_goes_both_ways(one: Spec, other: Spec, version: Version) -> None:
    there = differences(one, machine_config(other, version=version, init=False), version)
    back = differences(other, machine_config(one, version=version, init=False), version)
    assert [(found.path, found.current, found.desired) for found in there] == [(found.path, found.desired, found.current) for found in back]
