"""The Helm chart, made from the same objects as clusterctl's components: each is written once for each way to get certificates, and where the two differ the
template chooses. With its default values it gives what clusterctl installs under quorate's own name, but for the Namespace, which is Helm's to make.

CustomResourceDefinitions are templates here, since Helm never upgrades those of a chart's `crds` folder, and they are kept when the release is deleted.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from quorate.core import documents
from tools.release.clusterctl import GATES
from tools.release.installation import RESERVED, Certificates, Installation, Object, Settings
from tools.release.product import Product

NAME = "quorate"
_CONDITION = 'eq .Values.webhooks.certificates "cert-manager"'
_OPTIONAL = {
    "CustomResourceDefinition": "crds.install",
    "NetworkPolicy": "networkPolicy.enabled",
    "PodDisruptionBudget": "podDisruptionBudget.enabled",
}
"""Kinds that a value leaves out."""
_SETTINGS = Settings(
    image="{{ .Values.image.repository }}:{{ .Values.image.tag }}",
    diagnostics_address="{{ .Values.diagnosticsAddress }}",
    insecure_diagnostics="{{ .Values.insecureDiagnostics }}",
    feature_gates='{{ include "quorate.featureGates" . }}',
    namespace="{{ .Release.Namespace }}",
    replicas="{{ int .Values.replicas }}",
    pull_policy="{{ .Values.image.pullPolicy }}",
    resources="{{ resources }}",
    more_arguments=("{{ extraArgs }}",),
)
_HELPERS = """\
{{- define "quorate.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}
"""
_WIDE = 100_000  # characters: a line that is folded within an expression would be another template


def files(product: Product) -> dict[str, str]:
    """The chart's files, by their paths in it."""
    found = {"Chart.yaml": _document(_chart(product)), "values.yaml": _values(product), "values.schema.json": _schema()}
    return found | {"templates/_helpers.tpl": _HELPERS} | dict(_templates())


def write(folder: Path, product: Product) -> Path:
    """Write the package that `helm install` takes into `folder`. The same source gives the same bytes."""
    path = folder / f"{NAME}-{product.version}.tgz"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in sorted(files(product).items()):
            member = tarfile.TarInfo(f"{NAME}/{name}")
            member.size, member.mode, member.mtime = len(text.encode()), 0o644, product.epoch
            tar.addfile(member, io.BytesIO(text.encode()))
    path.write_bytes(gzip.compress(archive.getvalue(), mtime=0))
    return path


def _templates() -> Iterator[tuple[str, str]]:
    one, other = (_objects(certificates) for certificates in (Certificates.CERT_MANAGER, Certificates.SELF_MANAGED))
    for key in one | other:
        text = _choice(one.get(key, ""), other.get(key, ""))
        kind, name = key
        if kind in _OPTIONAL:
            text = f"{{{{- if .Values.{_OPTIONAL[kind]} }}}}\n{text}{{{{- end }}}}\n"
        yield f"templates/{kind.lower()}-{name.partition('.')[0]}.yaml", text


def _objects(certificates: Certificates) -> dict[tuple[str, str], str]:
    """Each object as a template, by its kind and name."""
    made = Installation(_SETTINGS, NAME, certificates).objects()
    return {(each["kind"], each["metadata"]["name"]): _template(_kept(each)) for each in made if each["kind"] != "Namespace"}


def _kept(item: Object) -> Object:
    if item["kind"] != "CustomResourceDefinition":
        return item
    annotations = item["metadata"].get("annotations", {}) | {"helm.sh/resource-policy": "keep"}
    return item | {"metadata": item["metadata"] | {"annotations": annotations}}


def _template(item: Object) -> str:
    text = documents.dump_all([item], width=_WIDE)
    text = re.sub(r"'(\{\{ int [^']*\}\})'", r"\1", text)
    text = re.sub(
        r"^( *)resources: '\{\{ resources \}\}'$",
        lambda found: f"{found[1]}resources: {{{{- toYaml .Values.resources | nindent {len(found[1]) + 2} }}}}",
        text,
        flags=re.MULTILINE,
    )
    listed = r"\1{{- range .Values.extraArgs }}\n\1- {{ . | quote }}\n\1{{- end }}"
    return re.sub(r"^( *)- '\{\{ extraArgs \}\}'$", listed, text, flags=re.MULTILINE)


def _choice(one: str, other: str) -> str:
    """A template that gives the first text with cert-manager and the other one without."""
    ours, theirs = one.splitlines(keepends=True), other.splitlines(keepends=True)
    lines: list[str] = []
    for tag, start, end, other_start, other_end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += ours[start:end]
            continue
        lines += [f"{{{{- if {_CONDITION} }}}}\n", *ours[start:end]] if end > start else [f"{{{{- if not ({_CONDITION}) }}}}\n"]
        lines += ["{{- else }}\n"] * (end > start and other_end > other_start) + theirs[other_start:other_end] + ["{{- end }}\n"]
    return "".join(lines)


def _chart(product: Product) -> Object:
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": "Kubernetes control planes that keep their quorum: a control-plane provider for Cluster API",
        "type": "application",
        "version": product.version,
        "appVersion": product.version,
    }


def _values(product: Product) -> str:
    values: tuple[tuple[str, dict[str, Any]], ...] = (
        ("What runs, and how many of it. Each serves webhooks, one of them acts.", {"image": _image(product), "replicas": 2}),
        ("For a thousand control planes; docs/scale.md says what fewer take.", {"resources": RESERVED}),
        ("Who makes the webhooks' certificates: cert-manager, or self-managed.", {"webhooks": {"certificates": "cert-manager"}}),
        (
            "Cluster API's gates, as its other providers have them.",
            {"featureGates": {gate: default == "true" for gate, default in _gates()}},
        ),
        (
            "Where metrics are served, and whether to everybody over plain HTTP.",
            {"diagnosticsAddress": ":8443", "insecureDiagnostics": False},
        ),
        ("More of the manager's flags.", {"extraArgs": []}),
        ("Off where Cluster API's own installation, or another release of this chart, has them.", {"crds": {"install": True}}),
        ("What stands around it.", {"networkPolicy": {"enabled": True}, "podDisruptionBudget": {"enabled": True}}),
    )
    return "\n".join(f"# {comment}\n{_document(part)}" for comment, part in values)


def _image(product: Product) -> Object:
    return {"repository": product.image, "tag": product.tag, "pullPolicy": "IfNotPresent"}


def _gates() -> Iterator[tuple[str, str]]:
    for gate, variable in GATES.items():
        yield gate, variable.partition(":=")[2].removesuffix("}")


def _schema() -> str:
    """What a value may be: a misspelt name or choice is refused when it is installed, and not found out afterwards."""
    flag, text = {"type": "boolean"}, {"type": "string"}
    properties = {
        "image": _struct(repository=text, tag=text, pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}),
        "replicas": {"type": "integer", "minimum": 0},
        "resources": {"type": "object"},
        "webhooks": _struct(certificates={"enum": list(Certificates)}),
        "featureGates": {"type": "object", "additionalProperties": flag},
        "diagnosticsAddress": text,
        "insecureDiagnostics": flag,
        "extraArgs": {"type": "array", "items": text},
        "crds": _struct(install=flag),
        "networkPolicy": _struct(enabled=flag),
        "podDisruptionBudget": _struct(enabled=flag),
        "global": {"type": "object"},
    }
    return json.dumps({"$schema": "https://json-schema.org/draft-07/schema#", **_struct(**properties)}, indent=2) + "\n"


def _struct(**properties: Any) -> Object:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _document(content: Object) -> str:
    return documents.dump_all([content])
