"""What the documentation says is shown by a test is shown by a test that exists, in the file that it names."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MENTION = re.compile(r"`((?:tests/[\w./-]*)|(?:test_\w+))`")
DEFINITION = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names of the tests in a file, or in all files below a folder."""
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return frozenset(name for file in files for name in DEFINITION.findall(file.read_text()))


def untrue(text: str) -> list[str]:
    """Mentions of files and tests that do not exist. A test belongs to the file or folder named before it in the same cell, or to any."""
    found = []
    for cell in re.split(r"\||\n\n", text):
        place = ROOT / "tests"
        for mention in MENTION.findall(cell):
            if mention.startswith("tests/"):
                place = ROOT / mention
                found += [] if place.exists() else [mention]
            elif mention not in names_in(place):
                found.append(f"{place.relative_to(ROOT)}: {mention}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_test_that_a_page_names_exists(page: Path) -> None:
    assert untrue(page.read_text()) == []


def test_a_wrong_file_and_a_wrong_name_are_found() -> None:
    this = "`tests/test_documentation.py`"
    assert untrue(f"| {this}: `test_a_wrong_file_and_a_wrong_name_are_found` |") == []
    assert untrue(f"| {this}: `test_nothing` |") == ["tests/test_documentation.py: test_nothing"]
    assert untrue("| `tests/nowhere.py` |") == ["tests/nowhere.py"]
    assert untrue("| `tests/core/`: `test_removal` | `test_help_comes_within_150_ms` |") == []
    assert untrue("| `tests/core/`: `test_help_comes_within_150_ms` |") == ["tests/core: test_help_comes_within_150_ms"]


def test_every_row_of_the_decision_table_has_its_tests() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", (ROOT / "docs" / "testing.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 44))
    assert [number for number, shown in rows if not MENTION.search(shown)] == []


def test_every_hazard_has_its_tests() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", (ROOT / "docs" / "hazards.md").read_text(), re.MULTILINE)
    assert sorted(int(number) for number, _ in rows) == list(range(1, len(rows) + 1))
    assert [number for number, shown in rows if not re.search(r"`test_\w+`", shown)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sh_can_read_every_command_that_a_page_shows(page: Path) -> None:
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        read = subprocess.run(["sh", "-n", "-c", block], capture_output=True, text=True, timeout=10, check=False)
        assert read.returncode == 0, f"{read.stderr}\n{block}"
