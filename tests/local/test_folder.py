"""A run folder is reused only when nothing lives in it, and nothing that is not ours is ever deleted."""

from __future__ import annotations

import stat

import msgspec
import pytest

from quorate.local.errors import FolderUnusable
from quorate.local.folder import Phase, RunFolder, State, write_private
from quorate.local.processes import Identity


def test_a_new_folder_has_no_record_and_becomes_private(folder: RunFolder, starting: State) -> None:
    assert folder.read() is None
    assert folder.reset(starting) is False
    assert folder.read() == starting
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.pki.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.state_file.stat().st_mode) == 0o600


def test_an_empty_folder_may_be_used(folder: RunFolder, starting: State) -> None:
    folder.path.mkdir()
    assert folder.reset(starting) is False


def test_what_a_dead_run_left_is_thrown_away(folder: RunFolder, starting: State, nobody: Identity) -> None:
    folder.reset(msgspec.structs.replace(starting, owner=nobody, processes={"etcd": nobody}))
    folder.log("etcd").write_text("old")
    assert folder.reset(starting) is True
    assert not folder.log("etcd").exists()


@pytest.mark.parametrize("phase", Phase)
def test_a_folder_whose_programs_run_is_refused(folder: RunFolder, starting: State, me: Identity, nobody: Identity, phase: Phase) -> None:
    folder.reset(msgspec.structs.replace(starting, owner=nobody, phase=phase, processes={"gone": nobody, "etcd": me}))
    with pytest.raises(
        FolderUnusable, match=rf"in {folder.path} runs already: use it, or end it with `quorate local down --folder {folder.path}`"
    ) as raised:
        folder.reset(starting)
    assert raised.value.exit_code == 7


def test_a_folder_in_which_another_start_is_under_way_is_refused(folder: RunFolder, starting: State) -> None:
    folder.reset(starting)  # no program yet, but this process lives
    with pytest.raises(FolderUnusable):
        folder.reset(starting)


def test_a_folder_whose_owner_lives_on_but_has_ended_the_cluster_is_free(folder: RunFolder, starting: State) -> None:
    folder.reset(msgspec.structs.replace(starting, phase=Phase.ENDED))
    assert folder.reset(starting) is True


def test_a_reused_pid_does_not_keep_a_folder(folder: RunFolder, starting: State, me: Identity, nobody: Identity) -> None:
    stranger = Identity(me.pid, me.started + 1)
    folder.reset(msgspec.structs.replace(starting, owner=nobody, processes={"etcd": stranger}))
    assert folder.reset(starting) is True


def test_a_folder_with_other_content_is_left_alone(folder: RunFolder, starting: State) -> None:
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("precious")
    for use in (folder.read, folder.remove, lambda: folder.reset(starting)):
        with pytest.raises(FolderUnusable, match="no run folder of quorate: choose another"):
            use()
    assert (folder.path / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("content", ["", "{", '{"version": 1}', '{"control_plane": "none", "owner": 3, "detached": true}'])
def test_a_record_that_cannot_be_read_is_an_error_and_not_a_reason_to_delete(folder: RunFolder, starting: State, content: str) -> None:
    folder.reset(starting)
    folder.state_file.write_text(content)
    with pytest.raises(FolderUnusable, match=r"state.json cannot be read \(.*\): end what still runs from there, then delete"):
        folder.reset(starting)


def test_removing_is_idempotent(folder: RunFolder, starting: State) -> None:
    folder.reset(starting)
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_a_private_file_stays_private_when_it_is_written_again(folder: RunFolder, starting: State) -> None:
    folder.reset(starting)
    for data in (b"a longer secret", b"secret"):
        write_private(folder.kubeconfig, data)
    assert folder.kubeconfig.read_bytes() == b"secret"
    assert stat.S_IMODE(folder.kubeconfig.stat().st_mode) == 0o600


def test_an_error_quotes_the_end_of_a_log_only(folder: RunFolder, starting: State) -> None:
    folder.reset(starting)
    folder.log("etcd").write_text("".join(f"line {number}\n" for number in range(100)))
    assert folder.log_tail("etcd").splitlines()[0] == "  line 85"
    assert folder.log_tail("etcd").endswith("  line 99")
    assert folder.log_tail("never-started") == ""
