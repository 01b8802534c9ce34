"""The documentation speaks of what is there: its tests, its paths and its functions exist, what is made from the code is current, and the site builds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import click
import pytest
import yaml

from quorate.cli.machines.get import HEADINGS
from quorate.cli.main import quorate
from quorate.hosts.manifest import parse
from tests import architecture

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MENTION = re.compile(r"`((?:tests/[\w./-]*)|(?:test_\w+))`")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*)`(?: `(\w+)`)?")
SOURCES = ROOT / "src" / "quorate"
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


def places(text: str) -> list[tuple[Path, str]]:
    """Paths that a page names, in the repository or below src/quorate, each with the function named right after it: `core/quorum.py` `gate`."""
    named = []
    for path, function in PATH.findall(text):
        root = next((root for root in (ROOT, SOURCES) if (root / path.partition("/")[0]).exists()), None)
        if root is not None and not path.startswith((".cache/", ".local/", ".bin/")):  # these are made
            named.append((root / path, function))
    return named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists_and_every_function_is_in_it(page: Path) -> None:
    named = places(page.read_text())
    assert [str(path) for path, _ in named if not path.exists()] == []
    assert [f"{path}: {name}" for path, name in named if path.is_file() and name and not re.search(rf"\b{name}\b", path.read_text())] == []


def test_a_wrong_path_would_be_found() -> None:
    named = places("`core/quorum.py` `gate`, `src/nowhere.py`, `tests/core`, `text/plain` and `.cache/nodes`")
    assert [(path.exists(), name) for path, name in named] == [(True, "gate"), (False, ""), (True, "")]


def test_ten_questions_of_a_newcomer_have_a_path_each() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| question |")[2].partition("\n\n")[0]
    answers = dict(re.findall(r"^\| (.+\?) \| (.+) \|$", table, re.MULTILINE))
    assert len(answers) >= 10
    assert [question for question, answer in answers.items() if not places(answer)] == []


def test_the_picture_of_the_packages_is_the_one_that_the_contracts_make() -> None:
    assert (ROOT / "docs" / "architecture.svg").read_text() == architecture.picture(), "run `make rules` and commit the result"


def test_every_package_is_in_the_picture() -> None:
    drawn = {room.name for level in architecture.rooms() for room in level}
    assert drawn == {path.stem for path in SOURCES.iterdir() if not path.name.startswith("__") and path.name != "py.typed"}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_of_pages_beside_the_site_lead_somewhere(page: Path) -> None:
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in target]
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.timeout(300)
def test_the_site_has_a_place_for_every_page_and_no_dead_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=240, check=False)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "index.html").exists()


def test_every_row_of_the_decision_table_has_its_tests() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", (ROOT / "docs" / "testing.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 44))
    assert [number for number, shown in rows if not MENTION.search(shown)] == []


def test_every_hazard_has_its_tests() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", (ROOT / "docs" / "hazards.md").read_text(), re.MULTILINE)
    assert sorted(int(number) for number, _ in rows) == list(range(1, len(rows) + 1))
    assert [number for number, shown in rows if not re.search(r"`test_\w+`", shown)] == []
    hazards = re.findall(r"^\| \d+ \| (.*?) \|", (ROOT / "docs" / "hazards.md").read_text(), re.MULTILINE)
    assert [hazard for hazard, times in Counter(hazards).items() if times > 1] == []


OUTPUTS = [
    path
    for folder in ("cli/golden/hosts", "cli/golden/machines", "cli/recorded", "e2e/plans")
    for path in (ROOT / "tests" / folder).glob("*.txt")
]


def pieces(page: str) -> list[str]:
    """What a page shows of programs' output: blocks marked `text`, without the commands and what is left out (...) between its pieces."""
    blocks = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [piece for block in blocks for piece in re.split(r"^(?:\$ .*|\.\.\.)\n", block, flags=re.MULTILINE) if piece.strip()]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("tutorial-*.md")), ids=lambda page: page.name)
def test_a_tutorial_shows_only_what_programs_print(page: Path) -> None:
    printed = [path.read_text() for path in OUTPUTS]
    shown = pieces(page.read_text())
    assert len(shown) > 5
    assert [piece for piece in shown if not any(piece in text for text in printed)] == []


def test_an_invented_output_would_be_found() -> None:
    assert pieces("```text\n$ quorate get\none\n...\ntwo\n```\n```sh\nls\n```\n") == ["one\n", "two\n"]


def test_recorded_tables_have_the_columns_that_are_printed_today() -> None:
    definition = yaml.load(
        (ROOT / "config/crd/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml").read_text(), Loader=yaml.CSafeLoader
    )
    columns = definition["spec"]["versions"][1]["additionalPrinterColumns"]
    kubectl = ("NAME", *(column["name"].upper() for column in columns if not column.get("priority")))
    recorded = [tuple(line.split()) for line in (ROOT / "tests" / "cli" / "recorded" / "commands.txt").read_text().splitlines()]
    assert kubectl in recorded
    assert HEADINGS in recorded


COMMAND = re.compile(r"^(?:\$ |until )?(?:\.?venv/bin/)?quorate ([^|>#;\n]+)", re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    """What a page has its reader enter, in blocks and in what is shown of a terminal: the arguments of each `quorate`."""
    blocks = re.findall(r"^```(?:sh|text)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    indented = [line.strip() for line in page.splitlines() if line.startswith("    ")]
    return [shlex.split(line) for line in COMMAND.findall("\n".join([*blocks, *indented]))]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page.read_text())], ids=lambda page: page.name)
def test_every_command_that_a_page_shows_is_one_that_the_program_has(page: Path) -> None:
    for arguments in commands(page.read_text()):
        command: click.Command = quorate
        with click.Context(quorate) as context:
            left = list(arguments)
            while isinstance(command, click.Group):
                found = command.get_command(context, left.pop(0))
                assert found is not None, arguments
                command = found
            command.make_context(arguments[0], left)  # raises UsageError for an option that it does not have


def test_the_manifest_of_the_tutorial_is_valid_as_it_stands() -> None:
    (manifest,) = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "tutorial-hosts.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [host.hostname for host in parse(manifest).control_plane.hosts] == ["cp-1", "cp-2", "cp-3"]


def test_commands_of_blocks_and_terminals_are_found() -> None:
    page = "```sh\nvenv/bin/quorate get --watch\n```\n\n```text\n$ quorate plan demo\nquorate?\n```\n\n    quorate run  # until Ctrl-C\n"
    assert commands(page) == [["get", "--watch"], ["plan", "demo"], ["run"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sh_can_read_every_command_that_a_page_shows(page: Path) -> None:
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        read = subprocess.run(["sh", "-n", "-c", block], capture_output=True, text=True, timeout=10, check=False)
        assert read.returncode == 0, f"{read.stderr}\n{block}"
