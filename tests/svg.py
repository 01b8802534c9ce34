"""What pictures of ours are drawn with: SVG, as text."""

from __future__ import annotations

from xml.sax.saxutils import escape

FONT = "system-ui, -apple-system, Segoe UI, sans-serif"


def text(x: int, y: int, said: str, *, size: int, weight: int = 400) -> str:
    """A line of text whose baseline begins there, in pixels."""
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}">{escape(said)}</text>'
