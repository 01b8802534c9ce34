"""What is wrong with a KubeadmConfigSpec, beyond what its schema can say. Pure functions on plain JSON.

Messages name fields and never quote them: commands, files and users may hold secrets.

Source: cluster-api, bootstrap/kubeadm/webhooks/admission/kubeadmconfig.go, and validateClusterConfiguration of the control plane's webhook.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from quorate.clusterapi.api.fields import Errors, FieldError, Kind, Object, at, defined, integer_at, list_at, object_at, text_at
from quorate.clusterapi.types.names import FeatureGate
from quorate.workload.corefile_migration import check, parse_tag
from quorate.workload.updates import CannotUpdate

_LONGEST_TAG = 256  # the bound of the schema; numbers of thousands of digits are refused by Python itself
_IMAGE_TAG = re.compile(r"[-A-Za-z0-9_.]*")
_PRE_RELEASE, _BUILD = r"(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)", r"[0-9A-Za-z-]+"
_TOLERANT_VERSION = re.compile(
    rf"v?([0-9]+(\.[0-9]+)?|[0-9]+(\.[0-9]+){{2}}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?)"
)
"""A version of which the last numbers may be missing, though not before what follows them; numbers may begin with zeros."""
_NOT_WITH_IGNITION = "is not supported when format is ignition: remove it, or use cloud-config"
_GATE_OFF = f"needs the feature gate {FeatureGate.KUBEADM_BOOTSTRAP_FORMAT_IGNITION}: turn it on, or remove the field"


def validate_kubeadm_config_spec(spec: Object, path: str, gates: Collection[str]) -> Errors:
    """What is wrong with a control plane's KubeadmConfigSpec found at `path`."""
    yield from _files(spec, path)
    yield from _users(spec, path)
    yield from _ignition(spec, path, gates)
    yield from _disk_layout(spec, path)
    yield from _discovery(spec, path)
    yield from _timeouts(spec, path)


def _secret_source(owner: object, field: str, inline: str, path: str) -> Errors:
    """A value may be given in place or kept in a Secret; a Secret needs its name and key."""
    if not defined(at(owner, field)):
        return
    if text_at(owner, inline):
        yield FieldError(path, Kind.INVALID, f"only one of {inline} and {field} may be set")
    for part in ("name", "key"):
        if not text_at(owner, field, "secret", part):
            yield FieldError(f"{path}.{field}.secret.{part}", Kind.REQUIRED, f"the {part} of the Secret is required")


def _files(spec: Object, path: str) -> Errors:
    seen: set[str] = set()
    for index, file in enumerate(list_at(spec, "files")):
        here = f"{path}.files[{index}]"
        yield from _secret_source(file, "contentFrom", "content", here)
        target = text_at(file, "path")
        if target in seen:
            yield FieldError(f"{here}.path", Kind.INVALID, "another file has the same path: each must be written once")
        seen.add(target)


def _users(spec: Object, path: str) -> Errors:
    for index, user in enumerate(list_at(spec, "users")):
        yield from _secret_source(user, "passwdFrom", "passwd", f"{path}.users[{index}]")


def _ignition(spec: Object, path: str, gates: Collection[str]) -> Errors:
    chosen, settings = spec.get("format") == "ignition", defined(spec.get("ignition"))
    if FeatureGate.KUBEADM_BOOTSTRAP_FORMAT_IGNITION not in gates:
        if chosen:
            yield FieldError(f"{path}.format", Kind.FORBIDDEN, f"ignition {_GATE_OFF}")
        if settings:
            yield FieldError(f"{path}.ignition", Kind.FORBIDDEN, _GATE_OFF)
    elif chosen:
        yield from _not_with_ignition(spec, path)
        yield from _disks_with_ignition(spec, path)
    elif settings:
        yield FieldError(f"{path}.format", Kind.INVALID, "must be ignition where ignition is set")


def _not_with_ignition(spec: Object, path: str) -> Errors:
    for index, user in enumerate(list_at(spec, "users")):
        if at(user, "inactive") is True:
            yield FieldError(f"{path}.users[{index}].inactive", Kind.FORBIDDEN, _NOT_WITH_IGNITION)
    for index, file in enumerate(list_at(spec, "files")):
        if text_at(file, "encoding") in ("gzip", "gzip+base64"):
            yield FieldError(f"{path}.files[{index}].encoding", Kind.FORBIDDEN, _NOT_WITH_IGNITION)
    if spec.get("bootCommands") is not None:
        yield FieldError(f"{path}.bootCommands", Kind.FORBIDDEN, _NOT_WITH_IGNITION)


