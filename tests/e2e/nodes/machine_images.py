"""The images that Cluster API's docker backend starts: machines and a load balancer.

A machine is a bare host with the packages of one Kubernetes version installed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from quorate.local.progress import Progress
from tests.e2e.nodes.commands import BUILD_TIMEOUT
from tests.e2e.nodes.debian import DEBS, architecture
from tests.e2e.nodes.engine import CACHE, FILES, Engine
from tests.e2e.nodes.images import host_image, services_image
from tests.e2e.nodes.packages import REPOSITORIES
from tests.e2e.nodes.programs import VERSIONS
from tests.e2e.nodes.stamps import fingerprint

REPOSITORY = "quorate-e2e"
_BALANCER = "haproxy"  # the backend fixes the image's name, and takes its repository and tag from the DevCluster


def machine_image(version: str) -> str:
    """The name of the image of a machine with this Kubernetes version, for `customImage` of a DevMachine; it says what it is made from."""
    made_from = fingerprint(host_image(), FILES / "machine", *_packages(version))
    return f"{REPOSITORY}/machine:{version}-{made_from}"


def balancer_tag() -> str:
    """The tag of the load balancer's image, whose repository is `REPOSITORY`."""
    return fingerprint(services_image(), FILES / _BALANCER)


def build_machine_images(engine: Engine, progress: Progress) -> None:
    """Build the images that are missing. Raises MissingTool, BuildFailed."""
    for version in VERSIONS:
        if not _exists(engine, machine_image(version)):
            with progress.step(f"image of a machine with {version}"):
                _build(engine, machine_image(version), "machine", host_image(), _packages(version))
    balancer = f"{REPOSITORY}/{_BALANCER}:{balancer_tag()}"
    if not _exists(engine, balancer):
        with progress.step("image of the machines' load balancer"):
            _build(engine, balancer, _BALANCER, services_image())


def _packages(version: str) -> list[Path]:
    minor = version.rpartition(".")[0]
    return sorted([*DEBS.glob("*.deb"), *(REPOSITORIES / "pkgs.k8s.io/core:/stable:" / minor / "deb" / architecture()).glob("*.deb")])


def _exists(engine: Engine, name: str) -> bool:
    return bool(engine.docker("image", "ls", "-q", name).strip())


def _build(engine: Engine, name: str, source: str, base: str, packages: Iterable[Path] = ()) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        context = Path(work, "context")
        shutil.copytree(FILES / source, context)
        for package in packages:
            (context / "packages").mkdir(exist_ok=True)
            shutil.copy(package, context / "packages")
        engine.docker("build", "--quiet", f"--build-arg=BASE={base}", f"--tag={name}", context, timeout=BUILD_TIMEOUT)
