"""`python -m tools.release`: everything into `dist/`. `python -m tools.release rootfs FOLDER`: the image's root file system alone, for the Dockerfile."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import time
from pathlib import Path

from quorate.local.errors import LocalError
from quorate.local.progress import Progress
from tests.e2e.nodes.debian import architecture as of_this_machine
from tools.release import chart, clusterctl, oci, rootfs, sbom, wheels
from tools.release.product import CACHE, DEFAULT_IMAGE, DIST, Product, current

ARCHITECTURES = ("amd64", "arm64")


def main(arguments: list[str]) -> int:
    """Make what is asked for; the exit code, which is that of the error where there is one."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--image", default=DEFAULT_IMAGE, help="the image's repository, as the manifests name it")
    parser.add_argument("--architecture", choices=ARCHITECTURES, action="append", help="for these alone; without it for all")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("rootfs").add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.command == "rootfs":
            _rootfs(options.folder)
        else:
            release(current(options.image), DIST, options.architecture or ARCHITECTURES)
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def release(product: Product, folder: Path, architectures: tuple[str, ...] | list[str]) -> None:
    """Write a whole release into `folder`, which is emptied first. Raises MissingTool, BuildFailed."""
    progress = Progress(sys.stderr, time.monotonic)
    shutil.rmtree(folder, ignore_errors=True)
    with progress.step("wheel and sdist"):
        wheel = wheels.build(folder, product.epoch)
    for architecture in architectures:
        with progress.step(f"image for {architecture}"):
            _image(product, wheel, folder, architecture)
    with progress.step("manifests and chart"):
        clusterctl.write(folder / "clusterctl", product)
        chart.write(folder, product)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files)
    (folder / "SHA256SUMS").write_text(sums)


def _image(product: Product, wheel: Path, folder: Path, architecture: str) -> None:
    root = CACHE / "root" / architecture
    packages = rootfs.make(wheel, root, architecture)
    name = f"quorate-{product.version}-{architecture}"
    oci.write(folder / f"{name}.oci.tar", root, product, architecture, upper=rootfs.APPLICATION)
    (folder / f"{name}.cdx.json").write_text(sbom.bill(product, root, packages, architecture))


def _rootfs(folder: Path) -> None:
    scratch = folder.with_name(f"{folder.name}-wheel")
    rootfs.make(wheels.build(scratch, 0), folder, of_this_machine())
    shutil.rmtree(scratch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
