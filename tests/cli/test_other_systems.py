"""The commands on a system that has neither memory files nor /proc, as macOS: as another process that is kept from both."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from quorate.pki import KeyAlgorithm, admin_kubeconfig, generate_ca
from tests.https import served

NOW = datetime.now(UTC)
ELSEWHERE = """
import os, resource, sys, time
for module, name in ((os, "memfd_create"), (time, "CLOCK_BOOTTIME"), (os, "sched_getaffinity"), (os, "pidfd_open"), (os, "setns")):
    if hasattr(module, name):
        delattr(module, name)
import pathlib
pathlib.Path.is_dir = lambda self, _is_dir=pathlib.Path.is_dir: not str(self).startswith("/proc") and _is_dir(self)

def without_proc(event, arguments):
    if event == "open" and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(arguments[0])

sys.addaudithook(without_proc)
"""
IMPORTS = """
import importlib, pkgutil, quorate
for module in pkgutil.walk_packages(quorate.__path__, "quorate."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
COMMAND = """
from quorate.cli.main import main
sys.argv = ["quorate", *{arguments!r}]
main()
"""


async def elsewhere(script: str) -> str:
    """What a script writes there. It must end well."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ELSEWHERE + script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()
    return out.decode()


async def empty(_: web.Request) -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


async def test_every_module_can_be_imported() -> None:
    await elsewhere(IMPORTS)


async def test_a_command_shows_the_server_the_certificate_of_its_kubeconfig(tmp_path: Path) -> None:
    ca = generate_ca(KeyAlgorithm.ECDSA_P256, now=NOW)
    async with served(ca, empty, wants_certificates=True) as port:
        kubeconfig = admin_kubeconfig("demo", f"https://127.0.0.1:{port}", ca, KeyAlgorithm.ECDSA_P256, now=NOW)
        (tmp_path / "kubeconfig").write_bytes(kubeconfig)
        out = await elsewhere(COMMAND.format(arguments=["get", "--kubeconfig", str(tmp_path / "kubeconfig"), "-o", "json"]))
    assert json.loads(out) == []


@pytest.mark.parametrize("mode", ["machines", "hosts"])
async def test_both_modes_work_in_the_simulated_world(mode: str) -> None:
    await elsewhere(COMMAND.format(arguments=["simulate", "--mode", mode, "--seed", "1"]))
