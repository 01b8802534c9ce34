"""What is released: its version and its commit, as every part of a release names them, and where the parts go."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

from quorate.local.programs import PROJECT
from tests.e2e.nodes.commands import run

CACHE = PROJECT / ".cache" / "release"
DIST = PROJECT / "dist"
DEFAULT_IMAGE = "localhost/quorate"
"""The image's repository where nobody names one: nothing is published, so it is what was loaded from the archive."""


@dataclass(frozen=True, slots=True)
class Product:
    """One release. `version` is that of the package, without a v; `epoch` is the time of the commit, which every file of the images gets."""

    version: str
    commit: str
    epoch: int
    image: str = DEFAULT_IMAGE

    @property
    def tag(self) -> str:
        """The version as images and clusterctl name it."""
        return f"v{self.version}"

    @property
    def reference(self) -> str:
        """The image's full name."""
        return f"{self.image}:{self.tag}"

    @property
    def series(self) -> tuple[int, int]:
        """Major and minor."""
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)


def current(image: str = DEFAULT_IMAGE) -> Product:
    """What this work tree would release. Raises BuildFailed outside of a git repository."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    commit, epoch = run(["git", "-C", PROJECT, "log", "-1", "--format=%H %ct"], making="the commit's name").split()
    return Product(project["version"], commit, int(epoch), image)
