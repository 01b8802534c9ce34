"""The recipe of the image: its root file system, as a folder. The archive without a base image and the Dockerfile are both made from it.

Debian's Python and libraries, the wheels, two entry points and one user. There is no shell and no package manager in it, and everything is byte-compiled. It
needs no root to be made, and nothing of it is started but the compiler, by this machine's own Python of the same packages: so it can be made for a machine of
another architecture.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from quorate.local.errors import BuildFailed
from tests.e2e.nodes.commands import BUILD_TIMEOUT, run
from tests.e2e.nodes.debian import architecture as of_this_machine
from tools.release import debian, wheels
from tools.release.debian import PYTHON, Package
from tools.release.elf import needed

USER = 65532
"""Of the container, and its group: "nonroot", as in most images without a shell."""
APPLICATION = f"usr/local/lib/python{PYTHON}/dist-packages"
"""Where the wheels are."""
_PROGRAM = f"/usr/bin/python{PYTHON}"
ENTRY_POINTS = {"usr/local/bin/quorate": "main()", "manager": 'quorate(["manager", *sys.argv[1:]], prog_name="quorate")'}
"""Programs by their paths. `/manager` is what Cluster API's Deployments call, so that one of theirs runs with this image in it."""
_NOT_INSTALLED = ("*.pyi", "*.pyx", "*.pxd", "*.c", "*.h", "*.cpp", "*.proto")
_LEXERS = frozenset(("__init__", "_mapping", "python", "special"))
"""Those of Pygments that a traceback is coloured with: the other five hundred languages are a tenth of the wheels."""
_FOLDERS = {"tmp": 0o1777, "etc": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755}


def make(wheel: Path, root: Path, architecture: str) -> tuple[Package, ...]:
    """Make the file system in `root`, which replaces what was there; return the packages in it. Raises MissingTool, BuildFailed."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    packages = debian.fetch(architecture)
    debian.unpack(packages, root)
    _people(root)
    application = root / APPLICATION
    application.mkdir(parents=True)
    wheels.install(wheel, application, architecture)
    _trim(application)
    _entry_points(root)
    _compile(root, architecture)
    _complete(root)
    return packages


def _people(root: Path) -> None:
    for name, mode in _FOLDERS.items():
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(mode)
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/tmp:/sbin/nologin\n")
    (root / "etc/group").write_text(f"root:x:0:\nnonroot:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")


def _trim(application: Path) -> None:
    """Leave out what only compilers, type checkers and tests read."""
    for pattern in _NOT_INSTALLED:
        for path in application.rglob(pattern):
            path.unlink()
    for lexer in (application / "pygments/lexers").glob("*.py"):
        if lexer.stem not in _LEXERS:
            lexer.unlink()
    for folder in [path for path in application.rglob("tests") if path.is_dir()]:
        shutil.rmtree(folder)
    (application / ".lock").unlink(missing_ok=True)


def _entry_points(root: Path) -> None:
    for name, call in ENTRY_POINTS.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{_PROGRAM} -I\nimport sys\n\nfrom quorate.cli.main import main, quorate\n\nsys.exit({call})\n")
        path.chmod(0o755)


def _compile(root: Path, architecture: str) -> None:
    """Compile every module, once and for all: no time of a file is compared when it is imported."""
    native, scratch = root, root.with_name(f"{root.name}-native")
    if architecture != of_this_machine():
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        debian.unpack(debian.fetch(of_this_machine()), scratch)
        native = scratch
    folders = (root / f"usr/lib/python{PYTHON}", root / APPLICATION)
    options = ("-q", "--invalidation-mode=unchecked-hash", "-s", root, "-p", "/")
    run([*_python(native), "-m", "compileall", *options, *folders], making="the compiled modules", timeout=BUILD_TIMEOUT)
    shutil.rmtree(scratch, ignore_errors=True)


def _python(root: Path) -> Iterable[Path | str]:
    """How to call the Python in a folder, with the libraries beside it."""
    libraries = next((root / "usr/lib").glob("*-linux-gnu"))
    return (next(libraries.glob("ld-linux-*.so.*")), "--library-path", libraries, root / _PROGRAM.lstrip("/"), "-I")


def _complete(root: Path) -> None:
    """Raise BuildFailed where a program or module asks for a library that is not there."""
    there = {path.name for path in root.rglob("*.so*")}
    wanted = {name: path for path in root.rglob("*") if path.is_file() and not path.is_symlink() for name in needed(path)}
    missing = sorted(f"{name} (of {path.relative_to(root)})" for name, path in wanted.items() if name not in there)
    if missing:
        raise BuildFailed(f"libraries that are not in the image: {', '.join(missing)}; name their packages in tools/release/debian.py")