def _disks_with_ignition(spec: Object, path: str) -> Errors:
    for index, partition in enumerate(list_at(spec, "diskSetup", "partitions")):
        if text_at(partition, "tableType") not in ("", "gpt"):
            message = "must be gpt, or not set, when format is ignition"
            yield FieldError(f"{path}.diskSetup.partitions[{index}].tableType", Kind.INVALID, message)
    for index, filesystem in enumerate(list_at(spec, "diskSetup", "filesystems")):
        for field in ("replaceFS", "partition"):
            if text_at(filesystem, field):
                yield FieldError(f"{path}.diskSetup.filesystems[{index}].{field}", Kind.FORBIDDEN, _NOT_WITH_IGNITION)


def _disk_layout(spec: Object, path: str) -> Errors:
    for index, partition in enumerate(list_at(spec, "diskSetup", "partitions")):
        total = sum(integer_at(part, "percentage") or 0 for part in list_at(partition, "diskLayout"))
        if total > 100:
            message = f"the percentages add up to {total}: no more than 100 of a disk can be given away"
            yield FieldError(f"{path}.diskSetup.partitions[{index}].diskLayout", Kind.INVALID, message)


def _discovery(spec: Object, path: str) -> Errors:
    user = object_at(spec, "joinConfiguration", "discovery", "file", "kubeConfig", "user")
    if defined(user.get("authProvider")) and defined(user.get("exec")):
        where = f"{path}.joinConfiguration.discovery.file.kubeConfig.user"
        yield FieldError(where, Kind.INVALID, "only one of authProvider and exec may be set")


def _timeouts(spec: Object, path: str) -> Errors:
    """v1beta1 has one field for both timeouts, so that they cannot differ while it can be read."""
    field = "controlPlaneComponentHealthCheckSeconds"
    init, join = (integer_at(spec, f"{each}Configuration", "timeouts", field) for each in ("init", "join"))
    if init != join:
        values = tuple("not set" if value is None else str(value) for value in (init, join))
        message = f"must be the same in initConfiguration ({values[0]}) and in joinConfiguration ({values[1]})"
        for each in ("init", "join"):
            yield FieldError(f"{path}.{each}Configuration.timeouts.{field}", Kind.INVALID, message)


def validate_cluster_configuration(configuration: Object, path: str) -> Errors:
    """What is wrong with a ClusterConfiguration found at `path`."""
    dns = text_at(configuration, "dns", "imageTag")
    if not _IMAGE_TAG.fullmatch(dns):
        yield _bad_tag(f"{path}.dns.imageTag")
    if dns and not _is_version(dns):
        yield FieldError(f"{path}.dns.imageTag", Kind.INVALID, "must be a version, such as v1.12.1: what CoreDNS supports depends on it")
    local, external = object_at(configuration, "etcd", "local"), object_at(configuration, "etcd", "external")
    if not _IMAGE_TAG.fullmatch(text_at(local, "imageTag")):
        yield _bad_tag(f"{path}.etcd.local.imageTag")
    if local and external:
        yield FieldError(f"{path}.etcd.local", Kind.FORBIDDEN, "etcd is either local or external: remove one of them")


def _is_version(tag: str) -> bool:
    return len(tag) <= _LONGEST_TAG and _TOLERANT_VERSION.fullmatch(tag.replace("_", "+")) is not None


def validate_coredns_step(old: Object, new: Object, path: str) -> Errors:
    """CoreDNS goes from one version to a later one, if both are known: its Corefile has to be carried over. Without a tag it is as Kubernetes has it."""
    current, target = text_at(old, "dns", "imageTag"), text_at(new, "dns", "imageTag")
    if not current or not target:
        return
    for tag in (current, target):
        if not _is_version(tag):
            yield FieldError(
                f"{path}.dns.imageTag", Kind.INVALID, f"{tag!r} is no version, such as v1.12.1: what CoreDNS supports depends on it"
            )
            return
    if parse_tag(current) != parse_tag(target):
        try:
            check(current, target)
        except CannotUpdate as error:
            yield FieldError(f"{path}.dns.imageTag", Kind.FORBIDDEN, str(error))


def _bad_tag(path: str) -> FieldError:
    return FieldError(path, Kind.FORBIDDEN, "may hold only letters, digits, underscores, dots and dashes, as image tags do")


def validate_etcd_stays(old: Object, new: Object, path: str) -> Errors:
    """etcd cannot move between the machines and elsewhere: its data would stay behind."""
    if defined(at(old, "etcd", "external")) != defined(at(new, "etcd", "external")):
        yield FieldError(
            f"{path}.etcd.external", Kind.FORBIDDEN, "etcd cannot be changed between local and external: its data would not move"
        )
