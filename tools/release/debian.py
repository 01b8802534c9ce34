"""Debian's packages for an image: fetched by apt, which checks who signed them, and unpacked without root for whatever architecture.

Python comes from there too, in the version that the tests run with. Which packages, and what of them an image does not need, is said here and nowhere else.
"""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from tests.e2e.nodes.commands import require, run
from tests.e2e.nodes.debian import MIRROR, SUITE
from tests.e2e.nodes.stamps import making
from tools.release.product import CACHE

PYTHON = "3.11"
"""The Python of the suite."""
PACKAGES = (
    *("base-files", "ca-certificates"),
    *("libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libffi8", "libssl3", "libbz2-1.0", "liblzma5", "libuuid1"),
    *(f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", f"python{PYTHON}-minimal"),
)
"""What the images are made of, apart from wheels: no shell, no package manager, nothing that nobody calls."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SECURITY = f"{MIRROR}-security"

_STDLIB, _MODULES = f"usr/lib/python{PYTHON}", f"usr/lib/python{PYTHON}/lib-dynload"
_FOR_PEOPLE = """
    usr/share/lintian/* usr/share/man/* usr/share/locale/* usr/share/bug/* usr/share/binfmts/* usr/share/applications/* usr/share/base-files/*
    usr/share/common-licenses/* usr/share/pixmaps/* usr/share/gcc/* usr/sbin/* usr/lib/*/gconv/* usr/lib/mime/* etc/dpkg/* etc/update-motd.d/* etc/profile*
    etc/ca-certificates* etc/default/* etc/logrotate.d/* etc/motd etc/issue* var/* root/* home/* proc/* sys/* srv/* mnt/* media/* boot/* opt/* etc/python3*
"""
_FOR_OTHER_PROGRAMS = """
    curses/* dbm/* distutils/* ensurepip/* idlelib/* lib2to3/* pydoc_data/* sqlite3/* test/* tkinter/* turtledemo/* unittest/* venv/* wsgiref/* xmlrpc/*
    sitecustomize.py turtle.py doctest.py pydoc.py config-* _sysconfigdata_d* EXTERNALLY-MANAGED encodings/mac_* encodings/cp[!4]* encodings/big5*
    encodings/gb* encodings/euc_* encodings/shift_* encodings/iso2022* encodings/johab.py encodings/hz.py encodings/ptcp154.py encodings/kz1048.py
    encodings/koi8_*
"""
_WITHOUT_THEIR_LIBRARY = """
    _crypt* _curses* _dbm* _gdbm* _sqlite3* _test* _ctypes_test* nis* ossaudiodev* readline* xx* _xx* _codecs_* _multibytecodec*
"""
_UNUSED = (
    *_FOR_PEOPLE.split(),
    *(f"{_STDLIB}/{name}" for name in _FOR_OTHER_PROGRAMS.split()),
    *(f"{_MODULES}/{name}" for name in _WITHOUT_THEIR_LIBRARY.split()),
)
"""What of the packages stays out: what only a shell, a person or a package manager reads, and modules of Python that want a library which is not there."""
_MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders that are links into /usr since Debian 12."""


@dataclass(frozen=True, slots=True)
class Package:
    """One package, as its own control file has it."""

    path: Path
    name: str
    version: str
    architecture: str
    control: str

    @property
    def sha256(self) -> str:
        """Of the archive."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def fetch(architecture: str) -> tuple[Package, ...]:
    """The packages for this architecture, fetched where the cache has not got them. Raises MissingTool, BuildFailed."""
    folder = CACHE / "debian" / architecture
    with making(folder, SUITE, architecture, *PACKAGES) as fresh:
        if fresh is not None:
            _download(fresh, architecture)
    return tuple(_read(path) for path in sorted(folder.glob("*.deb")))


def _download(folder: Path, architecture: str) -> None:
    if not _KEYRING.exists():
        require("debian-archive-keyring", "debian-archive-keyring")
    home = folder / "apt"
    for name in ("lists/partial", "cache/partial", "etc"):
        (home / name).mkdir(parents=True)
    (home / "status").touch()
    suites = ((MIRROR, SUITE), (MIRROR, f"{SUITE}-updates"), (_SECURITY, f"{SUITE}-security"))
    lines = "".join(f"deb [signed-by={_KEYRING} arch={architecture}] {mirror} {suite} main\n" for mirror, suite in suites)
    (home / "sources.list").write_text(lines)
    options = {
        "Dir::State": home,
        "Dir::State::lists": home / "lists",
        "Dir::State::status": home / "status",
        "Dir::Cache": home / "cache",
        "Dir::Etc::SourceList": home / "sources.list",
        "Dir::Etc::SourceParts": home / "etc",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    apt = [require("apt-get", "apt"), "-q", *(f"--option={name}={value}" for name, value in options.items())]
    run([*apt, "update"], making=f"the list of Debian's packages for {architecture}", timeout=300)
    fetch = ["sh", "-c", 'cd "$0" && exec "$@"', folder, *apt, "download", *PACKAGES]
    run(fetch, making=f"Debian's packages for {architecture}", timeout=600)
    run(["rm", "-rf", home], making="room")


def _read(path: Path) -> Package:
    control = run([require("dpkg-deb", "dpkg"), "-f", path], making=path.name)
    fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and not line.startswith(" "))
    return Package(path, fields["Package"], fields["Version"], fields["Architecture"], control)


def unpack(packages: tuple[Package, ...], root: Path) -> None:
    """Unpack what the image needs of the packages into `root`, and note each as image scanners look for it. Raises BuildFailed."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    notes = root / "var/lib/dpkg/status.d"
    notes.mkdir(parents=True)
    for package in packages:
        _unpack(package, root)
        (notes / package.name).write_text(package.control)
    _trust(root)


def _unpack(package: Package, root: Path) -> None:
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        unpack = ["sh", "-c", 'exec "$0" --fsys-tarfile "$1" >"$2"', require("dpkg-deb", "dpkg"), package.path, archive.name]
        run(unpack, making=package.path.name)
        with tarfile.open(archive.name) as tar:
            for member in _wanted(tar):
                tar.extract(member, root, filter="tar")


def _wanted(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in tar:
        name = PurePosixPath(member.name)
        parts = ("usr", *name.parts) if name.parts and name.parts[0] in _MERGED else name.parts
        member.name = "/".join(parts)
        if member.isdir() or not parts or _unneeded(member.name):
            continue
        if member.islnk():
            raise ValueError(f"{member.name} is a hard link, which no package of the images has")
        yield member


def _unneeded(name: str) -> bool:
    if name.startswith("usr/share/doc/"):
        return not name.endswith("/copyright")  # whoever passes a package on passes its licence on
    return any(fnmatch(name, pattern) for pattern in _UNUSED)


def _trust(root: Path) -> None:
    """The public CAs as one file, which Debian's own script makes when it is installed."""
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"".join(path.read_bytes() for path in certificates))
    (root / "usr/lib/ssl").mkdir(exist_ok=True)
    for name in ("certs", "cert.pem"):
        link = root / "usr/lib/ssl" / name
        link.unlink(missing_ok=True)
        link.symlink_to("/etc/ssl/certs" if name == "certs" else "/etc/ssl/certs/ca-certificates.crt")
