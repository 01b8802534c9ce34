"""The JSON Schema of what commands print with `-o json`: `python -m quorate.cli.schema > docs/schema.json` (`make rules`)."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from quorate.cli import views
from quorate.cli.documents import as_json

DOCUMENTS = (views.Status, views.Machine, views.Plan, views.Summary, views.Member, views.Change)
"""What a command prints, alone or as a list; docs/commands.md says which."""


def schema() -> dict[str, Any]:
    """The documents and all that they consist of, by name. Every field is always there."""
    _, found = msgspec.json.schema_components(DOCUMENTS, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {name: _whole(part) for name, part in sorted(found.items())},
    }


def _whole(part: dict[str, Any]) -> dict[str, Any]:
    described = {"description": inspect.cleandoc(part["description"])} if "description" in part else {}
    if "properties" not in part:
        return {**part, **described}
    fields = {name: {key: said for key, said in each.items() if key != "default"} for name, each in part["properties"].items()}
    return {**part, **described, "properties": fields, "required": list(fields)}


if __name__ == "__main__":
    print(as_json(schema()), end="")
