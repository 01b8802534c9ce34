"""The control plane's images as a registry that is only files: manifests and blobs where the registry protocol looks for them, in OCI's formats.

Each image has one layer with a static program, kube-proxy's one more with iptables. Source: OCI's image and distribution specifications.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quorate.local.progress import Progress
from tests.e2e.nodes.commands import BUILD_TIMEOUT, require, run
from tests.e2e.nodes.debian import DEBS, architecture, base_image
from tests.e2e.nodes.engine import CACHE, FILES, Engine
from tests.e2e.nodes.programs import BINARIES, COREDNS, ETCD, IMAGE_PROGRAMS, VERSIONS, binary
from tests.e2e.nodes.stamps import making

REGISTRY = CACHE / "registry"
PAUSE = "3.10.1"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# iptables and nft with every library that they load, as one tar; ldd does not name what iptables' own modules need.
_IPTABLES = """\
set -eu
apt-get -q -y install --no-install-recommends /debs/*.deb >/dev/null 2>&1 || dpkg -i --force-depends /debs/*.deb >/dev/null
cd /
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -sf xtables-nft-multi usr/sbin/$name
done
modules=$(echo usr/lib/*/xtables)
programs="usr/sbin/xtables-nft-multi usr/sbin/nft usr/sbin/conntrack"
libraries=$(ldd $programs $modules/libxt_statistic.so | grep -oE '/[^ ]+[.]so[^ ]*' | sort -u)
tar -c --dereference $programs $libraries 2>/dev/null | tar -x -C /layer
cp -a usr/sbin/ip*tables* /layer/usr/sbin/
mkdir -p /layer/$(dirname $modules) && cp -a $modules /layer/$(dirname $modules)/
"""


@dataclass(frozen=True, slots=True)
class _Image:
    name: str
    tag: str
    entrypoint: str
    files: Mapping[str, Path]
    below: bytes = b""
    """A layer under that of the files, as a tar; empty for none."""


def build_registry(engine: Engine, progress: Progress) -> None:
    """Write the images' files where they are missing or out of date. Raises MissingTool, BuildFailed."""
    with making(REGISTRY, BINARIES, DEBS, FILES / "pause.c", base_image(), Path(__file__)) as folder:
        if folder is None:
            return
        with progress.step("pause"):
            pause = folder / ".pause"
            run([require("gcc", "gcc libc6-dev"), "-Os", "-static", "-s", "-o", pause, FILES / "pause.c"], making="pause")
        with progress.step("iptables for kube-proxy"):
            below = _iptables_layer(engine, folder / ".layer")
        for image in _images(pause, below):
            with progress.step(f"image {image.name}:{image.tag}"):
                _write(folder / "registry.k8s.io/v2", image)
        pause.unlink()


def image_names(version: str) -> tuple[str, ...]:
    """The images of one Kubernetes version, as `kubeadm config images list` names them."""
    names = [f"{name}:{version}" for name in IMAGE_PROGRAMS]
    names += [f"coredns/coredns:{COREDNS[version]}", f"etcd:{ETCD[version]}-0", f"pause:{PAUSE}"]
    return tuple(f"registry.k8s.io/{name}" for name in names)


def _images(pause: Path, below: bytes) -> Sequence[_Image]:
    images = [
        _Image(name, version, f"/usr/local/bin/{name}", {f"usr/local/bin/{name}": binary(version, name)}, below * (name == "kube-proxy"))
        for version in VERSIONS
        for name in IMAGE_PROGRAMS
    ]
    for version in ETCD.values():
        programs = {"usr/local/bin/etcd": binary(f"etcd-{version}", "etcd"), "usr/local/bin/etcdctl": binary("etcd-3.6.6", "etcdctl")}
        images.append(_Image("etcd", f"{version}-0", "/usr/local/bin/etcd", programs))
    images += [_Image("coredns/coredns", tag, "/coredns", {"coredns": binary("coredns", "coredns")}) for tag in COREDNS.values()]
    return [*images, _Image("pause", PAUSE, "/pause", {"pause": pause})]


def _write(registry: Path, image: _Image) -> None:
    repository = registry / image.name
    layers = [*([image.below] if image.below else []), _tar(image.files)]
    described, contents = [], []
    for layer in layers:
        packed = gzip.compress(layer, compresslevel=1, mtime=0)
        described.append(_blob(repository, packed, "application/vnd.oci.image.layer.v1.tar+gzip"))
        contents.append(_digest(layer))
    configuration = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": [image.entrypoint], "Env": [_PATH]},
        "rootfs": {"type": "layers", "diff_ids": contents},
    }
    config = _blob(repository, json.dumps(configuration).encode(), "application/vnd.oci.image.config.v1+json")
    document = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": described}
    manifest = json.dumps(document).encode()
    manifests = repository / "manifests"
    manifests.mkdir(parents=True, exist_ok=True)
    for name in (image.tag, _digest(manifest)):
        (manifests / name).write_bytes(manifest)


def _blob(repository: Path, content: bytes, media_type: str) -> dict[str, str | int]:
    path = repository / "blobs" / _digest(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"mediaType": media_type, "digest": path.name, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _tar(files: Mapping[str, Path]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for target, source in files.items():
            tar.add(source, target, filter=_plain)
    return archive.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


def _iptables_layer(engine: Engine, folder: Path) -> bytes:
    folder.mkdir()
    volumes = (f"--volume={DEBS}:/debs:ro", f"--volume={folder}:/layer")
    engine.docker("run", "--rm", "--network=none", *volumes, base_image(), "sh", "-c", _IPTABLES, timeout=BUILD_TIMEOUT)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name, filter=_plain)
    run(["rm", "-rf", folder], making="iptables")
    return archive.getvalue()
