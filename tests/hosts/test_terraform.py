"""Terraform's outputs come from a file, from standard input, from a local state, or from Terraform itself, which is not waited for beyond a deadline."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import pytest

from quorate.hosts.manifest.terraform import Outputs, TerraformError, parse, read

NO_INPUT = io.BytesIO()
OUTPUTS = {"kubeone_api": {"sensitive": False, "value": {"endpoint": "a"}}}


def program(folder: Path, name: str, script: str) -> None:
    """Put a program in PATH's only folder."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing in it yet."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that Terraform works in."""
    made = tmp_path / "infrastructure"
    made.mkdir()
    return made


async def test_outputs_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tf.json"
    file.write_text(json.dumps(OUTPUTS))
    assert await read(str(file), NO_INPUT) == Outputs(str(file), OUTPUTS)


async def test_outputs_are_read_from_standard_input() -> None:
    assert await read("-", io.BytesIO(json.dumps(OUTPUTS).encode())) == Outputs("standard input", OUTPUTS)


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TerraformError, match=r"none.json: cannot be read: No such file or directory; give a file, a folder, or -"):
        await read(str(tmp_path / "none.json"), NO_INPUT)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "tf.json:1: is not JSON"),
        (b'{"a":\n hunter2}', "tf.json:2: is not JSON"),
        (b"\xff\xfe\x00", "tf.json: is not JSON"),
        (b"9" * 5000, "tf.json: is not JSON"),
        (b"[" * 100_000, "tf.json: is not JSON"),
        (b"[]", "tf.json: is not an object of outputs"),
        (b'"hunter2"', "tf.json: is not an object of outputs"),
    ],
)
def test_what_is_no_output_is_refused_and_not_quoted(content: bytes, expected: str) -> None:
    with pytest.raises(TerraformError) as caught:
        parse(content, "tf.json")
    assert str(caught.value).startswith(expected)
    assert "hunter2" not in str(caught.value)


@pytest.mark.usefixtures("programs")
async def test_a_local_state_is_read_without_terraform(folder: Path) -> None:
    (folder / "terraform.tfstate").write_text(json.dumps({"version": 4, "outputs": OUTPUTS}))
    assert await read(str(folder), NO_INPUT) == Outputs(str(folder / "terraform.tfstate"), OUTPUTS)


@pytest.mark.parametrize("name", ["terraform", "tofu"])
async def test_terraform_or_opentofu_is_asked_in_its_folder(folder: Path, programs: Path, name: str) -> None:
    (folder / "answer.json").write_text(json.dumps(OUTPUTS) + "\n")
    program(programs, name, 'test "$*" = "output -json" && while read -r line; do echo "$line"; done < answer.json')
    assert (await read(str(folder), NO_INPUT)).values == OUTPUTS


async def test_a_state_that_has_moved_to_a_backend_is_asked_of_terraform(folder: Path, programs: Path) -> None:
    (folder / "terraform.tfstate").write_text(json.dumps({"version": 4, "outputs": {}}))
    program(programs, "terraform", 'echo \'{"kubeone_api": {"value": {}}}\'')
    assert (await read(str(folder), NO_INPUT)).values == {"kubeone_api": {"value": {}}}


@pytest.mark.usefixtures("programs")
async def test_a_folder_without_a_state_and_without_terraform_is_refused(folder: Path) -> None:
    with pytest.raises(TerraformError, match="has no local state, and neither terraform nor tofu is in PATH"):
        await read(str(folder), NO_INPUT)


async def test_terraforms_failure_is_told(folder: Path, programs: Path) -> None:
    program(programs, "terraform", "exit 3")
    with pytest.raises(TerraformError, match="terraform output failed with exit code 3; it says why on stderr"):
        await read(str(folder), NO_INPUT)


async def test_terraform_is_not_waited_for_beyond_the_deadline(folder: Path, programs: Path) -> None:
    program(programs, "terraform", "read -r line < /dev/zero")
    with pytest.raises(TerraformError, match=r"terraform did not answer in 0\.1 s"):
        await read(str(folder), NO_INPUT, deadline=0.1)


async def test_terraform_cannot_ask_for_anything(folder: Path, programs: Path) -> None:
    program(programs, "terraform", "read -r line || echo '{}'")
    assert (await read(str(folder), NO_INPUT)).values == {}
