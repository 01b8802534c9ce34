"""From the probe's record to facts: each field checked, and whatever is not what it should be unknown."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from quorate.core.health import Absent, Unknown
from quorate.core.text import printable
from quorate.core.versions import Version
from quorate.etcd.log_file import identity
from quorate.hosts.probe.facts import (
    CERTIFICATES,
    DIGESTS,
    KEYS,
    KUBECONFIGS,
    MODULES,
    PACKAGES,
    PROGRAMS,
    SYSCTLS,
    UNITS,
    Answer,
    EtcdData,
    Fact,
    Family,
    HostFacts,
    KernelSetting,
    Kubeconfig,
    OperatingSystem,
    Package,
    Program,
    StaticPod,
    Unit,
)
from quorate.hosts.probe.record import Fields, Record, read_record
from quorate.pki.certificates import Certificate, read_certificates
from quorate.pki.keys import PkiError

T = TypeVar("T")

_CUT_OFF = Unknown("the host's answer was cut off before it came to this")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_FAMILIES = {
    **dict.fromkeys(("debian", "ubuntu"), Family.DEBIAN),
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "ol", "fedora", "amzn"), Family.RHEL),
    "flatcar": Family.FLATCAR,
}
_ETCD_DATA = {
    "empty": EtcdData.EMPTY,
    "member": EtcdData.MEMBER,
    "incomplete": EtcdData.INCOMPLETE,
    "without-log": EtcdData.WITHOUT_LOG,
    "begun-anew": EtcdData.BEGUN_ANEW,
}
_LONGEST_SETTING = 40  # characters of a setting of the kernel; those that are compared have 20 digits at most


def parse(output: bytes, missing: Unknown = _CUT_OFF) -> HostFacts:
    """What the probe's output says. Never raises: what is not in it is `missing`, so that of no output at all every fact is."""
    record = read_record(output, missing)
    return HostFacts(
        operating_system=record.read("os", _operating_system),
        kernel=record.read("kernel", _text),
        architecture=record.read("architecture", lambda fields: _ARCHITECTURES.get(_text(fields), _text(fields))),
        hostname=record.read("hostname", _text),
        fqdn=record.read("fqdn", _text),
        clock=record.read("clock", lambda fields: _EPOCH + timedelta(seconds=_integer(_text(fields)))),
        machine_id=record.read("machine_id", _text),
        product_uuid=record.read("product_uuid", _text),
        ssh_host_key=record.read("ssh_host_key", _text),
        addresses=record.read("addresses", lambda fields: frozenset(_words(fields))),
        running_for=record.read("running_for", lambda fields: timedelta(seconds=_integer(_text(fields)))),
        selinux_enforcing=record.read("selinux_enforcing", _one_of({"1": True, "0": False})),
        selinux_at_boot=record.read("selinux_at_boot", _one_of({"enforcing": True, "otherwise": False})),
        ufw=record.read("ufw", _one_of({"on": True, "off": False})),
        nftables=record.read("nftables", _one_of({"drops": True, "accepts": False})),
        swap=record.read("swap", _one_of({"on": True, "off": False})),
        swap_in_fstab=record.read("swap_in_fstab", lambda fields: _integer(_text(fields)) > 0),
        modules=_each(record, "module.", MODULES, _text),
        sysctls=_each(record, "sysctl.", SYSCTLS, _kernel_setting),
        programs=_each(record, "program.", PROGRAMS, _program),
        packages=_packages(record),
        units=record.listed({name: f"unit.{name}.service" for name in UNITS}, "units", _unit),
        processes=record.read("processes", lambda fields: frozenset(_words(fields))),
        ports=record.read("ports", lambda fields: frozenset(_integer(word) for word in _words(fields))),
        kubeconfigs=_each(record, "kubeconfig.", KUBECONFIGS, _kubeconfig),
        certificates=_each(record, "certificate.", CERTIFICATES, lambda fields: _certificates(_text(fields))),
        keys=_each(record, "key.", KEYS, _one_of({"present": None})),
        digests=_each(record, "digest.", DIGESTS, lambda fields: _sha256(_text(fields))),
        kubelet_flags=record.read("kubelet_flags", lambda fields: fields[0].strip("\"'") if fields else ""),
        manifests=_manifests(record),
        etcd_folder=record.read("etcd_folder", _text),
        etcd_log_folder=record.read("etcd_log_folder", _text),
        etcd_data=record.read("etcd_data", _one_of(_ETCD_DATA)),
        etcd_identity=record.read("etcd_identity", lambda fields: identity(base64.b64decode(_text(fields), validate=True))),
        initialization=record.read("initialization", _one_of({"begun": None})),
        kubeadm_leftovers=record.read("kubeadm_leftovers", _words),
        kubelet_healthz=record.read("kubelet_healthz", _answer),
        api_server_livez=record.read("api_server_livez", _answer),
        api_server_readyz=record.read("api_server_readyz", _answer),
        etcd_health=record.read("etcd_health", _answer),
    )


