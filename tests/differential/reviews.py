"""Admission reviews: what is asked to be created, changed and scaled. Made at random, and from the cases that upstream's own tests of its webhooks try.

Objects at random are wrong in a dozen ways each, so most reviews are of an object that is right but for a few fields of a random one.

Source of the cases: cluster-api, controlplane/kubeadm/webhooks/admission/*_test.go and bootstrap/kubeadm/webhooks/admission/kubeadmconfig_test.go.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.differential.objects import GROUP, KINDS, Maker, Object

CONTROL_PLANE, TEMPLATE = KINDS
STACKED, EXTERNAL = "stacked", "external"  # control planes that are there to be scaled
NAMESPACE = "reviews"

_VERSIONS = (
    *("v1.34.4",) * 6,
    "v1.35.0",
    "v1.36.1",
    "v1.33.0-rc.1",
    "v1.34.4+build.1",
    "1.34.4",
    "v1",
    "v1.30",
    "vv1.16.6",
    "v1.16.6",
    "v01.2.3",
    "v2.0.0",
)
_TAGS = (
    *("v1.12.1", "v1.11.3", "1.6.5", "1.6.7", "v1.6.6_foobar.1", "v1.6.6_foobar.2", "v9.1.1", "v9.1.1_validBuild1", "v99.99.99", "1.12"),
    *("v0.20.0+invalidBuild1", "1-7", "latest", "v1", "01.6.5", "1.6.5-01", "1.6-a", "v1.12.1-eksbuild.1", "3.6.5-0", "a b"),
)
_NAMES = (
    *("{{ .random }}", "{{ .kubeadmControlPlane.name }}-{{ .random }}", "{{ .cluster.name }}-{{ .random }}", "a-{{ .random }}-b"),
    *("{{ .kubeadmControlPlane.name }}", "{{ .random }", "{{ .nothing }}-{{ .random }}", "A-{{ .random }}", "-{{ .random }}"),
    *("{{.random}}", "{{- .random }}{{ .random }}", f"{'a' * 80}-{{{{ .random }}}}", "{{ .random }}."),
)
_TAINTS = (
    *("a", "example.com/a", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node.kubernetes.io/out-of-service"),
    *("node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/x", "node.cluster.x-k8s.io/uninitialized"),
    *("node.cluster.x-k8s.io/outdated-revision", "node.cluster.x-k8s.io/other", "a b", "/a", "A.com/b", "-a", f"{'a' * 64}"),
)
_VALUES: Mapping[str, tuple[Any, ...]] = {
    "version": _VERSIONS,
    "imageTag": _TAGS,
    "template": _NAMES,
    "key": _TAINTS,
    "replicas": (1, 3, 3, 3, 5, 7, 2, 4, 0, -1),
    "maxSurge": (1, 1, 0, "1", "0", "50%", 2, "abc", "+1", "01", -1, ""),
    "certificateValidityPeriodDays": (7, 90, 365, 1095),
    "caCertificateValidityPeriodDays": (8, 365, 3650, 36500),
    "certificatesExpiryDays": (7, 89, 90, 364, 365, 400),
    "controlPlaneComponentHealthCheckSeconds": (0, 10, 10, 10, 240),
    "percentage": (1, 40, 60, 100),
    "encoding": ("base64", "gzip", "gzip+base64"),
    "format": ("cloud-config", "ignition"),
    "tableType": ("gpt", "mbr"),
    "after": ("2026-01-02T03:04:05Z", "1999-12-31T23:59:59Z"),
}
"""Values of fields that mean something to the webhooks, right ones and wrong ones."""

_BAD_LABELS = {"foo": "$invalid-key", "bar": f"{'a' * 64}too-long-value", "/invalid-key": "foo"}
_FILE, _USER = {"path": "/a", "content": "a"}, {"name": "a", "passwd": "b"}
_SECRET = {"secret": {"name": "a", "key": "b"}}
_ETCD = {"endpoints": ["127.0.0.1"], "caFile": "/a", "certFile": "/b", "keyFile": "/c"}
_LOCAL = "kubeadmConfigSpec.clusterConfiguration.etcd.local"
_DNS = "kubeadmConfigSpec.clusterConfiguration.dns"
_CLUSTER = "kubeadmConfigSpec.clusterConfiguration"
_INIT, _JOIN = "kubeadmConfigSpec.initConfiguration", "kubeadmConfigSpec.joinConfiguration"
_SURGE = "rollout.strategy.rollingUpdate.maxSurge"

CASES: tuple[Mapping[str, Any], ...] = (
    {},
    {"replicas": None},
    {"replicas": 0},
    {"replicas": 2},
    {"replicas": 5, "version": "v1.34.9"},
    {"replicas": 2, f"{_CLUSTER}.etcd.external": {"endpoints": ["1.2.3.4"]}},
    {"replicas": 2, f"{_CLUSTER}.etcd.local": None, f"{_CLUSTER}.etcd.external": _ETCD},
    *(
        {"version": version}
        for version in ("v1.16.6", "vv1.16.6", "1.16.6", "v1", "v1.19.0", "v1.36.0", "v1.35.0", "v1.33.0", "v2.34.0", "")
    ),
    *({f"{_DNS}.imageTag": tag} for tag in ("1-7", *_TAGS)),
    {f"{_DNS}.imageTag": ""},
    {_DNS: None},
    {f"{_DNS}.imageRepository": "gcr.io/capi-test", f"{_DNS}.imageTag": "v1.12.1"},
    {"rollout.strategy.rollingUpdate.maxSurge": 3},
    {_SURGE: "1"},
    {_SURGE: 0},
    {_SURGE: 0, "replicas": 1},
    {_SURGE: None},
    {"rollout": None},
    {"rollout.before": None},
    {"rollout.before.certificatesExpiryDays": 8, f"{_CLUSTER}.certificateValidityPeriodDays": 7},
    {"rollout.before.certificatesExpiryDays": 7, f"{_CLUSTER}.certificateValidityPeriodDays": 8},
    {f"{_CLUSTER}.certificateValidityPeriodDays": 350, f"{_CLUSTER}.caCertificateValidityPeriodDays": 300},
    {f"{_CLUSTER}.certificateValidityPeriodDays": 3651},
    {f"{_CLUSTER}.caCertificateValidityPeriodDays": 3000},
    {f"{_CLUSTER}.encryptionAlgorithm": "RSA-4096"},
    {"kubeadmConfigSpec.ignition.containerLinuxConfig.additionalConfig": "config"},
    {"kubeadmConfigSpec.format": "ignition", "kubeadmConfigSpec.ignition": {}},
    {"kubeadmConfigSpec.format": "ignition", "kubeadmConfigSpec.ignition.containerLinuxConfig.strict": True},
    {"kubeadmConfigSpec.format": "ignition", "kubeadmConfigSpec.users": [{**_USER, "inactive": True}]},
    {
        "kubeadmConfigSpec.format": "ignition",
        "kubeadmConfigSpec.diskSetup.partitions": [{"device": "a", "layout": True, "tableType": "MS-DOS"}],
    },
    {
        "kubeadmConfigSpec.format": "ignition",
        "kubeadmConfigSpec.diskSetup.filesystems": [{"device": "a", "filesystem": "b", "replaceFS": "c"}],
    },
    {
        "kubeadmConfigSpec.format": "ignition",
        "kubeadmConfigSpec.diskSetup.filesystems": [{"device": "a", "filesystem": "b", "partition": "c"}],
    },
    *({"kubeadmConfigSpec.format": "ignition", "kubeadmConfigSpec.files": [{**_FILE, "encoding": each}]} for each in _VALUES["encoding"]),
    *({"kubeadmConfigSpec.format": each, "kubeadmConfigSpec.bootCommands": ["a"]} for each in _VALUES["format"]),
    {"kubeadmConfigSpec.files": [_FILE]},
    {"kubeadmConfigSpec.files": [{"path": "/a", "contentFrom": _SECRET}]},
    {"kubeadmConfigSpec.files": [{**_FILE, "contentFrom": _SECRET}]},
    {"kubeadmConfigSpec.files": [{"path": "/a", "contentFrom": {"secret": {"key": "b"}}}]},
    {"kubeadmConfigSpec.files": [{"path": "/a", "contentFrom": {"secret": {"name": "b"}}}]},
    {"kubeadmConfigSpec.files": [_FILE, _FILE]},
    {"kubeadmConfigSpec.files": [{**_FILE, "contentFormat": "Template"}]},
    {"kubeadmConfigSpec.users": [_USER]},
    {"kubeadmConfigSpec.users": [{"name": "a", "passwdFrom": _SECRET}]},
    {"kubeadmConfigSpec.users": [{**_USER, "passwdFrom": _SECRET}]},
    {"kubeadmConfigSpec.users": [{"name": "a", "passwdFrom": {"secret": {"key": "b"}}}]},
    {"kubeadmConfigSpec.users": [{"name": "a", "passwdFrom": {"secret": {"name": "b"}}}]},
    *(
        {"kubeadmConfigSpec.diskSetup.partitions": [{"device": "a", "diskLayout": [{"percentage": each} for each in layout]}]}
        for layout in ((60, 40), (60, 41), (20,))
    ),
    {"machineTemplate.metadata.labels": _BAD_LABELS, "machineTemplate.metadata.annotations": {"/invalid-key": "foo"}},
    {"machineTemplate.metadata.labels": {"a": "b"}},
    {"machineTemplate.spec.infrastructureRef.name": "another"},
    *({f"machineTemplate.spec.infrastructureRef.{part}": ""} for part in ("apiGroup", "kind", "name")),
    *({"machineTemplate.spec.taints": [{"key": key, "effect": "NoSchedule", "propagation": "Always"}]} for key in _TAINTS),
    *({"machineNaming.template": template} for template in _NAMES),
    {f"{_INIT}.timeouts.controlPlaneComponentHealthCheckSeconds": 10},
    {f"{_JOIN}.timeouts.controlPlaneComponentHealthCheckSeconds": 10},
    {f"{_INIT}.timeouts.controlPlaneComponentHealthCheckSeconds": 10, f"{_JOIN}.timeouts.controlPlaneComponentHealthCheckSeconds": 10},
    {f"{_INIT}.timeouts": None, f"{_JOIN}.timeouts": None},
    {f"{_INIT}.nodeRegistration.name": "a"},
    {f"{_JOIN}.nodeRegistration.name": "a"},
    {f"{_CLUSTER}.controlPlaneEndpoint": "some failure"},
    {f"{_CLUSTER}.apiServer.extraArgs": [{"name": "foo", "value": "bar"}]},
    {f"{_CLUSTER}.controllerManager.extraArgs": [{"name": "foo", "value": "bar"}]},
    {f"{_CLUSTER}.scheduler.extraArgs": [{"name": "foo", "value": "bar"}]},
    {f"{_CLUSTER}.certificatesDir": "a certificates directory"},
    {f"{_CLUSTER}.imageRepository": "an image repository"},
    {f"{_CLUSTER}.featureGates": {"my feature gate": True}},
    *(
        {f"{_LOCAL}.{name}": value}
        for name, value in (("dataDir", "a"), ("peerCertSANs", ["a"]), ("imageTag", "v9.1.1"), ("imageTag", "v9.1.1+b"))
    ),
    {_LOCAL: None},
    {f"{_CLUSTER}.etcd.external": _ETCD},
    {f"{_LOCAL}.imageTag": "v1", f"{_CLUSTER}.etcd.external": _ETCD},
    {_CLUSTER: None},
    {_INIT: None},
    {_JOIN: None},
    {"kubeadmConfigSpec": None},
    {"kubeadmConfigSpec.ntp.servers": ["a"]},
    {"kubeadmConfigSpec.ntp.enabled": False},
    {f"{_INIT}.patches.directory": "/a"},
    {f"{_JOIN}.patches": None},
    {f"{_INIT}.skipPhases": ["a"]},
    {f"{_JOIN}.skipPhases": ["a"]},
    {f"{_JOIN}.controlPlane": {}},
    {"kubeadmConfigSpec.diskSetup.filesystems": [{"device": "a", "filesystem": "b"}]},
    {"remediation": {"maxRetry": 2}},
    {
        f"{_JOIN}.discovery.file": {
            "kubeConfigPath": "/a",
            "kubeConfig": {"user": {"exec": {"command": "a"}, "authProvider": {"name": "b"}}},
        }
    },
)
"""Parts of a specification that are changed, each by its path; None takes it away."""


def changed(obj: Object, changes: Mapping[str, Any]) -> Object:
    """An object with parts of its specification changed; of a template, of that which it has in it."""
    result = copy.deepcopy(obj)
    spec = _spec_of(result)
    for path, value in changes.items():
        *way, last = path.split(".")
        target = spec
        for part in way:
            target = target.setdefault(part, {})
        if value is None:
            target.pop(last, None)
        else:
            target[last] = copy.deepcopy(value)
    return result


def _spec_of(obj: Object) -> Object:
    """What a control plane is to be like; empty where a template says nothing of it."""
    found: Object = obj.get("spec", {})
    return found if obj["kind"] == CONTROL_PLANE else found.get("template", {}).get("spec", {})


@dataclass
class Reviewer:
    """Makes reviews with one source of randomness from the schemas of upstream's kinds."""

    schemas: Mapping[tuple[str, str], Any]
    random: random.Random
    _maker: Maker = field(init=False)

    def __post_init__(self) -> None:
        self._maker = Maker(self.schemas, self.random, loose=0.0, wrong=0.0, values=_VALUES)  # the API server asks about nothing else

    def creations(self, kind: str, count: int) -> Iterator[Object]:
        """Every case once, as far as the count goes, then objects that are right but for a few fields, and some that are quite at random."""
        right = _right(kind)
        yield from (changed(right, case) for case in CASES[:count])
        for _ in range(count - len(CASES)):
            yield self._maker.object(kind, "v1beta2") if self.random.random() < 0.2 else self._grafted(right)

    def changes(self, kind: str, count: int) -> Iterator[tuple[Object, Object]]:
        """Every case as a change of what is right, then changes at random; of the specification, and of what is beside it."""
        right = with_more(_right(kind))
        yield from ((right, changed(right, case)) for case in CASES[:count])
        for _ in range(count - len(CASES)):
            old = changed(self._grafted(right), self.random.choice(CASES)) if self.random.random() < 0.5 else right
            luck = self.random.random()
            new = changed(old, self.random.choice(CASES)) if luck < 0.4 else self._grafted(old) if luck < 0.9 else copy.deepcopy(old)
            if self.random.random() < 0.2:
                new["metadata"]["annotations"] = {"controlplane.cluster.x-k8s.io/skip-coredns": "", "a": "b"}
            yield old, new

    def scales(self, count: int) -> Iterator[Object]:
        """What is asked of the scale of one of two control planes, or of one that is not there."""
        for _ in range(count):
            name = self.random.choice((STACKED, STACKED, EXTERNAL, EXTERNAL, "missing"))
            spec = self.random.choice(
                ({"replicas": self.random.randint(-2, 7)}, {"replicas": self.random.choice((2**31 - 1, -(2**31)))}, {})
            )
            metadata = {"name": name, "namespace": NAMESPACE}
            yield {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": {"replicas": 0}}

    def _grafted(self, obj: Object) -> Object:
        """The object with one to four fields, at any depth, of one at random."""
        result, donor = copy.deepcopy(obj), self._maker.object(obj["kind"], "v1beta2")
        for _ in range(self.random.randint(1, 4)):
            self._graft(_spec_of(result), _spec_of(donor))
        return result

    def _graft(self, target: Object, donor: Object) -> None:
        if not donor:
            return
        name = self.random.choice(sorted(donor))
        value = donor[name]
        if isinstance(value, dict) and isinstance(target.get(name, {}), dict) and self.random.random() < 0.85:
            self._graft(target.setdefault(name, {}), value)
        elif self.random.random() < 0.1:
            target.pop(name, None)
        else:
            target[name] = copy.deepcopy(value)


def control_plane(name: str, **configuration: Any) -> Object:
    """A control plane of three that is right."""
    spec = {
        "replicas": 3,
        "version": "v1.34.4",
        "machineTemplate": {
            "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "m"}}
        },
        "kubeadmConfigSpec": {"clusterConfiguration": configuration} if configuration else {"verbosity": 1},
        "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
    }
    return {"apiVersion": f"{GROUP}/v1beta2", "kind": CONTROL_PLANE, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def to_be_scaled() -> list[Object]:
    """The control planes that scales are of; paused, so that nobody does anything to them."""
    made = [control_plane(STACKED), control_plane(EXTERNAL, etcd={"external": _ETCD})]
    return [obj | {"metadata": obj["metadata"] | {"annotations": {"cluster.x-k8s.io/paused": ""}}} for obj in made]


def _right(kind: str) -> Object:
    if kind == CONTROL_PLANE:
        return control_plane("object")
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": kind,
        "metadata": {"name": "object", "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"kubeadmConfigSpec": {"verbosity": 1}}}},
    }


def with_more(obj: Object) -> Object:
    """The object with what the cases change."""
    cluster = {
        "dns": {"imageTag": "1.6.5"},
        "etcd": {"local": {"imageTag": "3.6.5-0", "dataDir": "/d"}},
        "certificateValidityPeriodDays": 100,
        "caCertificateValidityPeriodDays": 365,
        "featureGates": {"a": True},
        "certificatesDir": "/e",
    }
    timeouts = {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 5}}
    joining = {"nodeRegistration": {"name": "n"}, "patches": {"directory": "/p"}, **timeouts}
    configuration = {
        "clusterConfiguration": cluster,
        "initConfiguration": joining,
        "joinConfiguration": joining,
        "files": [_FILE],
        "format": "cloud-config",
    }
    more = {"kubeadmConfigSpec": configuration, "rollout.before.certificatesExpiryDays": 7, "machineNaming.template": _NAMES[0]}
    return changed(obj, more)
