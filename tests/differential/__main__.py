"""`python tests/differential`: what quorate answers beside what upstream's program answers, for objects made at random. See `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # this folder was put there, and its modules are called tests.differential.*

    from tests.differential.command import differential

    differential(prog_name="python tests/differential")
