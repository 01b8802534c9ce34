"""KubeadmConfigSpecs between v1beta1 and v1beta2, rule by rule; in control planes and in templates alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clusterapi.conversion.both import (
    CONTROL_PLANE,
    TEMPLATE,
    Object,
    back,
    config_again,
    config_down,
    config_up,
    down,
    in_spec,
    of_spec,
)

NODE: Object = {"nodeRegistration": {}}
INIT: Object = NODE | {"localAPIEndpoint": {}}
JOIN: Object = NODE | {"discovery": {}}
CLUSTER: Object = {"etcd": {}, "networking": {}, "apiServer": {}, "controllerManager": {}, "scheduler": {}, "dns": {}}

# (what it is about, v1beta1, v1beta2): as it stands here, each is what the other becomes.
BOTH_WAYS: list[tuple[str, Object, Object]] = [
    ("nothing", {}, {}),
    (
        "what stays",
        {
            "mounts": [["a", "b"], []],
            "bootCommands": ["boot"],
            "preKubeadmCommands": ["before"],
            "postKubeadmCommands": ["after"],
            "format": "ignition",
            "verbosity": 0,
            "ntp": {"servers": ["one"], "enabled": False},
            "ignition": {"containerLinuxConfig": {"additionalConfig": "x"}},
        },
        {
            "mounts": [["a", "b"], []],
            "bootCommands": ["boot"],
            "preKubeadmCommands": ["before"],
            "postKubeadmCommands": ["after"],
            "format": "ignition",
            "verbosity": 0,
            "ntp": {"servers": ["one"], "enabled": False},
            "ignition": {"containerLinuxConfig": {"additionalConfig": "x"}},
        },
    ),
    (
        "arguments and environments",
        {
            "clusterConfiguration": CLUSTER
            | {
                "apiServer": {"extraArgs": {"b": "2", "a": ""}, "extraEnvs": [{"name": "E", "value": "x"}], "certSANs": ["san"]},
                "scheduler": {"extraEnvs": [{"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "cpu", "divisor": "1"}}}]},
            }
        },
        {
            "clusterConfiguration": {
                "apiServer": {
                    "extraArgs": [{"name": "a", "value": ""}, {"name": "b", "value": "2"}],
                    "extraEnvs": [{"name": "E", "value": "x"}],
                    "certSANs": ["san"],
                },
                "scheduler": {"extraEnvs": [{"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "cpu", "divisor": "1"}}}]},
            }
        },
    ),
    (
        "etcd on the machines",
        {
            "clusterConfiguration": CLUSTER
            | {"etcd": {"local": {"imageTag": "t", "dataDir": "/d", "extraArgs": {"a": "1"}, "peerCertSANs": ["s"]}}}
        },
        {
            "clusterConfiguration": {
                "etcd": {"local": {"imageTag": "t", "dataDir": "/d", "extraArgs": [{"name": "a", "value": "1"}], "peerCertSANs": ["s"]}}
            }
        },
    ),
    (
        "etcd elsewhere, of which v1beta1 always writes every field",
        {"clusterConfiguration": CLUSTER | {"etcd": {"external": {"endpoints": None, "caFile": "ca", "certFile": "", "keyFile": ""}}}},
        {"clusterConfiguration": {"etcd": {"external": {"caFile": "ca"}}}},
    ),
    (
        "the rest of the cluster",
        {
            "clusterConfiguration": CLUSTER
            | {
                "dns": {"imageTag": "v1"},
                "controlPlaneEndpoint": "c",
                "certificatesDir": "/c",
                "imageRepository": "r",
                "featureGates": {"A": True, "B": False},
                "certificateValidityPeriodDays": 5,
                "caCertificateValidityPeriodDays": 6,
                "encryptionAlgorithm": "RSA-2048",
            }
        },
        {
            "clusterConfiguration": {
                "dns": {"imageTag": "v1"},
                "controlPlaneEndpoint": "c",
                "certificatesDir": "/c",
                "imageRepository": "r",
                "featureGates": {"A": True, "B": False},
                "certificateValidityPeriodDays": 5,
                "caCertificateValidityPeriodDays": 6,
                "encryptionAlgorithm": "RSA-2048",
            }
        },
    ),
    (
        "volumes",
        {
            "clusterConfiguration": CLUSTER
            | {
                "controllerManager": {
                    "extraVolumes": [{"name": "v", "hostPath": "/h", "mountPath": "/m", "readOnly": True, "pathType": "File"}]
                }
            }
        },
        {
            "clusterConfiguration": {
                "controllerManager": {
                    "extraVolumes": [{"name": "v", "hostPath": "/h", "mountPath": "/m", "readOnly": True, "pathType": "File"}]
                }
            }
        },
    ),
    (
        "tokens",
        {
            "initConfiguration": INIT
            | {
                "bootstrapTokens": [
                    {
                        "token": "abcdef.0123456789abcdef",
                        "ttl": "1h0m0s",
                        "expires": "2026-01-01T00:00:00Z",
                        "usages": ["u"],
                        "groups": ["g"],
                    },
                    {"token": None, "description": "d", "ttl": "0s"},
                ]
            }
        },
        {
            "initConfiguration": {
                "bootstrapTokens": [
                    {
                        "token": "abcdef.0123456789abcdef",
                        "ttlSeconds": 3600,
                        "expires": "2026-01-01T00:00:00Z",
                        "usages": ["u"],
                        "groups": ["g"],
                    },
                    {"description": "d", "ttlSeconds": 0},
                ]
            }
        },
    ),
    (
        "a Node's registration",
        {
            "initConfiguration": INIT
            | {
                "nodeRegistration": {
                    "name": "n",
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                    "kubeletExtraArgs": {"v": "2"},
                    "ignorePreflightErrors": ["all"],
                    "imagePullPolicy": "Always",
                    "imagePullSerial": False,
                },
                "localAPIEndpoint": {"bindPort": 6443},
                "skipPhases": ["p"],
                "patches": {"directory": "/p"},
            },
            "joinConfiguration": JOIN | {"nodeRegistration": {"taints": []}},
        },
        {
            "initConfiguration": {
                "nodeRegistration": {
                    "name": "n",
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                    "kubeletExtraArgs": [{"name": "v", "value": "2"}],
                    "ignorePreflightErrors": ["all"],
                    "imagePullPolicy": "Always",
                    "imagePullSerial": False,
                },
                "localAPIEndpoint": {"bindPort": 6443},
                "skipPhases": ["p"],
                "patches": {"directory": "/p"},
            },
            "joinConfiguration": {"nodeRegistration": {"taints": []}},
        },
    ),
    (
        "joining as a control plane, which an object says with nothing in it",
        {"joinConfiguration": JOIN | {"caCertPath": "/ca", "controlPlane": {"localAPIEndpoint": {}}}},
        {"joinConfiguration": {"caCertPath": "/ca", "controlPlane": {}}},
    ),
    (
        "discovery by token",
        {
            "joinConfiguration": JOIN
            | {"discovery": {"bootstrapToken": {"token": "t", "caCertHashes": ["h"], "unsafeSkipCAVerification": True}}}
        },
        {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": "t", "caCertHashes": ["h"], "unsafeSkipCAVerification": True}}}},
    ),
    (
        "discovery by file",
        {
            "joinConfiguration": JOIN
            | {
                "discovery": {
                    "file": {
                        "kubeConfigPath": "/k",
                        "kubeConfig": {
                            "cluster": {"server": "s", "certificateAuthorityData": "aGk=", "insecureSkipTLSVerify": True},
                            "user": {
                                "authProvider": {"name": "", "config": {"a": "b"}},
                                "exec": {"command": "c", "args": ["a"], "env": [{"name": "n", "value": ""}], "provideClusterInfo": True},
                            },
                        },
                    },
                    "tlsBootstrapToken": "t",
                }
            }
        },
        {
            "joinConfiguration": {
                "discovery": {
                    "file": {
                        "kubeConfigPath": "/k",
                        "kubeConfig": {
                            "cluster": {"server": "s", "certificateAuthorityData": "aGk=", "insecureSkipTLSVerify": True},
                            "user": {
                                "authProvider": {"config": {"a": "b"}},
                                "exec": {"command": "c", "args": ["a"], "env": [{"name": "n"}], "provideClusterInfo": True},
                            },
                        },
                    },
                    "tlsBootstrapToken": "t",
                }
            }
        },
    ),
    (
        "files",
        {
            "files": [
                {"path": "/f", "owner": "o", "append": True, "contentFrom": {"secret": {"name": "s", "key": "k"}}},
                {"path": "/g", "content": "c"},
            ]
        },
        {
            "files": [
                {"path": "/f", "owner": "o", "append": True, "contentFrom": {"secret": {"name": "s", "key": "k"}}},
                {"path": "/g", "content": "c"},
            ]
        },
    ),
    (
        "users",
        {
            "users": [
                {
                    "name": "u",
                    "gecos": "g",
                    "sudo": "s",
                    "inactive": False,
                    "passwdFrom": {"secret": {"name": "s", "key": "k"}},
                    "sshAuthorizedKeys": ["k"],
                }
            ]
        },
        {
            "users": [
                {
                    "name": "u",
                    "gecos": "g",
                    "sudo": "s",
                    "inactive": False,
                    "passwdFrom": {"secret": {"name": "s", "key": "k"}},
                    "sshAuthorizedKeys": ["k"],
                }
            ]
        },
    ),
    (
        "disks",
        {
            "diskSetup": {
                "partitions": [{"device": "d", "layout": True, "overwrite": False, "tableType": "gpt"}],
                "filesystems": [{"device": "d", "filesystem": "ext4", "partition": "auto", "replaceFS": "x", "extraOpts": ["-E"]}],
            }
        },
        {
            "diskSetup": {
                "partitions": [{"device": "d", "layout": True, "overwrite": False, "tableType": "gpt"}],
                "filesystems": [{"device": "d", "filesystem": "ext4", "partition": "auto", "replaceFS": "x", "extraOpts": ["-E"]}],
            }
        },
    ),
    (
        "the health check's timeout",
        {"clusterConfiguration": CLUSTER | {"apiServer": {"timeoutForControlPlane": "4m0s"}}},
        {
            "initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 240}},
            "joinConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 240}},
        },
    ),
    (
        "the bootstrap's timeout",
        {"joinConfiguration": JOIN | {"discovery": {"timeout": "5m0s"}}},
        {"joinConfiguration": {"timeouts": {"tlsBootstrapSeconds": 300}}},
    ),
]

CASES = pytest.mark.parametrize(("old", "new"), [case[1:] for case in BOTH_WAYS], ids=[case[0] for case in BOTH_WAYS])
KINDS = pytest.mark.parametrize("kind", [CONTROL_PLANE, TEMPLATE])


@KINDS
@CASES
def test_up(old: Object, new: Object, kind: str) -> None:
    assert config_up(old, kind) == new


@KINDS
@CASES
def test_down(old: Object, new: Object, kind: str) -> None:
    assert config_down(new, kind) == old


@KINDS
@CASES
def test_down_and_up(old: Object, new: Object, kind: str) -> None:
    assert config_again(new, kind) == new, old


UP_ONLY: list[tuple[str, Object, Object]] = [
    (
        "objects with nothing in them vanish",
        {
            "clusterConfiguration": {},
            "initConfiguration": {},
            "joinConfiguration": {},
            "diskSetup": {},
            "ntp": {},
            "ignition": {"containerLinuxConfig": {}},
        },
        {},
    ),
    (
        "what kubeadm's types carry is dropped",
        {"clusterConfiguration": {"apiVersion": "v", "kind": "K"}, "joinConfiguration": {"kind": "K"}},
        {},
    ),
    (
        "what the bootstrap provider takes from elsewhere is dropped",
        {
            "clusterConfiguration": {"networking": {"podSubnet": "p"}, "kubernetesVersion": "v", "clusterName": "n"},
            "useExperimentalRetryJoin": True,
        },
        {},
    ),
    (
        "false says nothing",
        {"files": [{"path": "/f", "append": False}], "ignition": {"containerLinuxConfig": {"strict": False}}},
        {"files": [{"path": "/f"}]},
    ),
    (
        "one that says only what is false vanishes",
        {"joinConfiguration": {"discovery": {"bootstrapToken": {"unsafeSkipCAVerification": False}}}},
        {},
    ),
    (
        "a layout is never absent",
        {"diskSetup": {"partitions": [{"device": "d"}]}},
        {"diskSetup": {"partitions": [{"device": "d", "layout": False}]}},
    ),
    (
        "empty texts are none",
        {"users": [{"name": "u", "gecos": ""}], "diskSetup": {"filesystems": [{"device": "d", "partition": ""}]}},
        {"users": [{"name": "u"}], "diskSetup": {"filesystems": [{"device": "d"}]}},
    ),
    (
        "an empty environment is written",
        {"clusterConfiguration": {"apiServer": {"extraEnvs": []}}},
        {"clusterConfiguration": {"apiServer": {"extraEnvs": []}}},
    ),
    (
        "an empty list is something, and not written",
        {"clusterConfiguration": {"apiServer": {"certSANs": []}}},
        {"clusterConfiguration": {"apiServer": {}}},
    ),
    (
        "an empty map is something, and not written",
        {"clusterConfiguration": {"scheduler": {"extraArgs": {}}}},
        {"clusterConfiguration": {"scheduler": {}}},
    ),
    (
        "a kubeconfig with nothing in it vanishes",
        {"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/k", "kubeConfig": {"user": {"exec": {"command": ""}}}}}}},
        {"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/k"}}}},
    ),
    ("patches without a folder vanish", {"initConfiguration": {"patches": {}}, "joinConfiguration": {"patches": {"directory": ""}}}, {}),
    (
        "a provider with nothing in it vanishes",
        {"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/k", "kubeConfig": {"user": {"authProvider": {"name": ""}}}}}}},
        {"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/k"}}}},
    ),
    (
        "a secret with nothing in it vanishes",
        {
            "files": [{"path": "/f", "contentFrom": {"secret": {"name": "", "key": ""}}}],
            "users": [{"name": "u", "passwdFrom": {"secret": {}}}],
        },
        {"files": [{"path": "/f"}], "users": [{"name": "u"}]},
    ),
    ("no volumes are nothing", {"clusterConfiguration": {"scheduler": {"extraVolumes": []}}}, {}),
    (
        "parts of a second are cut off",
        {"initConfiguration": {"bootstrapTokens": [{"token": None, "ttl": "1.9s"}]}},
        {"initConfiguration": {"bootstrapTokens": [{"ttlSeconds": 1}]}},
    ),
    (
        "of two volumes with one path the first decides",
        {
            "clusterConfiguration": {
                "apiServer": {"extraVolumes": [{"name": "a", "hostPath": "/h", "readOnly": True}, {"name": "b", "hostPath": "/h"}]}
            }
        },
        {
            "clusterConfiguration": {
                "apiServer": {
                    "extraVolumes": [{"name": "a", "hostPath": "/h", "readOnly": True}, {"name": "b", "hostPath": "/h", "readOnly": True}]
                }
            }
        },
    ),
    (
        "both timeouts",
        {"clusterConfiguration": {"apiServer": {"timeoutForControlPlane": "1s"}}, "joinConfiguration": {"discovery": {"timeout": "2s"}}},
        {
            "initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 1}},
            "joinConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 1, "tlsBootstrapSeconds": 2}},
        },
    ),
]


@KINDS
@pytest.mark.parametrize(("old", "new"), [case[1:] for case in UP_ONLY], ids=[case[0] for case in UP_ONLY])
def test_up_without_a_way_back(old: Object, new: Object, kind: str) -> None:
    assert config_up(old, kind) == new


DOWN_ONLY: list[tuple[str, Object, Object]] = [
    (
        "the last of two arguments with one name counts, and none is empty",
        {
            "initConfiguration": {
                "nodeRegistration": {"kubeletExtraArgs": [{"name": "a", "value": "1"}, {"name": "b"}, {"name": "a", "value": "2"}]}
            }
        },
        {"initConfiguration": INIT | {"nodeRegistration": {"kubeletExtraArgs": {"a": "2", "b": ""}}}},
    ),
    (
        "what holds other timeouts only is not there",
        {"initConfiguration": {"timeouts": {"etcdAPICallSeconds": 1}}, "joinConfiguration": {"timeouts": {"discoverySeconds": 1}}},
        {},
    ),
    ("the health check's timeout for joins alone", {"joinConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 1}}}, {}),
    (
        "a kubeconfig's user is always written",
        {"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/k", "kubeConfig": {"cluster": {"server": "s"}}}}}},
        {
            "joinConfiguration": JOIN
            | {"discovery": {"file": {"kubeConfigPath": "/k", "kubeConfig": {"cluster": {"server": "s"}, "user": {}}}}}
        },
    ),
    ("false is false", {"files": [{"path": "/f", "append": False}]}, {"files": [{"path": "/f"}]}),
    (
        "no layout is false",
        {"diskSetup": {"partitions": [{"device": "d", "diskLayout": [{"percentage": 100}]}]}},
        {"diskSetup": {"partitions": [{"device": "d", "layout": False, "diskLayout": [{"percentage": 100}]}]}},
    ),
    (
        "the divisor is always written",
        {"clusterConfiguration": {"apiServer": {"extraEnvs": [{"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}]}}},
        {
            "clusterConfiguration": CLUSTER
            | {"apiServer": {"extraEnvs": [{"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "cpu", "divisor": "0"}}}]}}
        },
    ),
]


@KINDS
@pytest.mark.parametrize(("new", "old"), [case[1:] for case in DOWN_ONLY], ids=[case[0] for case in DOWN_ONLY])
def test_down_without_a_way_back(new: Object, old: Object, kind: str) -> None:
    assert config_down(new, kind) == old


LAST = [{"last": 1}]  # an unknown field: an object with nothing in it


@KINDS
def test_what_v1beta1_always_writes(kind: str) -> None:
    sources = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
    environment: list[Object] = [{"valueFrom": {source: {}}} for source in sources]
    config = {
        "clusterConfiguration": {"scheduler": {"extraVolumes": LAST, "extraEnvs": environment}},
        "initConfiguration": {"nodeRegistration": {"taints": LAST}},
        "joinConfiguration": {
            "discovery": {"file": {"kubeConfig": {"user": {"exec": {"args": ["a"], "env": LAST}, "authProvider": {"config": {"a": "b"}}}}}}
        },
        "files": [{"contentFrom": {"secret": {"name": "s"}}}],
        "users": [{"passwdFrom": {"secret": {"key": "k"}}}],
        "diskSetup": {"partitions": LAST, "filesystems": LAST},
    }
    user = {"exec": {"command": "", "args": ["a"], "env": [{"name": "", "value": ""}]}, "authProvider": {"name": "", "config": {"a": "b"}}}
    filled = [
        {"fieldPath": ""},
        {"resource": "", "divisor": "0"},
        {"key": ""},
        {"key": ""},
        {"volumeName": "", "path": "", "key": ""},
    ]
    assert config_down(config, kind) == {
        "clusterConfiguration": CLUSTER
        | {
            "scheduler": {
                "extraVolumes": [{"name": "", "hostPath": "", "mountPath": ""}],
                "extraEnvs": [{"name": "", "valueFrom": {source: fields}} for source, fields in zip(sources, filled, strict=True)],
            }
        },
        "initConfiguration": INIT | {"nodeRegistration": {"taints": [{"key": "", "effect": ""}]}},
        "joinConfiguration": JOIN | {"discovery": {"file": {"kubeConfigPath": "", "kubeConfig": {"user": user}}}},
        "files": [{"path": "", "contentFrom": {"secret": {"name": "s", "key": ""}}}],
        "users": [{"name": "", "passwdFrom": {"secret": {"name": "", "key": "k"}}}],
        "diskSetup": {"partitions": [{"device": "", "layout": False}], "filesystems": [{"device": "", "filesystem": ""}]},
    }


@pytest.mark.parametrize(
    "config",
    [
        *({"clusterConfiguration": {name: 5}} for name in ("apiVersion", "kind", "networking", "kubernetesVersion", "clusterName")),
        *({"clusterConfiguration": {"networking": {name: 5}}} for name in ("serviceSubnet", "podSubnet", "dnsDomain")),
        *({part: {name: 5}} for part in ("initConfiguration", "joinConfiguration") for name in ("apiVersion", "kind")),
        {"useExperimentalRetryJoin": "yes"},
    ],
    ids=str,
)
def test_what_is_dropped_has_to_be_of_its_type_all_the_same(config: Object) -> None:
    with pytest.raises(ValueError, match="is not"):
        config_up(config)


VOLUME: Object = {"name": "v", "hostPath": "/h", "mountPath": "/m", "readOnly": False}

FALSE_ON_PURPOSE: list[tuple[str, Object]] = [
    ("files", {"files": [{"path": "/f", "append": False}, {"path": "/g"}]}),
    *(
        (component, {"clusterConfiguration": {component: {"extraVolumes": [VOLUME]}}})
        for component in ("apiServer", "controllerManager", "scheduler")
    ),
    ("ignition", {"ignition": {"containerLinuxConfig": {"strict": False}}}),
    ("discovery by token", {"joinConfiguration": {"discovery": {"bootstrapToken": {"unsafeSkipCAVerification": False}}}}),
    (
        "a kubeconfig's cluster",
        {
            "joinConfiguration": {
                "discovery": {"file": {"kubeConfigPath": "/k", "kubeConfig": {"cluster": {"insecureSkipTLSVerify": False}}}}
            }
        },
    ),
    (
        "a kubeconfig's user",
        {
            "joinConfiguration": {
                "discovery": {
                    "file": {"kubeConfigPath": "/k", "kubeConfig": {"user": {"exec": {"command": "c", "provideClusterInfo": False}}}}
                }
            }
        },
    ),
]


@KINDS
@pytest.mark.parametrize("config", [case[1] for case in FALSE_ON_PURPOSE], ids=[case[0] for case in FALSE_ON_PURPOSE])
def test_what_was_false_on_purpose_is_so_again(config: Object, kind: str) -> None:
    assert config_again(config, kind) == config


TIMEOUTS = {
    "controlPlaneComponentHealthCheckSeconds": 1,
    "kubeletHealthCheckSeconds": 2,
    "kubernetesAPICallSeconds": 3,
    "etcdAPICallSeconds": 4,
    "tlsBootstrapSeconds": 5,
    "discoverySeconds": 0,
}


@KINDS
def test_all_timeouts_come_back(kind: str) -> None:
    config = {"initConfiguration": {"timeouts": TIMEOUTS}, "joinConfiguration": {"timeouts": TIMEOUTS}}
    assert config_again(config, kind) == config


def edited(config: Object, edit: Object) -> Object:
    """A KubeadmConfigSpec of v1beta2 that comes down, is replaced by one of v1beta1, and goes up."""
    lowered = down(**in_spec(CONTROL_PLANE, {"kubeadmConfigSpec": config}))
    lowered["spec"]["kubeadmConfigSpec"] = edit
    return of_spec(back(lowered)).get("kubeadmConfigSpec", {})  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("config", "edit", "result"),
    [
        (
            {"initConfiguration": {"timeouts": TIMEOUTS}},
            {"clusterConfiguration": {"apiServer": {"timeoutForControlPlane": "9s"}}},
            {
                "initConfiguration": {"timeouts": TIMEOUTS | {"controlPlaneComponentHealthCheckSeconds": 9}},
                "joinConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 9}},
            },
        ),
        # a timeout that is cleared in v1beta1 stays
        (
            {"initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 1}}},
            {},
            {"initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 1}}},
        ),
        # the bootstrap's timeout alone takes the health check's from joins
        (
            {"joinConfiguration": {"timeouts": TIMEOUTS}},
            {"joinConfiguration": {"discovery": {"timeout": "7s"}}},
            {
                "joinConfiguration": {
                    "timeouts": {name: value for name, value in TIMEOUTS.items() if "Component" not in name} | {"tlsBootstrapSeconds": 7}
                }
            },
        ),
        # true in v1beta1 goes before false on purpose, and a file of another path was not kept
        (
            {"files": [{"path": "/f", "append": False}, {"path": "/g", "append": False}]},
            {"files": [{"path": "/f", "append": True}, {"path": "/g"}, {"path": "/h"}]},
            {"files": [{"path": "/f", "append": True}, {"path": "/g", "append": False}, {"path": "/h"}]},
        ),
    ],
)
def test_an_edit_in_v1beta1_meets_what_was_kept(config: Object, edit: Object, result: Object) -> None:
    assert edited(config, edit) == result


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"clusterConfiguration": {"apiServer": {"timeoutForControlPlane": "soon"}}}, "timeoutForControlPlane"),
        ({"initConfiguration": {"bootstrapTokens": [{"token": "x"}]}}, "token"),
        ({"verbosity": 2**40}, "verbosity"),
        ({"files": {}}, "files"),
    ],
)
def test_what_v1beta1_cannot_hold_is_refused_by_name(config: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        config_up(config)
