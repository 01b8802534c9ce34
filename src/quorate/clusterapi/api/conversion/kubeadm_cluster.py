"""ClusterConfiguration in both versions.

Source: cluster-api, api/bootstrap/kubeadm/v1beta1 and v1beta2 (kubeadm_types.go, conversion.go).
"""

from __future__ import annotations

from quorate.clusterapi.api.conversion.forms import mapping, pointer
from quorate.clusterapi.api.conversion.kubeadm_node import TYPE_META
from quorate.clusterapi.api.conversion.kubernetes_forms import ENVIRONMENT, TEXTS
from quorate.clusterapi.api.conversion.scalars import BOOLEAN, DURATION, INT32, TEXT
from quorate.clusterapi.api.conversion.tables import (
    Field,
    Row,
    Table,
    all_same,
    arguments,
    dropped,
    intent,
    keyed_nonempty,
    part,
    same,
    value_part,
)

_ENVIRONMENT = Row(Field(("extraEnvs",), ENVIRONMENT), Field(("extraEnvs",), pointer(ENVIRONMENT)))  # in v1beta2 an empty list is written

_VOLUME = Table(
    [*(same(name, TEXT, always_old=True) for name in ("name", "hostPath", "mountPath")), intent("readOnly"), same("pathType", TEXT)]
)

_COMPONENT = (arguments("extraArgs"), keyed_nonempty("extraVolumes", _VOLUME, key="hostPath", flag="readOnly"), _ENVIRONMENT)

_API_SERVER = Table([*_COMPONENT, same("certSANs", TEXTS), dropped("timeoutForControlPlane", pointer(DURATION))])  # becomes two timeouts

_LOCAL_ETCD = Table(
    [
        *all_same(TEXT, "imageRepository", "imageTag", "dataDir"),
        arguments("extraArgs"),
        _ENVIRONMENT,
        *all_same(TEXTS, "serverCertSANs", "peerCertSANs"),
    ]
)

_EXTERNAL_ETCD = Table(
    [same("endpoints", TEXTS, always_old=True), *(same(name, TEXT, always_old=True) for name in ("caFile", "certFile", "keyFile"))]
)

_NETWORKING = Table([*(dropped(name, TEXT) for name in ("serviceSubnet", "podSubnet", "dnsDomain"))])

CLUSTER_CONFIGURATION = Table(
    [
        *TYPE_META,
        value_part("etcd", Table([part("local", _LOCAL_ETCD), part("external", _EXTERNAL_ETCD)])),
        dropped(
            "networking", _NETWORKING.old, always_old=True
        ),  # the bootstrap provider takes these three from the Cluster and the Machine
        dropped("kubernetesVersion", TEXT),
        dropped("clusterName", TEXT),
        same("controlPlaneEndpoint", TEXT),
        value_part("apiServer", _API_SERVER),
        value_part("controllerManager", Table(_COMPONENT)),
        value_part("scheduler", Table(_COMPONENT)),
        value_part("dns", Table([*all_same(TEXT, "imageRepository", "imageTag")])),
        *all_same(TEXT, "certificatesDir", "imageRepository", "encryptionAlgorithm"),
        same("featureGates", mapping(BOOLEAN)),
        *all_same(INT32, "certificateValidityPeriodDays", "caCertificateValidityPeriodDays"),
    ]
)