def _each(record: Record, prefix: str, names: tuple[str, ...], decode: Callable[[Fields], Fact[T]]) -> Mapping[str, Fact[T]]:
    return {name: record.read(prefix + name, decode) for name in names}


def _packages(record: Record) -> Mapping[str, Fact[Package]]:
    """containerd is called containerd.io where Docker packs it."""
    found = record.listed({name: f"package.{name}" for name in (*PACKAGES, "containerd.io")}, "packages", _package)
    containerd = found.pop("containerd.io")
    if isinstance(found["containerd"], Absent):
        found["containerd"] = containerd
    return found


def _manifests(record: Record) -> Fact[Mapping[str, Fact[StaticPod]]]:
    """Whole or unknown: that a manifest is missing is a reason to act."""

    def read(fields: Fields) -> Mapping[str, Fact[StaticPod]]:
        found = {name: record.read(f"manifest.{name}", _static_pod) for name in record.names("manifest.")}
        if len(found) != _integer(_text(fields)):
            raise ValueError(f"{len(found)} of {_text(fields)} arrived")
        return found

    return record.read("manifests", read)


def _text(fields: Fields) -> str:
    if not fields or not fields[0]:
        raise ValueError("it is empty")
    return fields[0]


def _words(fields: Fields) -> Fields:
    return tuple(fields[0].split()) if fields else ()


def _integer(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text[:40]!r} is not a number")
    return int(text)


def _sha256(text: str) -> str:
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise ValueError("it is not a SHA-256 digest")
    return text


def _expect(fields: Fields, count: int) -> Fields:
    if len(fields) < count:
        raise ValueError(f"{count} fields are expected, {len(fields)} came")
    return fields


def _one_of(values: Mapping[str, T]) -> Callable[[Fields], T]:
    def read(fields: Fields) -> T:
        text = _text(fields)
        if text not in values:
            raise ValueError(f"{text[:40]!r} is none of {', '.join(values)}")
        return values[text]

    return read


def _operating_system(fields: Fields) -> OperatingSystem:
    name, version, like, title = _expect(fields, 4)[:4]
    families = (_FAMILIES.get(each) for each in (name, *like.split()))
    family = next((each for each in families if each is not None), Family.OTHER)
    return OperatingSystem(family, _text((name,)), version, title)


def _program(fields: Fields) -> Program:
    """What follows a `~` is the distribution's: Debian's containerd says `1.6.20~ds1`."""
    path, version = _expect(fields, 2)[:2]
    try:
        return Program(_text((path,)), Version.parse(version.partition("~")[0]))
    except ValueError as error:
        return Program(_text((path,)), Unknown(f"{path} tells no version: {error}"))


def _package(fields: Fields) -> Package:
    version, held = _expect(fields, 2)[:2]
    return Package(_text((version,)), _one_of({"held": True, "free": False})((held,)))


def _kernel_setting(fields: Fields) -> KernelSetting:
    value, access = _expect(fields, 2)[:2]
    if len(value) > _LONGEST_SETTING:
        raise ValueError(f"{value[:40]!r} and what follows is too long")
    return KernelSetting(_text((value,)), _one_of({"writable": True, "fixed": False})((access,)))


def _unit(fields: Fields) -> Unit:
    load, active, sub, file, restarts = _expect(fields, 5)[:5]
    return Unit(_text((load,)), _text((active,)), sub, file, _integer(restarts) if restarts else 0)


def _kubeconfig(fields: Fields) -> Kubeconfig:
    server, cas, client, where = _expect(fields, 4)[:4]
    inline = _one_of({"inline": True, "file": False})((where,))
    return Kubeconfig(server, _certificates_or_absent(cas), _certificates_or_absent(client), inline)


def _certificates_or_absent(encoded: str) -> Fact[tuple[Certificate, ...]]:
    try:
        return _certificates(encoded) if encoded.strip() else Absent()
    except ValueError as error:
        return Unknown(f"a certificate in it cannot be read: {error}")


def _certificates(encoded: str) -> tuple[Certificate, ...]:
    """Each word is the DER of one certificate in base64; at least one."""
    pem = b""
    for word in _text((encoded.strip(),)).split():
        der = base64.b64decode(word, validate=True)
        pem += b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
    try:
        return read_certificates(pem)
    except PkiError as error:
        raise ValueError(str(error)) from None


def _static_pod(fields: Fields) -> StaticPod:
    digest, images, *flags = _expect(fields, 2)
    return StaticPod(_sha256(digest), tuple(images.split()), tuple(map(_unquoted, flags)))


def _unquoted(scalar: str) -> str:
    """A YAML scalar on one line. In double quotes YAML and JSON escape alike, but for what kubeadm does not write."""
    if scalar.startswith("'"):
        return scalar[1:].removesuffix("'").replace("''", "'")
    return printable(str(json.loads(scalar))) if scalar.startswith('"') else scalar


def _answer(fields: Fields) -> Answer:
    status, body = _expect(fields, 2)[:2]
    code = _integer(status)
    if not 100 <= code <= 599:
        raise ValueError(f"{code} is not an HTTP status")
    return Answer(code, body.strip())
