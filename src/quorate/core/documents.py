"""YAML that others wrote, read so that it cannot harm the reader: bounded with its aliases written out, and one error for whatever is wrong. And YAML that
others read, written so that they take every text for one.

A few lines of aliases of aliases are a gigabyte once anybody prints or compares them, and PyYAML answers a date such as 2001-99-99, or a number of 5,000
digits, with errors that are not its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

LARGEST = 4 << 20
"""Characters or bytes of a document: a ConfigMap is at most 1 MiB, and a file of a host is not read beyond that."""
DEEPEST = 100
"""Levels of lists and mappings in each other; no configuration has twenty."""
MOST_VALUES = 100_000
"""Texts, numbers, lists and mappings; a manifest of a thousand hosts has a tenth of that."""
MOST_OF_A_TENANT = 2000
"""Of what one tenant's cluster has, in a process that all share: for as many as others may have it would stop for half a second. A kubeconfig has twenty, and
kubeadm's configuration a hundred.
"""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"

# What YAML 1.1, or the resolver of sigs.k8s.io/yaml (goyaml.v2, resolve.go), takes for something else than a text where it stands without quotes: words for yes
# and no, and everything that might be a number, one with an exponent, of eight or sixteen, or of sixty, underscores anywhere in it. PyYAML itself would write
# `y`, `1e3`, `08` and `-_1` so.
_WORDS = re.compile(r"y|n|yes|no|on|off|true|false|null|~|<<|=|[-+]?\.(inf|nan)", re.IGNORECASE)
_NUMBERS = re.compile(
    r"[-+]?0[box]?[-+]?[0-9a-f]*|[-+]?[0-9]+(:[0-9]+)*(\.[0-9]*)?(e[-+]?[0-9]+)?|[-+]?\.[0-9]+(e[-+]?[0-9]+)?",
    re.IGNORECASE,
)


class NotADocument(ValueError):
    """The text is no YAML that is read here. The message says why and where, and never quotes it: it may hold a secret."""


class _Loader(yaml.CSafeLoader):
    """JSON's kinds of values alone, as Kubernetes reads YAML: what looks like a date stays the text that it is."""


_Loader.add_constructor(_TIMESTAMP, lambda _, node: node.value)


class _Dumper(yaml.SafeDumper):
    """Shared parts are written out in full: what reads them knows anchors, a person does not want them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (PyYAML's signature)
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    escaped = not text.replace("\n", "").isprintable()  # or a line break of Unicode's would be read as a space
    resolved = _WORDS.fullmatch(text) or _NUMBERS.fullmatch(text.replace("_", ""))
    style = '"' if escaped or resolved else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump(document: Any, *, sort_keys: bool = True, width: int = 80) -> str:
    """The document as YAML that Go's programs and ours read as what it is."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=sort_keys, default_flow_style=False, allow_unicode=True, width=width)


def dump_all(documents: Iterable[Any], *, sort_keys: bool = True, width: int = 80, explicit_start: bool = False) -> str:
    """The documents as one YAML text, likewise."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=sort_keys,
        default_flow_style=False,
        allow_unicode=True,
        width=width,
        explicit_start=explicit_start,
    )


def load(text: str | bytes, *, most: int = MOST_VALUES) -> Any:
    """The one document in the text, None where it is empty. Raises NotADocument, also where it has more than `most` values."""
    documents = load_all(text, most=most)
    if len(documents) > 1:
        raise NotADocument(f"it holds {len(documents)} documents")
    return documents[0] if documents else None


def load_all(text: str | bytes, *, most: int = MOST_VALUES) -> list[Any]:
    """Every document in the text. Raises NotADocument, also where they have more than `most` values."""
    try:
        measure(text, most=most)
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        where = f": line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}" if error.problem_mark else ""
        raise NotADocument(f"it is not YAML{where}") from None
    except NotADocument:
        raise
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise NotADocument("it is not YAML: a character or a value in it is none that YAML has") from None


def measure(text: str | bytes, *, most: int = MOST_VALUES) -> None:
    """Look through the text before anything is built of it. Raises NotADocument where it is too large, an alias counting as all that it stands for; and
    yaml.YAMLError where it is not YAML.
    """
    if len(text) > LARGEST:
        raise NotADocument(f"it is larger than {LARGEST >> 20} MiB")
    values, begun = 0, list[tuple[str | None, int]]()  # those that are open: their anchors, and how many values stand before each
    sizes: dict[str | None, int] = {}
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        match event:
            case yaml.DocumentStartEvent():
                sizes.clear()
            case yaml.AliasEvent(anchor=anchor):
                if anchor in (name for name, _ in begun):
                    raise NotADocument("it has an alias of what it is part of")
                values += sizes.get(anchor, 1)
            case yaml.ScalarEvent():
                values += 1
                sizes[event.anchor] = 1
            case yaml.CollectionStartEvent():
                begun.append((event.anchor, values))
                values += 1
            case yaml.CollectionEndEvent():
                anchor, before = begun.pop()
                sizes[anchor] = values - before
        if len(begun) > DEEPEST:
            raise NotADocument(f"it is nested more than {DEEPEST} deep")
        if values > most:
            raise NotADocument(f"it has more than {most} values, its aliases written out")
