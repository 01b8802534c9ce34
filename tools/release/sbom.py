"""The bill of materials of an image: Debian's packages and the wheels in it, with versions, hashes and licences, as CycloneDX 1.5.

Wheels are read from what is installed, so that nothing is listed that is not there; their hashes come from uv.lock. Source: cyclonedx.org, package-url.
"""

from __future__ import annotations

import json
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.message import Message
from email.parser import Parser
from itertools import product as product_of
from pathlib import Path
from typing import Any
from urllib.parse import quote

from quorate.local.programs import PROJECT
from tools.release.debian import Package
from tools.release.product import Product
from tools.release.rootfs import APPLICATION

_DISTRIBUTION = "debian-12"
Wheel = tuple[str, str, frozenset[str]]
"""A wheel: the package's name and version, and the tags of what it runs on."""


def bill(product: Product, root: Path, packages: Iterable[Package], architecture: str) -> str:
    """The document, as JSON. The same image gives the same bytes."""
    components = [_package(each) for each in packages] + _wheels(root / APPLICATION)
    names = json.dumps([component["bom-ref"] for component in components])
    subject = {"type": "container", "bom-ref": product.reference, "name": product.image, "version": product.tag}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{product.reference}/{product.commit}/{architecture}/{names}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(product.epoch, UTC).isoformat().replace("+00:00", "Z"),
            "component": subject | {"properties": [{"name": "architecture", "value": architecture}]},
        },
        "components": components,
        "dependencies": [{"ref": product.reference, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _package(package: Package) -> dict[str, Any]:
    url = f"pkg:deb/debian/{quote(package.name)}@{quote(package.version, safe='')}?arch={package.architecture}&distro={_DISTRIBUTION}"
    return _component(url, package.name, package.version, [package.sha256])


def _wheels(application: Path) -> list[dict[str, Any]]:
    locked = _locked()
    return [_wheel(path, locked) for path in sorted(application.glob("*.dist-info"))]


def _wheel(folder: Path, locked: Mapping[Wheel, str]) -> dict[str, Any]:
    metadata = _headers(folder / "METADATA")
    name, version = _normal(metadata["Name"]), metadata["Version"]
    tags = frozenset(_headers(folder / "WHEEL").get_all("Tag", ()))
    found = [locked[(name, version, tags)]] if (name, version, tags) in locked else []
    component = _component(f"pkg:pypi/{name}@{quote(version, safe='')}", name, version, found)
    licence = metadata.get("License-Expression") or metadata.get("License")
    return component | ({"licenses": [{"license": {"name": licence.splitlines()[0]}}]} if licence else {})


def _component(url: str, name: str, version: str, hashes: Iterable[str]) -> dict[str, Any]:
    listed = [{"alg": "SHA-256", "content": each} for each in sorted(hashes)]
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url} | ({"hashes": listed} if listed else {})


def _headers(path: Path) -> Message:
    return Parser().parsestr(path.read_text(encoding="utf-8"), headersonly=True)


def _locked() -> Mapping[Wheel, str]:
    """The hash of each wheel that the lock has."""
    packages = tomllib.loads((PROJECT / "uv.lock").read_text())["package"]
    return {
        (package["name"], package["version"], _tags(wheel["url"])): wheel["hash"].removeprefix("sha256:")
        for package in packages
        for wheel in package.get("wheels", ())
    }


def _tags(url: str) -> frozenset[str]:
    """The tags that the name of a wheel speaks of; one part of it may name several, with dots between."""
    parts = url.rpartition("/")[2].removesuffix(".whl").split("-")[-3:]
    return frozenset("-".join(tag) for tag in product_of(*(part.split(".") for part in parts)))


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
