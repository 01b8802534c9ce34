"""What a probe finds on a simulated machine, in the production's own words, so that the production's own decision says what kind of host it is."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509

from quorate.core.health import Absent, Unknown
from quorate.core.versions import Version
from quorate.etcd.log_file import LogIdentity
from quorate.hosts.probe.facts import KUBECONFIGS, Answer, EtcdData, Fact, HostFacts, Kubeconfig, Program, StaticPod, Unit
from quorate.hosts.probe.parse import parse
from quorate.hosts.render.provider_files import FLAG, PATHS
from quorate.pki.certificates import Certificate, read_certificates
from quorate.simulation.hosts import material
from quorate.simulation.hosts.machines import EtcdManifest, KubeletConf, Machine
from quorate.simulation.hosts.site import Site
from quorate.workload.static_pods import Component

_ENDLESS = datetime(2100, 1, 1, tzinfo=UTC)
CONTAINERD = Version.parse("v2.1.0")
_CLOCK_APART = timedelta(seconds=300)
_UNREADABLE = Unknown("it cannot be read", "Look at the disk of the host")
_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def facts_of(site: Site, machine: Machine) -> HostFacts:
    """Everything that one probe learns of the machine now; of a hostile one, what the real parser makes of what it sends."""
    if machine.hostile is not None:
        return parse(machine.hostile)
    disk = machine.disk
    return HostFacts(
        operating_system=Absent(),
        kernel=Absent(),
        architecture="amd64",
        hostname=machine.name,
        fqdn=machine.name,
        clock=site.world.now() + (_CLOCK_APART if machine.clock_apart else timedelta()),
        machine_id=machine.address,
        product_uuid=Absent(),
        ssh_host_key=machine.address,
        addresses=frozenset({machine.address}),
        running_for=Absent(),
        selinux_enforcing=Absent(),
        selinux_at_boot=Absent(),
        ufw=Absent(),
        nftables=Absent(),
        swap=Absent(),
        swap_in_fstab=Absent(),
        modules={},
        sysctls={},
        programs={
            "containerd": Program("/usr/bin/containerd", CONTAINERD) if disk.containerd else Absent(),
            "kubelet": _program(disk.kubelet),
            "kubeadm": _program(disk.kubeadm),
        },
        packages={},
        units={
            "containerd": _unit(disk.containerd, machine.containerd_runs),
            "kubelet": _unit(disk.kubelet is not None, machine.kubelet_runs),
        },
        processes=_processes(machine),
        ports=Absent(),
        kubeconfigs=_kubeconfigs(machine),
        certificates={
            "ca": _ca(disk.ca),
            "apiserver": _leaf(disk.certificates_expire),
            "kubelet": (_certificate(machine.address, _ENDLESS),) if disk.kubelet_conf is KubeletConf.FILE else Absent(),
        },
        keys={},
        digests={"kubelet_configuration": "0" if disk.kubelet_configuration else Absent()},
        kubelet_flags=Absent(),
        manifests=_UNREADABLE if machine.unreadable else _manifests(machine),
        etcd_folder="/var/lib/etcd",
        etcd_log_folder=Absent(),
        etcd_data=_etcd_data(machine),
        etcd_identity=_etcd_identity(site, machine),
        initialization=None if disk.initializing else Absent(),
        kubeadm_leftovers=Absent(),
        kubelet_healthz=Answer(200, "ok") if machine.kubelet_runs and disk.kubelet_configuration else Absent(),
        api_server_livez=Answer(200, "") if machine.api_version and machine.api_settings not in site.broken_settings else Absent(),
        api_server_readyz=_readyz(site, machine),
        etcd_health=_etcd_health(site, machine),
    )


def probed(site: Site, machine: Machine) -> bytes:
    """What the probe prints of the machine now, as far as a step asks it: what of etcd is on it, and whether it has a CA."""
    if machine.hostile is not None:
        return machine.hostile
    facts = facts_of(site, machine)
    data = {EtcdData.MEMBER: "=\tmember", EtcdData.BEGUN_ANEW: "=\tbegun-anew", EtcdData.EMPTY: "=\tempty"}
    log = facts.etcd_identity
    identity = f"=\t{b64encode(log_of(log)).decode()}" if isinstance(log, LogIdentity) else "-"
    lines = {
        "etcd_folder": f"=\t{facts.etcd_folder}",
        "etcd_log_folder": "-",
        "etcd_data": data[facts.etcd_data] if isinstance(facts.etcd_data, EtcdData) else "-",
        "etcd_identity": identity,
        "processes": f"=\t{' '.join(sorted(_processes(machine)))}",
        "manifests": "?\tit cannot be read",
        "certificate.ca": f"=\t{_der(machine.disk.ca)}" if machine.disk.ca else "-",
        **{f"kubeconfig.{name}": "-" for name in KUBECONFIGS},
    }
    pods = facts.manifests
    if isinstance(pods, Mapping):
        lines["manifests"] = f"=\t{len(pods)}"
        known = {name: pod for name, pod in pods.items() if isinstance(pod, StaticPod)}
        lines |= {f"manifest.{name}": "\t".join(("=", "0" * 64, *pod.images, *pod.flags)) for name, pod in known.items()}
    return "".join(f"{key}\t{told}\n" for key, told in lines.items()).encode()


def log_of(whose: LogIdentity, *entries: bytes) -> bytes:
    """The beginning of etcd's log, as etcd writes it: a checksum, whose it is (`quorate.etcd.log_file`), and these records."""
    metadata = b"\x08" + _varint(whose.member_id) + b"\x10" + _varint(whose.cluster_id)
    records = (b"\x08\x04\x10\x00", b"\x08\x01\x10\x07\x1a" + _varint(len(metadata)) + metadata, *entries)
    return b"".join(_framed(record) for record in records)


