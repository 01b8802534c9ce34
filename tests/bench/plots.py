"""The figures of a bench as a picture: for each of them a bar of upstream's and one of quorate's, as SVG.

Drawn here: a library for plots brings eight packages and 40 MB into every development environment, for rectangles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from tests.bench import table
from tests.bench.results import Provider, Run
from tests.bench.table import Row
from tests.svg import FONT, text

_COLOURS = {Provider.UPSTREAM: "#94a3b8", Provider.QUORATE: "#2563eb"}
_WIDTH, _EDGE = 860, 24  # pixels
_LABELS, _VALUES = 250, 80  # widths of what stands before and after the bars
_HEADER, _TITLE, _ROW, _BAR = 76, 34, 34, 12  # heights


def picture(runs: Sequence[Run], phase_seconds: float) -> str:
    """The whole file, for one phase duration: times of all steps on one scale, then CPU, writes and memory, each on its own."""
    y, drawn = _HEADER, list[str]()
    for title, rows in _groups(table.rows(runs, phase_seconds)):
        drawn += _group(title, rows, y)
        y += _TITLE + _ROW * len(rows)
    title = f"One control plane, machines of {phase_seconds:g} s a phase: upstream's provider and quorate"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + _EDGE}" font-family="{FONT}" fill="#0f172a">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{y + _EDGE}" fill="#ffffff"/>',
        text(_EDGE, 34, title, size=17, weight=600),
        *_legend(),
    )
    return "\n".join((*head, *drawn, "</svg>", ""))


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    yield "seconds", [row for row in rows if row.label.endswith(", s") and not row.label.startswith(" ")]
    for title, label in (
        ("CPU of the provider, s", "CPU s, all steps"),
        ("writes to the API", "writes, all steps"),
        ("memory, MiB", "peak memory MiB"),
    ):
        yield title, [row for row in rows if row.label == label]


def _group(title: str, rows: Sequence[Row], y: int) -> list[str]:
    most = max((value for row in rows for value in (row.upstream, row.quorate) if value), default=1.0)
    lines = [text(_EDGE, y + 22, title, size=14, weight=600)]
    for number, row in enumerate(rows):
        top = y + _TITLE + number * _ROW
        lines.append(text(_EDGE, top + 17, row.label.removesuffix(", s"), size=13))
        for value, cell, colour, below in zip((row.upstream, row.quorate), row.cells()[1:3], _COLOURS.values(), (0, _BAR + 1), strict=True):
            width = round((value or 0.0) / most * (_WIDTH - 2 * _EDGE - _LABELS - _VALUES))
            lines.append(f'<rect x="{_EDGE + _LABELS}" y="{top + below}" width="{width}" height="{_BAR}" fill="{colour}"/>')
            lines.append(text(_EDGE + _LABELS + width + 8, top + below + 10, cell or "not measured", size=11))
    return lines


def _legend() -> Iterator[str]:
    for number, (provider, colour) in enumerate(_COLOURS.items()):
        x = _EDGE + number * 110
        yield f'<rect x="{x}" y="48" width="14" height="14" fill="{colour}"/>'
        yield text(x + 22, 60, provider.value, size=13)
