"""Snapshots of simulated members: real files, which the product verifies as those of any etcd."""

from __future__ import annotations

from pathlib import Path

from quorate.core.hosts.steps import TakeSnapshot
from quorate.etcd.snapshot_file import examine
from quorate.simulation.hosts import database
from quorate.simulation.hosts.acts import Act, Action
from tests.simulation.hosts_scenes import NEW, THREE, Scene, stage


def test_a_members_database_tells_its_revision(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(database.snapshot(1234))
    found = examine(path)
    assert (found.revision, found.size) == (1234, database.size())


def taken(scene: Scene) -> list[Path]:
    return sorted(Path(scene.operations.snapshots.name).glob("*.db"))


async def test_a_snapshot_comes_before_an_upgrade_and_is_left_on_the_operators_machine() -> None:
    async with stage() as scene:
        await scene.applied(*THREE)
        before = taken(scene)
        await scene.applied(*THREE, version=NEW)
        (made,) = set(taken(scene)) - set(before)
        assert made.name.startswith("site-20260101T")


async def test_nothing_is_left_of_one_whose_member_ends_in_the_middle_and_nothing_is_upgraded() -> None:
    async with stage() as scene:
        await scene.applied(*THREE)
        operations, before = scene.operations, taken(scene)

        def end(act: Act) -> None:
            if act.action is Action.BEGIN and isinstance(act.step, TakeSnapshot):
                operations.world.after(0.3, lose, scene)

        operations.witnesses.append(end)
        scene.want(*THREE, version=NEW)
        run = scene.run()
        await run.end()
        assert [type(step) for step in run.steps] == [TakeSnapshot]
        assert taken(scene) == before


def lose(scene: Scene) -> None:
    """The first member, which is asked."""
    machine = scene.machine("cp1")
    machine.etcd_fails, machine.member = True, None
    scene.operations.site.settle()