def _framed(record: bytes) -> bytes:
    padding = -len(record) % 8
    length = len(record) | ((0x80 | padding) << 56 if padding else 0)
    return length.to_bytes(8, "little") + record + bytes(padding)


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


@cache
def _der(ca: int) -> str:
    return b64encode(read_certificates(material.cas(ca)["ca.crt"])[0].der).decode()


def _program(version: Version | None) -> Fact[Program]:
    return Absent() if version is None else Program("/usr/bin/it", version)


def _unit(there: bool, runs: bool) -> Fact[Unit]:
    return Unit("loaded", "active" if runs else "inactive", "running" if runs else "dead", "enabled", 0) if there else Absent()


def _kubeconfigs(machine: Machine) -> Mapping[str, Fact[Kubeconfig]]:
    disk = machine.disk
    there = {
        "admin": disk.admin_conf,
        "super-admin": disk.super_admin_conf,
        "bootstrap-kubelet": disk.bootstrap_conf,
        "kubelet": disk.kubelet_conf is not KubeletConf.NONE,
    }
    inline = disk.kubelet_conf is KubeletConf.INLINE
    made: dict[str, Fact[Kubeconfig]] = {
        name: Kubeconfig("", _ca(disk.ca), Absent(), inline) if is_there else Absent() for name, is_there in there.items()
    }
    if disk.admin_conf:
        made["admin"] = Kubeconfig("", _ca(disk.ca), _leaf(disk.certificates.get("admin.conf")), inline=True)
    return made


def _manifests(machine: Machine) -> Mapping[str, Fact[StaticPod]]:
    disk = machine.disk
    pods: dict[str, Fact[StaticPod]] = {}
    if disk.components is not None:
        pods |= {f"{name}.yaml": StaticPod("", (f"registry/{name}:{disk.components}",), _flags(name, machine)) for name in _COMPONENTS}
    if disk.etcd is not EtcdManifest.NONE:
        flags = () if disk.etcd is EtcdManifest.NEW else ("--initial-cluster-state=existing",)
        pods["etcd.yaml"] = StaticPod("", ("registry/etcd:3.6.5",), flags)
    return pods


def _flags(component: str, machine: Machine) -> tuple[str, ...]:
    return (f"--{FLAG}={PATHS[0]}",) if component == "kube-apiserver" and machine.disk.flagged else ()


def _etcd_data(machine: Machine) -> Fact[EtcdData]:
    """A member that is started on an empty folder begins it anew, and ends again: others do not take it for who it was."""
    if machine.disk.data is not None:
        return EtcdData.MEMBER
    if machine.disk.etcd is EtcdManifest.NONE:
        return Absent()
    started = machine.kubelet_runs and machine.containerd_runs and machine.member is None
    return EtcdData.BEGUN_ANEW if started else EtcdData.EMPTY


def _etcd_identity(site: Site, machine: Machine) -> Fact[LogIdentity]:
    """Rings are numbered; data that the last one never knew are of one before."""
    data, ring = machine.disk.data, site.ring
    if data is None:
        return Absent()
    ours = data in ring.members or data in ring.removed
    return LogIdentity(data, site.ring_id if ours else site.ring_id - 1)


def _processes(machine: Machine) -> frozenset[str]:
    api_server = Component.API_SERVER in machine.containers  # also one that was asked to end
    running = {"kubeadm": machine.kubeadm_runs, "etcd": machine.member is not None, "kube-apiserver": api_server}
    return frozenset(name for name, runs in running.items() if runs)


def _readyz(site: Site, machine: Machine) -> Fact[Answer]:
    if machine.api_version is None or machine.api_settings in site.broken_settings:
        return Absent()
    return Answer(200, "ok") if site.serves(machine) else Answer(500, "[-]etcd failed")


def _etcd_health(site: Site, machine: Machine) -> Fact[Answer]:
    if machine.member is None:
        return Absent()
    return Answer(200, "true") if site.ring.follows_leader(machine.member) else Answer(503, "RAFT NO LEADER")


def _ca(number: int) -> Fact[tuple[Certificate, ...]]:
    return (_certificate(f"CA {number}", _ENDLESS),) if number else Absent()


def _leaf(expires: datetime | None) -> Fact[tuple[Certificate, ...]]:
    return Absent() if expires is None else (_certificate("leaf", expires),)


@cache
def _certificate(what: str, expires: datetime) -> Certificate:
    is_ca = what.startswith("ca")
    return Certificate(what.encode(), x509.Name([]), datetime(2020, 1, 1, tzinfo=UTC), expires, is_ca, b"", None)
