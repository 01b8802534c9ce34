"""Firewalls and SELinux that preparing a host would turn off: seen by the real probe, said by the plan host by host, and left on where they are to be kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quorate.cli import lines as told
from quorate.cli.hosts.plan import plan_of
from quorate.core.hosts.state import Cluster, RunOptions
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.prerequisites import prepare
from tests.hosts.manifests import document, load
from tests.hosts.observe.world import NAMES, FolderHost, World, stand, three
from tests.hosts.probe.machine import NOW, units
from tests.hosts.scripts import FakeHost

SWITCHED_OFF = "Switched off while the hosts are prepared; --keep-firewall leaves them on"
RUNNING = "\n\nId=firewalld.service\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nNRestarts=0"


def debian(host: FolderHost, *, ufw: str = "") -> None:
    host.folder.file("etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    host.folder.program("systemctl", f"cat <<'END'\n{units()}\nEND")
    if ufw:
        host.folder.file("etc/ufw/ufw.conf", f"# comment\nENABLED={ufw}\n")


def rocky(host: FolderHost, *, firewalld: bool, enforcing: str) -> None:
    host.folder.file("etc/os-release", 'ID="rocky"\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\n')
    found = units().partition("\n\nId=firewalld")[0] + (RUNNING if firewalld else "")
    host.folder.program("systemctl", f"cat <<'END'\n{found}\nEND")
    if enforcing:
        host.folder.file("sys/fs/selinux/enforce", enforcing)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(three(), tmp_path)
    debian(made.machines["cp-1"], ufw="yes")
    debian(made.machines["cp-2"], ufw="no")
    rocky(made.machines["cp-3"], firewalld=True, enforcing="1")
    return made


def section(cluster: Cluster, heading: str) -> list[str]:
    lines = told.plan(plan_of(cluster, NOW)).split("\n")
    return lines[lines.index(heading) + 1 : lines.index("", lines.index(heading))] if heading in lines else []


async def test_the_plan_says_host_by_host_what_is_switched_off(world: World) -> None:
    cluster = await world.cluster()
    assert {host.name: host.guarded_by for host in cluster.hosts} == {
        "cp-1": ("ufw",),
        "cp-2": (),
        "cp-3": ("firewalld", "SELinux (enforcing)"),
    }
    assert section(cluster, SWITCHED_OFF) == ["  cp-1: ufw", "  cp-3: firewalld", "  cp-3: SELinux (enforcing)"]


async def test_the_plan_says_that_they_stay_and_what_has_to_be_open(world: World) -> None:
    cluster = await world.cluster()
    text = told.plan(plan_of(replace(cluster, options=RunOptions(keep_firewall=True)), NOW))
    assert SWITCHED_OFF not in text
    heading = next(line for line in text.split("\n") if line.startswith("Left on (--keep-firewall)"))
    assert all(port in heading for port in ("6443", "2379", "2380", "10250", "nodePortRange"))
    assert "  cp-3: firewalld\n" in text


async def test_what_is_off_is_not_said_and_what_is_not_known_is(world: World) -> None:
    rocky(world.machines["cp-3"], firewalld=False, enforcing="0")
    debian(world.machines["cp-1"], ufw="no")
    assert section(await world.cluster(), SWITCHED_OFF) == []
    world.machines["cp-3"].folder.program("systemctl", "exit 1")
    world.machines["cp-3"].folder.file("sys/fs/selinux/enforce", "what?")
    unknown = "of which it is not known whether it is on"
    assert section(await world.cluster(), SWITCHED_OFF) == [
        f"  cp-3: {name}, {unknown}" for name in ("firewalld", "nftables", "SELinux (enforcing)")
    ]


@pytest.mark.parametrize("line", ["SELINUX=enforcing", "SELINUX= Enforcing"])
async def test_selinux_that_enforces_at_the_next_boot_is_said_and_switched_off(world: World, tmp_path: Path, line: str) -> None:
    """Permissive for now, by setenforce 0 or enforcing=0."""
    rocky(world.machines["cp-3"], firewalld=False, enforcing="0")
    world.machines["cp-3"].folder.file("etc/selinux/config", f"# SELINUX=enforcing\n{line}\n")
    assert (await world.cluster()).host("cp-3").guarded_by == ("SELinux (enforcing at the next boot)",)
    host = FakeHost(tmp_path / "root", tmp_path / "programs")
    configuration = host.root / "etc/selinux/config"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(f"# SELINUX=enforcing\n{line}\n")
    for name in ("modprobe", "swapoff", "getenforce", "systemctl", "nft"):
        host.program(name)
    assert "changed selinux configuration" in host.changes(prepare(load(document()), OperatingSystem.ROCKY_LINUX))
    assert configuration.read_text() == "# SELINUX=enforcing\nSELINUX=permissive\n"


async def test_selinux_that_is_permissive_at_the_next_boot_too_is_not_said(world: World) -> None:
    rocky(world.machines["cp-3"], firewalld=False, enforcing="0")
    world.machines["cp-3"].folder.file("etc/selinux/config", "# SELINUX=enforcing\nSELINUX=permissive\n")
    assert (await world.cluster()).host("cp-3").guarded_by == ()
    rocky(world.machines["cp-3"], firewalld=False, enforcing="1")
    world.machines["cp-3"].folder.file("etc/selinux/config", "SELINUX=enforcing\n")
    assert (await world.cluster()).host("cp-3").guarded_by == ("SELinux (enforcing)",), "once is enough"


def test_ufw_that_comes_up_at_the_next_boot_is_switched_off_as_the_plan_says(tmp_path: Path) -> None:
    host = FakeHost(tmp_path / "root", tmp_path / "programs")
    configuration = host.root / "etc/ufw/ufw.conf"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("ENABLED=yes\n")
    for name in ("modprobe", "swapoff", "systemctl", "nft"):
        host.program(name)
    host.program("ufw", "echo 'Status: inactive'")
    assert "changed ufw" in host.changes(prepare(load(document()), OperatingSystem.DEBIAN))


def nftables(host: FolderHost, *, rules: str, active: bool = True) -> None:
    """The service is enabled, and `nft` lists these rules, or fails without any."""
    state = "ActiveState=active\nSubState=exited" if active else "ActiveState=inactive\nSubState=dead"
    others = units().partition("\n\nId=nftables")[0]
    found = f"{others}\n\nId=nftables.service\nLoadState=loaded\n{state}\nUnitFileState=enabled\nNRestarts=0"
    host.folder.program("systemctl", f"cat <<'END'\n{found}\nEND")
    host.folder.program("nft", f"cat <<'END'\n{rules}\nEND" if rules else "exit 1")


DROPPING = "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t\ttcp dport 22 accept\n\t}\n}"
REJECTING = "table inet filter {\n\tchain input {\n\t\tcounter packets 7 bytes 420 reject with icmpx admin-prohibited\n\t}\n}"
ACCEPTING = 'table inet filter {\n\tchain dropped {\n\t\ttcp dport 22 accept comment "nothing to drop-in"\n\t}\n}'


@pytest.mark.parametrize(
    ("rules", "active", "said"),
    [
        (DROPPING, True, ("nftables",)),
        (REJECTING, True, ("nftables",)),
        (ACCEPTING, True, ()),
        (ACCEPTING, False, ("nftables",)),  # what it loads at the next boot is not known
        ("", True, ("nftables, of which it is not known whether it is on",)),
    ],
)
async def test_the_nftables_service_is_a_firewall_where_a_rule_drops(world: World, rules: str, active: bool, said: tuple[str, ...]) -> None:
    nftables(world.machines["cp-2"], rules=rules, active=active)
    assert section(await world.cluster(), SWITCHED_OFF)[1:-2] == [f"  cp-2: {each}" for each in said]


@pytest.mark.parametrize(("rules", "stops"), [(DROPPING, True), (REJECTING, True), (ACCEPTING, False), ("", True)])
@pytest.mark.parametrize("system", [OperatingSystem.DEBIAN, OperatingSystem.ROCKY_LINUX])
def test_the_service_is_switched_off_where_the_plan_says_so(tmp_path: Path, system: OperatingSystem, rules: str, stops: bool) -> None:
    host = FakeHost(tmp_path / "root", tmp_path / "programs")
    host.root.mkdir()
    for name in ("modprobe", "swapoff", "ufw", "getenforce", "systemctl"):
        host.program(name)
    host.program("nft", f"cat <<'END'\n{rules}\nEND" if rules else "exit 1")
    script = prepare(load(document()), system)
    assert ("changed unit nftables.service" in host.changes(script)) is stops
    assert ("systemctl disable --now --quiet nftables.service" in host.calls) is stops


async def test_nothing_is_switched_off_on_a_host_that_has_joined(tmp_path: Path) -> None:
    world = stand(tmp_path)
    for name in NAMES:
        world.machines[name].folder.file("etc/ufw/ufw.conf", "ENABLED=yes\n")
    assert [host.guarded_by for host in (await world.cluster()).hosts] == [(), (), ()]


@pytest.mark.parametrize("system", [system for system in OperatingSystem if system is not OperatingSystem.UNKNOWN])
def test_what_is_to_be_kept_is_not_in_the_script(system: OperatingSystem) -> None:
    manifest = load(document())
    kept, as_ever = prepare(manifest, system, keep_firewall=True), prepare(manifest, system)
    switches = ("ufw disable", "setenforce 0", "SELINUX=permissive", "stopped firewalld", "nftables")
    assert [switch for switch in switches if switch in kept] == []
    assert any(switch in as_ever for switch in switches) is (system is not OperatingSystem.FLATCAR)
