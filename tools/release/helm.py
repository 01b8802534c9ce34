"""Helm itself, from its pinned Go module, to look at the chart as its users will: rendered with default values it is what clusterctl installs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate.clusterapi.types.names import DEFAULT_NAMESPACE
from quorate.local.errors import BuildFailed
from quorate.local.programs import PROJECT, Builder, Program
from quorate.local.progress import Progress
from tests.e2e.nodes.commands import run
from tools.release import clusterctl
from tools.release.chart import KEEP, NAME
from tools.release.installation import Certificates
from tools.release.product import CACHE, Product

_VERSION = "v3.22.0"  # what tools/helm/go.mod requires
_PROGRAM = Program("helm", "helm", "helm.sh/helm/v3/cmd/helm", f"-s -w -X helm.sh/helm/v3/internal/version.version={_VERSION}")

Objects = Mapping[tuple[str, str], Mapping[str, Any]]


def build(progress: Progress) -> Path:
    """The program, which is made where it is missing. Raises MissingTool, BuildFailed."""
    builder = Builder(CACHE / "bin", PROJECT / "tools", PROJECT / ".cache")
    builder.build([_PROGRAM], progress)
    return CACHE / "bin" / _PROGRAM.name


def check(helm: Path, chart: Path, product: Product) -> None:
    """Raise BuildFailed where the chart, rendered, and the components differ, with either way to get certificates."""
    run(["sh", "-c", 'exec "$0" lint --strict --quiet "$1" >&2', helm, chart], making="the chart")  # it says on stdout what is wrong
    for certificates in Certificates:
        ours, theirs = _components(product, certificates), rendered(helm, chart, f"--set=webhooks.certificates={certificates}")
        wrong = sorted(f"{kind} {name}" for kind, name in ours.keys() | theirs.keys() if ours.get((kind, name)) != theirs.get((kind, name)))
        if wrong:
            raise BuildFailed(f"with {certificates} the chart differs from clusterctl's components in {', '.join(wrong)}")


def rendered(helm: Path, chart: Path, *options: str) -> Objects:
    """What `helm template` makes of the chart, without the annotation by which Helm keeps an object."""
    text = run([helm, "template", NAME, chart, f"--namespace={DEFAULT_NAMESPACE}", *options], making="the chart")
    return _by_name([_not_kept(item) for item in clusterctl.objects(text)])


def _components(product: Product, certificates: Certificates) -> Objects:
    found = clusterctl.with_defaults(product, NAME, certificates)
    return _by_name([item for item in found if item["kind"] != "Namespace"])


def _not_kept(item: dict[str, Any]) -> dict[str, Any]:
    annotations = {key: value for key, value in item["metadata"].get("annotations", {}).items() if key != KEEP}
    metadata = {key: value for key, value in item["metadata"].items() if key != "annotations"}
    return item | {"metadata": metadata | ({"annotations": annotations} if annotations else {})}


def _by_name(items: list[dict[str, Any]]) -> Objects:
    return {(item["kind"], item["metadata"]["name"]): item for item in items}
