"""`python tests/explore`: every history of a few control planes with a few faults, to closure. See `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # this folder was put there, and its modules are called tests.explore.*

    from tests.explore.command import explore

    explore(prog_name="python tests/explore")
