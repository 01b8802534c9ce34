"""The CAs as a host gives them to the next one: what it leaves out or garbles is a refusal that names the host and the file."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.hosts.act.failures import StepFailed
from quorate.hosts.act.keys import PKI, read_cas
from quorate.hosts.act.tools import Tools
from quorate.hosts.connect.ssh.scripts import Outcome
from tests.hosts.act.world import pki_files


def saying(files: dict[str, bytes]) -> Tools:
    """Tools whose hosts answer the script with these files, each encoded already."""

    async def look(*_: Any, **__: Any) -> Outcome:
        return Outcome(0, b"".join(name.encode() + b" " + text + b"\n" for name, text in files.items()), b"")

    return cast("Tools", SimpleNamespace(look=look))


def well() -> dict[str, bytes]:
    return {path.removeprefix(f"{PKI}/"): base64.b64encode(content) for path, content in pki_files().items()}


async def test_what_a_host_has_is_given_on_as_it_is() -> None:
    found = await read_cas(saying(well()), "h1")
    assert {file.path: file.content for file in found.files} == pki_files()


@pytest.mark.parametrize("text", [b"", b"=", b"?", b"\xff\xfe", b"AAA", "²".encode()])
@pytest.mark.parametrize("name", ["ca.crt", "etcd/ca.key", "sa.pub"])
async def test_a_file_that_does_not_arrive_as_it_is_names_the_host_and_the_file(name: str, text: bytes) -> None:
    with pytest.raises(StepFailed, match=rf"h1: .*{PKI}/{name}"):
        await read_cas(saying(well() | {name: text}), "h1")


@pytest.mark.parametrize("name", well())
async def test_a_file_that_is_not_told_of_is_named(name: str) -> None:
    files = well()
    del files[name]
    with pytest.raises(StepFailed, match=rf"h1: {PKI}/{name} was changed or cut off on the way"):
        await read_cas(saying(files), "h1")


async def test_an_answer_that_is_none_is_a_refusal() -> None:
    async def noise(*_: Any, **__: Any) -> Outcome:
        return Outcome(0, b"\xff\n \n\x1b[2J", b"")

    with pytest.raises(StepFailed, match=rf"h1: {PKI}/ca.crt was changed or cut off on the way"):
        await read_cas(cast("Tools", SimpleNamespace(look=noise)), "h1")
