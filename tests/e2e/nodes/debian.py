"""Debian for the nodes: a root file system as a Docker image, and the packages that a host gets later, kept so that hosts install them without a network."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

from quorate.local.errors import BuildFailed
from quorate.local.progress import Progress
from tests.e2e.nodes.commands import BUILD_TIMEOUT, run
from tests.e2e.nodes.engine import CACHE, Engine
from tests.e2e.nodes.stamps import fingerprint, making

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
DEBS = CACHE / "debian"
"""What a bare host lacks, as Debian's packages, with what they depend on."""
_IN_THE_IMAGE = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "curl", "ca-certificates", "gpgv"),
    *("iproute2", "iputils-ping", "kmod", "procps", "mount"),
)
_FOR_HOSTS = ("containerd", "runc", "iptables", "conntrack", "socat", "ethtool", "nftables", "containernetworking-plugins")
_NOT_NEEDED = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


def base_image() -> str:
    """The name of the image of the root file system, which says what it is made from."""
    return f"quorate-e2e/debian:{fingerprint(SUITE, *_IN_THE_IMAGE)}"


def build_debian(engine: Engine, progress: Progress) -> None:
    """Make the image and fetch the packages, where either is missing. Needs root and the network. Raises MissingTool, BuildFailed."""
    if not engine.docker("image", "ls", "-q", base_image()).strip():
        with progress.step(f"Debian {SUITE}, about 90 s"):
            _build_image(engine)
    with making(DEBS, base_image(), *_FOR_HOSTS) as folder:
        if folder is not None:
            with progress.step("Debian packages for the hosts"):
                _fetch(engine, folder)


def _build_image(engine: Engine) -> None:
    engine.unpack()
    root = CACHE / "root"
    shutil.rmtree(root, ignore_errors=True)
    bootstrap: list[Path | str] = [
        engine.root / "programs/debootstrap",
        "--variant=minbase",
        f"--include={','.join(_IN_THE_IMAGE)}",
        SUITE,
        root,
        MIRROR,
    ]
    where = {"DEBOOTSTRAP_DIR": str(engine.root / "usr/share/debootstrap")}
    run(bootstrap, making=f"Debian {SUITE}", environment=where, timeout=BUILD_TIMEOUT)
    for name in _NOT_NEEDED:
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir()
    for key in root.glob("etc/ssh/ssh_host_*"):  # every host makes its own
        key.unlink()
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
        assert tar.stdout is not None
        archive = tar.stdout.read()
    if tar.returncode:
        raise BuildFailed(f"tar could not pack {root}")
    engine.docker("import", "-", base_image(), given=archive, timeout=BUILD_TIMEOUT)
    shutil.rmtree(root)


def _fetch(engine: Engine, folder: Path) -> None:
    options = "-q -y -o Dir::Cache::archives=/fetched -o APT::Keep-Downloaded-Packages=1"
    fetch = f"apt-get -q update && apt-get {options} install --download-only --no-install-recommends {' '.join(_FOR_HOSTS)}"
    engine.docker("run", "--rm", "--network=host", f"--volume={folder}:/fetched", base_image(), "sh", "-c", fetch, timeout=600)
    shutil.rmtree(folder / "partial", ignore_errors=True)
    (folder / "lock").unlink(missing_ok=True)


def architecture() -> str:
    """Debian's and the registries' name for what this machine is. Raises BuildFailed for one that Kubernetes' packages do not have."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    if platform.machine() not in known:
        raise BuildFailed(f"{platform.machine()} is not an architecture of the nodes: build on one of {', '.join(known)}")
    return known[platform.machine()]
