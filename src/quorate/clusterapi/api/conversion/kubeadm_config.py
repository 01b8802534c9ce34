"""KubeadmConfigSpec in both versions: what is put on a machine, and what kubeadm is told there.

Source: cluster-api, api/bootstrap/kubeadm/v1beta1 and v1beta2 (kubeadmconfig_types.go, conversion.go); bootstrap/kubeadm/webhooks/conversion.
"""

from __future__ import annotations

from quorate.clusterapi.api.conversion.forms import Plain, items, pointer
from quorate.clusterapi.api.conversion.kubeadm_cluster import CLUSTER_CONFIGURATION
from quorate.clusterapi.api.conversion.kubeadm_node import INIT_CONFIGURATION, JOIN_CONFIGURATION
from quorate.clusterapi.api.conversion.kubernetes_forms import TEXTS
from quorate.clusterapi.api.conversion.scalars import BOOLEAN, INT32, TEXT
from quorate.clusterapi.api.conversion.tables import (
    Table,
    all_same,
    dropped,
    from_seconds,
    get,
    intent,
    keyed,
    list_of,
    part,
    pointer_to_value,
    put,
    same,
    to_seconds,
    value_part,
    value_to_pointer,
)

_OLD_HEALTH_CHECK = ("clusterConfiguration", "apiServer", "timeoutForControlPlane")
_OLD_BOOTSTRAP = ("joinConfiguration", "discovery", "timeout")
_INIT_TIMEOUTS = ("initConfiguration", "timeouts")
_JOIN_TIMEOUTS = ("joinConfiguration", "timeouts")
_HEALTH_CHECK = "controlPlaneComponentHealthCheckSeconds"
_BOOTSTRAP = "tlsBootstrapSeconds"


def _timeouts_up(old: Plain, new: Plain, kept: Plain) -> None:
    """All timeouts come back from what was kept, and those two that v1beta1 has as well are taken from there.

    As soon as v1beta1 has either of the two, the health check's timeout is the same for init and join, also where it is none.
    """
    for path in (_INIT_TIMEOUTS, _JOIN_TIMEOUTS):
        put(new, path, dict(get(kept, path) or {}) or None)
    health_check = to_seconds(get(old, _OLD_HEALTH_CHECK))
    bootstrap = to_seconds(get(old, _OLD_BOOTSTRAP))
    put(new, (*_INIT_TIMEOUTS, _HEALTH_CHECK), health_check)
    if health_check is not None or bootstrap is not None:
        (get(new, _JOIN_TIMEOUTS) or {}).pop(_HEALTH_CHECK, None)
    put(new, (*_JOIN_TIMEOUTS, _HEALTH_CHECK), health_check)
    put(new, (*_JOIN_TIMEOUTS, _BOOTSTRAP), bootstrap)


def _timeouts_down(new: Plain, old: Plain) -> None:
    """The two timeouts that v1beta1 has go to their places there; what held nothing but timeouts is not there."""
    put(old, _OLD_HEALTH_CHECK, from_seconds(get(new, (*_INIT_TIMEOUTS, _HEALTH_CHECK))))
    put(old, _OLD_BOOTSTRAP, from_seconds(get(new, (*_JOIN_TIMEOUTS, _BOOTSTRAP))))
    for name in ("initConfiguration", "joinConfiguration"):
        if old.get(name) == {}:
            del old[name]


_SECRET = Table([value_part("secret", Table([*(same(name, TEXT, always_old=True) for name in ("name", "key"))]))])

_FILE = Table(
    [
        same("path", TEXT, always_old=True),
        *all_same(TEXT, "owner", "permissions", "encoding", "content", "contentFormat"),
        intent("append"),
        part("contentFrom", _SECRET),
    ]
)

_USER = Table(
    [
        same("name", TEXT, always_old=True),
        *(pointer_to_value(name, TEXT) for name in ("gecos", "groups", "homeDir", "shell", "passwd", "primaryGroup", "sudo")),
        *all_same(pointer(BOOLEAN), "inactive", "lockPassword"),
        part("passwdFrom", _SECRET),
        same("sshAuthorizedKeys", TEXTS),
    ]
)

_PARTITION = Table(
    [
        same("device", TEXT, always_old=True),
        value_to_pointer("layout", BOOLEAN),
        same("overwrite", pointer(BOOLEAN)),
        pointer_to_value("tableType", TEXT),
        list_of("diskLayout", Table([same("percentage", INT32), same("partitionType", TEXT)])),
    ]
)

_FILESYSTEM = Table(
    [
        *(same(name, TEXT, always_old=True) for name in ("device", "filesystem")),
        same("label", TEXT),
        *(pointer_to_value(name, TEXT) for name in ("partition", "replaceFS")),
        same("overwrite", pointer(BOOLEAN)),
        same("extraOpts", TEXTS),
    ]
)

_CONTAINER_LINUX = Table([same("additionalConfig", TEXT), intent("strict")])

KUBEADM_CONFIG_SPEC = Table(
    [
        part("clusterConfiguration", CLUSTER_CONFIGURATION),
        part("initConfiguration", INIT_CONFIGURATION),
        part("joinConfiguration", JOIN_CONFIGURATION),
        keyed("files", _FILE, key="path", flag="append"),
        part("diskSetup", Table([list_of("partitions", _PARTITION), list_of("filesystems", _FILESYSTEM)])),
        same("mounts", items(TEXTS)),
        *all_same(TEXTS, "bootCommands", "preKubeadmCommands", "postKubeadmCommands"),
        list_of("users", _USER),
        part("ntp", Table([same("servers", TEXTS), same("enabled", pointer(BOOLEAN))])),
        same("format", TEXT),
        same("verbosity", pointer(INT32)),
        dropped("useExperimentalRetryJoin", BOOLEAN),
        part("ignition", Table([part("containerLinuxConfig", _CONTAINER_LINUX)])),
    ],
    finish_up=_timeouts_up,
    finish_down=_timeouts_down,
)
