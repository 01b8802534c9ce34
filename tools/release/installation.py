"""The objects of an installation, as one list for every way of installing them: clusterctl's components and the Helm chart are written from it.

What they have in common with the code comes from there: roles, CustomResourceDefinitions, webhooks. Names are upstream's wherever an object stands for the job
and not for the program: with the Service, the webhook configurations and the Lease's namespace of the same name, whichever of the two providers comes second
replaces what the first left, and the two never act at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from quorate.clusterapi.api import rbac, webhooks
from quorate.clusterapi.api.crd import DEFINITIONS, custom_resource_definition
from quorate.clusterapi.types.names import DEFAULT_NAMESPACE, PROVIDER_NAME, Label
from tools.release.rootfs import USER

Object = dict[str, Any]

UPSTREAM_PREFIX = "capi-kubeadm-control-plane-"
MANAGER = "manager"
"""The name of the container, by which Cluster API Operator finds it."""
_CERTIFICATES_FOLDER = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 (upstream's default, mounted read-only)
RESERVED = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
"""For ten control planes, and for a thousand: docs/scale.md."""
_GRACE_SECONDS = 40  # the manager gives running reconciles 30, and then hands its Lease over


class Certificates(StrEnum):
    """Who makes the webhooks' certificates."""

    CERT_MANAGER = "cert-manager"
    SELF_MANAGED = "self-managed"


