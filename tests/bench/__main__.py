"""`python tests/bench`: the same steps with upstream's provider and with quorate, on fresh local management clusters. See `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # this folder was put there, and its modules are called tests.bench.*
    from tests.bench.command import bench

    bench(prog_name="python tests/bench")
