"""Documents as trees in which every value knows where it was written: YAML with line numbers, JSON with paths.

YAML is read as KubeOne reads it, by YAML 1.1's rules for numbers and booleans, with two differences: a text such as `12:30` stays text, and a key that appears
twice is a mistake with both lines named. Nothing here shows the text of a document in an error: it may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from quorate.core.documents import NotADocument, measure
from quorate.hosts.manifest.findings import ROOT, Findings, Mark, child, item

Scalar = str | int | float | bool | None

LARGEST = 2**63
"""No number in a manifest is larger, on either side of 0: Go reads each into 64 bits at most."""

_TAG = "tag:yaml.org,2002:"
_READ = {f"{_TAG}{name}" for name in ("null", "bool", "int", "float")}
_TEXT = {f"{_TAG}{name}" for name in ("str", "timestamp", "value", "binary")}
_MERGE = f"{_TAG}merge"


@dataclass(frozen=True, slots=True)
class Node:
    """One value and its mark. The mark of a mapping's value is the line of its key."""

    value: Scalar | dict[str, Node] | list[Node] = field(repr=False)
    mark: Mark

    @property
    def mapping(self) -> dict[str, Node]:
        """The fields of a mapping; none where this is something else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Node]:
        """The items of a list; none where this is something else."""
        return self.value if isinstance(self.value, list) else []


def plain(node: Node) -> Any:
    """The value without marks, as JSON has it."""
    match node.value:
        case dict() as fields:
            return {key: plain(value) for key, value in fields.items()}
        case list() as items:
            return [plain(value) for value in items]
        case scalar:
            return scalar


def from_json(value: Any, source: str, path: str = ROOT) -> Node:
    """The tree of what `json.loads` gave, each value marked with its path."""
    mark = Mark(source, path=path)
    match value:
        case dict():
            return Node({str(key): from_json(below, source, child(path, str(key))) for key, below in value.items()}, mark)
        case list():
            return Node([from_json(below, source, item(path, index)) for index, below in enumerate(value)], mark)
        case _:
            return Node(value, mark)


def from_yaml(text: str, findings: Findings) -> Node | None:
    """The tree of the one document in `text`; None, with the mistake in `findings`, where it cannot be read."""
    try:
        measure(text)
        documents = [document for document in yaml.compose_all(text, Loader=yaml.CSafeLoader) if not _empty(document)]
    except NotADocument as error:
        findings.wrong(ROOT, f"cannot be read: {error}")
        return None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        findings.wrong(ROOT, f"is not YAML: {error.problem or error.context}", Mark(findings.source, line))
        return None
    except yaml.YAMLError:
        findings.wrong(ROOT, "is not YAML: it has a character that YAML does not allow; look for control characters")
        return None
    if len(documents) != 1:
        findings.wrong(ROOT, f"holds {len(documents)} documents; one KubeOneCluster is expected" if documents else "is empty")
        return None
    return _Reader(findings).read(documents[0], ROOT, documents[0].start_mark.line + 1)


def _empty(document: yaml.Node | None) -> bool:
    return document is None or (isinstance(document, yaml.ScalarNode) and not document.value)


class _Reader:
    """Turns PyYAML's nodes into ours, noting duplicate keys and unknown tags."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._constructor = SafeConstructor()

    def read(self, node: yaml.Node, path: str, line: int) -> Node:
        mark = Mark(self._findings.source, line)
        self._findings.marks[path] = mark
        return Node(self._value(node, path, line), mark)

    def _value(self, node: yaml.Node, path: str, line: int) -> Scalar | dict[str, Node] | list[Node]:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(below, item(path, index), below.start_mark.line + 1) for index, below in enumerate(node.value)]
        return self._scalar(node, path, line)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Node]:
        fields: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == _MERGE:
                merged = {**self._merge(value, path, line), **merged}
                continue
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            mark = Mark(self._findings.source, line)
            if not isinstance(key, yaml.ScalarNode):
                self._findings.wrong(path, "has a key that is not text", mark)
            elif name in fields:
                self._findings.wrong(child(path, name), f"appears twice, first in line {fields[name].mark.line}; keep one of them", mark)
            else:
                fields[name] = self.read(value, child(path, name), line)
        for name in merged.keys() - fields.keys():
            self._findings.marks[child(path, name)] = merged[name].mark
        return {**merged, **fields}

    def _merge(self, node: yaml.Node, path: str, line: int) -> Mapping[str, Node]:
        """What `<<: *alias` or `<<: [*one, *two]` brings in; the first that has a key wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        fields: dict[str, Node] = {}
        for source in sources:
            fields = {**self.read(source, child(path, "<<"), line).mapping, **fields}
        return fields

    def _scalar(self, node: yaml.Node, path: str, line: int) -> Scalar:
        text = str(node.value)
        if node.tag in _TEXT or (node.tag in _READ and ":" in text):
            return text
        if node.tag not in _READ:
            self._findings.wrong(path, "has a tag that a manifest cannot have; write the value itself", Mark(self._findings.source, line))
            return None
        try:
            value: Scalar = self._constructor.construct_object(node)
        except (ValueError, KeyError, yaml.YAMLError):
            self._findings.wrong(path, "is not a value of the kind that its tag says", Mark(self._findings.source, line))
            return None
        if isinstance(value, int) and abs(value) > LARGEST:
            self._findings.wrong(path, "is a number that is too large", Mark(self._findings.source, line))
            return None
        return value
