"""`python tests/bench lifecycle` and `fleet`: the same steps with upstream's provider and with quorate, on fresh local management clusters. See `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # this folder was put there, and its modules are called tests.bench.*
    import click

    from tests.bench.command import bench
    from tests.bench.fleet_command import fleet

    click.Group(commands={"lifecycle": bench, "fleet": fleet})(prog_name="python tests/bench")