@dataclass(frozen=True, slots=True)
class Settings:
    """What whoever installs it chooses, written as the way of installing takes it: a value, a variable of clusterctl, or a template of Helm."""

    image: str
    diagnostics_address: str = ":8443"
    insecure_diagnostics: str = "false"
    feature_gates: str = ""
    namespace: str = DEFAULT_NAMESPACE
    replicas: Any = 2
    pull_policy: str = "IfNotPresent"
    resources: Any = None
    more_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Installation:
    """One way to install it: under which provider's name, and with whose certificates."""

    settings: Settings
    provider: str = "quorate"
    certificates: Certificates = Certificates.CERT_MANAGER

    @property
    def label(self) -> str:
        """The provider as clusterctl labels what belongs to it."""
        return f"control-plane-{self.provider}"

    @property
    def deployment_name(self) -> str:
        """Upstream's under its name: a Deployment's selector cannot be changed, so the two providers cannot share one under two labels."""
        return f"{UPSTREAM_PREFIX}controller-manager" if self.label == PROVIDER_NAME else f"{self.provider}-controller-manager"

    def objects(self) -> list[Object]:
        """Everything, in an order in which it can be applied."""
        made = [
            self._namespace(),
            *self._definitions(),
            *self._access(),
            webhooks.service(self.settings.namespace),
            *self._issuing(),
            self._deployment(),
            self._disruption_budget(),
            self._network_policy(),
            *(self._injected(each) for each in webhooks.configurations(self.settings.namespace)),
        ]
        return [_relabelled(each, self.label) for each in made]

    def _namespace(self) -> Object:
        level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.settings.namespace, "labels": {**_LABELS, **level}}}

    def _definitions(self) -> list[Object]:
        conversion = webhooks.conversion(self.settings.namespace)
        return [self._injected(custom_resource_definition(definition, conversion)) for definition in DEFINITIONS]

    def _injected(self, item: Object) -> Object:
        """The object with the annotation by which cert-manager puts the CA into it; without cert-manager the manager does."""
        if self.certificates is Certificates.SELF_MANAGED:
            return item
        source = f"{self.settings.namespace}/{_SERVING_CERTIFICATE}"
        return item | {"metadata": item["metadata"] | {"annotations": {"cert-manager.io/inject-ca-from": source}}}

    def _access(self) -> list[Object]:
        account = {"kind": "ServiceAccount", "name": f"{UPSTREAM_PREFIX}manager", "namespace": self.settings.namespace}
        self_managed = self.certificates is Certificates.SELF_MANAGED
        roles = [self._prefixed(role) for role in rbac.roles(self_managed_certificates=self_managed)]
        bound = [role for role in roles if Label.AGGREGATE_TO_MANAGER not in role["metadata"]["labels"]]
        return [self._prefixed(_object("v1", "ServiceAccount", MANAGER)), *roles, *(self._binding(role, account) for role in bound)]

    def _prefixed(self, item: Object) -> Object:
        metadata = item["metadata"] | {"name": f"{UPSTREAM_PREFIX}{item['metadata']['name']}"}
        cluster_wide = item["kind"].startswith("Cluster")
        return item | {"metadata": metadata | ({} if cluster_wide else {"namespace": self.settings.namespace})}

    def _binding(self, role: Object, account: Mapping[str, str]) -> Object:
        name = role["metadata"]["name"].removesuffix("-role").replace("aggregated-", "") + "-rolebinding"
        binding = _object("rbac.authorization.k8s.io/v1", f"{role['kind']}Binding", name)
        if "namespace" in role["metadata"]:
            binding["metadata"]["namespace"] = role["metadata"]["namespace"]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]}
        return binding | {"roleRef": reference, "subjects": [dict(account)]}

    def _issuing(self) -> list[Object]:
        """cert-manager's objects, as upstream has them."""
        if self.certificates is Certificates.SELF_MANAGED:
            return []
        issuer = self._named("cert-manager.io/v1", "Issuer", f"{UPSTREAM_PREFIX}selfsigned-issuer") | {"spec": {"selfSigned": {}}}
        host = f"{webhooks.SERVICE}.{self.settings.namespace}.svc"
        asked = {
            "dnsNames": [host, f"{host}.cluster.local"],
            "issuerRef": {"kind": "Issuer", "name": issuer["metadata"]["name"]},
            "secretName": _SECRET,
        }
        return [issuer, self._named("cert-manager.io/v1", "Certificate", _SERVING_CERTIFICATE) | {"spec": asked}]

    def _deployment(self) -> Object:
        selector = dict(_SELECTED)
        pod = {"metadata": {"labels": dict(selector)}, "spec": self._pod()}
        deployment = self._named("apps/v1", "Deployment", self.deployment_name)
        deployment["metadata"]["labels"] = dict(_SELECTED)
        spec = {"replicas": self.settings.replicas, "selector": {"matchLabels": selector}, "template": pod}
        return deployment | {"spec": spec | {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}

    def _pod(self) -> Object:
        mounted = self.certificates is Certificates.CERT_MANAGER
        volume = {"name": "cert", "secret": {"secretName": _SECRET}}
        return {
            "serviceAccountName": f"{UPSTREAM_PREFIX}manager",
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_APART]}},
            "tolerations": [{"key": f"node-role.kubernetes.io/{role}", "effect": "NoSchedule"} for role in ("control-plane", "master")],
            "containers": [self._container(mounted=mounted)],
        } | ({"volumes": [volume]} if mounted else {})

    def _container(self, *, mounted: bool) -> Object:
        mount = {"name": "cert", "mountPath": _CERTIFICATES_FOLDER, "readOnly": True}
        return {
            "name": MANAGER,
            "image": self.settings.image,
            "imagePullPolicy": self.settings.pull_policy,
            "command": ["/manager"],
            "args": list(self._arguments()),
            "env": [_field("POD_NAMESPACE", "namespace"), _field("POD_NAME", "name"), _field("POD_UID", "uid")],
            "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in _PORTS.items()],
            "livenessProbe": _probe("/healthz", period=10),
            "readinessProbe": _probe("/readyz", period=5),
            "resources": self.settings.resources or RESERVED,
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "privileged": False,
                "readOnlyRootFilesystem": True,
                "runAsGroup": USER,
                "runAsUser": USER,
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
        } | ({"volumeMounts": [mount]} if mounted else {})

    def _arguments(self) -> tuple[str, ...]:
        """With an equals sign each: that is how Cluster API Operator finds what it replaces."""
        self_managed = self.certificates is Certificates.SELF_MANAGED
        return (
            "--leader-elect=true",
            f"--diagnostics-address={self.settings.diagnostics_address}",
            f"--insecure-diagnostics={self.settings.insecure_diagnostics}",
            f"--feature-gates={self.settings.feature_gates}",
            *((f"--webhook-certificates={self.certificates}",) if self_managed else ()),
            *self.settings.more_arguments,
        )

    def _disruption_budget(self) -> Object:
        """One at a time, and always one: a budget that asks for one to stay would stop drains where there is only one."""
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": dict(_SELECTED)}}
        return self._named("policy/v1", "PodDisruptionBudget", self.deployment_name) | {"spec": spec}

    def _network_policy(self) -> Object:
        """Nothing comes in but to the three servers. What goes out is the API servers of workload clusters, wherever those are."""
        ports = [{"protocol": "TCP", "port": name} for name in _PORTS]
        spec = {"podSelector": {"matchLabels": dict(_SELECTED)}, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]}
        return self._named("networking.k8s.io/v1", "NetworkPolicy", self.deployment_name) | {"spec": spec}

    def _named(self, version: str, kind: str, name: str) -> Object:
        item = _object(version, kind, name)
        item["metadata"]["namespace"] = self.settings.namespace
        return item


_SECRET = f"{webhooks.SERVICE}-cert"
_SERVING_CERTIFICATE = f"{UPSTREAM_PREFIX}serving-cert"
_LABELS = {Label.PROVIDER: PROVIDER_NAME}
_SELECTED = {**_LABELS, "control-plane": "controller-manager"}
_PORTS = {"webhook-server": webhooks.PORT, "healthz": 9440, "metrics": 8443}
_APART = {
    "weight": 100,
    "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": _SELECTED}},
}


def _object(version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": dict(_LABELS)}}


def _field(name: str, field: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}}


def _probe(path: str, *, period: int) -> Object:
    return {"httpGet": {"path": path, "port": "healthz"}, "periodSeconds": period, "timeoutSeconds": 5}


def _relabelled(item: Any, label: str) -> Any:
    """The same with the provider's label, wherever it stands: on objects and in selectors."""
    if isinstance(item, dict):
        return {key: label if key == Label.PROVIDER else _relabelled(value, label) for key, value in item.items()}
    return [_relabelled(each, label) for each in item] if isinstance(item, list) else item
