"""The rooms of quorate and their floors as a picture: `python -m tests.architecture > docs/architecture.svg` draws import-linter's contracts.

Nothing is drawn by hand: a room stands where the contract "the rooms, from top to bottom" has it, and its floors as their own contract orders them.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.svg import FONT, text

ROOT = Path(__file__).parents[1]
_PACKAGE = "quorate"
_WIDTH, _EDGE, _GAP = 960, 24, 12  # pixels
_TITLE, _FLOOR = 28, 24  # heights of a room's name and of one floor
_HEADER = 88
_PARTS = {
    "observe": ("observe", "#dbeafe"),
    "probe": ("observe", "#dbeafe"),
    "machines": ("decide", "#ede9fe"),
    "hosts": ("decide", "#ede9fe"),
    "act": ("act", "#ffedd5"),
    "report": ("report", "#dcfce7"),
}
"""The part of the loop that a floor is, and its colour. `machines` and `hosts` are floors of that name in `core`: the decision for each way of working."""
_PLAIN = "#f1f5f9"

Level = tuple[str, ...]


class Room(NamedTuple):
    """A package of quorate, with its floors from top to bottom; each floor has one name or several that do not import each other."""

    name: str
    floors: tuple[Level, ...]

    @property
    def height(self) -> int:
        """In pixels."""
        return _TITLE + _FLOOR * len(self.floors) + (6 if self.floors else 4)


def rooms() -> list[tuple[Room, ...]]:
    """The levels of rooms from top to bottom, as the contracts in pyproject.toml say."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layered = [contract for contract in contracts if contract["type"] == "layers"]
    floors = {container.removeprefix(f"{_PACKAGE}."): _levels(each) for each in layered for container in each.get("containers", ())}
    (packages,) = (contract for contract in layered if "containers" not in contract)
    return [tuple(Room(name, tuple(floors.get(name, ()))) for name in level) for level in _levels(packages)]


def _levels(contract: dict[str, Any]) -> list[Level]:
    return [tuple(name.strip().removeprefix(f"{_PACKAGE}.") for name in layer.split("|")) for layer in contract["layers"]]


def picture() -> str:
    """The whole file."""
    y, drawn = _HEADER, list[str]()
    for level in rooms():
        height = max(room.height for room in level)
        drawn += (_room(room, *place, y) for room, place in zip(level, _columns(len(level), _EDGE, _WIDTH - 2 * _EDGE), strict=True))
        y += height + _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + _GAP}" font-family="{FONT}" fill="#0f172a">',
        "<!-- Made by `make rules` from the contracts of import-linter in pyproject.toml. -->",
        "<title>The packages of quorate and their layers: each imports only what stands below it</title>",
        f'<rect width="{_WIDTH}" height="{y + _GAP}" fill="#ffffff"/>',
        text(_EDGE, 34, "Each package imports only packages below it, and each layer only layers below it", size=17, weight=600),
        *_legend(_EDGE, 52),
    )
    return "\n".join((*head, *drawn, "</svg>", ""))


def _columns(count: int, left: int, width: int) -> Sequence[tuple[int, int]]:
    """Left edge and width of each of so many boxes side by side."""
    each = (width - _GAP * (count - 1)) // count
    return [(left + number * (each + _GAP), each) for number in range(count)]


def _room(room: Room, x: int, width: int, y: int) -> str:
    lines = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{room.height}" rx="6" fill="#ffffff" stroke="#475569"/>',
        text(x + 12, y + 20, room.name, size=15, weight=600),
    ]
    for number, floor in enumerate(room.floors):
        top = y + _TITLE + number * _FLOOR
        for name, (left, wide) in zip(floor, _columns(len(floor), x + 10, width - 20), strict=True):
            colour = _part(room, name)[1]
            lines.append(f'<rect x="{left}" y="{top}" width="{wide}" height="{_FLOOR - 4}" rx="3" fill="{colour}"/>')
            lines.append(text(left + 10, top + 14, name, size=13))
    return "\n".join(lines)


def _part(room: Room, floor: str) -> tuple[str, str]:
    """Floors of the decision are in `core` alone: `cli` and `simulation` have floors for each way of working, too."""
    part, colour = _PARTS.get(floor, ("", _PLAIN))
    return (part, colour) if part and (part == "decide") == (room.name == "core") else ("", _PLAIN)


def _legend(x: int, y: int) -> list[str]:
    lines = []
    for part, colour in dict.fromkeys(_PARTS.values()):
        lines += [f'<rect x="{x}" y="{y}" width="18" height="18" rx="3" fill="{colour}"/>', text(x + 26, y + 14, part, size=13)]
        x += 110
    return lines


if __name__ == "__main__":
    sys.stdout.write(picture())
