"""Up, down and status from the outside, as far as no real program is needed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from quorate import local
from quorate.local import ports, processes, startup, turns
from quorate.local.errors import FolderUnusable, MissingTool, PortTaken, TurnTimeout
from quorate.local.folder import Phase, RunFolder, State
from quorate.local.processes import Identity

Script = Callable[[str], "subprocess.Popen[bytes]"]
LISTEN = "import socket; s = socket.create_server(('127.0.0.1', {port}))"


@pytest.fixture
def own_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A turn of this test's own, for a real local cluster may run beside it."""
    file = tmp_path / "turn.lock"
    monkeypatch.setattr(turns, "turn_file", lambda: file)
    return file


@pytest.fixture
def capd_port(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The ports that CAPD fixes, moved to free ones."""
    request.getfixturevalue("own_turn")
    debug, listener = ports.choose(2, start=6100)
    monkeypatch.setattr(startup, "CAPD_DEBUG_PORT", debug)
    monkeypatch.setattr(startup, "CAPD_FIRST_LISTENER_PORT", listener)
    return debug


def test_nothing_was_ever_started(folder: RunFolder) -> None:
    found = local.status(folder.path)
    assert found.control_plane is None
    assert (found.ready, found.live) == (False, False)


async def test_ending_what_never_ran_is_no_error(folder: RunFolder) -> None:
    assert await local.down(folder.path, remove=True) == ()


async def test_down_ends_what_the_record_names_and_can_be_repeated(
    folder: RunFolder, starting: State, script: Script, nobody: Identity
) -> None:
    started = {name: processes.identify(script("").pid) for name in ("etcd", "kube-apiserver", "capi-core")}
    named = {name: process for name, process in started.items() if process} | {"capi-capd": nobody}
    folder.reset(msgspec.structs.replace(starting, owner=nobody, phase=Phase.READY, detached=True, processes=named))
    assert local.status(folder.path).live
    assert not local.status(folder.path).ready  # capi-capd is gone
    assert await local.down(folder.path) == ("capi-core", "kube-apiserver", "etcd")
    assert not local.status(folder.path).live
    assert await local.down(folder.path, remove=True) == ()
    assert not folder.path.exists()


async def test_up_does_nothing_where_everything_runs(folder: RunFolder, starting: State, me: Identity) -> None:
    folder.reset(msgspec.structs.replace(starting, phase=Phase.READY, detached=True, processes={"etcd": me}))
    assert await local.up(folder.path) is False


async def test_up_refuses_where_only_a_part_still_runs(folder: RunFolder, starting: State, me: Identity, nobody: Identity) -> None:
    folder.reset(
        msgspec.structs.replace(starting, owner=nobody, phase=Phase.READY, detached=True, processes={"etcd": me, "capi-core": nobody})
    )
    with pytest.raises(FolderUnusable, match="quorate local down --folder"):
        await local.up(folder.path)


async def test_a_port_of_capd_held_by_a_stranger_is_named_and_nothing_is_left_behind(
    folder: RunFolder, capd_port: int, script: Script
) -> None:
    stranger = script(LISTEN.format(port=capd_port))
    with pytest.raises(PortTaken, match=rf"port {capd_port}, which CAPD fixes, is held by pid {stranger.pid} \(.*\): stop it with"):
        async with local.running(folder.path):
            pytest.fail("it started")
    assert not local.status(folder.path).live
    stranger.kill()
    stranger.wait()
    with pytest.raises(MissingTool, match="make programs"):  # the folder is free again, and so is the turn
        await local.up(folder.path, "none", local.Options(programs=folder.path / "nowhere"))


@pytest.mark.usefixtures("capd_port")
@pytest.mark.parametrize("start", ["running", "up"])
async def test_programs_that_were_not_built_are_an_error_with_the_way_out(
    folder: RunFolder, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    options = local.Options(programs=tmp_path / "nowhere")

    async def begin() -> None:
        if start == "up":
            await local.up(folder.path, "upstream", options)
            return
        async with local.running(folder.path, "upstream", options):
            pytest.fail("it started")

    with pytest.raises(MissingTool, match=r"nowhere/etcd is missing: build the programs with `make programs`") as raised:
        await begin()
    assert raised.value.exit_code == 3


@pytest.mark.usefixtures("capd_port")
async def test_a_program_that_fails_takes_the_others_down_with_it(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    for name, body in (("etcd", "echo no space; exit 4"), ("kube-apiserver", "exec sleep 60")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    for manifest in ("core.yaml", "bootstrap-kubeadm.yaml", "capd.yaml"):
        (tmp_path / manifest).touch()
    with pytest.raises(local.LocalError, match=r"(?s)etcd ended with code 4 while it started.*no space"):
        await local.up(folder.path, "none", local.Options(programs=tmp_path))
    found = local.status(folder.path)
    assert set(found.processes) == {"etcd", "kube-apiserver"}
    assert not found.live


@pytest.mark.usefixtures("own_turn")
async def test_a_start_waits_for_another_stack_and_says_so(folder: RunFolder, tmp_path: Path) -> None:
    said: list[str] = []
    held = await turns.take_turn(tmp_path, said.append, timeout=1)
    with pytest.raises(TurnTimeout):
        await local.up(folder.path, "none", local.Options(say=said.append, turn_timeout=0.3))
    held.release()
    assert said == [f"waiting for another local stack (pid {os.getpid()}, {tmp_path})"]
    assert not local.status(folder.path).live


@pytest.mark.usefixtures("own_turn")
async def test_giving_up_while_waiting_frees_the_folder(folder: RunFolder, tmp_path: Path) -> None:
    held = await turns.take_turn(tmp_path, lambda _: None, timeout=1)
    waiting = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        start = group.create_task(local.up(folder.path, "none", local.Options(say=lambda _: waiting.set())))
        await waiting.wait()
        start.cancel()
    held.release()
    record = folder.read()
    assert record is not None
    assert record.phase is Phase.ENDED


async def test_an_unknown_provider_is_refused_before_anything_happens(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match="kamaji"):
        await local.up(folder.path, "kamaji")
    assert not folder.path.exists()
