"""Terraform's outputs: from a file, from standard input, or from the folder that Terraform, or OpenTofu, works in.

Outputs may hold secrets: they show in no repr, and no error quotes them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

STANDARD_INPUT = "-"
PROGRAMS = ("terraform", "tofu")
DEADLINE = 60.0  # seconds: a remote state may be slow, and a program that asks for something never answers


class TerraformError(ValueError):
    """Outputs that cannot be had, or are none. The message names the file or folder, the cause and the way out."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What `terraform output -json` prints, by the name of the output; `source` tells people where it is from."""

    source: str
    values: Mapping[str, Any] = field(repr=False)


async def read(where: str, stdin: BinaryIO, *, deadline: float = DEADLINE) -> Outputs:
    """The outputs in the file `where`, or in `stdin` where that is `-`, or those of the folder `where`; raises TerraformError.

    In a folder, the outputs of a local state count; where there is none, Terraform is asked, for at most `deadline` seconds.
    """
    if where == STANDARD_INPUT:
        return parse(await asyncio.to_thread(stdin.read), "standard input")
    folder = Path(where)
    found = await asyncio.to_thread(_on_disk, folder)
    return found or parse(await _ask(folder, deadline), f"terraform output in {where}")


def absolute(where: str) -> str:
    """The same outputs, named so that they are found from any folder; empty where none are named."""
    return str(Path(where).absolute()) if where not in ("", STANDARD_INPUT) else where


def _on_disk(path: Path) -> Outputs | None:
    """The outputs in a file, or of the local state in a folder; None where only Terraform itself can tell."""
    if not path.is_dir():
        return parse(_content(path), str(path))
    state = path / "terraform.tfstate"
    outputs = _local_state(state)
    return Outputs(str(state), outputs) if outputs else None


def parse(content: bytes, source: str) -> Outputs:
    """The outputs in the text that `terraform output -json` printed; raises TerraformError."""
    return Outputs(source, _object(content, source))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TerraformError(f"{path}: cannot be read: {error.strerror}; give a file, a folder, or - for standard input") from None


def _object(content: bytes, source: str) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:  # a ValueError alone: of a number with thousands of digits
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TerraformError(f"{source}{line}: is not JSON; give what `terraform output -json` prints") from None
    if not isinstance(document, dict):
        raise TerraformError(f"{source}: is not an object of outputs; give what `terraform output -json` prints")
    return document


def _local_state(path: Path) -> Mapping[str, Any]:
    """The outputs in a local state; none where there is no such file, or it is what remains after a move to a remote state."""
    if not path.is_file():
        return {}
    outputs = _object(_content(path), str(path)).get("outputs")
    return outputs if isinstance(outputs, dict) else {}


async def _ask(folder: Path, deadline: float) -> bytes:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise TerraformError(
            f"{folder}: has no local state, and neither terraform nor tofu is in PATH; give the file that `terraform output -json` wrote"
        )
    process = await asyncio.create_subprocess_exec(
        *(program, "output", "-json"), cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        async with asyncio.timeout(deadline):
            output, _ = await process.communicate()
    except TimeoutError:
        raise TerraformError(
            f"{folder}: {program} did not answer in {deadline:g} s; run `terraform output -json` there to see why"
        ) from None
    finally:
        if process.returncode is None:  # a group of its own: the providers it started end with it
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise TerraformError(f"{folder}: {program} output failed with exit code {process.returncode}; it says why on stderr")
    return output
