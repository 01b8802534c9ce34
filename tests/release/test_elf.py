"""Which libraries a program asks for, as the loader sees it."""

from __future__ import annotations

import _ssl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.release.elf import needed


@pytest.mark.parametrize("path", [Path(sys.executable).resolve(), Path(_ssl.__file__)], ids=["python", "_ssl"])
def test_the_libraries_are_those_that_readelf_names(path: Path) -> None:
    if not shutil.which("readelf"):
        pytest.skip("readelf is not on the PATH: apt install binutils")
    lines = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout.splitlines()
    named = {line.rpartition("[")[2].rstrip("]") for line in lines if "(NEEDED)" in line}
    assert needed(path) == named
    assert named


def test_a_text_asks_for_none() -> None:
    assert needed(Path(__file__)) == frozenset()
