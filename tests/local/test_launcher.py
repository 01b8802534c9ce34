"""Programs are started with a record, and whoever waits for one that fails is told why."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quorate.local import processes
from quorate.local.commands import Command
from quorate.local.errors import StartFailed
from quorate.local.folder import Phase, RunFolder, State
from quorate.local.launcher import Launcher, stop_order


@pytest.fixture
async def launcher(folder: RunFolder, starting: State) -> AsyncIterator[Launcher]:
    folder.reset(starting)
    made = Launcher(folder, starting)
    yield made
    await made.stop_all()


def python(name: str, source: str) -> Command:
    return Command(name, (sys.executable, "-c", source))


def reap(pid: int) -> None:
    os.waitpid(pid, 0)


async def never() -> str:
    return "it answers 503"


def said(launcher: Launcher, name: str, word: str) -> bool:
    return word in launcher.folder.log(name).read_text()


async def test_what_is_started_is_on_record_before_anything_else_happens(launcher: Launcher, folder: RunFolder) -> None:
    launcher.start(python("first", "import time; time.sleep(60)"))
    launcher.start(python("second", "import time; time.sleep(60)"))
    record = folder.read()
    assert record is not None
    assert list(record.processes) == ["first", "second"]
    assert all(process.alive for process in record.processes.values())
    assert record.phase is Phase.STARTING


async def test_it_waits_until_the_program_is_ready(launcher: Launcher) -> None:
    launcher.start(python("slow", "import time; print('booted', flush=True); time.sleep(60)"))

    async def probe() -> str:
        return "" if said(launcher, "slow", "booted") else "not booted"

    await launcher.until("slow", probe, timeout=30)


async def test_a_program_that_ends_while_it_starts_is_an_error_with_its_code_and_last_words(launcher: Launcher) -> None:
    launcher.start(python("bad", "print('cannot bind'); raise SystemExit(7)"))
    with pytest.raises(StartFailed, match=r"(?s)bad ended with code 7 while it started; the end of .*bad.log:\n  cannot bind") as raised:
        await launcher.until("bad", never, timeout=30)
    assert raised.value.exit_code == 5


async def test_a_program_that_is_never_ready_is_an_error_that_says_what_it_answered(launcher: Launcher) -> None:
    launcher.start(python("stuck", "import time; time.sleep(60)"))
    with pytest.raises(StartFailed, match=r"(?s)stuck was not ready within 0 s \(it answers 503\); the end of .*\(empty\)"):
        await launcher.until("stuck", never, timeout=0.2)


async def test_a_program_that_cannot_be_started_is_named_with_its_path(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("not a program")
    with pytest.raises(StartFailed, match=rf"etcd could not be started from {tmp_path}/etcd: .*Permission denied"):
        launcher.start(Command("etcd", (str(tmp_path / "etcd"),)))


async def test_stopping_all_ends_everything_and_frees_the_folder(launcher: Launcher, folder: RunFolder) -> None:
    for name in ("etcd", "kube-apiserver", "capi-core"):
        launcher.start(python(name, "import time; time.sleep(60)"))
    launcher.mark_ready()
    await launcher.stop_all()
    await launcher.stop_all()
    record = folder.read()
    assert record is not None
    assert record.phase is Phase.ENDED
    assert not any(process.alive for process in record.processes.values())


async def test_a_program_that_ended_by_itself_is_noticed(launcher: Launcher) -> None:
    launcher.start(python("etcd", "import time; time.sleep(60)"))
    launcher.start(python("manager", "import time; time.sleep(60)"))
    assert launcher.ended() == ()
    os.kill(launcher.state.processes["manager"].pid, 9)
    while launcher.state.processes["manager"].alive:
        os.sched_yield()
    assert launcher.ended() == ("manager",)
    await launcher.stop("etcd")
    assert launcher.ended() == ("manager",)


async def test_an_unknown_program_is_answered_with_those_there_are(launcher: Launcher) -> None:
    launcher.start(python("etcd", ""))
    with pytest.raises(KeyError, match="no program ectd in this local cluster: it has etcd"):
        launcher.command("ectd")


async def test_programs_of_a_detached_cluster_stay_when_they_are_let_go(launcher: Launcher) -> None:
    launcher.start(python("etcd", "import time; time.sleep(60)"))
    process = launcher.state.processes["etcd"]
    launcher.let_go()
    await launcher.stop_all()
    assert process.alive
    await processes.stop(process, grace=5)
    reap(process.pid)


def test_what_uses_the_api_server_ends_before_it_and_etcd_last() -> None:
    assert stop_order(["etcd", "kube-apiserver", "kube-controller-manager", "capi-core", "capi-capd"]) == [
        ["kube-controller-manager", "capi-core", "capi-capd"],
        ["kube-apiserver"],
        ["etcd"],
    ]
    assert stop_order([]) == []
