"""A container image as one archive, in OCI's layout and with the list that older Docker daemons read, from a root file system. No daemon is asked.

The same files give the same bytes: names are sorted, every file is root's, and has the time of the commit. Source: OCI's image specification 1.1; Docker's
image specification 1.2 for manifest.json.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.release.product import Product
from tools.release.rootfs import USER

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
_PATH = "PATH=/usr/local/bin:/usr/bin"
_LEVEL = 6  # of gzip: 9 takes three times as long for one percent


@dataclass
class _Blobs:
    """What the archive holds, by digest."""

    contents: dict[str, bytes] = field(default_factory=dict)

    def add(self, content: bytes, media_type: str) -> dict[str, Any]:
        """The descriptor of this content."""
        digest = _digest(content)
        self.contents[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def write(path: Path, root: Path, product: Product, architecture: str, *, upper: str) -> str:
    """Write the archive of `root`, of two layers: what is below the folder `upper` is one of its own, since it changes most. Returns the manifest's digest."""
    blobs = _Blobs()
    files = sorted(each.relative_to(root) for each in root.rglob("*"))
    split = [[each for each in files if each.is_relative_to(upper) is above] for above in (False, True)]
    layers = [_layer(root, part, product.epoch) for part in split]
    described = [blobs.add(gzip.compress(layer, _LEVEL, mtime=0), LAYER_TYPE) for layer in layers]
    config = blobs.add(_json(_configuration(product, architecture, layers)), CONFIG_TYPE)
    manifest = blobs.add(
        _json({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": described, "annotations": _labels(product)}),
        MANIFEST_TYPE,
    )
    _write(
        path, blobs, {"oci-layout": _json({"imageLayoutVersion": "1.0.0"})} | _indexes(product, architecture, manifest, config, described)
    )
    return str(manifest["digest"])


def _configuration(product: Product, architecture: str, layers: Iterable[bytes]) -> dict[str, Any]:
    return {
        "created": _time(product),
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [_PATH, "LANG=C.UTF-8"],
            "Entrypoint": ["/usr/local/bin/quorate"],
            "WorkingDir": "/",
            "Labels": _labels(product),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in layers]},
    }


def _labels(product: Product) -> dict[str, str]:
    prefix = "org.opencontainers.image"
    return {
        f"{prefix}.title": "quorate",
        f"{prefix}.description": "Kubernetes control planes that keep their quorum",
        f"{prefix}.licenses": "Apache-2.0",
        f"{prefix}.version": product.version,
        f"{prefix}.revision": product.commit,
        f"{prefix}.created": _time(product),
    }


def _indexes(
    product: Product, architecture: str, manifest: Mapping[str, Any], config: Mapping[str, Any], layers: list[dict[str, Any]]
) -> dict[str, bytes]:
    """index.json for whoever reads OCI's layout, with the name as containerd and Docker take it, and manifest.json for older Docker daemons."""
    names = {"io.containerd.image.name": product.reference, "org.opencontainers.image.ref.name": product.tag}
    entry = {**manifest, "platform": {"architecture": architecture, "os": "linux"}, "annotations": names}
    docker = {"Config": _path(config), "RepoTags": [product.reference], "Layers": [_path(layer) for layer in layers]}
    return {
        "index.json": _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}),
        "manifest.json": _json([docker]),
    }


def _layer(root: Path, files: Iterable[Path], epoch: int) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in files:
            member = tar.gettarinfo(root / name, str(name))
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = epoch
            if member.isfile():
                member.mode = 0o755 if member.mode & 0o100 else 0o644
                tar.addfile(member, io.BytesIO((root / name).read_bytes()))
                continue
            if member.isdir() and str(name) != "tmp":
                member.mode = 0o755
            tar.addfile(member)
    return archive.getvalue()


def _write(path: Path, blobs: _Blobs, documents: Mapping[str, bytes]) -> None:
    contents = dict(documents) | {f"blobs/sha256/{digest}": content for digest, content in sorted(blobs.contents.items())}
    partial = path.with_name(f".{path.name}")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    partial.rename(path)


def _path(descriptor: Mapping[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _time(product: Product) -> str:
    return datetime.fromtimestamp(product.epoch, UTC).isoformat().replace("+00:00", "Z")
