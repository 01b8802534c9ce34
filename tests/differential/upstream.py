"""Upstream's program as a converter: what it is told about kinds, and how it is asked."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import click

from quorate import local
from quorate.local import manifests
from quorate.local.manifests import CAPD, KCP
from quorate.local.ports import LOOPBACK
from quorate.local.programs import PROGRAMS_FOLDER

Object = dict[str, Any]

CONTRACT = "v1beta2"


class Refused(Exception):
    """Upstream's program did not convert, and said why."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Upstream's program, which serves /convert on a port of loopback, known by a CA."""

    http: aiohttp.ClientSession
    port: int
    tls: ssl.SSLContext

    async def convert(self, objects: Sequence[Object], version: str) -> list[Object]:
        """The objects in another version. Raises Refused, which none of the objects is to blame for in particular."""
        request = {"uid": "1", "desiredAPIVersion": version, "objects": objects}
        review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
        async with self.http.post(f"https://{LOOPBACK}:{self.port}/convert", json=review, ssl=self.tls) as answer:
            response = json.loads(await answer.read())["response"]
        if response["result"]["status"] != "Success":
            raise Refused(response["result"]["message"])
        converted: list[Object] = response["convertedObjects"] or []  # Go's null, where nothing was asked for
        return converted


@asynccontextmanager
async def at(port: int, ca: Path) -> AsyncIterator[Upstream]:
    """Upstream's program where it listens already."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http:
        yield Upstream(http, port, ssl.create_default_context(cafile=str(ca)))


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Upstream]:
    """Upstream's program beside a local management cluster of its own, both for the length of the block."""
    async with local.running(folder, "upstream", local.Options(say=click.echo)) as cluster:
        flags = dict(argument.partition("=")[::2] for argument in cluster.launcher.command(KCP.program).arguments)
        async with at(int(flags["--webhook-port"]), cluster.folder.pki / "ca.crt") as upstream:
            yield upstream


def schemas(programs: Path = PROGRAMS_FOLDER) -> dict[tuple[str, str], Object]:
    """The schemas of upstream's control-plane kinds, by kind and version."""
    definitions = [item for item in manifests.read(programs / KCP.manifest) if item["kind"] == "CustomResourceDefinition"]
    return {
        (item["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
        for item in definitions
        for version in item["spec"]["versions"]
    }


def infrastructure(programs: Path = PROGRAMS_FOLDER) -> dict[tuple[str, str], str]:
    """In which apiVersion each kind of the infrastructure provider is served, by group and kind."""
    definitions = [item for item in manifests.read(programs / CAPD.manifest) if item["kind"] == "CustomResourceDefinition"]
    return {
        (
            item["spec"]["group"],
            item["spec"]["names"]["kind"],
        ): f"{item['spec']['group']}/{item['metadata']['labels'][f'cluster.x-k8s.io/{CONTRACT}']}"
        for item in definitions
    }
