"""Hostile values in every field of a manifest: each is refused by name, or gets into scripts and files as the text that it is and nothing else.

The scripts are those of a whole installation, on every system, run by this machine's sh on a folder that stands for a host's root, with stand-ins for all
programs. One of them is the canary, which every value tries to start.
"""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.core.versions import Version
from quorate.hosts.act.prepare import packages
from quorate.hosts.manifest import Manifest, ManifestError, Secret, parse
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.containerd_configuration import containerd_files, removing_stale_registries
from quorate.hosts.render.feature_files import Contents
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.prerequisites import prepare, prerequisite_files, with_proxies
from quorate.hosts.render.shell import quoted
from tests.hosts.act.test_install import install
from tests.hosts.act.world import World
from tests.hosts.manifests import put
from tests.hosts.test_manifest_defaults import full

HOSTILE = {
    "substitution": "a$(canary)",
    "quotes": "a'; canary; '\"; canary; \"`canary`",
    "backslash": "a\\\";canary;\\'",
    "line": "a\ncanary\n",
    "option": "--canary",
    "expansion": "${x:=$(canary)}",
    "format": "{canary}",
    "climb": "../../../../../canary",
    "root": "/canary",
    "climb in a path": "/var/log/../../canary",
    "climb in a registry": "registry.example.com/../../../canary",
    "a URL": "http://x:$(canary)`canary`\"'@proxy:3128",
    "escape": "a\x1b]52;c;Y2FuYXJ5\x07",
}
FOLDERS = (
    *("/etc/kubernetes/", "/etc/containerd/", "/etc/quorate/", "/etc/systemd/system/", "/etc/systemd/journald.conf.d/"),
    *("/etc/sysctl.d/", "/etc/modules-load.d/", "/etc/crictl.yaml", "/etc/apt/", "/etc/yum.repos.d/", "/etc/pki/", "/etc/ssl/certs/"),
    *("/usr/local/share/ca-certificates/", "/var/lib/kubelet/", "/var/lib/etcd/", "/var/log/quorate/", "/run/quorate", "/opt/", "/proc/"),
)
"""Where files of ours may be on a host."""
REAL = (
    "cat",
    "grep",
    "sed",
    "base64",
    "sha256sum",
    "mktemp",
    "stat",
    "rm",
    "mv",
    "mkdir",
    "chmod",
    "dirname",
    "head",
    "tail",
    "wc",
    "tr",
    "ls",
    "cut",
)
STAND_INS = (
    *("systemctl", "modprobe", "swapoff", "ufw", "apt-get", "apt-mark", "apt-cache", "dpkg-query", "dnf", "rpm", "curl", "gpg", "kubeadm"),
    *("kubelet", "kubectl", "containerd", "crictl", "ctr", "flock", "sync", "chown", "sleep", "update-ca-certificates", "update-ca-trust"),
    *(
        "setenforce",
        "getenforce",
        "timeout",
        "date",
        "touch",
        "tar",
        "ip",
        "nft",
        "iptables-save",
        "iptables-restore",
        "ipvsadm",
        "umount",
        "id",
        "canary",
    ),
)
_ABSOLUTE = re.compile(r"(?<![\w.\])}])/(?=(?:etc|var|run|usr|opt|proc|sys|root|home|srv|boot)\b)")


