"""The image's archive: what its layers hold, that its digests fit, and that the same files give the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.release import oci
from tools.release.product import Product

PRODUCT = Product("1.2.3", "c0ffee", 1_700_000_000, "registry.example.com/quorate")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    for name, mode in (("usr/bin/python", 0o700), ("usr/local/lib/quorate/main.py", 0o600), ("etc/passwd", 0o664)):
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode)
    (made / "bin").symlink_to("usr/bin")
    (made / "tmp").mkdir()
    (made / "tmp").chmod(0o1777)
    return made


def archive(path: Path, root: Path) -> dict[str, bytes]:
    digest = oci.write(path, root, PRODUCT, "arm64", upper="usr/local")
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert files[f"blobs/sha256/{digest.removeprefix('sha256:')}"]
    return files


def document(files: dict[str, bytes], descriptor: dict[str, Any]) -> Any:
    return json.loads(content(files, descriptor))


def content(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    found = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert (len(found), hashlib.sha256(found).hexdigest()) == (descriptor["size"], descriptor["digest"].removeprefix("sha256:"))
    return found


def test_index_manifest_configuration_and_layers_lead_to_each_other(root: Path, tmp_path: Path) -> None:
    files = archive(tmp_path / "image.tar", root)
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["platform"] == {"architecture": "arm64", "os": "linux"}
    assert entry["annotations"]["io.containerd.image.name"] == "registry.example.com/quorate:v1.2.3"
    manifest = document(files, entry)
    config = document(files, manifest["config"])
    assert (config["config"]["User"], config["config"]["Entrypoint"]) == ("65532:65532", ["/usr/local/bin/quorate"])
    layers = [gzip.decompress(content(files, each)) for each in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    (docker,) = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == ["registry.example.com/quorate:v1.2.3"]
    assert [docker["Config"], *docker["Layers"]] == [
        f"blobs/sha256/{each['digest'][7:]}" for each in (manifest["config"], *manifest["layers"])
    ]


def test_files_are_roots_readable_to_all_and_in_the_layer_that_changes_as_they_do(root: Path, tmp_path: Path) -> None:
    files = archive(tmp_path / "image.tar", root)
    (entry,) = json.loads(files["index.json"])["manifests"]
    below, above = (members(gzip.decompress(content(files, each))) for each in document(files, entry)["layers"])
    assert {name for name, member in above.items() if member.isfile()} == {"usr/local/lib/quorate/main.py"}
    assert {name: oct(member.mode) for name, member in below.items()} == {
        "bin": "0o777",
        "etc": "0o755",
        "etc/passwd": "0o644",
        "tmp": "0o1777",
        "usr": "0o755",
        "usr/bin": "0o755",
        "usr/bin/python": "0o755",
    }
    assert {(member.uid, member.gid, member.mtime) for member in (*below.values(), *above.values())} == {(0, 0, PRODUCT.epoch)}


def members(layer: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        return {member.name: member for member in tar}


def test_the_same_files_give_the_same_bytes(root: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.tar", tmp_path / "two.tar"
    archive(one, root)
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    archive(two, root)
    assert one.read_bytes() == two.read_bytes()
