"""Kubernetes' packages as pkgs.k8s.io lays them out, and the repositories that apt reads: one flat one for each minor version, Docker's, and Debian's.

All are signed by a key of the suite, which hosts get as `Release.key` or find in their image. Served by `services`, under the names that the real ones have.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from quorate.local.progress import Progress
from tests.e2e.nodes.commands import require, run
from tests.e2e.nodes.debian import DEBS, SUITE, architecture
from tests.e2e.nodes.engine import CACHE, FILES
from tests.e2e.nodes.programs import BINARIES, HOST_PROGRAMS, VERSIONS, binary
from tests.e2e.nodes.stamps import making

REPOSITORIES = CACHE / "repositories"
"""The folders to be served, one for each of `SERVED`."""
SERVED = ("pkgs.k8s.io", "download.docker.com", "deb.debian.org")
KEYRING = REPOSITORIES / "archive-keyring.asc"
REVISION = "1.1"
"""What pkgs.k8s.io appends to a version: 1.34.4-1.1."""
_MAINTAINER = "quorate's end-to-end tests <nobody@quorate.test>"
_DATE = "Thu, 01 Jan 2026 00:00:00 UTC"
_NETWORK_PLUGINS = "1.7.1"
_PROGRAMS = {"kubeadm": "usr/libexec/kubeadm"}  # behind a script that makes one preflight check no error
_DEPENDENCIES = {
    "kubeadm": "cri-tools (>= 1.30.0)",
    "kubelet": "conntrack, ethtool, iproute2, iptables (>= 1.4.21), kubernetes-cni (>= 1.2.0), mount, socat, util-linux",
    "kubectl": "",
}


def build_repositories(progress: Progress) -> None:
    """Make packages and repositories where they are missing or out of date. Raises MissingTool, BuildFailed."""
    ingredients: list[Path | str] = [
        FILES / "packages",
        DEBS,
        *(BINARIES / version / name for version in VERSIONS for name in HOST_PROGRAMS),
        Path(__file__),
    ]
    with making(REPOSITORIES, *ingredients) as folder:
        if folder is None:
            return
        home = folder.with_name("signing")
        with progress.step("package repositories"):
            _make_key(home, folder / KEYRING.name)
            for version in VERSIONS:
                _kubernetes(folder / "pkgs.k8s.io", version, home)
            _docker(folder / "download.docker.com/linux/debian", home)
            _debian(folder / "deb.debian.org/debian", home)
        shutil.rmtree(home)


def _kubernetes(root: Path, version: str, home: Path) -> None:
    minor = version.rpartition(".")[0]
    repository = root / "core:/stable:" / minor / "deb"
    repository.mkdir(parents=True)
    number = version.removeprefix("v")
    packages = [
        _package(repository, name, number, _DEPENDENCIES[name], {_PROGRAMS.get(name, f"usr/bin/{name}"): binary(version, name)})
        for name in HOST_PROGRAMS
    ]
    plugins = repository / ".plugins"
    run([require("dpkg-deb", "dpkg"), "-x", next(DEBS.glob("containernetworking-plugins_*")), plugins], making="network plugins")
    files = {f"opt/cni/bin/{path.name}": path for path in sorted((plugins / "usr/lib/cni").iterdir())}
    packages.append(_package(repository, "kubernetes-cni", _NETWORK_PLUGINS, "", files))
    tools = f"{minor.removeprefix('v')}.0"
    packages.append(_package(repository, "cri-tools", tools, "", {"usr/bin/crictl": FILES / "packages/cri-tools/usr/bin/crictl"}))
    shutil.rmtree(plugins)
    _index(repository, "", {"Packages": _paragraphs(repository, packages)}, home)
    shutil.copy(home / KEYRING.name, repository / "Release.key")


def _package(repository: Path, name: str, version: str, dependencies: str, files: Mapping[str, Path]) -> Path:
    """Build one package: the given files, and those that `tools/nodes/packages` has for its name."""
    root = repository / f".{name}"
    own = FILES / "packages" / name
    if own.is_dir():
        shutil.copytree(own, root)
    for target, source in files.items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source.resolve(), root / target)
        (root / target).chmod(0o755)
    return _pack(root, repository / architecture(), name, version, dependencies)


def _pack(root: Path, folder: Path, name: str, version: str, dependencies: str) -> Path:
    """Make a package of everything below `root`, which goes."""
    control = {"Package": name, "Version": f"{version}-{REVISION}", "Architecture": architecture(), "Maintainer": _MAINTAINER}
    control |= {"Depends": dependencies} if dependencies else {}
    control |= {"Description": f"{name}, built for end-to-end tests"}
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in control.items()))
    built = folder / f"{name}_{version}-{REVISION}_{architecture()}.deb"
    folder.mkdir(exist_ok=True)
    run([require("dpkg-deb", "dpkg"), "--root-owner-group", "-Zgzip", "-z1", "--build", root, built], making=built.name, timeout=300)
    shutil.rmtree(root)
    return built


def _docker(archive: Path, home: Path) -> None:
    """`containerd.io`, which is Debian's containerd and runc in one package, as Docker's is one."""
    pool = archive / "pool"
    root = pool / ".containerd.io"
    root.mkdir(parents=True)
    for name in ("containerd", "runc"):
        run([require("dpkg-deb", "dpkg"), "-x", next(DEBS.glob(f"{name}_*")), root], making="containerd.io")
    package = _pack(root, pool, "containerd.io", next(DEBS.glob("containerd_*")).name.split("_")[1].split("~")[0], "libseccomp2")
    _release(archive, "stable", [package], home)
    shutil.copy(home / KEYRING.name, archive / "gpg")


def _debian(archive: Path, home: Path) -> None:
    pool = archive / "pool"
    shutil.copytree(DEBS, pool)
    _release(archive, "main", sorted(pool.glob("*.deb")), home)


def _release(archive: Path, component: str, packages: Iterable[Path], home: Path) -> None:
    """The one release of an archive that has more than packages for one architecture in it."""
    release = archive / "dists" / SUITE
    release.mkdir(parents=True)
    _index(release, component, {f"{component}/binary-{architecture()}/Packages": _paragraphs(archive, packages)}, home)


def _paragraphs(root: Path, packages: Iterable[Path]) -> str:
    """What a Packages file says of each package: its own control file, and where it is."""
    texts = []
    for path in packages:
        content = path.read_bytes()
        control = run([require("dpkg-deb", "dpkg"), "-f", path], making=path.name).strip()
        place = f"Filename: {path.relative_to(root)}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}"
        texts.append(f"{control}\n{place}\n")
    return "\n".join(texts)


def _index(release: Path, component: str, indexes: Mapping[str, str], home: Path) -> None:
    """Write the index files of one release, with their hashes, signed."""
    files: dict[str, bytes] = {}
    for name, text in indexes.items():
        files |= {name: text.encode(), f"{name}.gz": gzip.compress(text.encode(), mtime=0)}
    for name, content in files.items():
        (release / name).parent.mkdir(parents=True, exist_ok=True)
        (release / name).write_bytes(content)
    hashes = "".join(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n" for name, content in files.items())
    head = f"Suite: {SUITE}\nCodename: {SUITE}\nArchitectures: {architecture()}\nComponents: {component}\nDate: {_DATE}\nSHA256:\n"
    sign: list[Path | str] = [
        require("gpg", "gpg"),
        "--homedir",
        home,
        "--batch",
        "--yes",
        "--clearsign",
        "--output",
        release / "InRelease",
    ]
    run(sign, making="InRelease", given=f"{head}{hashes}".encode())


def _make_key(home: Path, published: Path) -> None:
    """A signing key that nobody else trusts, made anew with the repositories."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700, parents=True)
    gpg: list[Path | str] = [require("gpg", "gpg"), "--homedir", home, "--batch"]
    run([*gpg, "--passphrase", "", "--quick-gen-key", _MAINTAINER, "rsa2048", "sign", "never"], making="signing key")
    published.write_text(run([*gpg, "--armor", "--export"], making="signing key"))
    shutil.copy(published, home / published.name)
    run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], making="signing key")
