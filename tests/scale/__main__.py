"""`python tests/scale`: one process with many control planes, measured. See `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # this folder was put there, and its modules are called tests.scale.*

    from tests.scale.command import scale

    scale(prog_name="python tests/scale")
