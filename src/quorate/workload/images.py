"""References to container images: registry and path, name, tag, digest. Pure. Source: github.com/distribution/reference."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quorate.workload.updates import CannotUpdate

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_NAME = re.compile(rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*")
_REFERENCE = re.compile(r"(?P<name>.+?)(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,}))?", re.ASCII)
_NOT_IN_A_TAG = re.compile(r"[^-a-zA-Z0-9_.]")

_DEFAULT_HOST, _DEFAULT_PATH = "docker.io", "library"


@dataclass(frozen=True, slots=True)
class Image:
    """One reference in full: `repository` has the registry, docker.io where none was given. Equal images may have been written differently."""

    repository: str
    name: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Image:
        """The image that `text` refers to. Raises CannotUpdate."""
        match = _REFERENCE.fullmatch(text)
        if match is None or not _NAME.fullmatch(match["name"]):
            raise CannotUpdate(f"{text!r} is not a reference to a container image: use one such as registry.k8s.io/kube-proxy:v1.34.4")
        host, slash, path = match["name"].partition("/")
        if not slash or not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
            host, path = _DEFAULT_HOST, match["name"] if slash else f"{_DEFAULT_PATH}/{match['name']}"
        repository, _, name = f"{host}/{path}".rpartition("/")
        return cls(repository, name, match["tag"] or "", match["digest"] or "")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}/{self.name}{tag}{digest}"


def tag_of(version: str) -> str:
    """The tag under which Kubernetes publishes a version's images: what a tag cannot have, such as `+`, becomes `_`."""
    return _NOT_IN_A_TAG.sub("_", version)
