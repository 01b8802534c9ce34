"""The settings of the running kernel, which somebody may change behind a file that says otherwise: set again, or listed where the host cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.hosts.run.overview import lasting
from tests.hosts.observe.world import NAMES, World, stand

FIXED = "/proc/sys/kernel/random/poolsize"
"""What no kernel lets anybody write."""
LIMIT = "net.netfilter.nf_conntrack_max"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return stand(tmp_path)


def put(world: World, setting: str, value: int) -> None:
    world.machines["cp-2"].folder.file(f"proc/sys/{setting.replace('.', '/')}", f"{value}\n")


async def test_a_setting_that_somebody_changed_is_drift_of_that_host_though_its_file_is_as_it_should(world: World) -> None:
    put(world, "net.ipv4.ip_forward", 0)
    put(world, "kernel.panic", 60)
    cluster = await world.cluster()
    assert [host.drift for host in cluster.hosts] == [
        (),
        ("kernel: kernel.panic is 60 instead of 10", "kernel: net.ipv4.ip_forward is 0 instead of 1"),
        (),
    ]
    assert lasting(cluster) == ()


@pytest.mark.parametrize(("value", "differs"), [(999_999, True), (1_000_000, False), (4_000_000, False)])
async def test_a_limit_that_somebody_raised_is_no_drift(world: World, value: int, differs: bool) -> None:
    put(world, LIMIT, value)
    assert bool((await world.cluster()).host("cp-2").drift) is differs


async def test_a_setting_that_the_host_may_not_change_is_listed_and_rolled_out_on_nobody(world: World) -> None:
    root = world.machines["cp-2"].folder.root
    (root / "proc/sys/kernel/panic").unlink()
    (root / "proc/sys/kernel/panic").symlink_to(FIXED)
    cluster = await world.cluster()
    assert [host.drift for host in cluster.hosts] == [()] * 3
    [line] = lasting(cluster)
    assert line.startswith("cp-2: kernel: kernel.panic is ")
    assert line.endswith(" instead of 10, and the host may not change it: set it on the machine that it runs on")


async def test_a_setting_that_the_kernel_does_not_have_is_listed_with_what_brings_it(world: World) -> None:
    for name in NAMES:
        (world.machines[name].folder.root / "proc/sys/net/bridge/bridge-nf-call-iptables").unlink()
    (world.machines["cp-2"].folder.root / "proc/sys/kernel/panic_on_oops").unlink()
    assert lasting(await world.cluster()) == (
        "cp-1, cp-2, cp-3: kernel: net.bridge.bridge-nf-call-iptables is not there: load kernel module br_netfilter (`modprobe br_netfilter`)",
        "cp-2: kernel: kernel.panic_on_oops is not there: the kernel was started without it, which its command line may say",
    )


@pytest.mark.parametrize("content", ["", "many\n"])
async def test_what_makes_no_sense_is_not_guessed(world: World, content: str) -> None:
    world.machines["cp-2"].folder.file("proc/sys/net/netfilter/nf_conntrack_max", content)
    cluster = await world.cluster()
    assert cluster.host("cp-2").drift == ((f"kernel: {LIMIT} is many instead of 1000000",) if content else ())
