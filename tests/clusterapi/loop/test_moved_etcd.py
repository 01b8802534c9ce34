"""A specification that asks for etcd elsewhere than where the Machines have it: admission would refuse the edit, and nobody may have asked admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from quorate.core.machines.decide import decide

if TYPE_CHECKING:
    from .conftest import World

KCPS, MOVED = "kubeadmcontrolplanes", "etcd cannot be changed between local and external"
EXTERNAL = {
    "clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"], "caFile": "a", "certFile": "b", "keyFile": "c"}}}
}


def ask_for(world: World, specification: dict[str, Any]) -> None:
    world.api.change(KCPS, "demo", {"metadata": {"generation": 2}, "spec": {"kubeadmConfigSpec": specification}})


async def problems(world: World) -> tuple[str, ...]:
    view = (await world.look()).view
    assert view is not None
    return view.invalid


@pytest.mark.parametrize("known_by", ["configuration", "Pod"])
async def test_the_only_voter_that_is_well_stays_though_an_external_etcd_is_asked_for(three: World, known_by: str) -> None:
    for name in ("cp-1", "cp-2", "cp-3"):
        if known_by == "Pod":
            del three.api.objects["kubeadmconfigs", "default", name]
        else:
            three.api.change("kubeadmconfigs", name, {"spec": {"joinConfiguration": None}})
            del three.workload.pods[f"etcd-{name}"]
    ask_for(three, EXTERNAL)
    three.lose(2)
    three.lose(3)
    three.delete_machine("cp-1")
    view = (await three.look()).view
    assert view is not None
    decision = decide(view, three.now)
    assert decision.step is None
    assert [MOVED in check.evidence and "cp-1, cp-2, cp-3" in check.evidence for check in decision.refusals] == [True]


async def test_nor_does_etcd_come_from_elsewhere_to_the_machines(empty: World) -> None:
    ask_for(empty, EXTERNAL)
    empty.add_machine("cp-1")
    del empty.workload.pods["etcd-cp-1"]
    assert await problems(empty) == ()
    ask_for(empty, {"clusterConfiguration": {"etcd": {"external": None}}})
    (problem,) = await problems(empty)
    assert MOVED in problem
    assert problem.endswith("made with external etcd: cp-1")


async def test_a_machine_that_does_not_tell_is_no_witness(three: World) -> None:
    """One that joined by a configuration of its own, before it was adopted, need not say what etcd there is."""
    for name in ("cp-1", "cp-2", "cp-3"):
        three.api.change("kubeadmconfigs", name, {"spec": {"clusterConfiguration": None}})
        del three.workload.pods[f"etcd-{name}"]
    ask_for(three, EXTERNAL)
    assert await problems(three) == ()