class Root:
    """A folder that stands for a host's root."""

    def __init__(self, path: Path) -> None:
        self.path, self.programs, self.calls = path / "root", path / "programs", path / "calls"
        self.path.mkdir()
        self.programs.mkdir()
        for name in REAL:
            (self.programs / name).symlink_to(shutil.which(name) or pytest.fail(f"this machine has no {name}"))
        for name in STAND_INS:
            program = self.programs / name
            program.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name}" >>"{self.calls}"\n')
            program.chmod(0o755)
        for folder in ("etc", "proc/sys/net/ipv4", "var/lib", "run", "etc/containerd/certs.d"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        (self.path / "proc/swaps").write_text("Filename\n")
        (self.path / "proc/uptime").write_text("1.0 1.0\n")
        (self.path / "etc/os-release").write_text("VERSION_CODENAME=bookworm\n")

    def run(self, script: str) -> subprocess.CompletedProcess[bytes]:
        """Every absolute path in it is below the root."""
        inside = _ABSOLUTE.sub(f"{self.path}/", script)
        return subprocess.run(
            [shutil.which("sh") or "sh", "-s"],
            input=f"{{\nset -eu\n{inside}\n}}".encode(),
            env={"PATH": str(self.programs), "LC_ALL": "C"},
            cwd=self.path,
            capture_output=True,
            timeout=20,
            check=False,
        )

    @property
    def started(self) -> set[str]:
        return set(self.calls.read_text().split()) if self.calls.exists() else set()

    @property
    def files(self) -> set[str]:
        return {f"/{Path(folder, name).relative_to(self.path)}" for folder, _, names in os.walk(self.path) for name in names}


def texts(value: Any, path: str = "") -> Iterator[str]:
    """The paths of every text in a document, and of every mapping whose keys are the user's own, with a key more."""
    match value:
        case dict():
            for key, below in value.items():
                yield from texts(below, f"{path}.{key}" if path else str(key))
            yield f"{path}.+" if path else "+"
        case list():
            for index, below in enumerate(value):
                yield from texts(below, f"{path}.{index}")
        case str():
            yield path


def with_text(document: dict[str, Any], path: str, text: str) -> dict[str, Any]:
    """The document with this text in the place; a `+` is a key of that name, whose value is like those beside it."""
    made = copy.deepcopy(document)
    parent, _, last = path.rpartition(".")
    if last != "+":
        _put(made, path.split("."), text)
        return made
    here: Any = made
    for key in _keys(made, parent):
        here = here[key]
    here[text] = copy.deepcopy(next(iter(here.values()), "x"))
    return made


def _put(made: Any, keys: list[str], text: str) -> None:
    *above, last = _keys(made, ".".join(keys))
    here = made
    for key in above:
        here = here[key]
    here[last] = text


def _keys(made: Any, path: str) -> list[Any]:
    """Keys themselves may have dots: as much of the path as is a key is one."""
    found: list[Any] = []
    here, rest = made, path.split(".") if path else []
    while rest:
        if isinstance(here, list):
            found.append(int(rest.pop(0)))
        else:
            length = next(size for size in range(len(rest), 0, -1) if ".".join(rest[:size]) in here)
            found.append(".".join(rest[:length]))
            rest = rest[length:]
        here = here[found[-1]]
    return found


def document_of(folder: Path) -> dict[str, Any]:
    """Every key that there is, in a manifest that reaches hosts: one control plane, a worker, and what each field brings."""
    made = copy.deepcopy(full(folder))
    made["controlPlane"]["hosts"][0] |= {"hostname": "h1", "operatingSystem": "debian"}
    made["staticWorkers"]["hosts"][0] |= {"hostname": "h2", "labels": {"a": "b"}, "annotations": {"a": "b"}}
    put(made, "features.encryptionProviders.customEncryptionConfiguration", "")
    made["containerRuntime"]["containerd"]["registries"]["*"] = {"mirrors": ["mirror.example.com"]}
    return made


def accepted(document: dict[str, Any], folder: Path) -> Manifest | None:
    try:
        return parse(yaml.dump(document, Dumper=yaml.CSafeDumper), folder=folder, ignore_unsupported=True)
    except ManifestError:
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifest")


def all_at_once(text: str, folder: Path) -> tuple[Manifest, list[str]]:
    """A manifest that has this text wherever it is accepted, and where that is."""
    made, places = document_of(folder), []
    for path in list(texts(made)):
        changed = with_text(made, path, text)
        if changed != made and accepted(changed, folder) is not None:
            made = changed
            places.append(path)
    manifest = accepted(made, folder)
    assert manifest is not None
    return manifest, places


def rendered(manifest: Manifest) -> tuple[list[HostFile], list[str]]:
    """Files and scripts beside those of an installation, for every system."""
    files: list[HostFile] = []
    scripts: list[str] = []
    for system in OperatingSystem:
        if system is OperatingSystem.UNKNOWN:
            continue
        files += prerequisite_files(manifest, system)
        scripts.append(with_proxies(manifest.proxy, prepare(manifest, system)))
        if system is not OperatingSystem.FLATCAR:
            versions: dict[str, Version] = dict.fromkeys(("kubeadm", "kubelet", "kubectl"), manifest.version)
            scripts.append(with_proxies(manifest.proxy, packages(manifest, system, versions, codename="bookworm", lacks_containerd=True)))
    for major in (1, 2):
        files += containerd_files(manifest, major)
        scripts.append(removing_stale_registries(containerd_files(manifest, major)))
    return files, scripts


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_no_value_starts_a_program_or_names_a_file_of_its_own(text: str, folder: Path, tmp_path: Path) -> None:
    manifest, places = all_at_once(text, folder)
    world = World(manifest)
    contents = Contents(b"policy", b"rate", b"selector", Secret("providers"))
    assert await install(world, contents) == []
    files, scripts = rendered(manifest)
    scripts += [script for host in world.hosts.values() for script in host.scripts]
    written = [path for host in world.hosts.values() for path in host.files] + [file.path for file in files]
    assert [path for path in written if not path.startswith(FOLDERS) or ".." in path or "canary" in path] == []
    root = Root(tmp_path)
    for script in dict.fromkeys(scripts):
        done = root.run(script)
        assert b"yntax error" not in done.stderr, (places, done.stderr)
    assert "canary" not in root.started, places
    assert [path for path in root.files if not path.startswith((*FOLDERS, "/etc/os-release")) or "canary" in path] == []
    assert len(scripts) > 20
    if text.isprintable():
        assert len(places) > 20, places


def test_the_canary_dies_where_a_value_is_not_quoted(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.run(f"echo {HOSTILE['substitution']}")
    assert "canary" in root.started


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_value_is_one_word_of_a_script_or_none(text: str, tmp_path: Path) -> None:
    if "\n" in text:
        with pytest.raises(ValueError, match="more than one line"):
            quoted(text)
        return
    root = Root(tmp_path)
    assert root.run(f"printf '%s\\n' {quoted(text)}").stdout.replace(str(root.path).encode(), b"") == f"{text}\n".encode()
    assert root.started == set()


def test_one_function_quotes_values_for_scripts() -> None:
    source = Path(__file__).parents[2] / "src" / "quorate"
    using = [path.name for path in source.rglob("*.py") if re.search(r"\bshlex\.(quote|join)\b|\bpipes\b", path.read_text())]
    assert using == ["shell.py"]
