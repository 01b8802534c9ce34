"""What `-o json` prints: one document, indented, ending in a line break."""

from __future__ import annotations


def as_json(said: object) -> str:
    """`said`, a frozen dataclass or anything else that msgspec encodes, as one JSON document; its field names are the keys."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(said)).decode() + "\n"
