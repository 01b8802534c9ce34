"""A manifest from its text to a valid value: read, merged with Terraform's outputs, decoded, completed, validated. Raises only after all of it was checked."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from quorate.hosts.manifest.decoding import Decoder, places_of
from quorate.hosts.manifest.defaults import with_defaults
from quorate.hosts.manifest.fields import API_VERSION, KIND, Manifest
from quorate.hosts.manifest.findings import ROOT, Findings, Mark
from quorate.hosts.manifest.terraform import Outputs
from quorate.hosts.manifest.terraform_merge import merge
from quorate.hosts.manifest.tree import Node, from_yaml
from quorate.hosts.manifest.unsupported import tell_what_kubeone_would_deploy, without_unsupported
from quorate.hosts.manifest.validation import validate

HINTS = {
    "assetConfiguration": "v1beta2 has none; use registryConfiguration.overwriteRegistry for images, and for packages of your own "
    "systemPackages.configureRepositories: false",
    "podPresets": "Kubernetes 1.20 removed PodPresets; remove it",
    "podPidsLimit": "it exists in v1beta3 only, which KubeOne itself does not accept yet; remove it",
    "webhookAuditLog": "it exists in v1beta3 only, which KubeOne itself does not accept yet; set the API server's audit-webhook flags under "
    "controlPlaneComponents.apiServer.flags",
    "workers": "it is dynamicWorkers since v1beta1",
    "network": "it is clusterNetwork",
    "timeAdded": "Kubernetes itself notes when a taint was added; remove it",
    "credentials": "credentials do not belong in a manifest; remove it",
}
"""What to do about keys that other versions of the manifest have."""


def read(path: Path) -> str:
    """The text of a manifest. Raises ManifestError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        findings = Findings(str(path))
        findings.wrong(ROOT, f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "is not UTF-8 text")
        raise findings.error() from None


def parse(
    text: str, *, source: str = "the manifest", folder: Path = Path(), terraform: Outputs | None = None, ignore_unsupported: bool = False
) -> Manifest:
    """The manifest in `text`, valid and complete; relative paths in it start from `folder`.

    Raises ManifestError with every mistake in it and in Terraform's outputs. Fields for what quorate does not do are mistakes, or, with `ignore_unsupported`,
    listed in the manifest's `ignored`, as are then keys in Terraform's outputs that are not known.
    """
    findings = Findings(source)
    tree = from_yaml(text, findings)
    if tree is None or not _is_manifest(tree, findings):
        raise findings.error()
    if terraform is not None:
        tree = merge(tree, terraform, findings, lenient=ignore_unsupported)
    tree = without_unsupported(tree, findings, ignore=ignore_unsupported)
    tell_what_kubeone_would_deploy(tree, findings)
    findings.marks = {ROOT: tree.mark}  # what Terraform has replaced is written elsewhere
    manifest = Decoder(findings, HINTS, _places()).decode(tree, Manifest, ROOT)
    manifest = with_defaults(manifest, folder, findings)
    validate(manifest, findings)
    if findings.problems:
        raise findings.error()
    return replace(manifest, notices=tuple(findings.notices), ignored=tuple(findings.ignored))


@cache
def _places() -> dict[str, tuple[str, ...]]:
    return dict(places_of(Manifest))


def _is_manifest(tree: Node, findings: Findings) -> bool:
    """Whether this is a manifest at all: of anything else, not every key needs to be named."""
    kind, version = (_text(tree, key) for key in ("kind", "apiVersion"))
    if not isinstance(tree.value, dict):
        findings.wrong(ROOT, f"is not a mapping; write `apiVersion: {API_VERSION}` and `kind: {KIND}`, and then the cluster's fields")
    elif kind != KIND:
        findings.wrong("kind", f"is {kind or 'missing'}, and must be {KIND}")
    elif version == "kubeone.k8c.io/v1beta3":
        findings.wrong("apiVersion", f"is {version}, which KubeOne itself does not accept yet; write the manifest as {API_VERSION}")
    elif version != API_VERSION:
        way_out = "; convert it with `kubeone config migrate`" if version.startswith("kubeone") else ""
        findings.wrong("apiVersion", f"is {version or 'missing'}, and must be {API_VERSION}{way_out}")
    else:
        return True
    return False


def _text(tree: Node, key: str) -> str:
    node = tree.mapping.get(key, Node(None, Mark("")))
    return node.value if isinstance(node.value, str) else ""
