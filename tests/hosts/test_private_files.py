"""What quorate leaves beside a manifest: for its owner's eyes, for no commit, and never through a link."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from quorate.hosts.private_files import IGNORE, create, private_folder


def test_git_leaves_the_folder_alone_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "demo-snapshots"
    for _ in range(2):
        private_folder(folder)
    (folder / "demo.db").write_text("every Secret")
    modes = (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE((folder / IGNORE).stat().st_mode))
    assert modes == (0o700, 0o600)
    git = shutil.which("git") or pytest.fail("this machine has no git, which the project is built with")
    subprocess.run([git, "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "kubeone.yaml").touch()
    status = [git, "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, check=True, capture_output=True, text=True).stdout == "?? kubeone.yaml\n"


def test_a_folder_of_the_users_own_is_not_taken_out_of_its_repository(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    private_folder(tmp_path)
    assert not (tmp_path / IGNORE).exists()


def test_nothing_is_written_through_a_link_or_over_a_file(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("kept")
    link.symlink_to(tmp_path / "elsewhere")
    for path in (there, link):
        with pytest.raises(FileExistsError):
            create(path)
    assert there.read_text() == "kept"
    assert not (tmp_path / "elsewhere").exists()
    os.close(create(tmp_path / "new"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
