"""InitConfiguration and JoinConfiguration in both versions.

Source: cluster-api, api/bootstrap/kubeadm/v1beta1 and v1beta2 (kubeadm_types.go, conversion.go).
"""

from __future__ import annotations

from quorate.clusterapi.api.conversion.forms import Member, items, pointer, struct
from quorate.clusterapi.api.conversion.kubernetes_forms import NODE_TAINT, TEXT_MAP, TEXTS
from quorate.clusterapi.api.conversion.scalars import BOOLEAN, BYTES, DURATION, INSTANT, INSTANT_POINTER, INT32, TEXT, TOKEN
from quorate.clusterapi.api.conversion.tables import (
    Field,
    Row,
    Table,
    added,
    all_same,
    arguments,
    dropped,
    intent,
    list_of,
    part,
    pointer_part,
    pointer_to_value,
    same,
    seconds,
    value_part,
)

TIMEOUTS = struct(
    *(
        Member(name, pointer(INT32))
        for name in (
            "controlPlaneComponentHealthCheckSeconds",
            "kubeletHealthCheckSeconds",
            "kubernetesAPICallSeconds",
            "etcdAPICallSeconds",
            "tlsBootstrapSeconds",
            "discoverySeconds",
        )
    )
)

TYPE_META = (dropped("apiVersion", TEXT), dropped("kind", TEXT))
"""What kubeadm's own types carry, and v1beta1 with them."""

_API_ENDPOINT = Table([same("advertiseAddress", TEXT), same("bindPort", INT32)])

_PATCHES = Table([same("directory", TEXT)])

_NODE_REGISTRATION = Table(
    [
        *all_same(TEXT, "name", "criSocket"),
        same("taints", pointer(items(NODE_TAINT))),  # none: kubeadm's own; an empty list: no taints
        arguments("kubeletExtraArgs"),
        same("ignorePreflightErrors", TEXTS),
        same("imagePullPolicy", TEXT),
        same("imagePullSerial", pointer(BOOLEAN)),
    ]
)

_BOOTSTRAP_TOKEN = Table(
    [
        pointer_to_value("token", TOKEN, always_old=True),
        same("description", TEXT),
        seconds("ttl", "ttlSeconds"),
        Row(Field(("expires",), INSTANT_POINTER), Field(("expires",), INSTANT)),
        *all_same(TEXTS, "usages", "groups"),
    ]
)

_BOOTSTRAP_TOKEN_DISCOVERY = Table(
    [*all_same(TEXT, "token", "apiServerEndpoint"), same("caCertHashes", TEXTS), intent("unsafeSkipCAVerification")]
)

_CLUSTER = Table(
    [
        *all_same(TEXT, "server", "tlsServerName", "proxyURL"),
        intent("insecureSkipTLSVerify"),
        same("certificateAuthorityData", BYTES),
    ]
)

_AUTH_PROVIDER = Table([same("name", TEXT, always_old=True), same("config", TEXT_MAP)])

_EXEC = Table(
    [
        same("command", TEXT, always_old=True),
        same("args", TEXTS),
        list_of("env", Table([same("name", TEXT, always_old=True), same("value", TEXT, always_old=True)])),
        same("apiVersion", TEXT),
        intent("provideClusterInfo"),
    ]
)

_KUBECONFIG = Table([part("cluster", _CLUSTER), value_part("user", Table([part("authProvider", _AUTH_PROVIDER), part("exec", _EXEC)]))])

_DISCOVERY = Table(
    [
        part("bootstrapToken", _BOOTSTRAP_TOKEN_DISCOVERY),
        part("file", Table([same("kubeConfigPath", TEXT, always_old=True), part("kubeConfig", _KUBECONFIG)])),
        same("tlsBootstrapToken", TEXT),
        dropped("timeout", pointer(DURATION)),  # becomes one of the timeouts
    ]
)

INIT_CONFIGURATION = Table(
    [
        *TYPE_META,
        list_of("bootstrapTokens", _BOOTSTRAP_TOKEN),
        value_part("nodeRegistration", _NODE_REGISTRATION),
        value_part("localAPIEndpoint", _API_ENDPOINT),
        same("skipPhases", TEXTS),
        part("patches", _PATCHES),
        added("timeouts", TIMEOUTS),
    ]
)

JOIN_CONFIGURATION = Table(
    [
        *TYPE_META,
        value_part("nodeRegistration", _NODE_REGISTRATION),
        same("caCertPath", TEXT),
        value_part("discovery", _DISCOVERY),
        pointer_part("controlPlane", Table([value_part("localAPIEndpoint", _API_ENDPOINT)])),  # there, though empty: a control plane
        same("skipPhases", TEXTS),
        part("patches", _PATCHES),
        added("timeouts", TIMEOUTS),
    ]
)
